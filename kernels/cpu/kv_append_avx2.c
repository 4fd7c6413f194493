#include "kernels/cpu/kv_append_plain.h"

const struct kvt_kv_append_isa kvt_kv_append_avx2 = {plain_tokens, plain_page};
