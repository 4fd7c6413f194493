/* Devices, memory, streams and graphs over the CUDA runtime: plain C, linked statically. */
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/launch.h"

#define MAJOR_LEAST 9 /* compute capability; the PTX is for 9.0 */

static enum kvt_status status_of(cudaError_t error, const char *call, struct kvt_err *err)
{
    if (error == cudaSuccess)
        return KVT_OK;
    return kvt_err_set(err, error == cudaErrorMemoryAllocation ? KVT_ENOMEM : KVT_EDEVICE,
                       "cuda: %s: %s (%d)", call, cudaGetErrorString(error), (int)error);
}

#define CUDA_TRY(expr, call) KVT_TRY(status_of((expr), (call), err))

static cudaStream_t stream_of(void *stream)
{
    return (cudaStream_t)stream;
}

/* ---- the device ---- */

/* No driver, one that is too old, and no device are three different things to a user. */
static enum kvt_status any_device(int32_t index, struct kvt_err *err)
{
    int driver = 0, runtime = 0, count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    (void)cudaGetLastError();
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (error == cudaErrorInsufficientDriver && driver > 0)
        return kvt_err_set(err, KVT_EDEVICE,
                           "cuda: the driver is for CUDA %d.%d and too old; want %d.%d or later",
                           driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    if (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice)
        return kvt_err_set(err, KVT_EDEVICE, "cuda: no GPU: %s",
                           driver > 0 ? "the driver finds none" : "there is no driver");
    CUDA_TRY(error, "cudaGetDeviceCount");
    if (index < 0 || index >= count)
        return kvt_err_set(err, KVT_EDEVICE, "cuda: no GPU %" PRId32 ": there are %d", index,
                           count);
    return KVT_OK;
}

static int attribute(enum cudaDeviceAttr which, int index)
{
    int value = 0;
    if (cudaDeviceGetAttribute(&value, which, index) != cudaSuccess)
        value = 0;
    (void)cudaGetLastError();
    return value;
}

static enum kvt_status describe(int32_t index, struct kvt_cuda_device *device, struct kvt_err *err)
{
    struct cudaDeviceProp properties;
    CUDA_TRY(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
    *device = (struct kvt_cuda_device){
        .index = index,
        .major = properties.major,
        .minor = properties.minor,
        .multiprocessors = properties.multiProcessorCount,
        .shared_bytes = (int32_t)properties.sharedMemPerBlockOptin,
        .l2_bytes = properties.l2CacheSize,
        .memory_bytes = (int64_t)properties.totalGlobalMem,
        .clock_khz = attribute(cudaDevAttrClockRate, index),
        .memory_clock_khz = attribute(cudaDevAttrMemoryClockRate, index),
    };
    snprintf(device->name, sizeof device->name, "%s", properties.name);
    int driver = 0, runtime = 0;
    CUDA_TRY(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    CUDA_TRY(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
    device->driver = driver;
    device->runtime = runtime;
    return KVT_OK;
}

enum kvt_status kvt_cuda_open(int32_t index, int64_t need_bytes, struct kvt_cuda_device *device,
                              struct kvt_err *err)
{
    KVT_TRY(any_device(index, err));
    KVT_TRY(describe(index, device, err));
    if (device->major < MAJOR_LEAST)
        return kvt_err_set(err, KVT_EDEVICE,
                           "cuda: GPU %" PRId32 ", %s, has compute capability %" PRId32 ".%" PRId32
                           "; the kernels want %d.0 or later",
                           index, device->name, device->major, device->minor, MAJOR_LEAST);
    CUDA_TRY(cudaSetDevice(index), "cudaSetDevice");
    size_t free_bytes = 0, total_bytes = 0;
    CUDA_TRY(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    device->free_bytes = (int64_t)free_bytes;
    if (device->free_bytes < need_bytes)
        return kvt_err_set(
            err, KVT_ENOMEM,
            "cuda: GPU %" PRId32 ", %s: want %" PRId64 " bytes free, got %" PRId64 " of %" PRId64,
            index, device->name, need_bytes, device->free_bytes, device->memory_bytes);
    return KVT_OK;
}

/* ---- memory ---- */

enum kvt_status kvt_cuda_alloc(void **memory, size_t bytes, struct kvt_err *err)
{
    cudaError_t error = cudaMalloc(memory, bytes > 0 ? bytes : 1);
    if (error != cudaErrorMemoryAllocation)
        return status_of(error, "cudaMalloc", err);
    (void)cudaGetLastError();
    size_t free_bytes = 0, total_bytes = 0;
    (void)cudaMemGetInfo(&free_bytes, &total_bytes);
    return kvt_err_set(err, KVT_ENOMEM, "cuda: want %zu bytes, got none; %zu of %zu are free",
                       bytes, free_bytes, total_bytes);
}

void kvt_cuda_free(void *memory)
{
    (void)cudaFree(memory);
}

enum kvt_status kvt_cuda_copy(void *to, const void *from, size_t bytes, void *stream,
                              struct kvt_err *err)
{
    return status_of(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream)),
                     "cudaMemcpyAsync", err);
}

enum kvt_status kvt_cuda_fill(void *to, int byte, size_t bytes, void *stream, struct kvt_err *err)
{
    return status_of(cudaMemsetAsync(to, byte, bytes, stream_of(stream)), "cudaMemsetAsync", err);
}

enum kvt_status kvt_cuda_copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride,
                                   size_t row_bytes, size_t rows, void *stream, struct kvt_err *err)
{
    return status_of(cudaMemcpy2DAsync(to, to_stride, from, from_stride, row_bytes, rows,
                                       cudaMemcpyDefault, stream_of(stream)),
                     "cudaMemcpy2DAsync", err);
}

/* ---- streams, events, graphs ---- */

enum kvt_status kvt_cuda_stream_new(void **stream, struct kvt_err *err)
{
    cudaStream_t made = NULL;
    CUDA_TRY(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    *stream = made;
    return KVT_OK;
}

void kvt_cuda_stream_free(void *stream)
{
    (void)cudaStreamDestroy(stream_of(stream));
}

enum kvt_status kvt_cuda_sync(void *stream, struct kvt_err *err)
{
    return status_of(cudaStreamSynchronize(stream_of(stream)), "cudaStreamSynchronize", err);
}

enum kvt_status kvt_cuda_event_new(void **event, struct kvt_err *err)
{
    cudaEvent_t made = NULL;
    CUDA_TRY(cudaEventCreate(&made), "cudaEventCreate");
    *event = made;
    return KVT_OK;
}

void kvt_cuda_event_free(void *event)
{
    (void)cudaEventDestroy((cudaEvent_t)event);
}

enum kvt_status kvt_cuda_event_record(void *event, void *stream, struct kvt_err *err)
{
    return status_of(cudaEventRecord((cudaEvent_t)event, stream_of(stream)), "cudaEventRecord",
                     err);
}

enum kvt_status kvt_cuda_event_ms(void *from, void *to, double *ms, struct kvt_err *err)
{
    float elapsed = 0;
    CUDA_TRY(cudaEventElapsedTime(&elapsed, (cudaEvent_t)from, (cudaEvent_t)to),
             "cudaEventElapsedTime");
    *ms = (double)elapsed;
    return KVT_OK;
}

enum kvt_status kvt_cuda_graph_begin(void *stream, struct kvt_err *err)
{
    return status_of(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal),
                     "cudaStreamBeginCapture", err);
}

enum kvt_status kvt_cuda_graph_end(void *stream, void **graph, struct kvt_err *err)
{
    cudaGraph_t captured = NULL;
    cudaGraphExec_t made = NULL;
    CUDA_TRY(cudaStreamEndCapture(stream_of(stream), &captured), "cudaStreamEndCapture");
    cudaError_t error = cudaGraphInstantiate(&made, captured, 0);
    (void)cudaGraphDestroy(captured);
    CUDA_TRY(error, "cudaGraphInstantiate");
    *graph = made;
    return KVT_OK;
}

enum kvt_status kvt_cuda_graph_launch(void *graph, void *stream, struct kvt_err *err)
{
    return status_of(cudaGraphLaunch((cudaGraphExec_t)graph, stream_of(stream)), "cudaGraphLaunch",
                     err);
}

void kvt_cuda_graph_free(void *graph)
{
    (void)cudaGraphExecDestroy((cudaGraphExec_t)graph);
}
