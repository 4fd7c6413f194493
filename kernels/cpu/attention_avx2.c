#include "kernels/cpu/attention_plain.h"

const struct kvt_attention_isa kvt_attention_avx2 = {plain_piece, partial_finish, partial_merge};
