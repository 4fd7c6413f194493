#include "sim/model/gpu.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/arena.h"
#include "sim/base/file.h"
#include "sim/base/units.h"
#include "sim/base/yaml.h"

#define GIB            1073741824.0
#define GPU_FILE_BYTES ((size_t)1 << 18)
#define FILES_MAX      256
#define ALIASES_MAX    16

struct field {
    const char *key;
    enum kvt_dimension dimension;
    size_t offset;
};
#define FIELD(key, dimension, member)                                                              \
    {                                                                                              \
        key, KVT_DIMENSION_##dimension, offsetof(struct kvt_gpu, member)                           \
    }

/* clang-format off */
static const struct field fields[] = {
    FIELD("memory-nominal", BYTES,     memory_nominal),
    FIELD("memory-visible", BYTES,     memory_visible),
    FIELD("memory-usable",  BYTES,     memory_usable),
    FIELD("memory-context", BYTES,     memory_context),
    FIELD("memory-peers",   BYTES,     memory_peers),
    FIELD("bandwidth",      BANDWIDTH, bandwidth),
    FIELD("bf16",           FLOPS,     flops_bf16),
    FIELD("fp8",            FLOPS,     flops_fp8),
    FIELD("fp4",            FLOPS,     flops_fp4),
    FIELD("link",           BANDWIDTH, link_bandwidth),
    FIELD("nic",            BANDWIDTH, nic_bandwidth),
    FIELD("host",           BANDWIDTH, host_bandwidth),
    FIELD("price",          PRICE,     usd_per_hour),
};
/* clang-format on */
#define FIELD_COUNT (sizeof fields / sizeof *fields)

static enum kvt_status read_aliases(const struct kvt_yaml *list, struct kvt_gpu *gpu,
                                    struct kvt_err *err)
{
    KVT_TRY(kvt_yaml_want(list, KVT_YAML_LIST, "aliases", err));
    if (list->count > ALIASES_MAX)
        return kvt_err_at(err, KVT_ECONFIG, list->where, "aliases: want at most %d, got %d",
                          ALIASES_MAX, list->count);
    for (const struct kvt_yaml *node = list->first; node != NULL; node = node->next)
        KVT_TRY(kvt_yaml_take_text(node, "aliases", gpu->aliases[gpu->alias_count++],
                                   sizeof gpu->aliases[0], err));
    return KVT_OK;
}

static enum kvt_status read_quantity(const struct kvt_yaml *node, const struct field *field,
                                     struct kvt_gpu *gpu, struct kvt_err *err)
{
    double value, most = field->dimension == KVT_DIMENSION_BYTES   ? KVT_DEVICE_BYTES_MAX
                         : field->dimension == KVT_DIMENSION_PRICE ? KVT_USD_PER_H_MAX
                                                                   : 0;
    struct kvt_err why = {0};
    char got[KVT_QUOTE_BYTES], limit[48];
    if (node->kind != KVT_YAML_SCALAR)
        return kvt_err_at(err, KVT_ECONFIG, node->where, "%s: want %s, got %s", field->key,
                          kvt_dimension_example(field->dimension), kvt_yaml_describe(node, got));
    if (kvt_quantity_parse(node->text, field->dimension, &value, &why) != KVT_OK)
        return kvt_err_at(err, KVT_ECONFIG, node->where, "%s: %s", field->key, why.text);
    if (value < 0)
        return kvt_err_at(err, KVT_ECONFIG, node->where, "%s: want at least 0, got %s", field->key,
                          kvt_yaml_describe(node, got));
    kvt_quantity_print(most, field->dimension, limit, sizeof limit);
    if (most > 0 && value > most)
        return kvt_err_at(err, KVT_ECONFIG, node->where, "%s: want at most %s, got %s", field->key,
                          limit, kvt_yaml_describe(node, got));
    memcpy((unsigned char *)gpu + field->offset, &value, sizeof value);
    return KVT_OK;
}

static enum kvt_status read_key(const struct kvt_yaml *node, struct kvt_gpu *gpu,
                                struct kvt_err *err)
{
    if (strcmp(node->key, "name") == 0)
        return kvt_yaml_take_text(node, "name", gpu->name, sizeof gpu->name, err);
    if (strcmp(node->key, "source") == 0)
        return kvt_yaml_take_text(node, "source", gpu->source, sizeof gpu->source, err);
    if (strcmp(node->key, "aliases") == 0)
        return read_aliases(node, gpu, err);
    if (strcmp(node->key, "sms") == 0) {
        int64_t sms;
        struct kvt_err why = {0};
        char got[KVT_QUOTE_BYTES];
        if (node->kind != KVT_YAML_SCALAR || kvt_int_parse(node->text, 0, 100000, &sms, &why))
            return kvt_err_at(err, KVT_ECONFIG, node->where,
                              "sms: want a count up to 100000, got %s",
                              kvt_yaml_describe(node, got));
        gpu->sms = (int32_t)sms;
        return KVT_OK;
    }
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (strcmp(node->key, fields[i].key) == 0)
            return read_quantity(node, &fields[i], gpu, err);
    return KVT_OK; /* read_gpu has told it */
}

