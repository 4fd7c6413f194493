/* GEMM by cuBLASLt, found at run time: 541 MB that only the baselines need are never linked. */
#include <cublasLt.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/launch.h"

/* The functions that are used, by name. */
#define FUNCTIONS(X)                                                                               \
    X(cublasLtCreate)                                                                              \
    X(cublasLtMatmul)                                                                              \
    X(cublasLtMatmulDescCreate)                                                                    \
    X(cublasLtMatmulDescDestroy)                                                                   \
    X(cublasLtMatmulDescSetAttribute)                                                              \
    X(cublasLtMatrixLayoutCreate)                                                                  \
    X(cublasLtMatrixLayoutDestroy)                                                                 \
    X(cublasLtMatmulPreferenceCreate)                                                              \
    X(cublasLtMatmulPreferenceDestroy)                                                             \
    X(cublasLtMatmulPreferenceSetAttribute)                                                        \
    X(cublasLtMatmulAlgoGetHeuristic)

static struct {
    void *library;
    cublasLtHandle_t handle;
#define X(name) __typeof__(&name) name;
    FUNCTIONS(X)
#undef X
} lt;

static enum kvt_status status_of(cublasStatus_t status, const char *call, struct kvt_err *err)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return KVT_OK;
    return kvt_err_set(err, KVT_EDEVICE, "cuda: %s: cuBLAS status %d", call, (int)status);
}

#define LT_TRY(function, ...) KVT_TRY(status_of(lt.function(__VA_ARGS__), #function, err))

