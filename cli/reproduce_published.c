/*
 * reproduce_published.c - the rows that files of configs/published carry
 *
 * Metrics of capacity come from the ledger, all others from a run (reproduce_serving.c).
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/reproduce.h"
#include "sim/base/file.h"
#include "sim/plan/role_memory.h"

#define FILES_MAX 256

static double kv_tokens(const struct kvt_memory *memory)
{
    return (double)memory->kv_tokens;
}

static double replica_kv_tokens(const struct kvt_memory *memory)
{
    return (double)memory->replica_kv_tokens;
}

static double kv_pages(const struct kvt_memory *memory)
{
    return (double)memory->kv_pages;
}

static double checkpoint_bytes(const struct kvt_memory *memory)
{
    return (double)memory->checkpoint_bytes;
}

static double weights_bytes(const struct kvt_memory *memory)
{
    return (double)memory->weights_bytes;
}

static double token_bytes(const struct kvt_memory *memory)
{
    return memory->kv_bytes_per_token;
}

static double pool_bytes(const struct kvt_memory *memory)
{
    return (double)memory->kv_pool_bytes;
}

static const struct {
    const char *metric;
    double (*value)(const struct kvt_memory *memory);
} capacity_metrics[] = {
    {"kv_tokens", kv_tokens},
    {"replica_kv_tokens", replica_kv_tokens},
    {"kv_pages", kv_pages},
    {"checkpoint_bytes", checkpoint_bytes},
    {"weights_bytes_per_gpu", weights_bytes},
    {"kv_bytes_per_token_per_gpu", token_bytes},
    {"kv_pool_bytes_per_gpu", pool_bytes},
};

static int metric_index(const char *metric)
{
    for (size_t i = 0; i < sizeof capacity_metrics / sizeof *capacity_metrics; i++)
        if (strcmp(capacity_metrics[i].metric, metric) == 0)
            return (int)i;
    return -1;
}

/* The role that a row names, or the only one that keeps KV for decode. */
static int role_of(const struct kvt_config *config, const char *name)
{
    for (int r = 0; name != NULL && r < KVT_ROLE_COUNT; r++)
        if (strcmp(kvt_role_names[r], name) == 0)
            return config->roles[r].present ? r : -1;
    if (name != NULL)
        return -1;
    return config->roles[KVT_ROLE_DECODE].present ? KVT_ROLE_DECODE : KVT_ROLE_SERVE;
}

static enum kvt_status add_capacity(const struct kvt_config *config,
                                    const struct kvt_config_result *result,
                                    struct kvt_reproduced *row, struct kvt_err *err)
{
    int role = role_of(config, result->role);
    if (role < 0)
        return kvt_err_at(err, KVT_ECONFIG, result->where, "published: there is no role \"%s\"",
                          result->role);
    struct kvt_role_memory *plan = malloc(sizeof *plan);
    if (plan == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the ledger");
    enum kvt_status status = kvt_role_memory_plan(config, (enum kvt_role)role, plan, NULL, err);
    if (status == KVT_OK)
        row->predicted = capacity_metrics[metric_index(result->metric)].value(&plan->memory);
    row->supported = status == KVT_OK;
    free(plan);
    return status;
}

static enum kvt_status add_row(const struct kvt_config *config, const char *name,
                               const struct kvt_config_result *result, int32_t resamples,
                               struct kvt_reproduced_list *list, struct kvt_err *err)
{
    struct kvt_reproduced *row = kvt_reproduced_add(list);
    if (row == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the result");
    if (result->concurrency == KVT_UNSET)
        snprintf(row->row, sizeof row->row, "%s", name);
    else
        snprintf(row->row, sizeof row->row, "%.50s@%lld", name, (long long)result->concurrency);
    snprintf(row->metric, sizeof row->metric, "%s", result->metric);
    snprintf(row->kind, sizeof row->kind, "%s", result->is_fitted ? "fitted" : "predicted");
    row->observed = result->value;
    row->below = result->kind == KVT_RESULT_BELOW;
    if (metric_index(result->metric) >= 0)
        return add_capacity(config, result, row, err);
    return kvt_reproduce_serving(config, result, resamples, row, err);
}

static enum kvt_status add_file(const char *path, int32_t resamples,
                                struct kvt_reproduced_list *list, struct kvt_err *err)
{
    struct kvt_config config;
    char name[64];
    snprintf(name, sizeof name, "%.63s", kvt_path_name(path));
    char *dot = strstr(name, ".yaml");
    if (dot != NULL)
        *dot = '\0';
    KVT_TRY(kvt_config_load(&config, path, NULL, 0, err));
    enum kvt_status status = kvt_config_check_gpu_names(&config, err);
    if (status == KVT_OK && config.published.count == 0)
        status = kvt_err_at(err, KVT_ECONFIG, (struct kvt_where){.file = path},
                            "want a section `published`, got none");
    for (int32_t i = 0; i < config.published.count && status == KVT_OK; i++)
        status = add_row(&config, name, &config.published.rows[i], resamples, list, err);
    kvt_config_release(&config);
    return status;
}

static enum kvt_status add_all(int32_t resamples, struct kvt_reproduced_list *list,
                               struct kvt_err *err)
{
    char *files[FILES_MAX];
    int32_t count;
    KVT_TRY(kvt_shipped_files("published", files, FILES_MAX, &count, err));
    enum kvt_status status = KVT_OK;
    for (int32_t i = 0; i < count; i++) {
        if (status == KVT_OK)
            status = add_file(files[i], resamples, list, err);
        free(files[i]);
    }
    return status;
}

enum kvt_status kvt_reproduce_published(const char *name, int32_t resamples,
                                        struct kvt_reproduced_list *list, struct kvt_err *err)
{
    if (name == NULL)
        return add_all(resamples, list, err);
    if (access(name, F_OK) == 0)
        return add_file(name, resamples, list, err);
    char path[PATH_MAX + 300];
    snprintf(path, sizeof path, "%s/configs/published/%.240s.yaml", kvt_data_folder(), name);
    if (access(path, F_OK) == 0)
        return add_file(path, resamples, list, err);
    return kvt_err_set(err, KVT_EUSAGE,
                       "there is no published result \"%s\" in %s/configs/published", name,
                       kvt_data_folder());
}
