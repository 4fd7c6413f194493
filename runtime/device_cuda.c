/* The CUDA backend: the kernels of kernels/cuda in one stream of the first GPU.
 *
 * An operation that fails is remembered and told by the next wait; what follows it is still put
 * into the stream. Beside the memory that is taken (device.h) there is a workspace for GEMMs: of
 * the size that the largest packed matrix needs, taken when it is packed, so that no step
 * allocates.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"
#define kvt_attention kvt_attention_call
#include "kernels/cuda/launch.h"
#undef kvt_attention
#include "sim/base/assert.h"

#define FP8_ROWS   1024 /* of an FP8 GEMM at once: what the workspace is for */
#define GRAPHS_MAX 64

struct state {
    void *stream;
    void *events[KVT_DEVICE_MARKS]; /* made when first marked */
    void *workspace;
    size_t workspace_bytes;
    int32_t multiprocessors, graph_count;
    void *graphs[GRAPHS_MAX];
    struct kvt_err failure; /* the first since the last wait */
};

static struct state *state_of(const struct kvt_device *device)
{
    return device->state;
}

/* Remember a failure; err holds its words. */
static void keep(struct kvt_device *device, enum kvt_status status, const struct kvt_err *err)
{
    struct state *state = state_of(device);
    if (status != KVT_OK && state->failure.status == KVT_OK)
        state->failure = *err;
}

/* A call of the launch face, which leaves its words in `late`, told by the next wait. */
#define LATER(device, call)                                                                        \
    do {                                                                                           \
        struct kvt_err words_ = {0}, *late = &words_;                                              \
        keep((device), (call), late);                                                              \
    } while (0)

/* ---- opening and memory -------------------------------------------------------------------- */

static void cuda_close(struct kvt_device *device)
{
    struct state *state = state_of(device);
    struct kvt_err unheard = {0};
    (void)kvt_cuda_sync(state->stream, &unheard);
    for (int32_t i = 0; i < state->graph_count; i++)
        kvt_cuda_graph_free(state->graphs[i]);
    for (int32_t i = 0; i < KVT_DEVICE_MARKS; i++)
        if (state->events[i] != NULL)
            kvt_cuda_event_free(state->events[i]);
    kvt_cuda_free(state->workspace);
    kvt_cuda_stream_free(state->stream);
    free(state);
    device->state = NULL;
}

/* A workspace of at least bytes; the old one may be in use until the stream is empty. */
static enum kvt_status want_workspace(struct kvt_device *device, size_t bytes, struct kvt_err *err)
{
    struct state *state = state_of(device);
    if (bytes <= state->workspace_bytes)
        return KVT_OK;
    KVT_TRY(kvt_cuda_sync(state->stream, err));
    kvt_cuda_free(state->workspace);
    state->workspace = NULL;
    state->workspace_bytes = 0;
    KVT_TRY(kvt_cuda_alloc(&state->workspace, bytes, err));
    state->workspace_bytes = bytes;
    return KVT_OK;
}

