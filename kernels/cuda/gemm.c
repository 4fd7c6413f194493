/* gemm.h's call and INT4 with many rows, over the products of blaslt.c: what stands around them. */
#include "kernels/cuda/launch.h"

/* ---- BF16 and FP8 ---- */

static int32_t padded(int32_t m)
{
    return (m + 15) / 16 * 16;
}

static size_t align256(size_t bytes)
{
    return (bytes + 255) & ~(size_t)255;
}

/* FP8: where in the workspace, behind cuBLAS's own, are a in E4M3, its scales, and out where m is
 * not a multiple of 16. */
struct scratch {
    size_t a8, scale, out, bytes;
};

static struct scratch scratch_of(const struct kvt_gemm *gemm)
{
    size_t m = (size_t)padded(gemm->m), n = (size_t)gemm->n, k = (size_t)gemm->k;
    struct scratch at = {.a8 = KVT_CUDA_BLAS_BYTES};
    at.scale = at.a8 + align256(m * k);
    at.out = at.scale + align256(m * sizeof(float));
    at.bytes = at.out + align256(m * n * sizeof(kvt_bf16));
    return at;
}

size_t kvt_cuda_gemm_workspace_bytes(const struct kvt_gemm *gemm)
{
    return gemm->weights == KVT_GEMM_BF16 ? KVT_CUDA_BLAS_BYTES : scratch_of(gemm).bytes;
}

enum kvt_status kvt_cuda_gemm(const struct kvt_gemm *gemm, void *workspace, void *stream,
                              struct kvt_err *err)
{
    if (gemm->weights == KVT_GEMM_BF16 || gemm->m < 1)
        return kvt_cuda_gemm_bf16(gemm, workspace, stream, err);
    struct scratch at = scratch_of(gemm);
    kvt_e4m3 *a8 = (void *)((char *)workspace + at.a8);
    float *scale = (void *)((char *)workspace + at.scale);
    kvt_bf16 *out = (void *)((char *)workspace + at.out);
    struct kvt_gemm whole = *gemm;
    whole.m = padded(gemm->m);
    whole.out = out;
    /* Rows that are padding: codes and scales of 0. */
    size_t rows = (size_t)gemm->m, rest = (size_t)(whole.m - gemm->m), k = (size_t)gemm->k;
    KVT_TRY(kvt_cuda_fill(a8 + rows * k, 0, rest * k, stream, err));
    KVT_TRY(kvt_cuda_fill(scale + rows, 0, rest * sizeof(float), stream, err));
    KVT_TRY(kvt_cuda_quantise_rows(gemm->a, gemm->m, gemm->k, a8, scale, stream, err));
    KVT_TRY(kvt_cuda_gemm_fp8(&whole, a8, scale, workspace, stream, err));
    return kvt_cuda_copy(gemm->out, out, rows * (size_t)gemm->n * sizeof(kvt_bf16), stream, err);
}

/* ---- INT4 with many rows ---- */

#define NARROW 64 /* rows that the INT4 kernel takes in one pass over the weights */

static size_t dequantised_bytes(const struct kvt_int4_gemm *gemm)
{
    return (size_t)gemm->n * (size_t)gemm->k * sizeof(kvt_bf16);
}

size_t kvt_cuda_int4_workspace_bytes(const struct kvt_int4_gemm *gemm)
{
    size_t bytes = dequantised_bytes(gemm);
    if (gemm->m <= NARROW || bytes > KVT_CUDA_INT4_WIDE_BYTES)
        return 0;
    return KVT_CUDA_BLAS_BYTES + align256(bytes);
}

enum kvt_status kvt_cuda_int4_gemm_wide(const struct kvt_int4_gemm *gemm, void *workspace,
                                        void *stream, struct kvt_err *err)
{
    if (kvt_cuda_int4_workspace_bytes(gemm) == 0 || !kvt_cuda_blas_here())
        return kvt_cuda_int4_gemm(gemm, stream, err);
    kvt_bf16 *w = (kvt_bf16 *)(void *)((char *)workspace + KVT_CUDA_BLAS_BYTES);
    KVT_TRY(kvt_cuda_int4_dequantise(gemm->w, gemm->n, gemm->k, gemm->group, w, stream, err));
    struct kvt_gemm wide = {.weights = KVT_GEMM_BF16,
                            .m = gemm->m,
                            .n = gemm->n,
                            .k = gemm->k,
                            .a = gemm->a,
                            .w = w,
                            .out = gemm->out};
    return kvt_cuda_gemm_bf16(&wide, workspace, stream, err);
}
