/*
 * failing.h - what the preloaded parts of tests/anomalies share
 */
#ifndef KVT_TESTS_ANOMALIES_FAILING_H
#define KVT_TESTS_ANOMALIES_FAILING_H

#include <dlfcn.h>
#include <stdbool.h>

/* Count a call of the kind; whether it is the one that fails. */
bool fails(const char *kind);

/* The function that would have been called. */
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#endif
