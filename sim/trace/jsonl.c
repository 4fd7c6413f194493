#include "sim/trace/formats.h"

#include <string.h>

#include "sim/trace/columns.h"

/* clang-format off */
#define JSON_KEYS(X)                                                          \
    X(TIME,   "timestamp")     X(INPUT,   "input_length")                     \
    X(OUTPUT, "output_length") X(HASHES,  "hash_ids")                         \
    X(CHAT,   "chat_id")       X(PARENT,  "parent_chat_id")                   \
    X(TYPE,   "type")          X(TURN,    "turn")
/* clang-format on */
enum json_key {
#define X(name, text) KEY_##name,
    JSON_KEYS(X)
#undef X
        KEY_COUNT
};
static const char *const key_names[] = {
#define X(name, text) text,
    JSON_KEYS(X)
#undef X
};

#define KEY_BIT(key)    (1u << KEY_##key)
#define KEYS_REQUIRED   (KEY_BIT(TIME) | KEY_BIT(INPUT) | KEY_BIT(OUTPUT))
#define KEYS_OF_BAILIAN (KEY_BIT(CHAT) | KEY_BIT(PARENT) | KEY_BIT(TYPE) | KEY_BIT(TURN))

struct json_rows {
    struct kvt_columns columns;
    unsigned keys; /* of the first row, and so of all */
    int32_t first_line;
    int64_t unit_ns;
};

static void space_skip(struct kvt_scan *scan)
{
    while (*scan->at == ' ' || *scan->at == '\t')
        scan->at++;
}

static enum kvt_status mark_read(struct kvt_scan *scan, char mark, const char *want,
                                 struct kvt_err *err)
{
    space_skip(scan);
    if (*scan->at != mark)
        return kvt_scan_refuse(scan, scan->at, want, err);
    scan->at++;
    space_skip(scan);
    return KVT_OK;
}

static enum kvt_status key_read(struct kvt_scan *scan, enum json_key *key, struct kvt_err *err)
{
    const char *at = scan->at;
    KVT_TRY(mark_read(scan, '"', "a key in quotes", err));
    const char *name = at + 1;
    const char *end = memchr(name, '"', (size_t)(scan->row_end - name));
    if (end == NULL)
        return kvt_scan_refuse(scan, at, "a closing quote in this row", err);
    for (int k = 0; k < KEY_COUNT; k++) {
        if ((size_t)(end - name) == strlen(key_names[k]) &&
            memcmp(name, key_names[k], (size_t)(end - name)) == 0) {
            *key = (enum json_key)k;
            scan->at = end + 1;
            return mark_read(scan, ':', "a colon after the key", err);
        }
    }
    int shown = (int)(end - name > 80 ? 80 : end - name);
    return kvt_err_at(err, KVT_ECONFIG, kvt_scan_where(scan, at),
                      "want a key of a mooncake trace (timestamp, input_length, output_length, "
                      "hash_ids) or of a bailian trace (and chat_id, parent_chat_id, type, turn), "
                      "got \"%.*s\"",
                      shown, name);
}

/* JSON has no leading zeros; the scanners do not mind them. */
static enum kvt_status number_begins(const struct kvt_scan *scan, struct kvt_err *err)
{
    if (scan->at[0] == '0' && scan->at[1] >= '0' && scan->at[1] <= '9')
        return kvt_scan_refuse(scan, scan->at, "a number without leading zeros", err);
    return KVT_OK;
}

static enum kvt_status whole_read(struct kvt_scan *scan, const char *what, uint64_t max,
                                  uint64_t *value, struct kvt_err *err)
{
    KVT_TRY(number_begins(scan, err));
    return kvt_scan_whole(scan, what, max, value, err);
}

static enum kvt_status hashes_read(struct json_rows *rows, struct kvt_scan *scan,
                                   struct kvt_err *err)
{
    KVT_TRY(mark_read(scan, '[', "a list of hashes", err));
    if (*scan->at == ']') {
        scan->at++;
        return KVT_OK;
    }
    for (;;) {
        uint64_t hash;
        KVT_TRY(whole_read(scan, "hash", UINT64_MAX, &hash, err));
        if (rows->columns.trace.hash_begin != NULL)
            KVT_TRY(kvt_columns_hash(&rows->columns, scan, hash, err));
        if (*scan->at == ' ')
            space_skip(scan);
        if (*scan->at == ']') {
            scan->at++;
            return KVT_OK;
        }
        if (*scan->at != ',')
            return kvt_scan_refuse(scan, scan->at, "a comma or the end of the list", err);
        scan->at++;
        if (*scan->at == ' ')
            space_skip(scan);
    }
}

static enum kvt_status text_skip(struct kvt_scan *scan, struct kvt_err *err)
{
    const char *at = scan->at;
    KVT_TRY(mark_read(scan, '"', "a text in quotes", err));
    const char *p = at + 1;
    while (p < scan->row_end && *p != '"' && (unsigned char)*p >= 0x20)
        p += *p == '\\' && p + 1 < scan->row_end ? 2 : 1;
    if (p >= scan->row_end || *p != '"')
        return kvt_scan_refuse(scan, at, "a closing quote in this row", err);
    scan->at = p + 1;
    return KVT_OK;
}

