/* The device face of launch.h without a device: host memory, streams that run at once. */
#include <cstdlib>
#include <cstring>

#include "kernels/cuda/emulate.h"
#include "tests/cuda/cuda_check.h"

/* Fibers have stacks of their own. */
extern "C" const char *__asan_default_options(void);
extern "C" const char *__asan_default_options(void)
{
    return "detect_stack_use_after_return=0";
}

const bool cuda_is_emulated = true;

void cuda_set_seed(uint64_t seed)
{
    kvt_emulate::set_seed(seed);
}

void cuda_set_fault(int number)
{
    kvt_emulate::now.fault = static_cast<enum kvt_emulate::fault>(number);
}

static enum kvt_status no_graphs(struct kvt_err *err)
{
    return kvt_err_set(err, KVT_EDEVICE, "emulated: there are no graphs and no events");
}

int32_t kvt_cuda_count(void)
{
    return 1;
}

enum kvt_status kvt_cuda_open(int32_t index, int64_t need_bytes, struct kvt_cuda_device *device,
                              struct kvt_err *err)
{
    if (index != 0)
        return kvt_err_set(err, KVT_EDEVICE, "emulated: no GPU %d: there is one", index);
    *device = {};
    snprintf(device->name, sizeof device->name, "emulated");
    device->major = 9;
    device->multiprocessors = 4;
    device->shared_bytes = kvt_emulate::shared_bytes_max;
    device->memory_bytes = device->free_bytes = INT64_C(1) << 30;
    if (need_bytes > device->free_bytes)
        return kvt_err_set(err, KVT_ENOMEM, "emulated: want %lld bytes, got %lld",
                           static_cast<long long>(need_bytes),
                           static_cast<long long>(device->free_bytes));
    return KVT_OK;
}

enum kvt_status kvt_cuda_alloc(void **memory, size_t bytes, struct kvt_err *err)
{
    /* As on the device on 256 bytes; not one more than asked, for AddressSanitizer. */
    if (posix_memalign(memory, 256, bytes > 0 ? bytes : 1) != 0)
        return kvt_err_set(err, KVT_ENOMEM, "emulated: no %zu bytes", bytes);
    memset(*memory, kvt_emulate::poison, bytes);
    return KVT_OK;
}

void kvt_cuda_free(void *memory)
{
    free(memory);
}

enum kvt_status kvt_cuda_alloc_pinned(void **memory, size_t bytes, struct kvt_err *err)
{
    return kvt_cuda_alloc(memory, bytes, err);
}

void kvt_cuda_free_pinned(void *memory)
{
    free(memory);
}

enum kvt_status kvt_cuda_copy(void *to, const void *from, size_t bytes, void *, struct kvt_err *)
{
    if (bytes > 0)
        memcpy(to, from, bytes);
    return KVT_OK;
}

enum kvt_status kvt_cuda_fill(void *to, int byte, size_t bytes, void *, struct kvt_err *)
{
    memset(to, byte, bytes);
    return KVT_OK;
}

enum kvt_status kvt_cuda_copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride,
                                   size_t row_bytes, size_t rows, void *, struct kvt_err *)
{
    for (size_t row = 0; row < rows && row_bytes > 0; row++)
        memcpy(static_cast<char *>(to) + row * to_stride,
               static_cast<const char *>(from) + row * from_stride, row_bytes);
    return KVT_OK;
}

enum kvt_status kvt_cuda_stream_new(void **stream, struct kvt_err *)
{
    *stream = nullptr;
    return KVT_OK;
}

void kvt_cuda_stream_free(void *)
{
}

enum kvt_status kvt_cuda_sync(void *, struct kvt_err *)
{
    return KVT_OK;
}

enum kvt_status kvt_cuda_event_new(void **, struct kvt_err *err)
{
    return no_graphs(err);
}

void kvt_cuda_event_free(void *)
{
}

enum kvt_status kvt_cuda_event_record(void *, void *, struct kvt_err *err)
{
    return no_graphs(err);
}

enum kvt_status kvt_cuda_event_ms(void *, void *, double *, struct kvt_err *err)
{
    return no_graphs(err);
}

enum kvt_status kvt_cuda_graph_begin(void *, struct kvt_err *err)
{
    return no_graphs(err);
}

enum kvt_status kvt_cuda_graph_end(void *, void **, struct kvt_err *err)
{
    return no_graphs(err);
}

enum kvt_status kvt_cuda_graph_launch(void *, void *, struct kvt_err *err)
{
    return no_graphs(err);
}

void kvt_cuda_graph_free(void *)
{
}

/* ---- cuBLASLt ---- */

static enum kvt_status no_blas(struct kvt_err *err)
{
    return kvt_err_set(err, KVT_EDEVICE, "emulated: there is no cuBLASLt");
}

size_t kvt_cuda_gemm_workspace_bytes(const struct kvt_gemm *)
{
    return 1;
}

enum kvt_status kvt_cuda_gemm_bf16(const struct kvt_gemm *, void *, void *, struct kvt_err *err)
{
    return no_blas(err);
}

enum kvt_status kvt_cuda_gemm_fp8(const struct kvt_gemm *, const kvt_e4m3 *, const float *, void *,
                                  void *, struct kvt_err *err)
{
    return no_blas(err);
}

enum kvt_status kvt_cuda_gemm(const struct kvt_gemm *, void *, void *, struct kvt_err *err)
{
    return no_blas(err);
}
