#include "sim/base/decision.h"

static const struct {
    const char *name;
    bool digested;
} kinds[KVT_DECISION_KINDS] = {
#define X(name, digested, text) {#name, digested},
    KVT_DECISIONS(X)
#undef X
};

const char *kvt_decision_name(enum kvt_decision_kind kind)
{
    kvt_assert(kind < KVT_DECISION_KINDS);
    return kinds[kind].name;
}

bool kvt_decision_is_digested(enum kvt_decision_kind kind)
{
    kvt_assert(kind < KVT_DECISION_KINDS);
    return kinds[kind].digested;
}