static enum kvt_status value_read(struct json_rows *rows, struct kvt_scan *scan, enum json_key key,
                                  struct kvt_trace_row *row, struct kvt_err *err)
{
    uint64_t unused;
    switch (key) {
    case KEY_TIME:
        row->time_at = scan->at;
        KVT_TRY(number_begins(scan, err));
        return kvt_scan_decimal(scan, rows->unit_ns, &row->time, err);
    case KEY_INPUT:
        row->input_at = scan->at;
        return whole_read(scan, "input tokens", KVT_TRACE_TOKENS_MAX, &row->input, err);
    case KEY_OUTPUT:
        row->output_at = scan->at;
        return whole_read(scan, "output tokens", KVT_TRACE_TOKENS_MAX, &row->output, err);
    case KEY_HASHES:
        row->hashes_at = scan->at;
        return hashes_read(rows, scan, err);
    case KEY_CHAT:
        return whole_read(scan, "chat", UINT64_MAX, &row->id, err);
    case KEY_PARENT:
        if (*scan->at == '-') /* -1: the chat begins here */
            scan->at++;
        return whole_read(scan, "chat", UINT64_MAX, &unused, err);
    case KEY_TURN:
        return whole_read(scan, "turn", UINT64_MAX, &unused, err);
    case KEY_TYPE:
        return text_skip(scan, err);
    case KEY_COUNT:
        break;
    }
    kvt_unreachable();
}

static enum kvt_status object_read(struct json_rows *rows, struct kvt_scan *scan,
                                   struct kvt_trace_row *row, unsigned *keys, struct kvt_err *err)
{
    *keys = 0;
    KVT_TRY(mark_read(scan, '{', "an object in braces", err));
    for (;;) {
        const char *at = scan->at;
        enum json_key key = KEY_COUNT;
        KVT_TRY(key_read(scan, &key, err));
        if ((*keys >> key & 1) != 0)
            return kvt_err_at(err, KVT_ECONFIG, kvt_scan_where(scan, at),
                              "want each key once, got \"%s\" again", key_names[key]);
        *keys |= 1u << key;
        KVT_TRY(value_read(rows, scan, key, row, err));
        space_skip(scan);
        if (*scan->at == '}')
            break;
        KVT_TRY(mark_read(scan, ',', "a comma or a closing brace", err));
    }
    scan->at++;
    space_skip(scan);
    if (scan->at != scan->row_end)
        return kvt_scan_refuse(scan, scan->at, "the end of the row after the object", err);
    return KVT_OK;
}

static enum kvt_status keys_check(const struct json_rows *rows, const struct kvt_scan *scan,
                                  unsigned keys, struct kvt_err *err)
{
    for (int k = 0; k < KEY_COUNT; k++) {
        bool wanted = (rows->keys >> k & 1) != 0;
        if (wanted == ((keys >> k & 1) != 0))
            continue;
        struct kvt_where where = kvt_scan_where(scan, scan->row);
        return wanted ? kvt_err_at(err, KVT_ECONFIG, where,
                                   "want the keys of line %d, got a row without \"%s\"",
                                   rows->first_line, key_names[k])
                      : kvt_err_at(err, KVT_ECONFIG, where,
                                   "want the keys of line %d, got \"%s\", which it lacks",
                                   rows->first_line, key_names[k]);
    }
    return KVT_OK;
}

/* The first row says which format it is, and with that the unit of its own time stamp; so it is
 * read twice. */
static enum kvt_status first_row_judge(struct json_rows *rows, struct kvt_scan *scan,
                                       struct kvt_err *err)
{
    struct kvt_trace_row row = {0};
    unsigned keys;
    rows->unit_ns = 1000000;
    KVT_TRY(object_read(rows, scan, &row, &keys, err));
    for (int k = 0; k < KEY_COUNT; k++)
        if ((KEYS_REQUIRED >> k & 1) != 0 && (keys >> k & 1) == 0)
            return kvt_err_at(err, KVT_ECONFIG, kvt_scan_where(scan, scan->row),
                              "want a key \"%s\", got a row without it", key_names[k]);
    rows->keys = keys;
    rows->first_line = scan->line;
    bool is_bailian = (keys & KEYS_OF_BAILIAN) != 0;
    if (is_bailian)
        rows->unit_ns = 1000000000;
    rows->columns.id_name = key_names[KEY_CHAT];
    if (keys & KEY_BIT(CHAT))
        rows->columns.optional |= KVT_TRACE_ID;
    if (keys & KEY_BIT(HASHES)) {
        rows->columns.optional |= KVT_TRACE_HASHES;
        rows->columns.trace.block_tokens = is_bailian ? 16 : 512;
    }
    scan->at = scan->row;
    return kvt_columns_begin(&rows->columns, scan, err);
}

static enum kvt_status rows_read(struct json_rows *rows, struct kvt_scan *scan, struct kvt_err *err)
{
    KVT_TRY(first_row_judge(rows, scan, err));
    struct kvt_trace_row row = {0};
    while (scan->row != NULL) {
        unsigned keys;
        KVT_TRY(object_read(rows, scan, &row, &keys, err));
        if (keys != rows->keys)
            KVT_TRY(keys_check(rows, scan, keys, err));
        KVT_TRY(kvt_columns_row(&rows->columns, scan, &row, err));
        KVT_TRY(kvt_scan_row(scan, err));
    }
    return KVT_OK;
}

enum kvt_status kvt_trace_jsonl_read(struct kvt_trace *trace, struct kvt_scan *scan,
                                     struct kvt_err *err)
{
    struct json_rows rows = {0};
    enum kvt_status status = rows_read(&rows, scan, err);
    if (status == KVT_OK)
        status = kvt_columns_finish(&rows.columns, scan, trace, err);
    kvt_columns_release(&rows.columns);
    return status;
}
