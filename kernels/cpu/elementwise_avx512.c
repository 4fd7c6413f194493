#define KVT_ROWS kvt_elementwise_avx512
#include "kernels/cpu/elementwise_rows.h"
