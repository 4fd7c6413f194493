/*
 * device.h - where kernels run: one face, several backends
 *
 *     cpu         the fast CPU versions of kernels/cpu, OpenMP; always there
 *     reference   the plain C definitions on the host: slow, and the same bits whatever shares a
 *                 batch
 *     cuda        launches of kernels/cuda; only in a program built with CUDA (KVT_CUDA)
 *
 * A device has memory of a given size. kvt_device_take refuses whatever would pass the limit, as a
 * GPU does, so that the limit is never exceeded and what is used is always known; on a CPU backend
 * the memory is the host's, prefaulted and in huge pages where the kernel has them.
 *
 * Everything else is put in one stream and runs in its order; wait waits for all of it.
 * Structures of kernels (kernels/) hold pointers into the device's memory, but for those that a
 * contract calls host memory. On a backend with host_memory the host may read and write it directly
 * when nothing is under way; elsewhere it goes through copy: bytes that come from the host have
 * been read when copy returns, bytes that go to the host are there after the next wait (mirror.h).
 *
 * Packed weights are the backend's own: gemm_pack and int4_pack turn plain weights in host memory
 * into what its kernels want, in device memory.
 */
#ifndef KVT_RUNTIME_DEVICE_H
#define KVT_RUNTIME_DEVICE_H

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

/* clang-format off */
#define KVT_BACKENDS(X) X(CPU, "cpu") X(CUDA, "cuda") X(REFERENCE, "reference")
/* clang-format on */
#define X(name, text) KVT_BACKEND_##name,
enum kvt_backend { KVT_BACKENDS(X) KVT_BACKEND_COUNT };
#undef X
extern const char *const kvt_backend_names[KVT_BACKEND_COUNT];

#define KVT_DEVICE_ALIGN 64   /* of every piece of memory */
#define KVT_DEVICE_MARKS 1024 /* events */

struct kvt_device;

/* What a backend is. Where there are no graphs, capture and the two after it are NULL; a graph is
 * kept until the device is closed. The reference has no ceilings. */
struct kvt_device_ops {
    enum kvt_backend backend;
    bool host_memory;
    enum kvt_status (*open)(struct kvt_device *device, struct kvt_err *err);
    void (*close)(struct kvt_device *device);
    void *(*map)(struct kvt_device *device, size_t bytes); /* NULL: refused */
    void (*unmap)(struct kvt_device *device, void *memory, size_t bytes);
    void (*copy)(struct kvt_device *device, void *to, const void *from, size_t bytes);
    void (*copy_rows)(struct kvt_device *device, void *to, size_t to_stride, const void *from,
                      size_t from_stride, size_t row_bytes, size_t rows);
    void (*zero)(struct kvt_device *device, void *memory, size_t bytes);
    enum kvt_status (*wait)(struct kvt_device *device, struct kvt_err *err);
    void (*mark)(struct kvt_device *device, int32_t slot);
    double (*between)(struct kvt_device *device, int32_t from, int32_t to);

    size_t (*gemm_bytes)(enum kvt_gemm_weights weights, int32_t n, int32_t k);
    void (*gemm_pack)(struct kvt_device *device, enum kvt_gemm_weights weights, int32_t n,
                      int32_t k, const void *plain, void *packed);
    size_t (*int4_bytes)(int32_t n, int32_t k, int32_t group);
    void (*int4_pack)(struct kvt_device *device, const struct kvt_int4_plain *plain, void *packed);

