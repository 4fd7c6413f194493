/*
 * cmd_capacity.c - the memory map of each role: a bar, a table, tokens, pages, requests
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "sim/base/json.h"
#include "sim/base/units.h"
#include "sim/plan/role_memory.h"

#define GIB          1073741824.0
#define CONTEXTS_MAX 32
#define BAR_COLUMNS  72

static const struct kvt_cli_option options[] = {
    {"context", "TOKENS", "also count requests of this many tokens (repeats; default 2 Ki to max)"},
    {NULL, NULL, NULL},
};

struct view {
    const struct kvt_config *config;
    int64_t contexts[CONTEXTS_MAX];
    int32_t context_count;
    bool contexts_given;
};

static enum kvt_status read_contexts(const struct kvt_cli *cli, struct view *view,
                                     struct kvt_err *err)
{
    static const int64_t usual[] = {2048, 8192, 32768, 131072};
    int32_t at = 0;
    for (const char *text = kvt_cli_next(cli, "context", &at); text != NULL;
         text = kvt_cli_next(cli, "context", &at)) {
        struct kvt_err why = {0};
        if (view->context_count == CONTEXTS_MAX)
            return kvt_err_set(err, KVT_EUSAGE, "--context: want at most %d", CONTEXTS_MAX);
        if (kvt_int_parse(text, 1, INT64_C(1) << 40, &view->contexts[view->context_count], &why) !=
            KVT_OK)
            return kvt_err_set(err, KVT_EUSAGE, "--context: %s", why.text);
        view->context_count++;
        view->contexts_given = true;
    }
    for (size_t i = 0; !view->contexts_given && i < sizeof usual / sizeof *usual; i++)
        view->contexts[view->context_count++] = usual[i];
    return KVT_OK;
}

/* Contexts that were not asked for stop at what the role accepts. */
static bool is_shown(const struct view *view, const struct kvt_memory *memory, int32_t i)
{
    return view->contexts_given || view->contexts[i] <= memory->max_model_len;
}

static int64_t replica_requests(const struct kvt_role_memory *plan, int64_t context)
{
    return kvt_memory_requests(&plan->memory, context) * plan->want.layout.dp;
}

static const char *weights_name(const struct kvt_role_memory *plan)
{
    return kvt_weight_dtype_names[plan->want.weights_set ? plan->want.weights
                                                         : plan->model.weights];
}

/* ---- text ---- */

static const char marks[KVT_LEDGER_COUNT] = {
    [KVT_LEDGER_DRIVER] = 'd',     [KVT_LEDGER_CONTEXT] = 'c', [KVT_LEDGER_WEIGHTS] = 'W',
    [KVT_LEDGER_ACTIVATION] = 'a', [KVT_LEDGER_GRAPHS] = 'g',  [KVT_LEDGER_OTHER] = 'o',
    [KVT_LEDGER_KV] = 'K',         [KVT_LEDGER_PADDING] = 'p', [KVT_LEDGER_TAGS] = 't',
    [KVT_LEDGER_ROUNDING] = 'r',   [KVT_LEDGER_RESERVE] = 'R', [KVT_LEDGER_FREE] = '.',
};

/* Entries share the columns by their ends, so that the bar is exactly as long as the memory. */
static void print_bar(const struct kvt_memory *memory)
{
    int64_t end = 0;
    int column = 0;
    fputs("  [", stdout);
    for (int i = 0; i < KVT_LEDGER_COUNT; i++) {
        end += memory->ledger[i];
        int until = (int)llround((double)end / (double)memory->visible_bytes * BAR_COLUMNS);
        for (; column < until && column < BAR_COLUMNS; column++)
            putchar(marks[i]);
    }
    printf("] %.2f GiB\n", (double)memory->visible_bytes / GIB);
}

