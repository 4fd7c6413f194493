#define KVT_ROWS kvt_elementwise_avx2
#include "kernels/cpu/elementwise_rows.h"
