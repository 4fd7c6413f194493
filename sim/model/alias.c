/*
 * alias.c - which model a name means
 *
 * Tables and users write one shape in many ways: "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8" is the
 * shape qwen3-235b-a22b with a dtype. A name is made canonical by rules that never change a shape:
 * lower case, no organisation, no text in parentheses, and no suffix of the lists below. Two
 * different models never have one canonical name (a test holds us to it), and a name that still is
 * not known is an error: "-Distill", "-Air", "-Flash", "-Coder", sizes and versions all stay.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/file.h"
#include "sim/base/spelling.h"
#include "sim/model/model.h"

#define MODEL_FILE_BYTES ((size_t)1 << 20)
#define FILES_MAX        256

/* Suffixes that say how a shape was trained or packed. */
static const char *const plain_suffixes[] = {
    "instruct", "chat",  "it",          "base",   "hf",     "preview", "exp",       "terminus",
    "speciale", "class", "dynamic",     "pt",     "block",  "gguf",    "quantized", "autoround",
    "fp16",     "sq",    "smoothquant", "latest", "marlin", "bnb",     "qat",
};

struct dtype_suffix {
    const char *text;
    enum kvt_weight_dtype dtype;
};
static const struct dtype_suffix dtype_suffixes[] = {
    {"fp8", KVT_WEIGHTS_FP8_BLOCK},   {"bf16", KVT_WEIGHTS_BF16},
    {"nvfp4", KVT_WEIGHTS_NVFP4},     {"fp4", KVT_WEIGHTS_NVFP4},
    {"mxfp4", KVT_WEIGHTS_MXFP4},     {"mxfp8", KVT_WEIGHTS_FP8},
    {"awq", KVT_WEIGHTS_INT4_G128},   {"gptq", KVT_WEIGHTS_INT4_G128},
    {"int4", KVT_WEIGHTS_INT4_G128},  {"4bit", KVT_WEIGHTS_INT4_G128},
    {"w4a16", KVT_WEIGHTS_INT4_G128}, {"int8", KVT_WEIGHTS_FP8},
    {"w4a8", KVT_WEIGHTS_INT4_G128},  {"w4afp8", KVT_WEIGHTS_INT4_G128},
    {"w8a8", KVT_WEIGHTS_FP8},        {"w8a16", KVT_WEIGHTS_FP8},
};

/* A date: 2507, 0528, 20250528, or a group size g32. */
static bool is_stamp(const char *part)
{
    size_t count = strlen(part), digits = strspn(part, "0123456789");
    if (count == digits && (count == 8 || count == 6))
        return true;
    if (count == 4 && digits == 4) {
        int month_first = (part[0] - '0') * 10 + part[1] - '0';
        int month_last = (part[2] - '0') * 10 + part[3] - '0';
        return (month_first >= 1 && month_first <= 12) || (month_last >= 1 && month_last <= 12);
    }
    return part[0] == 'g' && digits == 0 && count > 1 && count <= 4 &&
           strspn(part + 1, "0123456789") == count - 1;
}

