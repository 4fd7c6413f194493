#include "sim/base/assert.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef KVT_SLOW_CHECKS
bool kvt_paranoid = true;
#else
bool kvt_paranoid = false;
#endif

static _Thread_local char assert_context[256];

void kvt_assert_context(const char *text)
{
    snprintf(assert_context, sizeof assert_context, "%s", text);
}

_Noreturn void kvt_assert_fail(const char *file, int line, const char *condition)
{
    fprintf(stderr, "kvtwin: %s:%d: kvt_assert(%s) failed%s%s\n", file, line, condition,
            assert_context[0] != '\0' ? " " : "", assert_context);
    abort();
}
