#include "kernels/cpu/attention_plain.h"

const struct kvt_attention_isa kvt_attention_portable = {plain_piece, partial_finish,
                                                         partial_merge};