/* A suffix that can go; *dtype is set where it names one. */
static bool is_suffix(const char *part, int32_t *dtype)
{
    for (size_t i = 0; i < sizeof plain_suffixes / sizeof *plain_suffixes; i++)
        if (strcmp(part, plain_suffixes[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof dtype_suffixes / sizeof *dtype_suffixes; i++) {
        if (strcmp(part, dtype_suffixes[i].text) == 0) {
            *dtype = (int32_t)dtype_suffixes[i].dtype;
            return true;
        }
    }
    return is_stamp(part);
}

void kvt_model_canonical_name(const char *name, char *out, size_t out_bytes, int32_t *dtype)
{
    char folded[256];
    *dtype = -1;
    kvt_name_fold(name, folded, sizeof folded);
    char *start = folded;
    for (char *slash = strchr(folded, '/'); slash != NULL; slash = strchr(slash + 1, '/'))
        start = slash + 1; /* "organisation/", also of a local path */
    if (strncmp(start, "meta-llama-", 11) == 0)
        start += 5;
    for (char *dash = strrchr(start, '-'); dash != NULL; dash = strrchr(start, '-')) {
        if (!is_suffix(dash + 1, dtype))
            break;
        *dash = '\0';
    }
    snprintf(out, out_bytes, "%s", start);
}

/* 2: the very name or alias; 1: equal once canonical; 0: another model. */
static int match(const struct kvt_model *model, const char *folded, const char *canonical)
{
    int best = 0;
    for (int32_t i = -1; i < model->alias_count; i++) {
        const char *own = i < 0 ? model->name : model->aliases[i];
        char own_folded[256], own_canonical[256];
        int32_t dtype;
        kvt_name_fold(own, own_folded, sizeof own_folded);
        if (strcmp(own_folded, folded) == 0)
            return 2;
        kvt_model_canonical_name(own, own_canonical, sizeof own_canonical, &dtype);
        if (strcmp(own_canonical, canonical) == 0)
            best = 1;
    }
    return best;
}

static enum kvt_status load_file(struct kvt_model *model, const char *path, struct kvt_err *err)
{
    struct kvt_text text;
    KVT_TRY(kvt_text_read(path, MODEL_FILE_BYTES, &text, err));
    enum kvt_status status = kvt_model_parse(model, path, text.bytes, text.count, err);
    kvt_text_free(&text);
    return status;
}

struct search {
    char folded[256], canonical[256];
    char nearest[256]; /* name of the most similar model */
    char names[FILES_MAX][64];
    int32_t name_count;
    int level; /* of the best match so far */
    bool ambiguous;
};

static enum kvt_status search_files(struct search *search, char *files[], int32_t count,
                                    struct kvt_model *found, struct kvt_err *err)
{
    for (int32_t i = 0; i < count; i++) {
        struct kvt_model one;
        if (files[i] == NULL)
            return kvt_err_set(err, KVT_ENOMEM, "no memory for the list of models");
        KVT_TRY(load_file(&one, files[i], err));
        snprintf(search->names[search->name_count++], 64, "%s", one.name);
        int level = match(&one, search->folded, search->canonical);
        if (level > search->level)
            *found = one;
        search->ambiguous = level == search->level ? search->ambiguous || level > 0
                                                   : search->ambiguous && level < search->level;
        if (level > search->level)
            search->level = level;
    }
    return KVT_OK;
}

static enum kvt_status not_found(const char *name, struct search *search, struct kvt_err *err)
{
    const char *names[FILES_MAX];
    for (int32_t i = 0; i < search->name_count; i++)
        names[i] = search->names[i];
    char hint[KVT_HINT_BYTES];
    if (search->name_count == 0)
        return kvt_err_set(err, KVT_ECONFIG,
                           "no model is named \"%s\": there are no models in %s/configs/models "
                           "(KVTWIN_DATA names the folder)",
                           name, kvt_data_folder());
    if (search->ambiguous)
        return kvt_err_set(err, KVT_ECONFIG, "the name \"%s\" fits more than one model", name);
    return kvt_err_set(
        err, KVT_ECONFIG,
        "no model is named \"%s\"%s (`kvtwin model show` lists them; `kvtwin "
        "model import` makes one from a config.json)",
        name, kvt_nearest_hint(search->canonical, names, (size_t)search->name_count, hint));
}

/* The file that is called as the model is: no need to read the others. */
static bool load_called(struct kvt_model *model, const char *name)
{
    char folded[256], file[288];
    kvt_name_fold(name, folded, sizeof folded);
    if (folded[0] == '\0' || strchr(folded, '/') != NULL)
        return false;
    snprintf(file, sizeof file, "configs/models/%s.yaml", folded);
    char *path = kvt_path_join(kvt_data_folder(), file);
    bool found = path != NULL && access(path, R_OK) == 0 &&
                 load_file(model, path, NULL) == KVT_OK && strcmp(model->name, folded) == 0;
    free(path);
    return found;
}

static enum kvt_status load_named(struct kvt_model *model, const char *name, struct kvt_err *err)
{
    struct search *search = calloc(1, sizeof *search);
    char *files[FILES_MAX];
    int32_t dtype = -1, count = 0;
    if (search == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the list of models");
    enum kvt_status status = kvt_shipped_files("models", files, FILES_MAX, &count, err);
    if (status == KVT_OK) {
        kvt_name_fold(name, search->folded, sizeof search->folded);
        kvt_model_canonical_name(name, search->canonical, sizeof search->canonical, &dtype);
        status = search_files(search, files, count, model, err);
    }
    if (status == KVT_OK && (search->level == 0 || search->ambiguous))
        status = not_found(name, search, err);
    /* An alias that was listed as it is stands for the file's own dtype or for the one it names. */
    if (status == KVT_OK && dtype >= 0 && (int32_t)model->weights != dtype) {
        bool block = dtype == (int32_t)KVT_WEIGHTS_FP8_BLOCK && model->weights == KVT_WEIGHTS_FP8;
        bool own4 =
            dtype == (int32_t)KVT_WEIGHTS_INT4_G128 && model->weights == KVT_WEIGHTS_INT4_G32;
        enum kvt_weight_dtype named = (enum kvt_weight_dtype)dtype;
        if (!block && !own4)
            kvt_model_quantise(model, named, kvt_model_scope(model, named));
    }
    for (int32_t i = 0; i < count; i++)
        free(files[i]);
    free(search);
    return status;
}

enum kvt_status kvt_model_load(struct kvt_model *model, const char *name_or_path,
                               struct kvt_err *err)
{
    if (kvt_text_ends(name_or_path, ".yaml") ||
        (strchr(name_or_path, '/') != NULL && access(name_or_path, F_OK) == 0))
        return load_file(model, name_or_path, err);
    if (load_called(model, name_or_path))
        return KVT_OK;
    return load_named(model, name_or_path, err);
}
