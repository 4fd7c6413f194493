/*
 * tokens.h - when each token of each request came out, for outputs that list them
 *
 * A replica gives a token to each request of its batch at the end of each decode step: so the ends
 * of its steps are kept once, and of a request only the steps from its joining to its leaving, and
 * the tokens that prompt steps gave it. 8 bytes a step and 32 a piece, whatever the lengths. Steps
 * are told one by one: the run has to be exact.
 *
 * Memory grows as the run goes on; the first failure is kept and told by kvt_token_log_times.
 */
#ifndef KVT_METRICS_TOKENS_H
#define KVT_METRICS_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/status.h"
#include "sim/base/ticks.h"

struct kvt_token_steps { /* of a replica */
    kvt_ticks *ends;     /* owned, [room] */
    int64_t count, room;
};

struct kvt_token_piece {
    int64_t next;    /* piece of the same request, or -1 */
    int64_t from;    /* first of the steps; of a prompt's token, its time */
    int64_t count;   /* of steps: tokens */
    int32_t replica; /* -1: a prompt's token */
};

struct kvt_token_log {
    int32_t requests, replicas;
    struct kvt_token_steps *steps;  /* owned, [replicas] */
    struct kvt_token_piece *pieces; /* owned, [piece_room] */
    int64_t piece_count, piece_room;
    int64_t *first, *last, *joined; /* owned, [requests]: pieces, or -1; step it joined at */
    bool failed;
};

/* Release in any case. */
enum kvt_status kvt_token_log_init(struct kvt_token_log *log, int32_t requests, int32_t replicas,
                                   struct kvt_err *err);
void kvt_token_log_release(struct kvt_token_log *log);

/* A decode step of a replica is over; then whose first step there it was. */
void kvt_token_log_step(struct kvt_token_log *log, int32_t replica, kvt_ticks end);
void kvt_token_log_join(struct kvt_token_log *log, int32_t replica, int32_t request);

/* A request has left the batch: the last step was its last there. */
void kvt_token_log_leave(struct kvt_token_log *log, int32_t replica, int32_t request);

/* A prompt step has given a token. */
void kvt_token_log_prompt(struct kvt_token_log *log, int32_t request, kvt_ticks time);

/* The times of the tokens of a request that has left, in order; how many there are, at most `most`
 * of which are written. KVT_ENOMEM when some were lost. */
enum kvt_status kvt_token_log_times(const struct kvt_token_log *log, int32_t request,
                                    kvt_ticks out[], int64_t most, int64_t *count,
                                    struct kvt_err *err);

#endif
