/* What a step takes beside its decode kernels: the host that launches prompts and sends tokens, and
 * prompts as they lie on ranks and in windows. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/arena.h"
#include "sim/cost/freeze.h"
#include "tests/cost_parts.h"

static struct kvt_model model_of(const char *name)
{
    struct kvt_model model;
    struct kvt_err err = {0};
    CHECK_OK(kvt_model_load(&model, name, &err), err);
    return model;
}

static struct kvt_kernel_list step; /* large */

/* DeepSeek-R1 has 3 dense layers and 58 of experts; a step of one short prompt waits for the host.
 */
static void prompts_wait_for_the_launches_of_their_layers(void)
{
    static const char text[] = "calibration: t\ngpu: h200-sxm\nstack: sglang\nsource: s\nlaws:\n"
                               "- {family: prefill-layer, law: constant, when: {experts: [1, 512]},"
                               " t0: 3 ms, source: s}\n"
                               "- {family: prefill-layer, law: constant, t0: 1 ms, source: s}\n";
    struct kvt_gpu gpu = cost_gpu_of("h200");
    struct kvt_calibration calibration;
    struct kvt_err err = {0};
    CHECK_OK(kvt_calibration_parse(&calibration, "t", text, strlen(text), &gpu, NULL, &err), err);
    const struct kvt_model r1 = model_of("deepseek-v3"), llama = model_of("llama-3.1-70b");
    struct kvt_step_shape shape = cost_tensor_parallel(8, KVT_KV_BF16);
    CHECK_CLOSE(kvt_step_prefill_floor(&r1, &shape, &calibration), 0.177, 1e-9, "58 x 3 + 3 x 1");
    CHECK_CLOSE(kvt_step_prefill_floor(&llama, &shape, &calibration), 0.080, 1e-9, "80 dense");
    struct kvt_step_work work = {.prompt_tokens = 16, .pairs = 136, .prompt_ends = 1};
    kvt_step_list(&step, &r1, &shape, &calibration, &work, KVT_STEP_WHOLE);
    CHECK_CLOSE(step.time, 0.177, 1e-9, "the kernels are done before");
    kvt_calibration_release(&calibration);
}

/* One front end sends the tokens of all requests: beyond some batch it sets the pace, in the list
 * and in every row of the table alike. */
static void hundreds_of_requests_wait_for_the_front_end(void)
{
    struct kvt_calibration calibration = cost_shipped("h200-sglang");
    const struct kvt_law *law =
        kvt_calibration_law(&calibration, KVT_FAMILY_HOST_REQUEST, &(struct kvt_work){0});
    struct kvt_model model = model_of("llama-3.1-70b");
    struct kvt_step_shape shape = cost_tensor_parallel(8, KVT_KV_BF16);
    struct frozen f;
    double each = law->t0;
    int32_t paced = 0;
    cost_freeze(&f, &model, &shape, &calibration, 512);
    for (int32_t b = 1; b <= 512; b++) {
        double got = kvt_seconds_from_ticks(kvt_costs_decode(&f.costs, b, b, 0));
        CHECK_NOTE(got >= b * each * (1 - 1e-9), "no row is faster than its front end");
        paced += fabs(got - b * each) < 1e-9;
    }
    CHECK(paced > 300 && paced < 511);
    struct kvt_step_work work = {.decodes = 512, .context = 512};
    kvt_step_list(&step, &model, &shape, &calibration, &work, KVT_STEP_WHOLE);
    CHECK_CLOSE(step.time, 512 * each, 1e-9, "the list says the same");
    kvt_arena_release(&f.arena);
    kvt_calibration_release(&calibration);
}

/* A prompt shorter than twice the window has fewer pairs than tokens times window. */
static void a_window_counts_the_pairs_that_there_are(void)
{
    struct kvt_calibration calibration = cost_shipped("h200-sglang");
    struct kvt_model model = model_of("gpt-oss-120b"); /* window 128 */
    struct kvt_step_shape shape = cost_tensor_parallel(1, KVT_KV_BF16);
    static const double rows[][2] = {
        {16, 16 * 17 / 2.0}, {200, 200 * 201 / 2.0}, {4096, 4096 * 128.0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double m = rows[i][0];
        struct kvt_step_work work = {
            .prompt_tokens = m, .pairs = m * (m + 1) / 2, .prompt_ends = 1};
        kvt_step_list(&step, &model, &shape, &calibration, &work, KVT_STEP_WHOLE);
        for (int32_t k = 0; k < step.count; k++)
            if (strcmp(step.kernels[k].name, "gqa prefill, window") == 0)
                CHECK_CLOSE(step.kernels[k].flops, rows[i][1] * 2 * 64 * 128, 1e-12, "pairs");
    }
    kvt_calibration_release(&calibration);
}

const struct check_test check_host[] = {
    {"prompts wait for the launches of their layers", prompts_wait_for_the_launches_of_their_layers,
     false},
    {"hundreds of requests wait for the front end", hundreds_of_requests_wait_for_the_front_end,
     false},
    {"a window counts the pairs that there are", a_window_counts_the_pairs_that_there_are, false},
    {NULL, NULL, false},
};
