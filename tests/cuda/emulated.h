/*
 * emulated.h - what a test may ask of the emulated device (emulated.cc) besides launch.h
 */
#ifndef KVT_TESTS_CUDA_EMULATED_H
#define KVT_TESTS_CUDA_EMULATED_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of device memory that are taken; how many the device has from now on (1 GiB at first). */
size_t cuda_emulated_bytes(void);
void cuda_emulated_limit(size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