static enum kvt_status cuda_open(struct kvt_device *device, struct kvt_err *err)
{
    struct kvt_cuda_device info;
    int64_t need = device->limit + (int64_t)KVT_CUDA_BLAS_BYTES;
    KVT_TRY(kvt_cuda_open(0, need, &info, err));
    struct state *state = calloc(1, sizeof *state);
    if (state == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a device");
    state->multiprocessors = info.multiprocessors;
    device->state = state;
    device->workers = info.multiprocessors;
    snprintf(device->name, sizeof device->name, "%.90s", info.name);
    enum kvt_status status = kvt_cuda_stream_new(&state->stream, err);
    if (status != KVT_OK) {
        free(state);
        return status;
    }
    status = want_workspace(device, KVT_CUDA_BLAS_BYTES, err);
    if (status != KVT_OK)
        cuda_close(device);
    return status;
}

static void *cuda_map(struct kvt_device *device, size_t bytes)
{
    void *memory = NULL;
    struct kvt_err unheard = {0};
    if (kvt_cuda_alloc(&memory, bytes, &unheard) != KVT_OK)
        return NULL;
    LATER(device, kvt_cuda_fill(memory, 0, bytes, state_of(device)->stream, late));
    return memory;
}

static void cuda_unmap(struct kvt_device *device, void *memory, size_t bytes)
{
    (void)bytes;
    LATER(device, kvt_cuda_sync(state_of(device)->stream, late)); /* it may be in use */
    kvt_cuda_free(memory);
}

static void cuda_copy(struct kvt_device *device, void *to, const void *from, size_t bytes)
{
    if (bytes > 0)
        LATER(device, kvt_cuda_copy(to, from, bytes, state_of(device)->stream, late));
}

static void cuda_copy_rows(struct kvt_device *device, void *to, size_t to_stride, const void *from,
                           size_t from_stride, size_t row_bytes, size_t rows)
{
    if (rows > 0 && row_bytes > 0)
        LATER(device, kvt_cuda_copy_rows(to, to_stride, from, from_stride, row_bytes, rows,
                                         state_of(device)->stream, late));
}

static void cuda_zero(struct kvt_device *device, void *memory, size_t bytes)
{
    if (bytes > 0)
        LATER(device, kvt_cuda_fill(memory, 0, bytes, state_of(device)->stream, late));
}

/* ---- waiting and marks ----------------------------------------------------------------------- */

static enum kvt_status cuda_wait(struct kvt_device *device, struct kvt_err *err)
{
    struct state *state = state_of(device);
    LATER(device, kvt_cuda_sync(state->stream, late));
    if (state->failure.status == KVT_OK)
        return KVT_OK;
    enum kvt_status status = kvt_err_set(err, state->failure.status, "%s", state->failure.text);
    state->failure = (struct kvt_err){0};
    return status;
}

static void cuda_mark(struct kvt_device *device, int32_t slot)
{
    struct state *state = state_of(device);
    kvt_assert(slot >= 0 && slot < KVT_DEVICE_MARKS);
    if (state->events[slot] == NULL)
        LATER(device, kvt_cuda_event_new(&state->events[slot], late));
    if (state->events[slot] != NULL)
        LATER(device, kvt_cuda_event_record(state->events[slot], state->stream, late));
}

static double cuda_between(struct kvt_device *device, int32_t from, int32_t to)
{
    struct state *state = state_of(device);
    double ms = 0;
    LATER(device, kvt_cuda_event_ms(state->events[from], state->events[to], &ms, late));
    return 1e-3 * ms;
}

/* ---- weights -----------------------------------------------------------------------------------
 */

/* Plain order is what cuBLASLt multiplies. */
static size_t cuda_gemm_bytes(enum kvt_gemm_weights weights, int32_t n, int32_t k)
{
    return (size_t)n * (size_t)k * (weights == KVT_GEMM_FP8 ? 1 : 2);
}

static void cuda_gemm_pack(struct kvt_device *device, enum kvt_gemm_weights weights, int32_t n,
                           int32_t k, const void *plain, void *packed)
{
    struct kvt_gemm largest = {.weights = (int32_t)weights, .m = FP8_ROWS, .n = n, .k = k};
    LATER(device, want_workspace(device, kvt_cuda_gemm_workspace_bytes(&largest), late));
    cuda_copy(device, packed, plain, cuda_gemm_bytes(weights, n, k));
}

static void cuda_int4_pack(struct kvt_device *device, const struct kvt_int4_plain *plain,
                           void *packed)
{
    size_t bytes = kvt_cuda_int4_packed_bytes(plain->n, plain->k, plain->group);
    struct kvt_int4_gemm wide = {
        .m = INT32_MAX, .n = plain->n, .k = plain->k, .group = plain->group};
    void *host = malloc(bytes);
    LATER(device, want_workspace(device, kvt_cuda_int4_workspace_bytes(&wide), late));
    if (host == NULL) {
        LATER(device, kvt_err_set(late, KVT_ENOMEM, "no memory to pack %zu bytes", bytes));
        return;
    }
    kvt_cuda_int4_pack(plain, host);
    cuda_copy(device, packed, host, bytes);
    free(host);
}

/* ---- kernels -----------------------------------------------------------------------------------
 */

static void cuda_gemm(struct kvt_device *device, const struct kvt_gemm *gemm)
{
    struct state *state = state_of(device);
    int32_t rows = gemm->weights == KVT_GEMM_FP8 ? FP8_ROWS : INT32_MAX;
    for (int32_t first = 0; first < gemm->m; first += rows) {
        struct kvt_gemm part = *gemm;
        part.m = gemm->m - first < rows ? gemm->m - first : rows;
        part.a = gemm->a + (int64_t)first * gemm->k;
        part.out = gemm->out + (int64_t)first * gemm->n;
        LATER(device, kvt_cuda_gemm(&part, state->workspace, state->stream, late));
        if (part.m == gemm->m - first)
            return;
    }
}

static void cuda_int4_gemm(struct kvt_device *device, const struct kvt_int4_gemm *gemm)
{
    struct state *state = state_of(device);
    LATER(device, kvt_cuda_int4_gemm_wide(gemm, state->workspace, state->stream, late));
}

/* A launch that needs the stream and nothing else of the device. */
#define PASS(name, type, launcher)                                                                 \
    static void name(struct kvt_device *device, const type *work)                                  \
    {                                                                                              \
        LATER(device, launcher(work, state_of(device)->stream, late));                             \
    }
PASS(cuda_attention, struct kvt_attention_call, kvt_cuda_attention)
PASS(cuda_append, struct kvt_kv_append, kvt_cuda_kv_append)
PASS(cuda_convert, struct kvt_kv_convert, kvt_cuda_kv_convert)
PASS(cuda_tag_check, struct kvt_tag_check, kvt_cuda_tag_check)
PASS(cuda_rope, struct kvt_rope, kvt_cuda_rope)
PASS(cuda_combine, struct kvt_combine, kvt_cuda_combine)

static void cuda_int4_experts(struct kvt_device *device, const struct kvt_int4_experts *experts)
{
    LATER(device, kvt_cuda_int4_experts(experts, experts->rows, state_of(device)->stream, late));
}

static void cuda_add_norm(struct kvt_device *device, float *x, const kvt_bf16 *y,
                          const kvt_bf16 *weight, float eps, int32_t rows, int32_t dim,
                          kvt_bf16 *out)
{
    LATER(device,
          kvt_cuda_add_norm(x, y, weight, eps, rows, dim, out, state_of(device)->stream, late));
}

static void cuda_silu_mul(struct kvt_device *device, const kvt_bf16 *in, int32_t rows, int32_t dim,
                          kvt_bf16 *out)
{
    LATER(device, kvt_cuda_silu_mul(in, rows, dim, out, state_of(device)->stream, late));
}

static void cuda_argmax(struct kvt_device *device, const kvt_bf16 *logits, int32_t rows,
                        int32_t columns, int32_t *token)
{
    LATER(device, kvt_cuda_argmax(logits, rows, columns, token, state_of(device)->stream, late));
}

static void cuda_gather(struct kvt_device *device, void *out, const void *from, const int32_t *row,
                        int32_t rows, size_t row_bytes)
{
    LATER(device, kvt_cuda_gather(out, from, row, rows, row_bytes, state_of(device)->stream, late));
}

static int32_t cuda_attention_workers(const struct kvt_device *device,
                                      const struct kvt_page_layout *layout, int32_t heads)
{
    return kvt_cuda_attention_workers(layout, heads, state_of(device)->multiprocessors);
}

/* ---- ceilings
 * ------------------------------------------------------------------------------------ */

static void cuda_ceiling_copy(struct kvt_device *device, void *to, const void *from, size_t bytes)
{
    LATER(device, kvt_cuda_ceiling_copy(to, from, bytes, state_of(device)->stream, late));
}

static void cuda_ceiling_read(struct kvt_device *device, const void *from, size_t bytes,
                              uint32_t *sum)
{
    LATER(device, kvt_cuda_ceiling_read(from, bytes, sum, state_of(device)->stream, late));
}

static void cuda_ceiling_empty(struct kvt_device *device)
{
    LATER(device, kvt_cuda_ceiling_empty(state_of(device)->stream, late));
}

/* ---- graphs
 * -------------------------------------------------------------------------------------- */

static enum kvt_status cuda_capture(struct kvt_device *device, struct kvt_err *err)
{
    struct state *state = state_of(device);
    if (state->graph_count == GRAPHS_MAX)
        return kvt_err_set(err, KVT_ELIMIT, "cuda: more than %d graphs", GRAPHS_MAX);
    return kvt_cuda_graph_begin(state->stream, err);
}

static enum kvt_status cuda_captured(struct kvt_device *device, void **graph, struct kvt_err *err)
{
    struct state *state = state_of(device);
    KVT_TRY(kvt_cuda_graph_end(state->stream, graph, err));
    state->graphs[state->graph_count++] = *graph;
    return KVT_OK;
}

static void cuda_replay(struct kvt_device *device, void *graph)
{
    LATER(device, kvt_cuda_graph_launch(graph, state_of(device)->stream, late));
}

const struct kvt_device_ops kvt_device_cuda_ops = {
    .backend = KVT_BACKEND_CUDA,
    .host_memory = false,
    .open = cuda_open,
    .close = cuda_close,
    .map = cuda_map,
    .unmap = cuda_unmap,
    .copy = cuda_copy,
    .copy_rows = cuda_copy_rows,
    .zero = cuda_zero,
    .wait = cuda_wait,
    .mark = cuda_mark,
    .between = cuda_between,
    .gemm_bytes = cuda_gemm_bytes,
    .gemm_pack = cuda_gemm_pack,
    .int4_bytes = kvt_cuda_int4_packed_bytes,
    .int4_pack = cuda_int4_pack,
    .gemm = cuda_gemm,
    .int4_gemm = cuda_int4_gemm,
    .int4_experts = cuda_int4_experts,
    .attention = cuda_attention,
    .append = cuda_append,
    .convert = cuda_convert,
    .tag_check = cuda_tag_check,
    .add_norm = cuda_add_norm,
    .silu_mul = cuda_silu_mul,
    .rope = cuda_rope,
    .argmax = cuda_argmax,
    .gather = cuda_gather,
    .combine = cuda_combine,
    .attention_workers = cuda_attention_workers,
    .ceiling_copy = cuda_ceiling_copy,
    .ceiling_read = cuda_ceiling_read,
    .ceiling_empty = cuda_ceiling_empty,
    .capture = cuda_capture,
    .captured = cuda_captured,
    .replay = cuda_replay,
};
