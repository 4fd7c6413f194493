#include "sim/metrics/tokens.h"

#include <stdlib.h>

#include "sim/base/assert.h"

#define FIRST_ROOM 1024

enum kvt_status kvt_token_log_init(struct kvt_token_log *log, int32_t requests, int32_t replicas,
                                   struct kvt_err *err)
{
    size_t rows = (size_t)requests + 1;
    *log = (struct kvt_token_log){.requests = requests, .replicas = replicas};
    log->steps = calloc((size_t)replicas + 1, sizeof *log->steps);
    log->first = malloc(rows * sizeof *log->first);
    log->last = malloc(rows * sizeof *log->last);
    log->joined = calloc(rows, sizeof *log->joined);
    if (log->steps == NULL || log->first == NULL || log->last == NULL || log->joined == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the tokens of %d requests", requests);
    for (int32_t r = 0; r < requests; r++)
        log->first[r] = log->last[r] = -1;
    return KVT_OK;
}

void kvt_token_log_release(struct kvt_token_log *log)
{
    for (int32_t i = 0; log->steps != NULL && i < log->replicas; i++)
        free(log->steps[i].ends);
    free(log->steps);
    free(log->pieces);
    free(log->first);
    free(log->last);
    free(log->joined);
    *log = (struct kvt_token_log){0};
}

/* A larger array in the place of old; old itself, and failed, without memory. */
static void *grow(struct kvt_token_log *log, void *old, int64_t *room, size_t bytes)
{
    int64_t more = *room > 0 ? 2 * *room : FIRST_ROOM;
    void *grown = log->failed ? NULL : realloc(old, (size_t)more * bytes);
    log->failed = log->failed || grown == NULL;
    if (grown == NULL)
        return old;
    *room = more;
    return grown;
}

void kvt_token_log_step(struct kvt_token_log *log, int32_t replica, kvt_ticks end)
{
    struct kvt_token_steps *steps = &log->steps[replica];
    if (steps->count == steps->room)
        steps->ends = grow(log, steps->ends, &steps->room, sizeof *steps->ends);
    if (steps->count < steps->room)
        steps->ends[steps->count++] = end;
}

void kvt_token_log_join(struct kvt_token_log *log, int32_t replica, int32_t request)
{
    log->joined[request] = log->steps[replica].count - 1;
}

static void add(struct kvt_token_log *log, int32_t request, struct kvt_token_piece piece)
{
    if (log->piece_count == log->piece_room)
        log->pieces = grow(log, log->pieces, &log->piece_room, sizeof *log->pieces);
    if (log->piece_count == log->piece_room)
        return;
    int64_t last = log->last[request], own = log->piece_count++;
    log->pieces[own] = piece;
    log->last[request] = own;
    if (last >= 0)
        log->pieces[last].next = own;
    else
        log->first[request] = own;
}

void kvt_token_log_leave(struct kvt_token_log *log, int32_t replica, int32_t request)
{
    int64_t from = log->joined[request], count = log->steps[replica].count - from;
    kvt_assert(log->failed || count > 0);
    add(log, request, (struct kvt_token_piece){-1, from, count, replica});
}

void kvt_token_log_prompt(struct kvt_token_log *log, int32_t request, kvt_ticks time)
{
    add(log, request, (struct kvt_token_piece){-1, time, 1, -1});
}

enum kvt_status kvt_token_log_times(const struct kvt_token_log *log, int32_t request,
                                    kvt_ticks out[], int64_t most, int64_t *count,
                                    struct kvt_err *err)
{
    *count = 0;
    if (log->failed)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the times of all tokens");
    for (int64_t p = log->first[request]; p >= 0; p = log->pieces[p].next) {
        const struct kvt_token_piece *piece = &log->pieces[p];
        for (int64_t i = 0; i < piece->count; i++, (*count)++)
            if (*count < most)
                out[*count] = piece->replica < 0 ? piece->from
                                                 : log->steps[piece->replica].ends[piece->from + i];
    }
    return KVT_OK;
}
