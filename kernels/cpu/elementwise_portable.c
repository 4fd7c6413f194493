#define KVT_ROWS kvt_elementwise_portable
#include "kernels/cpu/elementwise_rows.h"
