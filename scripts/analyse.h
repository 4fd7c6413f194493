/*
 * analyse.h - what the analysers cannot see from one file (`make analyse` includes it before each)
 *
 * kvt_err_set and kvt_err_at return the status that they are given; without that every path after a
 * failure is followed as if it had been none.
 */
#ifndef KVT_SCRIPTS_ANALYSE_H
#define KVT_SCRIPTS_ANALYSE_H

#include "sim/base/status.h"

#define kvt_err_set(err, status, ...) ((void)kvt_err_set((err), (status), __VA_ARGS__), (status))
#define kvt_err_at(err, status, ...)  ((void)kvt_err_at((err), (status), __VA_ARGS__), (status))

#endif