static enum kvt_status read_gpu(const struct kvt_yaml *root, struct kvt_gpu *gpu,
                                struct kvt_err *err)
{
    const char *names[FIELD_COUNT + 4] = {"name", "source", "aliases", "sms"};
    for (size_t i = 0; i < FIELD_COUNT; i++)
        names[i + 4] = fields[i].key;
    KVT_TRY(kvt_yaml_want(root, KVT_YAML_MAP, "a GPU file", err));
    enum kvt_status status = kvt_yaml_check_keys(root, names, FIELD_COUNT + 4, err);
    gpu->usd_per_hour = -1;
    for (const struct kvt_yaml *node = root->first; node != NULL; node = node->next) {
        enum kvt_status one = read_key(node, gpu, err);
        status = status == KVT_OK ? one : status;
    }
    if (status != KVT_OK)
        return status;
    if (gpu->name[0] == '\0' || gpu->memory_visible <= 0)
        return kvt_err_at(err, KVT_ECONFIG, root->where,
                          "a GPU file needs the keys name and memory-visible");
    if (gpu->memory_nominal <= 0)
        gpu->memory_nominal = gpu->memory_visible;
    if (gpu->memory_usable <= 0)
        gpu->memory_usable = gpu->memory_visible;
    if (gpu->memory_usable > gpu->memory_visible)
        return kvt_err_at(err, KVT_ECONFIG, root->where,
                          "memory-usable: want at most memory-visible");
    return KVT_OK;
}

static enum kvt_status load_file(struct kvt_gpu *gpu, const char *path, struct kvt_err *err)
{
    struct kvt_text text;
    struct kvt_arena arena;
    struct kvt_yaml *root;
    *gpu = (struct kvt_gpu){0};
    KVT_TRY(kvt_text_read(path, GPU_FILE_BYTES, &text, err));
    enum kvt_status status = kvt_arena_init(&arena, kvt_yaml_room(text.count), err);
    if (status == KVT_OK) {
        status = kvt_yaml_parse(&arena, path, text.bytes, text.count, false, &root, err);
        if (status == KVT_OK)
            status = read_gpu(root, gpu, err);
        kvt_arena_release(&arena);
    }
    kvt_text_free(&text);
    return status;
}

/* ---- names ---- */

/* Lower case words joined by '-', without what vendors put around them. */
static void fold(const char *name, char *out, size_t out_bytes)
{
    static const char *const noise[] = {"nvidia-", "amd-", "instinct-", "geforce-", "tesla-"};
    char folded[128];
    kvt_name_fold(name, folded, sizeof folded);
    const char *start = folded;
    for (size_t i = 0; i < sizeof noise / sizeof *noise; i++)
        if (strncmp(start, noise[i], strlen(noise[i])) == 0)
            start += strlen(noise[i]);
    snprintf(out, out_bytes, "%s", start);
}

static bool is_named(const struct kvt_gpu *gpu, const char *folded)
{
    char own[128];
    fold(gpu->name, own, sizeof own);
    if (strcmp(own, folded) == 0)
        return true;
    for (int32_t i = 0; i < gpu->alias_count; i++) {
        fold(gpu->aliases[i], own, sizeof own);
        if (strcmp(own, folded) == 0)
            return true;
    }
    return false;
}

bool kvt_gpu_is_named(const struct kvt_gpu *gpu, const char *name)
{
    char folded[128];
    fold(name, folded, sizeof folded);
    return is_named(gpu, folded);
}

static double distance(double a, double b)
{
    return a > 0 && b > 0 ? fabs(log(a / b)) : 0;
}

/* NAME.yaml of the folder, where that GPU is called just so: nothing can be nearer, and the other
 * files, some thirty, are not read. */
static enum kvt_status find_file(struct kvt_gpu *gpu, const char *name, bool *found,
                                 struct kvt_err *err)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/configs/gpus/%s.yaml", kvt_data_folder(), name);
    *found = false;
    if (strchr(name, '/') != NULL || (size_t)length >= sizeof path || access(path, F_OK) != 0)
        return KVT_OK;
    KVT_TRY(load_file(gpu, path, err));
    *found = strcmp(gpu->name, name) == 0;
    return KVT_OK;
}

