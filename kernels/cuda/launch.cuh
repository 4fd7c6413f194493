/*
 * launch.cuh - one kernel of one parameter is put into a stream, by the CUDA runtime or emulated
 */
#ifndef KVT_CUDA_LAUNCH_CUH
#define KVT_CUDA_LAUNCH_CUH

#include "kernels/cuda/device.cuh"

extern "C" {
#include "kernels/cuda/launch.h"
}

#ifdef __CUDACC__

/* The status of a call of the CUDA runtime. */
static inline enum kvt_status kvt_cuda_status(cudaError_t error, const char *call,
                                              struct kvt_err *err)
{
    if (error == cudaSuccess)
        return KVT_OK;
    return kvt_err_set(err, error == cudaErrorMemoryAllocation ? KVT_ENOMEM : KVT_EDEVICE,
                       "cuda: %s: %s (%d)", call, cudaGetErrorString(error), (int)error);
}

template <class T>
static enum kvt_status kvt_launch(const char *name, void (*kernel)(T), dim3 grid, unsigned threads,
                                  size_t shared, void *stream, const T &parameter,
                                  struct kvt_err *err)
{
    const void *function = reinterpret_cast<const void *>(kernel);
    if (shared > 48 << 10)
        KVT_TRY(kvt_cuda_status(cudaFuncSetAttribute(function,
                                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                     (int)shared),
                                name, err));
    T copy = parameter;
    void *list[] = {&copy};
    return kvt_cuda_status(cudaLaunchKernel(function, grid, dim3(threads), list, shared,
                                            static_cast<cudaStream_t>(stream)),
                           name, err);
}

#else

template <class T>
static enum kvt_status kvt_launch(const char *name, void (*kernel)(T), dim3 grid, unsigned threads,
                                  size_t shared, void *, const T &parameter, struct kvt_err *err)
{
    struct closure {
        void (*kernel)(T);
        T parameter;
    } what = {kernel, parameter};
    const char *problem = kvt_emulate::run(
        name, grid, dim3(threads), shared,
        [](void *closure) {
            auto *mine = static_cast<struct closure *>(closure);
            mine->kernel(mine->parameter);
        },
        &what);
    return problem == nullptr ? KVT_OK : kvt_err_set(err, KVT_EDEVICE, "emulated: %s", problem);
}

#endif

/* Names the kernel by its own text. */
#define KVT_LAUNCH(kernel, ...) kvt_launch(#kernel, kernel, __VA_ARGS__)

#endif