static void print_ledger(const struct kvt_memory *memory)
{
    for (int i = 0; i < KVT_LEDGER_COUNT; i++) {
        double bytes = (double)memory->ledger[i];
        if (memory->ledger[i] == 0)
            continue;
        printf("  %c %-18s %9.3f GiB %6.2f %%\n", marks[i], kvt_ledger_names[i], bytes / GIB,
               100 * bytes / (double)memory->visible_bytes);
        for (int g = 0; i == KVT_LEDGER_WEIGHTS && g < KVT_WEIGHT_GROUP_COUNT; g++) {
            double part = (double)memory->weights.rank_bytes[g];
            bool absent =
                g == KVT_WEIGHT_GROUP_MTP && memory->weights_bytes == memory->weights.rank_total;
            if (part > 0 && !absent)
                printf("      %-16s %9.3f GiB\n", kvt_weight_group_names[g], part / GIB);
        }
    }
    printf("    %-18s %9.3f GiB\n", "sum", (double)memory->visible_bytes / GIB);
}

static void print_kv(const struct kvt_role_memory *plan)
{
    const struct kvt_memory *m = &plan->memory;
    printf("  %-9s %.0f bytes per token on each GPU, in %s", "KV", m->kv_bytes_per_token,
           kvt_kv_dtype_names[m->kv]);
    if (m->slot.charged_bytes != m->slot.stored_bytes)
        printf(" (charged as %.0f: the pool takes %.1f %% more than its budget)",
               m->charged_bytes_per_token,
               100 * (m->kv_bytes_per_token / m->charged_bytes_per_token - 1));
    printf("\n  %-9s %lld in %lld page%s of %lld", "tokens", (long long)m->kv_tokens,
           (long long)m->kv_pages, kvt_plural(m->kv_pages), (long long)m->page_tokens);
    if (plan->want.layout.dp > 1)
        printf(" on each of %d attention ranks; %lld per replica", plan->want.layout.dp,
               (long long)m->replica_kv_tokens);
    putchar('\n');
}

/* Lines of 80 columns at most. */
static void print_requests(const struct view *view, const struct kvt_role_memory *plan)
{
    const struct kvt_memory *m = &plan->memory;
    int column = printf("  %-9s", "requests");
    const char *unit = " tokens";
    for (int32_t i = 0; i <= view->context_count; i++) {
        bool longest = i == view->context_count;
        int64_t context = longest ? m->max_model_len : view->contexts[i];
        if (!longest && (context == m->max_model_len || !is_shown(view, m, i)))
            continue;
        char item[64];
        int bytes = snprintf(item, sizeof item, " %lld of %lld%s%s",
                             (long long)replica_requests(plan, context), (long long)context, unit,
                             longest ? " (the longest)" : ",");
        unit = "";
        if (column + bytes > 80)
            column = printf("\n  %-9s", "") - 1;
        column += printf("%s", item);
    }
    putchar('\n');
}

static void print_text(const struct view *view, enum kvt_role role,
                       const struct kvt_role_memory *plan)
{
    const struct kvt_memory *m = &plan->memory;
    const struct kvt_layout *layout = &plan->want.layout;
    printf("%s: %d x %d %s, %s, TP %d", kvt_role_names[role], view->config->roles[role].replicas,
           m->gpus_per_replica, plan->gpu.name, plan->model.name, layout->tp);
    if (layout->pp > 1)
        printf(", PP %d", layout->pp);
    if (layout->dp > 1)
        printf(", DP attention %d", layout->dp);
    if (layout->ep > 1)
        printf(", EP %d", layout->ep);
    if (layout->dcp > 1)
        printf(", DCP %d", layout->dcp);
    printf(", weights %s, %s, fraction %.3f\n", weights_name(plan),
           kvt_engine_names[plan->want.engine], m->fraction);
    print_bar(m);
    print_ledger(m);
    printf("  %-9s checkpoint %.1f GiB (%.2f GiB x %d); one GPU loads %.2f GiB\n", "weights",
           (double)m->checkpoint_bytes / GIB,
           (double)m->checkpoint_bytes / GIB / m->gpus_per_replica, m->gpus_per_replica,
           (double)m->weights_bytes / GIB);
    print_kv(plan);
    print_requests(view, plan);
}

/* ---- JSON and CSV ---- */

static json_t *bytes_json(double bytes)
{
    return floor(bytes) == bytes ? json_integer((json_int_t)bytes) : json_real(bytes);
}