/* The file of that name; among several (A100 of 40 and 80 GB) the one nearest to `nominal`. When
 * that is not given: the file whose very name it is ("h20", and not h20-3e whose alias is H20),
 * else the largest. */
static enum kvt_status find(struct kvt_gpu *gpu, const char *name, double nominal, bool *found,
                            char hint[KVT_HINT_BYTES], struct kvt_err *err)
{
    char folded[128], names[FILES_MAX][64], *files[FILES_MAX];
    const char *list[FILES_MAX] = {0};
    int32_t count = 0;
    enum kvt_status status = kvt_shipped_files("gpus", files, FILES_MAX, &count, err);
    bool exact = false;
    *found = false;
    fold(name, folded, sizeof folded);
    for (int32_t i = 0; i < count && status == KVT_OK; i++) {
        struct kvt_gpu one;
        status = load_file(&one, files[i], err);
        snprintf(names[i], sizeof names[i], "%s", status == KVT_OK ? one.name : "");
        list[i] = names[i];
        if (status != KVT_OK || !is_named(&one, folded))
            continue;
        bool very = nominal <= 0 && strcmp(one.name, name) == 0;
        bool better = !*found || very ||
                      (nominal > 0 ? distance(one.memory_nominal, nominal) <
                                         distance(gpu->memory_nominal, nominal)
                                   : !exact && one.memory_nominal > gpu->memory_nominal);
        exact = exact || very;
        if (better)
            *gpu = one;
        *found = true;
    }
    if (status == KVT_OK)
        kvt_nearest_hint(folded, list, (size_t)count, hint);
    for (int32_t i = 0; i < count; i++)
        free(files[i]);
    return status;
}

enum kvt_status kvt_gpu_find(const char *name, bool *found, char hint[KVT_HINT_BYTES],
                             struct kvt_err *err)
{
    struct kvt_gpu gpu;
    hint[0] = '\0';
    KVT_TRY(find_file(&gpu, name, found, err));
    return *found ? KVT_OK : find(&gpu, name, -1, found, hint, err);
}

/* Another size on the same card keeps what the driver and a process take. */
static void resize(struct kvt_gpu *gpu, double capacity)
{
    double driver = gpu->memory_visible - gpu->memory_usable;
    gpu->memory_nominal = gpu->memory_visible = capacity;
    gpu->memory_usable = capacity > driver ? capacity - driver : 0;
}

static void gpu_by_memory(struct kvt_gpu *gpu, const char *name, double capacity)
{
    *gpu = (struct kvt_gpu){.memory_nominal = capacity, .memory_visible = capacity};
    snprintf(gpu->name, sizeof gpu->name, "%s", name);
    snprintf(gpu->source, sizeof gpu->source, "by memory size");
    gpu->memory_usable = capacity * (1 - 0.005);
    gpu->memory_context = 0.5 * GIB < 0.05 * capacity ? 0.5 * GIB : 0.05 * capacity;
    gpu->memory_peers = 0.5 * GIB < 0.05 * capacity ? 0.5 * GIB : 0.05 * capacity;
    gpu->usd_per_hour = -1;
}

enum kvt_status kvt_gpu_load(struct kvt_gpu *gpu, const char *name_or_path, double capacity,
                             struct kvt_err *err)
{
    bool found = false;
    char hint[KVT_HINT_BYTES];
    if (kvt_text_ends(name_or_path, ".yaml") ||
        (strchr(name_or_path, '/') != NULL && access(name_or_path, F_OK) == 0)) {
        KVT_TRY(load_file(gpu, name_or_path, err));
        found = true;
    }
    if (!found && capacity <= 0)
        KVT_TRY(find_file(gpu, name_or_path, &found, err));
    if (!found)
        KVT_TRY(find(gpu, name_or_path, capacity, &found, hint, err));
    if (!found && capacity < 0)
        return kvt_err_set(err, KVT_ECONFIG,
                           "no GPU is named \"%s\"%s; give gpu: {name, memory} to count with its "
                           "memory size alone",
                           name_or_path, hint);
    if (!found)
        gpu_by_memory(gpu, name_or_path, capacity);
    else if (capacity >= 0)
        resize(gpu, capacity);
    return KVT_OK;
}

enum kvt_status kvt_gpu_known(struct kvt_gpu *gpu, const char *name, double nominal,
                              struct kvt_err *err)
{
    bool found;
    char hint[KVT_HINT_BYTES];
    KVT_TRY(find(gpu, name, nominal, &found, hint, err));
    /* Vendors mean GiB by GB for memory: an 80 GB card shows 79.65 GiB. */
    if (!found || distance(gpu->memory_nominal, nominal) > 0.12)
        gpu_by_memory(gpu, name, nominal / 1e9 * GIB * 0.996);
    return KVT_OK;
}
