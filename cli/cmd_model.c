/*
 * cmd_model.c - models: what a shipped one is made of, and new ones from a config.json
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "sim/base/file.h"
#include "sim/base/json.h"
#include "sim/model/kv.h"
#include "sim/model/weights.h"

static const struct kvt_cli_option options[] = {
    {"base", "NAME", "shipped model whose shape an hf_quant_config.json alone stands for"},
    {NULL, NULL, NULL},
};

/* KV bytes per token of the whole model on one GPU, 0 where a dtype has no layout. */
static int64_t slot_bytes(const struct kvt_model *model, enum kvt_kv_dtype dtype)
{
    struct kvt_kv_want want = {.engine = KVT_ENGINE_SGLANG,
                               .dtype = dtype,
                               .layout = {.tp = 1, .pp = 1, .dp = 1, .ep = 1, .dcp = 1}};
    struct kvt_kv_slot slot;
    return kvt_kv_slot(model, &want, &slot, NULL) == KVT_OK ? slot.stored_bytes : 0;
}

static const enum kvt_weight_dtype shown[] = {KVT_WEIGHTS_BF16, KVT_WEIGHTS_FP8_BLOCK,
                                              KVT_WEIGHTS_INT4_G32, KVT_WEIGHTS_INT4_G128,
                                              KVT_WEIGHTS_NVFP4};

static int64_t checkpoint_in(const struct kvt_model *model, enum kvt_weight_dtype dtype)
{
    struct kvt_model other = *model;
    struct kvt_layout one = {.tp = 1, .pp = 1, .dp = 1, .ep = 1, .dcp = 1};
    struct kvt_weights weights;
    kvt_model_quantise(&other, dtype, kvt_model_scope(&other, dtype));
    kvt_weights_count(&other, &one, &weights);
    return weights.checkpoint_total;
}

static void show_text(const struct kvt_model *model, const struct kvt_weights *weights)
{
    printf("%s: %d layers, hidden %d, vocabulary %d, context %d\n", model->name, model->layers,
           model->hidden, model->vocab, model->context_max);
    printf("  %s\n", model->source);
    printf("  parameters %.3f B, active %.3f B, checkpoint %s %.1f GB (%.1f GiB)\n",
           (double)weights->params_total / 1e9, (double)weights->params_active / 1e9,
           kvt_weight_dtype_names[model->weights], (double)weights->checkpoint_total / 1e9,
           (double)weights->checkpoint_total / 1073741824.0);
    printf("\n  %-16s %12s %12s\n", "weights", "B params", "GB stored");
    for (int g = 0; g < KVT_WEIGHT_GROUP_COUNT; g++)
        if (weights->params[g] > 0)
            printf("  %-16s %12.3f %12.3f\n", kvt_weight_group_names[g],
                   (double)weights->params[g] / 1e9, (double)weights->checkpoint_bytes[g] / 1e9);
    printf("\n  %-16s", "checkpoint as");
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        printf(" %s %.1f GB%s", kvt_weight_dtype_names[shown[i]],
               (double)checkpoint_in(model, shown[i]) / 1e9,
               i + 1 < sizeof shown / sizeof *shown ? "," : "\n");
    printf("  %-16s", "KV bytes/token");
    const char *comma = "";
    for (int d = 0; d < KVT_KV_DTYPE_COUNT; d++) {
        int64_t bytes = slot_bytes(model, (enum kvt_kv_dtype)d);
        if (bytes > 0)
            printf("%s %s %lld", comma, kvt_kv_dtype_names[d], (long long)bytes), comma = ",";
    }
    putchar('\n');
}

static enum kvt_status show_json(const struct kvt_model *model, const struct kvt_weights *weights,
                                 struct kvt_err *err)
{
    json_t *root = json_object(), *groups = json_object(), *kv = json_object();
    json_object_set_new(root, "name", json_string(model->name));
    json_object_set_new(root, "source", json_string(model->source));
    json_object_set_new(root, "layers", json_integer(model->layers));
    json_object_set_new(root, "hidden", json_integer(model->hidden));
    json_object_set_new(root, "vocab", json_integer(model->vocab));
    json_object_set_new(root, "context", json_integer(model->context_max));
    json_object_set_new(root, "params", json_integer(weights->params_total));
    json_object_set_new(root, "params_active", json_integer(weights->params_active));
    json_object_set_new(root, "params_mtp", json_integer(weights->params[KVT_WEIGHT_GROUP_MTP]));
    json_object_set_new(root, "weights", json_string(kvt_weight_dtype_names[model->weights]));
    json_object_set_new(root, "checkpoint_bytes", json_integer(weights->checkpoint_total));
    for (int g = 0; g < KVT_WEIGHT_GROUP_COUNT; g++) {
        json_t *group = json_object();
        json_object_set_new(group, "params", json_integer(weights->params[g]));
        json_object_set_new(group, "checkpoint_bytes", json_integer(weights->checkpoint_bytes[g]));
        json_object_set_new(groups, kvt_weight_group_names[g], group);
    }
    json_object_set_new(root, "groups", groups);
    for (int d = 0; d < KVT_KV_DTYPE_COUNT; d++) {
        int64_t bytes = slot_bytes(model, (enum kvt_kv_dtype)d);
        if (bytes > 0)
            json_object_set_new(kv, kvt_kv_dtype_names[d], json_integer(bytes));
    }
    json_object_set_new(root, "kv_bytes_per_token", kv);
    return kvt_json_print(root, 0, stdout, err);
}

