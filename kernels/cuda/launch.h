/*
 * launch.h - the C face of the CUDA kernels: devices, memory, streams, graphs, and one launcher for
 * each kernel of kernels/
 *
 * Whoever includes this needs no CUDA header. A stream is a void * (NULL: the default stream). The
 * structs of kernels/ are passed in host memory; the arrays that they point to are on the device. A
 * layout and a split are themselves read on the host, where the launch is sized; of a split the
 * three arrays are on the device (kvt_split_view).
 *
 * A launcher checks what it can see without reading device memory (the kvt_*_check functions of
 * kernels/ are for the host copies), puts the kernels into the stream and returns; it allocates
 * nothing and waits for nothing, so it may be called while a graph is captured. A kernel that fails
 * later is reported by kvt_cuda_sync. Arrays start on 16 bytes, as kvt_cuda_alloc gives them,
 * unless said otherwise; m, tokens or rows of 0 launch nothing.
 *
 * KVT_EDEVICE: the device refused, with the name of the call and its own words. KVT_ELIMIT: the
 * kernel is not made for these sizes. KVT_ENOMEM: too little device memory, with what was asked and
 * what is free.
 *
 * The same functions exist twice: over the CUDA runtime (nvcc), and emulated on the host, one fiber
 * for each CUDA thread (emulate.h), for tests on machines without a GPU. The kernels are for
 * compute capability 9.0; later chips run them from their PTX.
 */
#ifndef KVT_CUDA_LAUNCH_H
#define KVT_CUDA_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/int4.h"
#include "kernels/kv_append.h"
#include "kernels/tag_check.h"
#include "sim/base/status.h"

/* ---- the device ---- */

struct kvt_cuda_device {
    int32_t index;
    char name[256];
    int32_t major, minor; /* compute capability */
    int32_t multiprocessors;
    int32_t shared_bytes;    /* that one block may have */
    int32_t driver, runtime; /* 12040 is 12.4 */
    int64_t l2_bytes, memory_bytes, free_bytes;
    int32_t clock_khz, memory_clock_khz; /* the highest; 0: not told */
};

/* Make device index the one of this thread and describe it. KVT_EDEVICE: no GPU, a driver that is
 * too old, a GPU below 9.0. KVT_ENOMEM: less than need_bytes free. */
enum kvt_status kvt_cuda_open(int32_t index, int64_t need_bytes, struct kvt_cuda_device *device,
                              struct kvt_err *err);

/* ---- memory: plain allocations, never managed ---- */

enum kvt_status kvt_cuda_alloc(void **memory, size_t bytes, struct kvt_err *err);
void kvt_cuda_free(void *memory);
/* Between host and device in any direction, in the order of the stream. */
enum kvt_status kvt_cuda_copy(void *to, const void *from, size_t bytes, void *stream,
                              struct kvt_err *err);
/* rows of row_bytes, so many bytes apart. */
enum kvt_status kvt_cuda_copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride,
                                   size_t row_bytes, size_t rows, void *stream,
                                   struct kvt_err *err);
enum kvt_status kvt_cuda_fill(void *to, int byte, size_t bytes, void *stream, struct kvt_err *err);

/* ---- streams, events, graphs ---- */

enum kvt_status kvt_cuda_stream_new(void **stream, struct kvt_err *err);
void kvt_cuda_stream_free(void *stream);
/* Wait; reports what failed on the device since. */
enum kvt_status kvt_cuda_sync(void *stream, struct kvt_err *err);

enum kvt_status kvt_cuda_event_new(void **event, struct kvt_err *err);
void kvt_cuda_event_free(void *event);
enum kvt_status kvt_cuda_event_record(void *event, void *stream, struct kvt_err *err);
/* Of two events that have happened. */
enum kvt_status kvt_cuda_event_ms(void *from, void *to, double *ms, struct kvt_err *err);

/* Between begin and end what is put into the stream (not the default one) is kept, not run.
 * Emulated: KVT_EDEVICE, there are no graphs. */
enum kvt_status kvt_cuda_graph_begin(void *stream, struct kvt_err *err);
enum kvt_status kvt_cuda_graph_end(void *stream, void **graph, struct kvt_err *err);
enum kvt_status kvt_cuda_graph_launch(void *graph, void *stream, struct kvt_err *err);
void kvt_cuda_graph_free(void *graph);

/* ---- KV ---- */

enum kvt_status kvt_cuda_kv_append(const struct kvt_kv_append *append, void *stream,
                                   struct kvt_err *err);
enum kvt_status kvt_cuda_kv_convert(const struct kvt_kv_convert *convert, void *stream,
                                    struct kvt_err *err);
enum kvt_status kvt_cuda_tag_check(const struct kvt_tag_check *check, void *stream,
                                   struct kvt_err *err);

/* Blocks that run at once on this device: the worker count for kvt_split_place; the units are
 * kvt_attention_units(). */
int32_t kvt_cuda_attention_workers(const struct kvt_page_layout *layout, int32_t heads,
                                   int32_t multiprocessors);
/* attention->split as kvt_split_view made it; workspace of kvt_attention_workspace_bytes.
 * MLA with more than 16 heads reads the KV once for each 16 of them. */
enum kvt_status kvt_cuda_attention(const struct kvt_attention_call *attention, void *stream,
                                   struct kvt_err *err);

/* ---- INT4: packed once on the host, copied to the device by the caller ---- */

