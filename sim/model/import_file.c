/*
 * import_file.c - which files make a model: config.json, hf_quant_config.json, and what to call it
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/file.h"
#include "sim/base/spelling.h"
#include "sim/model/import.h"

#define CONFIG_BYTES_MAX ((size_t)16 << 20)

/* "ORG--Name_config.json" and "Name/config.json" give "name"; *out is cut to fit. */
static void name_of(const char *path, char *out, size_t out_bytes)
{
    static const char *const ends[] = {"_hf_quant_config.json", "hf_quant_config.json",
                                       "_config.json", "config.json", ".json"};
    char text[512];
    snprintf(text, sizeof text, "%.500s", path);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (!kvt_text_ends(text, ends[i]))
            continue;
        text[strlen(text) - strlen(ends[i])] = '\0';
        break;
    }
    size_t count = strlen(text);
    while (count > 0 && text[count - 1] == '/')
        text[--count] = '\0';
    const char *name = kvt_path_name(text);
    for (const char *dashes = strstr(name, "--"); dashes != NULL; dashes = strstr(name, "--"))
        name = dashes + 2;
    size_t used = 0;
    for (; name[used] != '\0' && used + 1 < out_bytes; used++)
        out[used] = (char)tolower((unsigned char)name[used]);
    out[used] = '\0';
    if (used == 0 || strcmp(out, ".") == 0 || strcmp(out, "..") == 0)
        snprintf(out, out_bytes, "imported");
}

/* path with its ending replaced; malloc'ed. */
static char *beside(const char *path, const char *end, const char *other)
{
    size_t keep = strlen(path) - strlen(end);
    char *out = malloc(keep + strlen(other) + 1);
    if (out != NULL)
        sprintf(out, "%.*s%s", (int)keep, path, other);
    return out;
}

/* An hf_quant_config.json without a config.json: the shape of a shipped model of that name. */
static enum kvt_status import_onto(struct kvt_model *model, const char *path, const char *base,
                                   const struct kvt_text *quant, FILE *talk, struct kvt_err *err)
{
    struct kvt_err why = {0};
    char name[64];
    name_of(path, name, sizeof name);
    if (kvt_model_load(model, base != NULL ? base : name, &why) != KVT_OK)
        return kvt_err_at(err, KVT_ECONFIG, (struct kvt_where){.file = path},
                          "holds quantisation only, there is no config.json beside it, and no "
                          "shipped model is named \"%s\"; give one with --base",
                          base != NULL ? base : name);
    return kvt_model_requantise(model, path, quant->bytes, talk, err);
}

/* A name that promises another dtype than the files state is said, not believed. */
static void note_name(const struct kvt_model *model, const char *path, FILE *talk)
{
    char canonical[128];
    int32_t dtype;
    kvt_model_canonical_name(model->name, canonical, sizeof canonical, &dtype);
    if (dtype <= KVT_WEIGHTS_BF16 || model->weights != KVT_WEIGHTS_BF16)
        return;
    struct kvt_import import = {.file = path, .talk = talk};
    kvt_import_note(&import, "the name says %s, but no quantisation is stated: counted as bf16",
                    kvt_weight_dtype_names[dtype]);
}

static enum kvt_status import_pair(struct kvt_model *model, const char *config, const char *quant,
                                   FILE *talk, struct kvt_err *err)
{
    struct kvt_text text, other = {0};
    KVT_TRY(kvt_text_read(config, CONFIG_BYTES_MAX, &text, err));
    enum kvt_status status = KVT_OK;
    if (quant != NULL && access(quant, R_OK) == 0)
        status = kvt_text_read(quant, CONFIG_BYTES_MAX, &other, err);
    if (status == KVT_OK)
        status = kvt_model_import_text(model, config, text.bytes, other.bytes, talk, err);
    kvt_text_free(&text);
    kvt_text_free(&other);
    if (status == KVT_OK) {
        name_of(config, model->name, sizeof model->name);
        note_name(model, config, talk);
    }
    return status;
}

enum kvt_status kvt_model_import(struct kvt_model *model, const char *path, const char *base,
                                 FILE *talk, struct kvt_err *err)
{
    static const char quant_end[] = "hf_quant_config.json", config_end[] = "config.json";
    bool is_quant = kvt_text_ends(path, quant_end);
    if (!is_quant) {
        char *quant = kvt_text_ends(path, config_end) ? beside(path, config_end, quant_end) : NULL;
        enum kvt_status status = import_pair(model, path, quant, talk, err);
        free(quant);
        return status;
    }
    char *config = beside(path, quant_end, config_end);
    enum kvt_status status;
    if (config != NULL && access(config, R_OK) == 0) {
        status = import_pair(model, config, path, talk, err);
    } else {
        struct kvt_text quant;
        status = kvt_text_read(path, CONFIG_BYTES_MAX, &quant, err);
        if (status == KVT_OK) {
            status = import_onto(model, path, base, &quant, talk, err);
            kvt_text_free(&quant);
        }
    }
    if (status == KVT_OK)
        name_of(path, model->name, sizeof model->name);
    free(config);
    return status;
}
