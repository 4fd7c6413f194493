#include "sim/base/names.h"

#define X(name, text) text,
const char *const kvt_weight_dtype_names[KVT_WEIGHT_DTYPE_COUNT] = {KVT_WEIGHT_DTYPES(X)};
const char *const kvt_kv_dtype_names[KVT_KV_DTYPE_COUNT] = {KVT_KV_DTYPES(X)};
const char *const kvt_objective_names[KVT_OBJECTIVE_COUNT] = {KVT_OBJECTIVES(X)};
const char *const kvt_engine_names[KVT_ENGINE_COUNT] = {KVT_ENGINES(X)};
const char *const kvt_role_names[KVT_ROLE_COUNT] = {KVT_ROLES(X)};
const char *const kvt_moe_a2a_names[KVT_MOE_A2A_COUNT] = {KVT_MOE_A2AS(X)};
const char *const kvt_free_order_names[KVT_FREE_ORDER_COUNT] = {KVT_FREE_ORDERS(X)};
const char *const kvt_router_names[KVT_ROUTER_COUNT] = {KVT_ROUTERS(X)};
const char *const kvt_stream_names[KVT_STREAM_COUNT] = {KVT_STREAMS(X)};
const char *const kvt_link_scope_names[KVT_LINK_SCOPE_COUNT] = {KVT_LINK_SCOPES(X)};
const char *const kvt_on_hit_names[KVT_ON_HIT_COUNT] = {KVT_ON_HITS(X)};
const char *const kvt_rate_names[KVT_RATE_COUNT] = {KVT_RATE_BASES(X)};
const char *const kvt_check_names[KVT_CHECK_COUNT] = {KVT_CHECKS(X)};
const char *const kvt_bind_names[KVT_BIND_COUNT] = {KVT_BINDS(X)};
const char *const kvt_outcome_names[KVT_OUTCOME_COUNT] = {KVT_FAULT_OUTCOMES(X)};
const char *const kvt_tag_order_names[KVT_TAG_ORDER_COUNT] = {KVT_TAG_ORDERS(X)};
#undef X
#define X(name, text, keys, looks, help) text,
const char *const kvt_guard_names[KVT_GUARD_COUNT] = {KVT_GUARDS(X)};
#undef X
#define X(name, text, armed) text,
const char *const kvt_fault_names[KVT_FAULT_COUNT] = {KVT_FAULTS(X)};
#undef X
