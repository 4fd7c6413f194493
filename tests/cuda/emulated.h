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

/* The call of that number from now on fails, counted from 1; 0: none. Allocations, copies, fills,
 * launches, waits, streams and events count. How many there were since. */
void cuda_emulated_fail(long number);
long cuda_emulated_calls(void);

#ifdef __cplusplus
}
#endif

#endif
