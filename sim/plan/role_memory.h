/*
 * role_memory.h - a role of a config, its model, its GPU and its memory ledger
 *
 * What `capacity` prints and what a simulation sizes its pools by come from here, so that they
 * cannot differ.
 */
#ifndef KVT_PLAN_ROLE_MEMORY_H
#define KVT_PLAN_ROLE_MEMORY_H

#include <stdio.h>

#include "sim/config/config.h"
#include "sim/serve/memory.h"

struct kvt_role_memory {
    struct kvt_model model;
    struct kvt_gpu gpu;
    struct kvt_memory_want want; /* points at model and gpu */
    struct kvt_memory memory;
};

/* The model of the config: a shipped name, a file of ours, or a Hugging Face config.json; then talk
 * (may be NULL) gets a note for what could not be used. */
enum kvt_status kvt_config_load_model(const struct kvt_config *config, struct kvt_model *model,
                                      FILE *talk, struct kvt_err *err);

/* KVT_ECONFIG for a key of `cost` or `calibration` that is the name neither of a GPU of the fleet,
 * its domains included, nor of a shipped one; KVT_EIO for a calibration that is not there. A GPU of
 * the fleet that cannot be loaded is left to whoever loads it. */
enum kvt_status kvt_config_check_gpu_names(const struct kvt_config *config, struct kvt_err *err);

/* Load model and GPU and plan the memory of a role that is present. plan must not move after. */
enum kvt_status kvt_role_memory_plan(const struct kvt_config *config, enum kvt_role role,
                                     struct kvt_role_memory *plan, FILE *talk, struct kvt_err *err);

#endif