static json_t *role_json(const struct view *view, enum kvt_role role,
                         const struct kvt_role_memory *plan)
{
    const struct kvt_memory *m = &plan->memory;
    json_t *object = json_object(), *ledger = json_object(), *weights = json_object();
    json_t *requests = json_array();
    json_object_set_new(object, "name", json_string(kvt_role_names[role]));
    json_object_set_new(object, "replicas", json_integer(view->config->roles[role].replicas));
    json_object_set_new(object, "model", json_string(plan->model.name));
    json_object_set_new(object, "gpu", json_string(plan->gpu.name));
    json_object_set_new(object, "gpus_per_replica", json_integer(m->gpus_per_replica));
    json_object_set_new(object, "weights_dtype", json_string(weights_name(plan)));
    json_object_set_new(object, "kv_dtype", json_string(kvt_kv_dtype_names[m->kv]));
    json_object_set_new(object, "memory_bytes", json_integer(m->visible_bytes));
    json_object_set_new(object, "memory_fraction", json_real(m->fraction));
    json_object_set_new(object, "checkpoint_bytes", json_integer(m->checkpoint_bytes));
    json_object_set_new(object, "weights_bytes_per_gpu", json_integer(m->weights_bytes));
    json_object_set_new(object, "kv_bytes_per_token_per_gpu", bytes_json(m->kv_bytes_per_token));
    json_object_set_new(object, "charged_bytes_per_token_per_gpu",
                        bytes_json(m->charged_bytes_per_token));
    json_object_set_new(object, "kv_pool_bytes_per_gpu", json_integer(m->kv_pool_bytes));
    json_object_set_new(object, "kv_tokens", json_integer(m->kv_tokens));
    json_object_set_new(object, "replica_kv_tokens", json_integer(m->replica_kv_tokens));
    json_object_set_new(object, "kv_pages", json_integer(m->kv_pages));
    json_object_set_new(object, "page_tokens", json_integer(m->page_tokens));
    json_object_set_new(object, "max_running", json_integer(m->max_running));
    for (int i = 0; i < KVT_LEDGER_COUNT; i++)
        json_object_set_new(ledger, kvt_ledger_names[i], json_integer(m->ledger[i]));
    json_object_set_new(object, "ledger_bytes", ledger);
    for (int g = 0; g < KVT_WEIGHT_GROUP_COUNT; g++)
        json_object_set_new(weights, kvt_weight_group_names[g],
                            json_integer(m->weights.rank_bytes[g]));
    json_object_set_new(object, "rank_weights_bytes", weights);
    for (int32_t i = 0; i < view->context_count; i++) {
        if (!is_shown(view, m, i))
            continue;
        json_t *one = json_object();
        json_object_set_new(one, "context", json_integer(view->contexts[i]));
        json_object_set_new(one, "requests",
                            json_integer(replica_requests(plan, view->contexts[i])));
        json_array_append_new(requests, one);
    }
    json_object_set_new(object, "requests_per_replica", requests);
    return object;
}

static void print_csv(const struct view *view, enum kvt_role role,
                      const struct kvt_role_memory *plan)
{
    const struct kvt_memory *m = &plan->memory;
    printf("%s,%s,%d,%lld,%lld,%.10g,%.10g,%lld,%lld,%lld,%lld,%lld", kvt_role_names[role],
           plan->gpu.name, m->gpus_per_replica, (long long)m->checkpoint_bytes,
           (long long)m->weights_bytes, m->kv_bytes_per_token, m->charged_bytes_per_token,
           (long long)m->kv_pool_bytes, (long long)m->kv_tokens, (long long)m->replica_kv_tokens,
           (long long)m->kv_pages, (long long)m->page_tokens);
    for (int i = 0; i < KVT_LEDGER_COUNT; i++)
        printf(",%lld", (long long)m->ledger[i]);
    for (int32_t i = 0; i < view->context_count; i++) {
        putchar(',');
        if (is_shown(view, m, i))
            printf("%lld", (long long)replica_requests(plan, view->contexts[i]));
    }
    putchar('\n');
}