    void (*gemm)(struct kvt_device *device, const struct kvt_gemm *gemm);
    void (*int4_gemm)(struct kvt_device *device, const struct kvt_int4_gemm *gemm);
    void (*int4_experts)(struct kvt_device *device, const struct kvt_int4_experts *experts);
    void (*attention)(struct kvt_device *device, const struct kvt_attention_call *attention);
    void (*append)(struct kvt_device *device, const struct kvt_kv_append *append);
    void (*convert)(struct kvt_device *device, const struct kvt_kv_convert *convert);
    void (*tag_check)(struct kvt_device *device, const struct kvt_tag_check *check);
    void (*add_norm)(struct kvt_device *device, float *x, const kvt_bf16 *y, const kvt_bf16 *weight,
                     float eps, int32_t rows, int32_t dim, kvt_bf16 *out);
    void (*silu_mul)(struct kvt_device *device, const kvt_bf16 *in, int32_t rows, int32_t dim,
                     kvt_bf16 *out);
    void (*rope)(struct kvt_device *device, const struct kvt_rope *rope);
    void (*argmax)(struct kvt_device *device, const kvt_bf16 *logits, int32_t rows, int32_t columns,
                   int32_t *token);
    void (*combine)(struct kvt_device *device, const struct kvt_combine *combine);
    /* out[i] = from[row[i]], rows of row_bytes (even); out and from do not overlap. */
    void (*gather)(struct kvt_device *device, void *out, const void *from, const int32_t *row,
                   int32_t rows, size_t row_bytes);

    /* Workers that attention of this kind is split over; NULL: the device's. */
    int32_t (*attention_workers)(const struct kvt_device *device,
                                 const struct kvt_page_layout *layout, int32_t heads);

    /* What nothing can beat: to = from, the sum of 32-bit words, a kernel that does nothing;
     * products of registers or of tiles, whose FLOPs are returned (0: no such unit; NULL: a
     * GPU). */
    void (*ceiling_copy)(struct kvt_device *device, void *to, const void *from, size_t bytes);
    void (*ceiling_read)(struct kvt_device *device, const void *from, size_t bytes, uint32_t *sum);
    void (*ceiling_empty)(struct kvt_device *device);
    double (*ceiling_multiply)(struct kvt_device *device, bool tiles, int32_t rounds);

    enum kvt_status (*capture)(struct kvt_device *device, struct kvt_err *err);
    enum kvt_status (*captured)(struct kvt_device *device, void **graph, struct kvt_err *err);
    void (*replay)(struct kvt_device *device, void *graph);
};

struct kvt_device {
    const struct kvt_device_ops *ops;
    char name[96];                 /* of the processor, for people */
    int64_t limit, used, peak;     /* bytes; used <= limit always */
    int32_t workers;               /* that attention is split over: threads, blocks */
    double mark[KVT_DEVICE_MARKS]; /* s; host backends */
    void *state;                   /* of the backend */
};

/* Open a backend with memory of limit bytes. KVT_EDEVICE: built without CUDA, or no GPU. */
enum kvt_status kvt_device_open(struct kvt_device *device, enum kvt_backend backend, int64_t limit,
                                struct kvt_err *err);

/* What was taken must have been given back. */
void kvt_device_close(struct kvt_device *device);

/* Memory for `what`, aligned, zeroed. KVT_ENOMEM says what was wanted, what is used and the limit;
 * *out is NULL then. bytes 0 gives NULL and KVT_OK. */
enum kvt_status kvt_device_take(struct kvt_device *device, int64_t bytes, const char *what,
                                void *out, struct kvt_err *err);

/* bytes as they were taken; memory may be NULL. */
void kvt_device_give(struct kvt_device *device, void *memory, int64_t bytes);

/* Bytes that a piece really takes of the limit. */
static inline int64_t kvt_device_rounded(int64_t bytes)
{
    return (bytes + KVT_DEVICE_ALIGN - 1) / KVT_DEVICE_ALIGN * KVT_DEVICE_ALIGN;
}

/* Workers to split attention over pages of this layout for. */
int32_t kvt_device_attention_workers(const struct kvt_device *device,
                                     const struct kvt_page_layout *layout, int32_t heads);

/* Seconds of a clock that never goes back in a thread; no time has passed where the system's does.
 */
double kvt_device_now(void);

/* How often the system's clock went back so far: what was measured then is too short. */
int32_t kvt_device_clock_jumps(void);

/* How often another process took a processor from one of our threads so far. */
int64_t kvt_device_switches(void);

extern const struct kvt_device_ops kvt_device_cpu_ops, kvt_device_reference_ops;
#ifdef KVT_CUDA
extern const struct kvt_device_ops kvt_device_cuda_ops;
#endif

#endif
