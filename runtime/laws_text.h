/*
 * laws_text.h - the kernels of a replica, measured in place and written as laws; for predict.c
 *
 * Each kernel of a step runs at a grid of sizes on the replica's own memory, in rounds over all
 * sizes, so that a slow moment of the machine hits one round and not one size; the median counts.
 * It writes to the replica's pages: not while it serves. Seconds of wall time.
 * Errors: KVT_ENOMEM, KVT_EINTR, and what the device reports.
 */
#ifndef KVT_RUNTIME_LAWS_TEXT_H
#define KVT_RUNTIME_LAWS_TEXT_H

#include "runtime/engine.h"

#define KVT_LAW_ROUNDS 3

/* rounds over all sizes: 1 to KVT_LAW_ROUNDS. text: a calibration as YAML, malloc'ed. tag_call and
 * tag_page: seconds of a tag check per call and per page. */
enum kvt_status kvt_laws_measure(struct kvt_runtime *runtime, int32_t replica, int32_t rounds,
                                 char **text, double *tag_call, double *tag_page,
                                 struct kvt_err *err);

#endif