static enum kvt_status show(const struct kvt_cli *cli, const struct kvt_model *model,
                            struct kvt_err *err)
{
    struct kvt_layout one = {.tp = 1, .pp = 1, .dp = 1, .ep = 1, .dcp = 1};
    struct kvt_weights weights;
    kvt_weights_count(model, &one, &weights);
    if (cli->format == KVT_FORMAT_JSON)
        return show_json(model, &weights, err);
    if (cli->format == KVT_FORMAT_CSV) {
        puts("name,group,params,checkpoint_bytes");
        for (int g = 0; g < KVT_WEIGHT_GROUP_COUNT; g++)
            printf("%s,%s,%lld,%lld\n", model->name, kvt_weight_group_names[g],
                   (long long)weights.params[g], (long long)weights.checkpoint_bytes[g]);
        return KVT_OK;
    }
    show_text(model, &weights);
    return KVT_OK;
}

static enum kvt_status list_models(const struct kvt_cli *cli, struct kvt_err *err)
{
    enum { MOST = 512 };
    char *files[MOST];
    int32_t count;
    if (cli->format != KVT_FORMAT_TEXT)
        return kvt_err_set(err, KVT_EUSAGE,
                           "--format: want text for the list of models, or a NAME");
    KVT_TRY(kvt_shipped_files("models", files, MOST, &count, err));
    for (int32_t i = 0; i < count; i++) {
        const char *name = kvt_path_name(files[i]);
        printf("%.*s\n", (int)(strlen(name) - strlen(".yaml")), name);
        free(files[i]);
    }
    return KVT_OK;
}

static enum kvt_status import(const struct kvt_cli *cli, const char *path, struct kvt_err *err)
{
    struct kvt_model model;
    KVT_TRY(kvt_model_import(&model, path, kvt_cli_get(cli, "base"),
                             cli->verbosity >= 0 ? stderr : NULL, err));
    if (cli->output != NULL && strcmp(model.name, "imported") == 0) {
        const char *file = kvt_path_name(cli->output);
        size_t bytes = strcspn(file, ".");
        if (bytes > 0)
            snprintf(model.name, sizeof model.name, "%.*s", (int)bytes, file);
    }
    if (cli->output == NULL && cli->format != KVT_FORMAT_TEXT)
        return show(cli, &model, err);
    char *text = kvt_model_print(&model);
    if (text == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the model file");
    enum kvt_status status = KVT_OK;
    if (cli->output != NULL)
        status = kvt_file_write(cli->output, text, strlen(text), err);
    else
        fputs(text, stdout);
    free(text);
    return status;
}

static enum kvt_status run(const struct kvt_cli *cli, struct kvt_err *err)
{
    static const char *const of_import[] = {"output", "base", NULL};
    const char *verb = cli->operands[0];
    struct kvt_model model;
    if (strcmp(verb, "import") == 0) {
        if (cli->operand_count != 2)
            return kvt_err_set(err, KVT_EUSAGE, "model import: want one FILE, got none");
        return import(cli, cli->operands[1], err);
    }
    if (strcmp(verb, "show") != 0)
        return kvt_err_set(err, KVT_EUSAGE, "model: want import or show, got \"%s\"", verb);
    KVT_TRY(kvt_cli_refuse(cli, of_import, "is for model import", err));
    if (cli->operand_count == 1)
        return list_models(cli, err);
    KVT_TRY(kvt_model_load(&model, cli->operands[1], err));
    return show(cli, &model, err);
}

const struct kvt_command kvt_command_model = {
    .name = "model",
    .operands = "import FILE | show [NAME]",
    .help = "import a Hugging Face config.json, or show what a model is made of",
    .description =
        "import reads a config.json (with hf_quant_config.json beside it) and prints a model file, "
        "or writes it to -o. What it could not use is said on stderr; what cannot be modelled "
        "(linear attention, state-space layers, compressed attention, unknown architectures) is "
        "refused. show prints parameters, bytes by group and KV bytes per token of a shipped model "
        "or a model file; without a name it lists the shipped models.",
    .example = "kvtwin model show kimi-k2.6\nkvtwin model import config.json -o my-model.yaml",
    .uses = KVT_USES_OUTPUT,
    .operands_min = 1,
    .operands_max = 2,
    .options = options,
    .run = run,
};
