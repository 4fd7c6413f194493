/* Keys of a config.json one by one: wrong values, what each refuses, what is noted, and the shapes
 * that few checkpoints have. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/file.h"
#include "sim/model/model.h"
#include "tests/check.h"

#define SHAPE                                                                                      \
    "\"num_hidden_layers\": 4, \"hidden_size\": 256, \"num_attention_heads\": 4, "                 \
    "\"vocab_size\": 1000, \"max_position_embeddings\": 8192"
#define DENSE SHAPE ", \"model_type\": \"mistral\", \"intermediate_size\": 512"
#define SPARSE                                                                                     \
    SHAPE ", \"model_type\": \"qwen3_moe\", \"num_experts\": 8, \"num_experts_per_tok\": 2, "      \
          "\"moe_intermediate_size\": 64"
#define MLA                                                                                        \
    SHAPE ", \"intermediate_size\": 512, \"kv_lora_rank\": 64, \"qk_nope_head_dim\": 16, "         \
          "\"qk_rope_head_dim\": 8, \"v_head_dim\": 16"
#define INDEXED                                                                                    \
    MLA ", \"model_type\": \"deepseek_v32\", \"index_n_heads\": 2, \"index_head_dim\": 16"

static enum kvt_status import(struct kvt_model *model, const char *keys, const char *quant,
                              char notes[4096], struct kvt_err *err)
{
    char text[4096];
    snprintf(text, sizeof text, "{%s}", keys);
    *err = (struct kvt_err){0};
    notes[0] = '\0';
    FILE *talk = fmemopen(notes, 4096, "w");
    enum kvt_status status =
        kvt_model_import_text(model, "dir/config.json", text, quant, talk, err);
    fclose(talk);
    return status;
}

static void a_count_that_is_no_number_is_refused_with_its_key(void)
{
    static const struct {
        const char *base, *keys; /* keys that a config of this base is asked for */
    } rows[] = {
        {DENSE, "num_key_value_heads head_dim v_head_dim swa_num_attention_heads "
                "swa_num_key_value_heads swa_head_dim swa_v_head_dim num_global_key_value_heads "
                "global_head_dim sliding_window attention_chunk_size num_nextn_predict_layers "
                "num_mtp_modules num_kv_shared_layers hidden_size_per_layer_input"},
        {DENSE ", \"sliding_window\": 64", "sliding_window_pattern"},
        {DENSE ", \"sliding_window\": 64, \"use_sliding_window\": true", "max_window_layers"},
        {SPARSE, "intermediate_size decoder_sparse_step moe_layer_num_skipped "
                 "moe_layer_start_index moe_layer_interval interleave_moe_layer_step "
                 "intermediate_size_mlp n_shared_experts shared_expert_intermediate_size "
                 "first_k_dense_replace"},
        {INDEXED, "q_lora_rank index_topk n_routed_experts"},
    };
    int32_t tried = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char keys[600];
        snprintf(keys, sizeof keys, "%s", rows[i].keys);
        for (char *key = strtok(keys, " "); key != NULL; key = strtok(NULL, " "), tried++) {
            static const char *const values[] = {"\"wide\"", "-2", "1e19", "{}"};
            for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
                char text[1024], want[128], notes[4096];
                struct kvt_model model;
                struct kvt_err err;
                snprintf(text, sizeof text, "%s, \"%s\": %s", rows[i].base, key, values[v]);
                CHECK_FAILS(import(&model, text, NULL, notes, &err), err, KVT_ECONFIG);
                snprintf(want, sizeof want, "dir/config.json: %s: want %s", key,
                         v == 1 ? "0 to " : "a whole number");
                CHECK_HOLDS(err.text, want, text);
            }
        }
    }
    CHECK_I64(tried, 30, "keys");
}

