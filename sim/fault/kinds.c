#include "sim/fault/kinds.h"

#define X(name, text, armed) armed,
const bool kvt_fault_is_armed[KVT_FAULT_COUNT] = {KVT_FAULTS(X)};
#undef X
#define X(name, kind, text, amount, delay, unreal) {KVT_FAULT_##kind, text, amount, delay, unreal},
const struct kvt_fault_variant_info kvt_fault_variants[KVT_STRIKE_COUNT] = {KVT_FAULT_VARIANTS(X)};
#undef X
