/* The tests run on a GPU: kernels/cuda/context.c is the device face. */
#include "tests/cuda/cuda_check.h"

const bool cuda_is_emulated = false;
const struct cuda_test emulation_tests[] = {{nullptr, nullptr}};

void cuda_set_seed(uint64_t)
{
}

void cuda_set_fault(int)
{
}
