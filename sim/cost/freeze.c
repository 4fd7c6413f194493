#include "sim/cost/freeze.h"

enum kvt_status kvt_costs_linear(struct kvt_costs *costs, struct kvt_arena *arena,
                                 int32_t batch_max, struct kvt_linear_costs linear,
                                 struct kvt_err *err)
{
    enum { KNOTS = 2, FAR = 1 << 20 };
    struct kvt_cost_row *rows;
    int64_t *at;
    kvt_ticks *time;
    KVT_TRY(kvt_arena_get(arena, (size_t)batch_max + 1, sizeof *rows, "step times", &rows, err));
    KVT_TRY(kvt_arena_get(arena, KNOTS, sizeof *at, "step times", &at, err));
    KVT_TRY(kvt_arena_get(arena, KNOTS, sizeof *time, "step times", &time, err));
    for (int32_t b = 1; b <= batch_max; b++)
        rows[b] = (struct kvt_cost_row){.base = linear.base + linear.per_request * b,
                                        .segments = 1,
                                        .slope = {linear.per_token}};
    at[1] = FAR;
    time[0] = linear.base;
    time[1] = linear.base + linear.per_prompt_token * FAR;
    *costs = (struct kvt_costs){.batch_max = batch_max,
                                .rows = rows,
                                .token_knots = KNOTS,
                                .token_at = at,
                                .token_time = time,
                                .pair_slope = linear.per_pair};
    return KVT_OK;
}
