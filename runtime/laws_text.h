/* laws_text.h - the kernels of a replica, measured in place and written as laws; for predict.c */
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
