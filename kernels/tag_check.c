#include "kernels/tag_check.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

static enum kvt_status check_header(const struct kvt_tag_check *check, struct kvt_err *err)
{
    if (check->layout->tag_offset < 0)
        return kvt_err_set(err, KVT_ELIMIT,
                           "tag check: layout: want pages with a header of 16 bytes, got none");
    if (check->pool == NULL && check->pool_pages > 0)
        return kvt_err_set(err, KVT_ELIMIT, "tag check: pool: want the pages of a layer, got none");
    return KVT_OK;
}

enum kvt_status kvt_tag_check_check(const struct kvt_tag_check *check, struct kvt_err *err)
{
    if (check->pool_pages < 0 || check->request_count < 0)
        return kvt_err_set(err, KVT_ELIMIT, "tag check: %s: want 0 or more, got %" PRId32,
                           check->pool_pages < 0 ? "pool_pages" : "request_count",
                           check->pool_pages < 0 ? check->pool_pages : check->request_count);
    if (check->failures == NULL || check->first == NULL)
        return kvt_err_set(err, KVT_ELIMIT, "tag check: %s: want a place for the result, got none",
                           check->failures == NULL ? "failures" : "first");
    if (check->tags == NULL && check->pool_pages > 0)
        return kvt_err_set(err, KVT_ELIMIT, "tag check: tags: want %" PRId32 ", got none",
                           check->pool_pages);
    if (check->layout != NULL)
        KVT_TRY(check_header(check, err));
    if (check->request_count == 0)
        return KVT_OK;
    if (check->begin == NULL || check->failed == NULL)
        return kvt_err_set(err, KVT_ELIMIT, "tag check: %s: want an array, got none",
                           check->begin == NULL ? "begin" : "failed");
    for (int32_t r = 0; r <= check->request_count; r++) {
        int32_t least = r == 0 ? 0 : check->begin[r - 1];
        if (check->begin[r] < least)
            return kvt_err_set(err, KVT_ELIMIT,
                               "tag check: begin[%" PRId32 "]: want %" PRId32
                               " or more, got %" PRId32,
                               r, least, check->begin[r]);
    }
    if (check->begin[check->request_count] > 0 && (check->page == NULL || check->want == NULL))
        return kvt_err_set(err, KVT_ELIMIT, "tag check: %s: want %" PRId32 " entries, got none",
                           check->page == NULL ? "page" : "want",
                           check->begin[check->request_count]);
    return KVT_OK;
}

static bool entry_passes(const struct kvt_tag_check *check, int32_t entry)
{
    int32_t page = check->page[entry];
    if (page < 0 || page >= check->pool_pages)
        return false;
    struct kvt_page_tag tag = check->tags[page];
    if (check->layout != NULL)
        memcpy(&tag.content,
               check->pool + page * check->layout->page_bytes + check->layout->tag_offset,
               sizeof tag.content);
    uint64_t differs = (tag.owner ^ check->want[entry]) | (tag.content ^ check->want[entry]);
    return (differs & check->mask) == 0;
}

void kvt_ref_tag_check(const struct kvt_tag_check *check)
{
    *check->failures = 0;
    *check->first = UINT64_MAX;
    for (int32_t r = 0; r < check->request_count; r++) {
        check->failed[r] = 0;
        for (int32_t entry = check->begin[r]; entry < check->begin[r + 1]; entry++) {
            if (entry_passes(check, entry))
                continue;
            if (*check->failures == 0)
                *check->first = (uint64_t)r << 32 | (uint64_t)(entry - check->begin[r]);
            check->failed[r] = 1;
            ++*check->failures;
        }
    }
}
