/*
 * settings.h - the choices of a point, for people and for programs
 */
#ifndef KVT_CLI_SETTINGS_H
#define KVT_CLI_SETTINGS_H

#include <jansson.h>

#include "sim/plan/points.h"

/* A short name of a key: "serve.tp" of fleet.serve.parallel.tp, "seed" of run.seed. Returns out. */
const char *kvt_setting_label(const char *path, char *out, size_t size_bytes);

/* "serve.replicas 4, serve.tp 2" of a point: every domain, in order. Returns out, cut to fit. */
const char *kvt_settings_text(const struct kvt_points *points, int64_t point, char *out,
                              size_t size_bytes);

/* {"fleet.serve.replicas": 4, ...}: numbers and truths as such, all else as text. NULL without
 * memory. */
json_t *kvt_settings_json(const struct kvt_points *points, int64_t point);

#endif
