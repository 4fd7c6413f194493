#include "kernels/cpu/ceilings_avx512.h"

const struct kvt_ceilings_isa kvt_ceilings_avx512 = {
    .read = ceiling_read_avx512, .copy = ceiling_copy_avx512, .vectors = ceiling_vectors_avx512};
