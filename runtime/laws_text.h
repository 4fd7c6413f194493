/* laws_text.h - the kernels of a replica, measured in place and written as laws; for predict.c */
#ifndef KVT_RUNTIME_LAWS_TEXT_H
#define KVT_RUNTIME_LAWS_TEXT_H

#include "runtime/engine.h"

/* text: a calibration as YAML, malloc'ed. tag_call and tag_page: seconds of a tag check per call
 * and per page. */
enum kvt_status kvt_laws_measure(struct kvt_runtime *runtime, int32_t replica, char **text,
                                 double *tag_call, double *tag_page, struct kvt_err *err);

#endif
