/* The whole way from a file and --set to a checked configuration, and back to places in it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/assert.h"
#include "sim/base/file.h"
#include "sim/config/schema.h"

void *kvt_store_take(struct kvt_config_store *store, size_t count, size_t size_bytes)
{
    void *piece = kvt_arena_take(&store->arena, count, size_bytes);
    store->is_full = store->is_full || piece == NULL;
    return piece;
}

char *kvt_store_text(struct kvt_config_store *store, const char *text)
{
    char *copy = kvt_arena_text(&store->arena, text);
    store->is_full = store->is_full || copy == NULL;
    return copy;
}

/* What follows from the values given, where no default of one key can say it. */
static void config_derive(struct kvt_config *config)
{
    struct kvt_config_workload *workload = &config->workload;
    bool is_split = config->roles[KVT_ROLE_PREFILL].present;
    config->link_present = is_split;
    for (int32_t i = 0; i < KVT_ROLE_COUNT; i++) {
        bool *on = config->roles[i].guard.on;
        on[KVT_GUARD_NONE] = true;
        for (int32_t guard = KVT_GUARD_NONE + 1; guard < KVT_GUARD_COUNT; guard++)
            on[KVT_GUARD_NONE] = on[KVT_GUARD_NONE] && !on[guard];
    }
    if (workload->kind == KVT_WORKLOAD_CLOSED && workload->prefill_only &&
        workload->output.mean < 0) {
        workload->output.kind = KVT_LENGTHS_FIXED;
        workload->output.mean = 1;
    }
}

/* Whether what holds between keys can be judged: their values are chosen. A concurrency stands
 * alone. Whoever chooses from other domains loads each combination, which judges it. */
static bool is_chosen(const struct kvt_config_store *store)
{
    for (int32_t i = 0; i < store->domain_count; i++)
        if (strcmp(store->domains[i].path, "workload.closed.concurrency") != 0)
            return false;
    return true;
}

static enum kvt_status store_fill(struct kvt_config *config, struct kvt_config_store *store,
                                  const char *text, size_t count, const char *const sets[],
                                  int32_t set_count, struct kvt_err *err)
{
    int32_t errors = err->count;
    KVT_TRY(kvt_yaml_parse(&store->arena, store->name, text, count, false, &store->root, err));
    enum kvt_status status = KVT_OK;
    if (store->root->kind == KVT_YAML_MAP)
        status = kvt_tree_rename(store, &kvt_schema, store->root, "", err);
    for (int32_t i = 0; i < set_count && status == KVT_OK; i++)
        status = kvt_tree_set(store, sets[i], err);
    if (status == KVT_EUSAGE || status == KVT_ENOMEM)
        return status;
    if (store->root->kind == KVT_YAML_MAP && status == KVT_OK)
        kvt_tree_rename(store, &kvt_schema, store->root, "", err);
    kvt_config_read(config, store, err);
    config->store = store;
    if (err->count == errors && !store->is_full && is_chosen(store))
        kvt_config_check(config, err);
    if (store->is_full)
        return KVT_ENOMEM;
    if (err->count == errors)
        return KVT_OK;
    return errors == 0 && err->status == KVT_ELIMIT ? KVT_ELIMIT : KVT_ECONFIG;
}

static enum kvt_status store_open(struct kvt_config_store **out, const char *name, size_t count,
                                  const char *folder, struct kvt_err *err)
{
    struct kvt_config_store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "%s: no memory for the configuration", name);
    enum kvt_status status = kvt_arena_init(&store->arena, kvt_yaml_room(count), err);
    if (status != KVT_OK) {
        free(store);
        return status;
    }
    store->name = kvt_store_text(store, name);
    store->folder = kvt_store_text(store, folder);
    *out = store;
    return KVT_OK;
}

static void store_close(struct kvt_config_store *store)
{
    kvt_arena_release(&store->arena);
    free(store);
}

enum kvt_status kvt_config_parse(struct kvt_config *config, const char *name, const char *text,
                                 size_t count, const char *folder, const char *const sets[],
                                 int32_t set_count, struct kvt_err *err)
{
    struct kvt_err own = {0};
    struct kvt_config_store *store = NULL;
    err = err != NULL ? err : &own;
    memset(config, 0, sizeof *config); /* padding too: equal configurations are equal bytes */
    KVT_TRY(store_open(&store, name, count, folder, err));
    enum kvt_status status = KVT_ENOMEM;
    if (!store->is_full)
        status = store_fill(config, store, text, count, sets, set_count, err);
    if (status != KVT_OK) {
        if (status == KVT_ENOMEM && err->count == 0)
            kvt_err_set(err, KVT_ENOMEM, "%s: no memory for the configuration", name);
        store_close(store);
        memset(config, 0, sizeof *config);
        return status;
    }
    config->path = store->name;
    config_derive(config);
    return KVT_OK;
}

enum kvt_status kvt_config_load(struct kvt_config *config, const char *path,
                                const char *const sets[], int32_t set_count, struct kvt_err *err)
{
    struct kvt_text text = {0};
    bool is_stdin = strcmp(path, "-") == 0;
    memset(config, 0, sizeof *config);
    enum kvt_status status = is_stdin ? kvt_stdin_read(KVT_YAML_BYTES, &text, err)
                                      : kvt_text_read(path, KVT_YAML_BYTES, &text, err);
    char *folder = is_stdin ? strdup("") : kvt_path_folder(path);
    if (status == KVT_OK && folder == NULL)
        status = kvt_err_set(err, KVT_ENOMEM, "%s: no memory for the configuration", path);
    if (status == KVT_OK)
        status = kvt_config_parse(config, is_stdin ? "stdin" : path, text.bytes, text.count, folder,
                                  sets, set_count, err);
    free(folder);
    kvt_text_free(&text);
    return status;
}

void kvt_config_release(struct kvt_config *config)
{
    if (config->store != NULL)
        store_close(config->store);
    memset(config, 0, sizeof *config);
}

const struct kvt_config_domain *kvt_config_domain(const struct kvt_config *config, int32_t index)
{
    kvt_assert(index >= 0 && index < config->domains);
    return &config->store->domains[index];
}

struct kvt_where kvt_config_where(const struct kvt_config *config, const char *path)
{
    const struct kvt_yaml *node = config->store->root;
    struct kvt_where where = node->where;
    while (path[0] != '\0' && node->kind == KVT_YAML_MAP) {
        char key[KVT_PATH_BYTES];
        size_t length = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", length < sizeof key ? (int)length : 0, path);
        node = kvt_yaml_find(node, key);
        if (node == NULL)
            break;
        where = node->where;
        path += length + (path[length] == '.');
    }
    return where;
}