size_t kvt_cuda_int4_packed_bytes(int32_t n, int32_t k, int32_t group);
void kvt_cuda_int4_pack(const struct kvt_int4_plain *plain, void *packed);
void kvt_cuda_int4_unpack(const void *packed, const struct kvt_int4_plain *plain);
/* More than 64 rows: 64 at a time, each of which reads the weights again. */
enum kvt_status kvt_cuda_int4_gemm(const struct kvt_int4_gemm *gemm, void *stream,
                                   struct kvt_err *err);
/* out [n][k] = the weights in BF16: a weight that is no power of two times its scale is rounded. */
enum kvt_status kvt_cuda_int4_dequantise(const void *w, int32_t n, int32_t k, int32_t group,
                                         kvt_bf16 *out, void *stream, struct kvt_err *err);
/* The same for any m: from 65 rows on, weights of at most KVT_CUDA_INT4_WIDE_BYTES in BF16 are
 * dequantised into the workspace and multiplied by cuBLASLt, where that is found; that reads them
 * once and writes and reads them again in BF16, and adds up to 1e-3 of the mean to int4.h's error.
 */
#define KVT_CUDA_INT4_WIDE_BYTES ((size_t)1 << 30)
size_t kvt_cuda_int4_workspace_bytes(const struct kvt_int4_gemm *gemm); /* may be 0 */
enum kvt_status kvt_cuda_int4_gemm_wide(const struct kvt_int4_gemm *gemm, void *workspace,
                                        void *stream, struct kvt_err *err);
/* rows: row_begin[experts], which is on the device, told by the caller; a hint for the tile only,
 * and 0 where it is not known. */
enum kvt_status kvt_cuda_int4_experts(const struct kvt_int4_experts *experts, int32_t rows,
                                      void *stream, struct kvt_err *err);

/* ---- BF16 and FP8 GEMM: cuBLASLt, loaded when first asked for ---- */

/* Whether it is found. */
bool kvt_cuda_blas_here(void);

/* gemm.h's call, w in plain order. KVT_EDEVICE where libcublasLt.so is not found, or emulated. FP8
 * tensor cores want both operands in E4M3: the rows of a are quantised first (W8A8), an error of
 * about 2 % of the mean that gemm.h's W8A16 does not have; n and k are multiples of 16. */
size_t kvt_cuda_gemm_workspace_bytes(const struct kvt_gemm *gemm);
enum kvt_status kvt_cuda_gemm(const struct kvt_gemm *gemm, void *workspace, void *stream,
                              struct kvt_err *err);

/* The products alone, for timing: workspace of KVT_CUDA_BLAS_BYTES; FP8: a8 and a8_scale [m] as
 * kvt_cuda_quantise_rows leaves them, m a multiple of 16 too. */
#define KVT_CUDA_BLAS_BYTES ((size_t)32 << 20)
enum kvt_status kvt_cuda_gemm_bf16(const struct kvt_gemm *gemm, void *workspace, void *stream,
                                   struct kvt_err *err);
enum kvt_status kvt_cuda_gemm_fp8(const struct kvt_gemm *gemm, const kvt_e4m3 *a8,
                                  const float *a8_scale, void *workspace, void *stream,
                                  struct kvt_err *err);
/* scale[row] = amax / 448 (1 for a row of zeros), out = e4m3(a / scale). */
enum kvt_status kvt_cuda_quantise_rows(const kvt_bf16 *a, int32_t rows, int32_t dim, kvt_e4m3 *out,
                                       float *scale, void *stream, struct kvt_err *err);

/* ---- elementwise ---- */

enum kvt_status kvt_cuda_add_norm(float *x, const kvt_bf16 *y, const kvt_bf16 *weight, float eps,
                                  int32_t rows, int32_t dim, kvt_bf16 *out, void *stream,
                                  struct kvt_err *err);
enum kvt_status kvt_cuda_silu_mul(const kvt_bf16 *in, int32_t rows, int32_t dim, kvt_bf16 *out,
                                  void *stream, struct kvt_err *err);
enum kvt_status kvt_cuda_rope(const struct kvt_rope *rope, void *stream, struct kvt_err *err);
enum kvt_status kvt_cuda_argmax(const kvt_bf16 *logits, int32_t rows, int32_t columns,
                                int32_t *token, void *stream, struct kvt_err *err);

/* out[i] = from[row[i]], rows of row_bytes (even; 16-byte words where that divides them). */
enum kvt_status kvt_cuda_gather(void *out, const void *from, const int32_t *row, int32_t rows,
                                size_t row_bytes, void *stream, struct kvt_err *err);
enum kvt_status kvt_cuda_combine(const struct kvt_combine *combine, void *stream,
                                 struct kvt_err *err);

/* ---- ceilings of the device ---- */

/* to = from, both read and written once; bytes a multiple of 16. */
enum kvt_status kvt_cuda_ceiling_copy(void *to, const void *from, size_t bytes, void *stream,
                                      struct kvt_err *err);
/* *sum = sum of the 32-bit words; bytes a multiple of 16. */
enum kvt_status kvt_cuda_ceiling_read(const void *from, size_t bytes, uint32_t *sum, void *stream,
                                      struct kvt_err *err);
/* A kernel that does nothing. */
enum kvt_status kvt_cuda_ceiling_empty(void *stream, struct kvt_err *err);

#endif