static void print_csv_header(const struct view *view)
{
    fputs("name,gpu,gpus_per_replica,checkpoint_bytes,weights_bytes_per_gpu,"
          "kv_bytes_per_token_per_gpu,charged_bytes_per_token_per_gpu,kv_pool_bytes_per_gpu,"
          "kv_tokens,replica_kv_tokens,kv_pages,page_tokens",
          stdout);
    for (int i = 0; i < KVT_LEDGER_COUNT; i++)
        printf(",%s", kvt_ledger_names[i]);
    for (int32_t i = 0; i < view->context_count; i++)
        printf(",requests_at_%lld", (long long)view->contexts[i]);
    putchar('\n');
}

/* ---- the command ---- */

static enum kvt_status print(const struct kvt_cli *cli, const struct view *view,
                             const struct kvt_role_memory plans[], struct kvt_err *err)
{
    json_t *roles = json_array();
    bool first = true;
    if (cli->format == KVT_FORMAT_CSV)
        print_csv_header(view);
    for (int r = 0; r < KVT_ROLE_COUNT; r++) {
        enum kvt_role role = (enum kvt_role)r;
        if (!view->config->roles[r].present)
            continue;
        if (cli->format == KVT_FORMAT_JSON) {
            json_array_append_new(roles, role_json(view, role, &plans[r]));
        } else if (cli->format == KVT_FORMAT_CSV) {
            print_csv(view, role, &plans[r]);
        } else {
            fputs(first ? "" : "\n", stdout);
            print_text(view, role, &plans[r]);
        }
        first = false;
    }
    if (cli->format == KVT_FORMAT_JSON)
        return kvt_json_print(json_pack("{s:o}", "roles", roles), 10, stdout, err);
    json_decref(roles);
    return KVT_OK;
}

static enum kvt_status plan_roles(const struct kvt_config *config, struct kvt_role_memory plans[],
                                  FILE *talk, struct kvt_err *err)
{
    /* A wrong model is one mistake, not one per role. */
    enum kvt_status status = kvt_config_load_model(config, &plans[0].model, talk, err);
    if (status != KVT_OK)
        return status;
    for (int r = 0; r < KVT_ROLE_COUNT; r++) {
        if (!config->roles[r].present)
            continue;
        enum kvt_status one = kvt_role_memory_plan(config, (enum kvt_role)r, &plans[r], NULL, err);
        status = status == KVT_OK ? one : status;
    }
    return status;
}

static enum kvt_status run(const struct kvt_cli *cli, struct kvt_err *err)
{
    struct kvt_config config;
    struct view view = {.config = &config};
    bool done;
    KVT_TRY(read_contexts(cli, &view, err));
    KVT_TRY(kvt_cli_config(cli, cli->operands[0], &config, &done, err));
    if (done)
        return KVT_OK;
    struct kvt_role_memory *plans = calloc(KVT_ROLE_COUNT, sizeof *plans);
    enum kvt_status status =
        plans == NULL ? kvt_err_set(err, KVT_ENOMEM, "no memory for the ledger") : KVT_OK;
    if (status == KVT_OK && config.domains > 0)
        status = kvt_err_at(err, KVT_ECONFIG, config.where_domain,
                            "capacity wants one value, got a domain; choose one with --set");
    if (status == KVT_OK)
        status = plan_roles(&config, plans, cli->verbosity >= 0 ? stderr : NULL, err);
    if (status == KVT_OK)
        status = print(cli, &view, plans, err);
    free(plans);
    kvt_config_release(&config);
    return status;
}

const struct kvt_command kvt_command_capacity = {
    .name = "capacity",
    .operands = "CONFIG",
    .help = "memory map per role: weights, workspace, KV pool, tokens, requests",
    .description =
        "Every byte of one GPU of each role: driver, context, weights by group, activations, "
        "graphs, KV pool, tags, rounding, free. Then bytes per token as stored (and as charged, "
        "where the engine differs), tokens, pages, and requests at given contexts. A fleet that "
        "does not fit is an error that says by how much and what would fit.",
    .example = "kvtwin capacity configs/examples/quickstart.yaml\n"
               "kvtwin capacity my.yaml --set fleet.decode.kv=bf16 --context 11000 --format json",
    .uses = KVT_USES_CONFIG,
    .operands_min = 1,
    .operands_max = 1,
    .options = options,
    .run = run,
};