static enum kvt_status load(struct kvt_err *err)
{
    if (lt.handle != NULL)
        return KVT_OK;
    char name[64];
    snprintf(name, sizeof name, "libcublasLt.so.%d", CUBLAS_VER_MAJOR);
    if (lt.library == NULL)
        lt.library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (lt.library == NULL)
        return kvt_err_set(err, KVT_EDEVICE,
                           "cuda: %s is not found, so there is no BF16 or FP8 GEMM to compare with",
                           name);
        /* POSIX lets a symbol's address become a function's only through memory. */
#define X(function)                                                                                \
    *(void **)(void *)&lt.function = dlsym(lt.library, #function);                                 \
    if (lt.function == NULL)                                                                       \
        return kvt_err_set(err, KVT_EDEVICE, "cuda: %s has no " #function, name);
    FUNCTIONS(X)
#undef X
    return status_of(lt.cublasLtCreate(&lt.handle), "cublasLtCreate", err);
}

bool kvt_cuda_blas_here(void)
{
    struct kvt_err unheard = {0};
    return load(&unheard) == KVT_OK;
}

/* What one product needs; released whole, in any state. */
struct product {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t w, a, out;
    cublasLtMatmulPreference_t preference;
};

static void product_release(struct product *product)
{
    if (product->preference != NULL)
        (void)lt.cublasLtMatmulPreferenceDestroy(product->preference);
    if (product->out != NULL)
        (void)lt.cublasLtMatrixLayoutDestroy(product->out);
    if (product->a != NULL)
        (void)lt.cublasLtMatrixLayoutDestroy(product->a);
    if (product->w != NULL)
        (void)lt.cublasLtMatrixLayoutDestroy(product->w);
    if (product->desc != NULL)
        (void)lt.cublasLtMatmulDescDestroy(product->desc);
}

/* In columns, as cuBLAS counts: out is [n][m] = transpose of w [k][n], times a [k][m]. */
static enum kvt_status describe(struct product *product, const struct kvt_gemm *gemm,
                                cudaDataType_t type, struct kvt_err *err)
{
    uint64_t m = (uint64_t)gemm->m, n = (uint64_t)gemm->n, k = (uint64_t)gemm->k;
    cublasOperation_t transposed = CUBLAS_OP_T;
    size_t workspace = KVT_CUDA_BLAS_BYTES;
    LT_TRY(cublasLtMatmulDescCreate, &product->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    LT_TRY(cublasLtMatmulDescSetAttribute, product->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
           sizeof transposed);
    LT_TRY(cublasLtMatrixLayoutCreate, &product->w, type, k, n, (int64_t)k);
    LT_TRY(cublasLtMatrixLayoutCreate, &product->a, type, k, m, (int64_t)k);
    LT_TRY(cublasLtMatrixLayoutCreate, &product->out, CUDA_R_16BF, n, m, (int64_t)n);
    LT_TRY(cublasLtMatmulPreferenceCreate, &product->preference);
    LT_TRY(cublasLtMatmulPreferenceSetAttribute, product->preference,
           CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    return KVT_OK;
}

/* One float a row of w and of a, on the device. */
static enum kvt_status scale_rows(struct product *product, const float *w_scale,
                                  const float *a_scale, struct kvt_err *err)
{
    cublasLtMatmulMatrixScale_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    LT_TRY(cublasLtMatmulDescSetAttribute, product->desc, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &mode,
           sizeof mode);
    LT_TRY(cublasLtMatmulDescSetAttribute, product->desc, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &mode,
           sizeof mode);
    LT_TRY(cublasLtMatmulDescSetAttribute, product->desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
           &w_scale, sizeof w_scale);
    LT_TRY(cublasLtMatmulDescSetAttribute, product->desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
           &a_scale, sizeof a_scale);
    return KVT_OK;
}

/* The first algorithm that cuBLASLt proposes. */
static enum kvt_status multiply(const struct product *product, const struct kvt_gemm *gemm,
                                const void *a, void *workspace, void *stream, struct kvt_err *err)
{
    cublasLtMatmulHeuristicResult_t proposal;
    int proposals = 0;
    const float one = 1.0f, zero = 0.0f;
    LT_TRY(cublasLtMatmulAlgoGetHeuristic, lt.handle, product->desc, product->w, product->a,
           product->out, product->out, product->preference, 1, &proposal, &proposals);
    if (proposals < 1)
        return kvt_err_set(err, KVT_EDEVICE,
                           "cuda: cuBLASLt has no algorithm for m %" PRId32 ", n %" PRId32
                           ", k %" PRId32,
                           gemm->m, gemm->n, gemm->k);
    LT_TRY(cublasLtMatmul, lt.handle, product->desc, &one, gemm->w, product->w, a, product->a,
           &zero, gemm->out, product->out, gemm->out, product->out, &proposal.algo, workspace,
           KVT_CUDA_BLAS_BYTES, (cudaStream_t)stream);
    return KVT_OK;
}

enum kvt_status kvt_cuda_gemm_bf16(const struct kvt_gemm *gemm, void *workspace, void *stream,
                                   struct kvt_err *err)
{
    if (gemm->m < 1)
        return KVT_OK;
    KVT_TRY(load(err));
    struct product product = {0};
    enum kvt_status status = describe(&product, gemm, CUDA_R_16BF, err);
    if (status == KVT_OK)
        status = multiply(&product, gemm, gemm->a, workspace, stream, err);
    product_release(&product);
    return status;
}

enum kvt_status kvt_cuda_gemm_fp8(const struct kvt_gemm *gemm, const kvt_e4m3 *a8,
                                  const float *a8_scale, void *workspace, void *stream,
                                  struct kvt_err *err)
{
    if (gemm->m < 1)
        return KVT_OK;
    if (gemm->m % 16 != 0 || gemm->n % 16 != 0 || gemm->k % 16 != 0)
        return kvt_err_set(err, KVT_ELIMIT,
                           "cuda: FP8 GEMM: m %" PRId32 ", n %" PRId32 ", k %" PRId32
                           ": each a multiple of 16",
                           gemm->m, gemm->n, gemm->k);
    KVT_TRY(load(err));
    struct product product = {0};
    enum kvt_status status = describe(&product, gemm, CUDA_R_8F_E4M3, err);
    if (status == KVT_OK)
        status = scale_rows(&product, gemm->scale, a8_scale, err);
    if (status == KVT_OK)
        status = multiply(&product, gemm, a8, workspace, stream, err);
    product_release(&product);
    return status;
}
