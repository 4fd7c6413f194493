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

/* What a product of one shape needs; released whole, in any state. Asking cuBLASLt which algorithm
 * takes longer than a small product, so the shapes of late are kept. */
#define KEPT 64

struct product {
    cudaDataType_t type;
    int32_t m, n, k; /* m 0: none is kept here */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t w, a, out;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulAlgo_t algo;
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
    *product = (struct product){0};
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
static enum kvt_status choose(struct product *product, const struct kvt_gemm *gemm,
                              struct kvt_err *err)
{
    cublasLtMatmulHeuristicResult_t proposal;
    int proposals = 0;
    LT_TRY(cublasLtMatmulAlgoGetHeuristic, lt.handle, product->desc, product->w, product->a,
           product->out, product->out, product->preference, 1, &proposal, &proposals);
    if (proposals < 1)
        return kvt_err_set(err, KVT_EDEVICE,
                           "cuda: cuBLASLt has no algorithm for m %" PRId32 ", n %" PRId32
                           ", k %" PRId32,
                           gemm->m, gemm->n, gemm->k);
    product->algo = proposal.algo;
    return KVT_OK;
}

/* The kept product of this shape, or a new one in the place of the oldest. a_scale: FP8. */
static enum kvt_status product_of(struct product **out, const struct kvt_gemm *gemm,
                                  const float *a_scale, struct kvt_err *err)
{
    static struct product kept[KEPT];
    static int oldest;
    cudaDataType_t type = a_scale != NULL ? CUDA_R_8F_E4M3 : CUDA_R_16BF;
    for (int i = 0; i < KEPT; i++) {
        struct product *product = &kept[i];
        if (product->type != type || product->m != gemm->m || product->n != gemm->n ||
            product->k != gemm->k)
            continue;
        *out = product;
        return a_scale != NULL ? scale_rows(product, gemm->scale, a_scale, err) : KVT_OK;
    }
    struct product *product = &kept[oldest];
    product_release(product);
    enum kvt_status status = describe(product, gemm, type, err);
    if (status == KVT_OK && a_scale != NULL)
        status = scale_rows(product, gemm->scale, a_scale, err);
    if (status == KVT_OK)
        status = choose(product, gemm, err);
    if (status != KVT_OK) {
        product_release(product);
        return status;
    }
    oldest = (oldest + 1) % KEPT;
    product->type = type;
    product->m = gemm->m;
    product->n = gemm->n;
    product->k = gemm->k;
    *out = product;
    return KVT_OK;
}

static enum kvt_status multiply(const struct kvt_gemm *gemm, const void *a, const float *a_scale,
                                void *workspace, void *stream, struct kvt_err *err)
{
    struct product *product;
    const float one = 1.0f, zero = 0.0f;
    KVT_TRY(load(err));
    KVT_TRY(product_of(&product, gemm, a_scale, err));
    LT_TRY(cublasLtMatmul, lt.handle, product->desc, &one, gemm->w, product->w, a, product->a,
           &zero, gemm->out, product->out, gemm->out, product->out, &product->algo, workspace,
           KVT_CUDA_BLAS_BYTES, (cudaStream_t)stream);
    return KVT_OK;
}

enum kvt_status kvt_cuda_gemm_bf16(const struct kvt_gemm *gemm, void *workspace, void *stream,
                                   struct kvt_err *err)
{
    if (gemm->m < 1)
        return KVT_OK;
    return multiply(gemm, gemm->a, NULL, workspace, stream, err);
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
    return multiply(gemm, a8, a8_scale, workspace, stream, err);
}