static void what_cannot_be_modelled_is_refused(void)
{
    static const struct {
        const char *keys, *message;
    } rows[] = {
        {MLA ", \"model_type\": \"deepseek_v3\", \"index_n_heads\": 2",
         "index_n_heads: an indexer in model_type \"deepseek_v3\" cannot be modelled"},
        {INDEXED ", \"indexer_types\": [\"full\", \"shared\", \"full\"]",
         "indexer_types: want 4 of \"full\" or \"shared\", got \"nothing\""},
        {INDEXED ", \"indexer_types\": [\"full\", \"half\"]", "got \"half\""},
        {"\"model_type\": \"llama\", \"num_hidden_layers\": 0, \"hidden_size\": 8, \"vocab_size\": "
         "8, \"max_position_embeddings\": 8",
         "num_hidden_layers: want at least 1"},
        {"\"model_type\": \"llama\", \"num_hidden_layers\": 1, \"hidden_size\": 8, \"vocab_size\": "
         "8, \"max_position_embeddings\": 8, \"num_attention_heads\": 0",
         "num_attention_heads: want at least 1, got 0"},
        {DENSE ", \"hidden_size_per_layer_input\": 64",
         "hidden_size_per_layer_input: 64: embeddings per layer cannot be modelled"},
        {DENSE ", \"is_encoder_decoder\": true", "is_encoder_decoder: true: cannot be modelled"},
        {DENSE ", \"layer_types\": [\"full_attention\", \"mamba\"]", "layer_types: \"mamba\""},
        {DENSE ", \"layer_types\": [\"full_attention\", \"conv\"]", "layer_types: \"conv\""},
        {DENSE ", \"layer_types\": [\"full_attention\", \"recurrent\"]", "\"recurrent\""},
        {DENSE ", \"ssm_state_size\": 0, \"state_size\": {\"a\": 1}",
         "state_size: {\"a\":1}: layers with a state or a compressed cache cannot be modelled"},
        {DENSE ", \"num_key_value_heads\": 3", "want kv-heads that divide heads"},
        {DENSE ", \"num_mtp_modules\": 65", "num_mtp_modules: want 0 to 64, got 65"},
        {SPARSE ", \"num_local_experts\": 1, \"n_routed_experts\": 1",
         "want topk from 1 to experts"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char notes[4096];
        struct kvt_model model;
        struct kvt_err err;
        CHECK_FAILS(import(&model, rows[i].keys, NULL, notes, &err), err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, rows[i].message, rows[i].keys);
    }
}

/* 65 blocks, each of its own width. */
static void more_kinds_of_layers_than_there_is_room_for_are_a_limit(void)
{
    static char text[16384];
    struct kvt_model model;
    struct kvt_err err = {0};
    size_t used = (size_t)snprintf(
        text, sizeof text,
        "{\"model_type\": \"nemotron-nas\", \"num_hidden_layers\": 65, \"hidden_size\": 1024, "
        "\"vocab_size\": 8, \"num_attention_heads\": 4, \"max_position_embeddings\": 8, "
        "\"block_configs\": [");
    for (int i = 0; i < 65; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"attention\": {\"n_heads_in_group\": 2, \"window_length\": "
                                 "%d}, \"ffn\": {\"ffn_mult\": %d}}",
                                 i > 0 ? ", " : "", i, i + 1);
    snprintf(text + used, sizeof text - used, "]}");
    CHECK_FAILS(kvt_model_import_text(&model, "c.json", text, NULL, NULL, &err), err, KVT_ELIMIT);
    CHECK_HOLDS(err.text, "c.json: more than 64 kinds of layers", "65 widths");
}

static void shapes_that_few_have_are_read(void)
{
    static const struct {
        const char *keys;
        int32_t groups, windowed, inter, shared, window;
    } rows[] = {
        {DENSE ", \"hybrid_layer_pattern\": [1, 0, 0, 1], \"sliding_window\": 64", 2, 2, 512, 0,
         64},
        {DENSE ", \"hybrid_layer_pattern\": 1, \"sliding_window\": 64", 1, 4, 512, 0, 64},
        {DENSE ", \"no_rope_layers\": [1, 1, 0, 1], \"sliding_window\": 64", 1, 4, 512, 0, 64},
        {DENSE ", \"no_rope_layers\": 1, \"sliding_window\": 64", 1, 4, 512, 0, 64},
        {DENSE ", \"attention_chunk_size\": 32, \"sliding_window\": 64", 1, 4, 512, 0, 64},
        {DENSE ", \"attention_chunk_size\": 32, \"layer_types\": [\"chunked_attention\", "
               "\"attention\", \"full_attention\", \"chunked_attention\"]",
         2, 2, 512, 0, 32},
        {DENSE
         ", \"sliding_window\": 64, \"swa_num_key_value_heads\": 2, \"global_head_dim\": 128, "
         "\"sliding_window_pattern\": 2",
         2, 2, 512, 0, 64},
        {SPARSE ", \"mlp_layer_types\": 7, \"moe_layers\": 7", 1, 0, 0, 0, 0},
        {SPARSE ", \"intermediate_size\": 512, \"mlp_layer_types\": [\"sparse\", \"dense\"]", 2, 0,
         512, 0, 0},
        {SPARSE ", \"intermediate_size\": 512, \"moe_layers_enum\": \"x\"", 1, 0, 512, 0, 0},
        {SPARSE ", \"intermediate_size\": 512, \"decoder_sparse_step\": 0", 1, 0, 512, 0, 0},
        {SPARSE ", \"intermediate_size\": 512, \"moe_layer_interval\": 0", 1, 0, 512, 0, 0},
        {SPARSE ", \"intermediate_size\": 512, \"interleave_moe_layer_step\": 0", 1, 0, 512, 0, 0},
        {SPARSE ", \"intermediate_size\": 512, \"moe_layer_end_index\": -1, \"moe_layer_freq\": 1",
         1, 0, 0, 0, 0},
        {SPARSE ", \"shared_expert_intermediate_size\": 96", 1, 0, 0, 96, 0},
        {SPARSE ", \"shared_expert_intermediate_size\": 96, \"n_shared_experts\": 2", 1, 0, 0, 96,
         0},
        {SHAPE ", \"model_type\": \"llama\", \"intermediate_size\": 512, \"moe_layers\": [1], "
               "\"mlp_layer_types\": [\"sparse\", \"sparse\", \"sparse\", \"sparse\"], "
               "\"moe_layers_enum\": \"1\", \"moe_layer_freq\": [1, 1, 1, 1]",
         1, 0, 512, 0, 0},
        {SHAPE ", \"model_type\": \"llama\", \"intermediate_size\": 512, \"moe_layers\": [1]", 1, 0,
         512, 0, 0},
        {SHAPE
         ", \"model_type\": \"llama\", \"intermediate_size\": 512, \"moe_layers_enum\": \"1\"",
         1, 0, 512, 0, 0},
        {SHAPE ", \"model_type\": \"llama\", \"intermediate_size\": 512, \"moe_layer_freq\": [1]",
         1, 0, 512, 0, 0},
        {SHAPE ", \"model_type\": \"llama\", \"intermediate_size\": 512, \"moe_layer_freq\": 2", 1,
         0, 512, 0, 0},
        {SHAPE ", \"model_type\": \"nemotron-nas\", \"block_configs\": [{\"attention\": "
               "{\"n_heads_in_group\": 2, \"window_length\": 64}, \"ffn\": {\"no_op\": true}}, "
               "{\"attention\": {\"no_op\": true}, \"ffn\": {\"ffn_mult\": 3.0}}, {\"attention\": "
               "{\"n_heads_in_group\": 2, \"window_length\": 64}, \"ffn\": {\"no_op\": true}}, "
               "{\"attention\": {\"n_heads_in_group\": 4, \"window_length\": 2147483648}, \"ffn\": "
               "{\"ffn_mult\": 3}}]",
         3, 2, 512, 0, 64},
        {INDEXED ", \"indexer_types\": [\"full\", \"shared\", \"shared\", \"shared\"]", 2, 0, 512,
         0, 0},
        {SHAPE ", \"model_type\": \"gemma3_text\", \"head_dim\": null, \"intermediate_size\": 512",
         1, 4, 512, 0, 4096},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char notes[4096];
        struct kvt_model model;
        struct kvt_err err;
        int32_t windowed = 0, inter = 0, shared = 0, window = 0;
        CHECK_OK(import(&model, rows[i].keys, NULL, notes, &err), err);
        for (int32_t g = 0; g < model.group_count; g++) {
            const struct kvt_layer_group *group = &model.groups[g];
            windowed += group->attention.window > 0 ? group->count : 0;
            window = group->attention.window > window ? group->attention.window : window;
            inter = group->mlp.inter > inter ? group->mlp.inter : inter;
            shared = group->mlp.shared_inter > shared ? group->mlp.shared_inter : shared;
        }
        CHECK_I64(model.group_count, rows[i].groups, rows[i].keys);
        CHECK_I64(windowed, rows[i].windowed, rows[i].keys);
        CHECK_I64(inter, rows[i].inter, rows[i].keys);
        CHECK_I64(shared, rows[i].shared, rows[i].keys);
        CHECK_I64(window, rows[i].window, rows[i].keys);
    }
}

static void a_vision_tower_is_counted_from_what_its_config_says(void)
{
    static const struct {
        const char *vision;
        int64_t params;
    } rows[] = {
        {"{\"hidden_size\": 8, \"num_hidden_layers\": 2, \"intermediate_size\": 16}",
         2 * (4 * 64 + 2 * 8 * 16)},
        {"{\"width\": 8, \"layers\": 2}", 2 * (4 * 64 + 2 * 8 * 32)},
        {"{\"width\": 8, \"layers\": 2, \"intermediate_size\": 2097152}",
         2 * (4 * 64 + 2 * 8 * 32)},
        {"{\"width\": 8, \"layers\": 2, \"patch_size\": 4, \"out_hidden_size\": 10}",
         2 * (4 * 64 + 2 * 8 * 32) + 3 * 16 * 8 + 16 * 64 + 4 * 8 * 10},
        {"{\"width\": 8, \"layers\": 2, \"patch_size\": 1024, \"text_hidden_size\": 1048576}",
         2 * (4 * 64 + 2 * 8 * 32)},
        {"{\"width\": 65537, \"layers\": 2}", 0},
        {"{\"width\": 8, \"layers\": 1001}", 0},
        {"{\"width\": 8}", 0},
        {"{\"layers\": 2}", 0},
        {"[8, 2]", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1024], notes[4096];
        struct kvt_model model;
        struct kvt_err err;
        snprintf(text, sizeof text, DENSE ", \"vision_config\": %s", rows[i].vision);
        CHECK_OK(import(&model, text, NULL, notes, &err), err);
        CHECK_I64(model.vision_params, rows[i].params, rows[i].vision);
    }
}

static void what_is_left_aside_is_said(void)
{
    static const struct {
        const char *keys, *quant, *want, *never;
    } rows[] = {
        {DENSE
         ", \"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4, \"sym\": false}",
         NULL, "quantization_config: zero points (4 bits a group) are not counted", "dynamic"},
        {DENSE ", \"quantization_config\": {\"quant_method\": \"awq\", \"zero_point\": true, "
               "\"group_size\": 0}",
         NULL, "groups of 0 are counted as int4-g128", "dynamic"},
        {DENSE
         ", \"quantization_config\": {\"quant_method\": \"gptq\", \"sym\": true, \"dynamic\": "
         "{\"-:a\": {}}}",
         NULL, "quantization_config.dynamic: exceptions per module are not used", "zero"},
        {DENSE ", \"quantization_config\": {\"quant_method\": \"quark\", \"global_quant_config\": "
               "{\"weight\": {\"dtype\": \"int4\"}}, \"layer_quant_config\": {\"a\": 1}, "
               "\"kv_cache_scheme\": \"BF16\"}",
         NULL, "layer_quant_config: exceptions per layer are not used", NULL},
        {DENSE ", \"quantization_config\": {\"quant_method\": \"fp8\", \"ignore\": [\"\", "
               "\"re:(?!lm_head).*\", \"re:a\\\\\\\\.b\", \"re:a\\\\\\\\\", \"*gate*\"]}",
         NULL, "the pattern \"re:(?!lm_head).*\" cannot be used", NULL},
        {DENSE
         ", \"quantization_config\": {\"quant_method\": \"compressed-tensors\", "
         "\"config_groups\": {\"a\": {\"targets\": \"Linear\", \"weights\": {\"num_bits\": 8, "
         "\"type\": \"int\", \"block_structure\": [128, 128]}}}}",
         NULL, "int8 is counted as fp8", NULL},
        {DENSE ", \"quantization_config\": 7", NULL, "", "quant"},
        {DENSE ", \"compression_config\": {\"quant_method\": \"fp8\"}", NULL, "", "7"},
        {DENSE, "{\"quantization\": \"fp8\"}", "", "quant"},
        {DENSE ", \"num_beams\": 3, \"repetition_penalty\": 1.5, \"is_decoder\": false, \"trick\": "
               "true, \"limits\": [NaN, -Infinity, \"a\\\"NaN\"]",
         NULL, "keys not used: trick, limits\n", "beam"},
        {DENSE ", \"a_key_of_more_than_sixty_letters_that_no_engine_reads_at_all_0001\": 1, "
               "\"a_key_of_more_than_sixty_letters_that_no_engine_reads_at_all_0002\": 1, "
               "\"a_key_of_more_than_sixty_letters_that_no_engine_reads_at_all_0003\": 1",
         NULL,
         "_0002\nkvtwin: dir/config.json: note: keys not used: a_key_of_more_than_sixty_letters",
         NULL},
        {"\"model_type\": \"x\", \"trick\": 1, \"text_config\": {" DENSE ", \"treat\": 1}", NULL,
         "keys not used: treat\n", "trick"},
        {SPARSE ", \"num_nextn_predict_layers\": 1", NULL, "", "announced"},
        {SHAPE ", \"model_type\": \"minimax_m2\", \"num_local_experts\": 8, "
               "\"num_experts_per_tok\": 2, \"intermediate_size\": 64, \"num_mtp_modules\": 3",
         NULL, "num_mtp_modules: 3 announced; checkpoints of this family hold none", NULL},
        {SHAPE ", \"model_type\": \"minimax_m2\", \"num_local_experts\": 8, "
               "\"num_experts_per_tok\": 2, \"intermediate_size\": 64",
         NULL, "", "announced"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char notes[4096];
        struct kvt_model model;
        struct kvt_err err;
        CHECK_OK(import(&model, rows[i].keys, rows[i].quant, notes, &err), err);
        CHECK_HOLDS(notes, rows[i].want, rows[i].keys);
        CHECK_NOTE(rows[i].never == NULL || strstr(notes, rows[i].never) == NULL, rows[i].keys);
    }
}

/* Files: what stands beside them, and how the model is called. */
static void files_give_a_model_its_name(void)
{
    static const char config[] = "{" DENSE "}",
                      quant[] = "{\"quantization\": {\"quant_algo\": \"FP8\"}}";
    static const struct {
        const char *config, *quant; /* file names in a folder of their own; NULL: not there */
        const char *read, *base;
        const char *name, *message; /* what becomes of it */
        const char *quant_text;
    } rows[] = {
        {"Org--Small-8B_config.json", NULL, "Org--Small-8B_config.json", NULL, "small-8b", NULL,
         NULL},
        {"config.json", "hf_quant_config.json", "hf_quant_config.json", NULL, "model", NULL, quant},
        {"config.json", "hf_quant_config.json", "config.json", NULL, "model", NULL, quant},
        {"My-Model.json", NULL, "My-Model.json", NULL, "my-model", NULL, NULL},
        {"plain", NULL, "plain", NULL, "plain", NULL, NULL},
        {"--.json", NULL, "--.json", NULL, "imported", NULL, NULL},
        {NULL, "hf_quant_config.json", "hf_quant_config.json", "qwen3-8b", "model", NULL, quant},
        {NULL, "hf_quant_config.json", "hf_quant_config.json", NULL, NULL,
         "no shipped model is named \"model\"; give one with --base", quant},
        {NULL, "hf_quant_config.json", "hf_quant_config.json", "qwen3-9c", NULL,
         "no shipped model is named \"qwen3-9c\"", quant},
        {NULL, "hf_quant_config.json", "hf_quant_config.json", "qwen3-8b", NULL,
         "the key \"quantization\" is missing", "{\"quantization\": 3}"},
        {NULL, "hf_quant_config.json", "hf_quant_config.json", "qwen3-8b", NULL, "bad JSON", "{"},
        {NULL, "hf_quant_config.json", "hf_quant_config.json", "qwen3-8b", NULL,
         "quant_algo \"W1\" cannot be modelled", "{\"quantization\": {\"quant_algo\": \"W1\"}}"},
        {"config.json", "hf_quant_config.json", "config.json", NULL, NULL, "bad JSON", "{"},
    };
    char folder[300], path[400];
    snprintf(folder, sizeof folder, "%s", check_temp("model"));
    CHECK_I64(mkdir(folder, 0777), 0, folder);
    const char *own = strrchr(folder, '/') + 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char note[32];
        struct kvt_model model;
        struct kvt_err err = {0};
        snprintf(note, sizeof note, "row %zu", i);
        const char *files[2] = {rows[i].config, rows[i].quant};
        const char *texts[2] = {config, rows[i].quant_text};
        for (int f = 0; f < 2; f++) {
            const char *text = texts[f];
            snprintf(path, sizeof path, "%s/%s", folder, files[f] != NULL ? files[f] : "");
            if (files[f] != NULL && text != NULL)
                CHECK_OK(kvt_file_write(path, text, strlen(text), &err), err);
        }
        snprintf(path, sizeof path, "%s/%s", folder, rows[i].read);
        enum kvt_status status = kvt_model_import(&model, path, rows[i].base, NULL, &err);
        CHECK_I64(status, rows[i].message == NULL ? KVT_OK : KVT_ECONFIG, note);
        if (rows[i].message == NULL)
            CHECK_TEXT(model.name, strcmp(rows[i].name, "model") == 0 ? own : rows[i].name, note);
        else if (strstr(rows[i].message, "\"model\"") == NULL)
            CHECK_HOLDS(err.text, rows[i].message, note);
        else
            CHECK_HOLDS(err.text, "; give one with --base", note);
        for (int f = 0; f < 2; f++) {
            snprintf(path, sizeof path, "%s/%s", folder, files[f] != NULL ? files[f] : "none");
            unlink(path);
        }
    }
    CHECK_I64(rmdir(folder), 0, "nothing is left");
}

const struct check_test check_import_keys[] = {
    {"a count that is no number is refused with its key",
     a_count_that_is_no_number_is_refused_with_its_key, false},
    {"what cannot be modelled is refused", what_cannot_be_modelled_is_refused, false},
    {"more kinds of layers than there is room for are a limit",
     more_kinds_of_layers_than_there_is_room_for_are_a_limit, false},
    {"shapes that few have are read", shapes_that_few_have_are_read, false},
    {"a vision tower is counted from what its config says",
     a_vision_tower_is_counted_from_what_its_config_says, false},
    {"what is left aside is said", what_is_left_aside_is_said, false},
    {"files give a model its name", files_give_a_model_its_name, false},
    {NULL, NULL, false},
};
