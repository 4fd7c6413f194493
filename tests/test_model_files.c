/* Files of models and GPUs: what is wrong with each, files that few need, and names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/file.h"
#include "sim/base/spelling.h"
#include "sim/model/gpu.h"
#include "sim/model/model.h"
#include "tests/check.h"

#define HEAD   "name: a\nhidden: 8\nvocab: 8\ncontext: 8\n"
#define GQA    "attention: {kind: gqa, heads: 2, kv-heads: 1, head-dim: 4}"
#define GROUP  "groups:\n  - {count: 1, " GQA "}\n"
#define OF(x)  HEAD "groups:\n  - {count: 1, " x "}\n"
#define MLA(x) OF("attention: {kind: mla, heads: 2, " x "}")

static void a_wrong_model_file_is_told(void)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {HEAD "checkpoint: 3\n" GROUP, "m.yaml:5:13: checkpoint: want a mapping, got"},
        {HEAD "checkpoint: {weight: fp8}\n" GROUP, "unknown key \"weight\""},
        {HEAD "checkpoint: {weights: [1]}\n" GROUP, "weights: want"},
        {HEAD "checkpoint: {head: fp7}\n" GROUP, "head: want one of bf16, fp8"},
        {HEAD "checkpoint: {scope-4bit: all}\n" GROUP, "scope-4bit: want one of"},
        {HEAD "checkpoint: {scope-8bit: all}\n" GROUP, "scope-8bit: want one of"},
        {HEAD "checkpoint: {kv: fp3}\n" GROUP, "kv: want one of bf16"},
        {HEAD "aliases: 3\n" GROUP, "aliases: want a list, got"},
        {HEAD "aliases: [[1]]\n" GROUP, "aliases: want"},
        {HEAD "aliases: [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, "
              "y]\n" GROUP,
         "aliases: want at most 24, got 25"},
        {HEAD "source: [1]\n" GROUP, "source: want"},
        {HEAD "tied-embeddings: maybe\n" GROUP,
         "tied-embeddings: want true or false, got \"maybe\""},
        {HEAD "hidden: [1]\n" GROUP, "is given twice"},
        {"name: [1]\nhidden: 8\nvocab: 8\ncontext: 8\n" GROUP, "name: want"},
        {"hidden: 8\nvocab: 8\ncontext: 8\n" GROUP, "a model file needs the key name"},
        {"name: \"\"\nhidden: 8\nvocab: 8\ncontext: 8\n" GROUP, "want a name"},
        {"name: a\nhidden: {}\nvocab: 8\ncontext: 8\n" GROUP, "hidden: want"},
        {"name: a\nvocab: 8\ncontext: 8\n" GROUP, "want hidden, vocab and context of at least 1"},
        {"name: a\nhidden: 8\ncontext: 8\n" GROUP, "want hidden, vocab and context of at least 1"},
        {"name: a\nhidden: 8\nvocab: 8\n" GROUP, "want hidden, vocab and context of at least 1"},
        {HEAD "groups: 3\n", "groups: want a list, got"},
        {HEAD "groups: [3]\n", "groups: want a mapping, got"},
        {OF("attention: 3"), "attention: want a mapping, got"},
        {OF("attention: {heads: 3}"), "attention: want a kind: gqa, mla or none"},
        {OF(GQA ", mlp: 3"), "mlp: want a mapping, got"},
        {OF(GQA ", dtypes: 3"), "dtypes: want a mapping, got"},
        {OF(GQA ", dtypes: {zz: fp8}"), "unknown key \"zz\""},
        {OF(GQA ", dtypes: {q: fp7}"), "q: want one of bf16"},
        {HEAD "mtp-layers: 1\nmtp: 3\n" GROUP, "want a mapping, got"},
        {HEAD "mtp-layers: 1\nmtp: {attention: {kind: gqa}}\n" GROUP,
         "group 2: want heads of at least 1"},
        {HEAD "mtp-layers: 1\nmtp: {" GQA ", dtypes: 3}\n" GROUP, "dtypes: want a mapping"},
        {HEAD "groups:\n  - {count: 0, " GQA "}\n", "group 1: want count of at least 1"},
        {OF("attention: {kind: gqa, kv-heads: 1, head-dim: 4}"), "want heads of at least 1"},
        {OF("attention: {kind: gqa, heads: 2, head-dim: 4}"), "want kv-heads that divide heads"},
        {OF("attention: {kind: gqa, heads: 2, kv-heads: 1}"), "want head-dim of at least 1"},
        {MLA("nope: 4, rope: 4, v-dim: 4"), "want kv-lora, nope, rope and v-dim of at least 1"},
        {MLA("kv-lora: 8, rope: 4, v-dim: 4"), "want kv-lora, nope, rope and v-dim of at least 1"},
        {MLA("kv-lora: 8, nope: 4, v-dim: 4"), "want kv-lora, nope, rope and v-dim of at least 1"},
        {MLA("kv-lora: 8, nope: 4, rope: 4"), "want kv-lora, nope, rope and v-dim of at least 1"},
        {OF("attention: {kind: gqa, heads: 2, kv-heads: 1, head-dim: 4, index-heads: 2}"),
         "want an indexer only with mla"},
        {MLA("kv-lora: 8, nope: 4, rope: 4, v-dim: 4, index-heads: 2"),
         "want index-dim with index-heads"},
        {MLA("kv-lora: 8, nope: 4, rope: 4, v-dim: 4, index-shared: true"),
         "want index-shared only with index-heads"},
        {OF(GQA ", mlp: {experts: 4, topk: 1}"), "want expert-inter with experts"},
        {OF(GQA ", mlp: {experts: 4, expert-inter: 8}"), "want topk from 1 to experts"},
        {OF(GQA ", mlp: {experts: 4, expert-inter: 8, topk: 5}"), "want topk from 1 to experts"},
        {OF(GQA ", mlp: {shared-experts: 1, shared-inter: 8}"),
         "want shared-experts only with experts"},
        {OF(GQA ", mlp: {experts: 4, expert-inter: 8, topk: 1, shared-experts: 1}"),
         "want shared-inter with shared-experts"},
        {"name: a\nhidden: 16777216\nvocab: 268435456\ncontext: 8\ngroups:\n  - {count: 65536, " GQA
         ", mlp: {inter: 16777216}}\n",
         "want less than 1e14 parameters, got"},
        {HEAD "vision-params: 1125899906842624\n" GROUP, "want less than 1e14 parameters"},
        {HEAD "groups:\n  - {count: 65536, " GQA "}\n  - {count: 65536, " GQA "}\n",
         "want at most 100000 layers"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kvt_model model;
        struct kvt_err err = {0};
        CHECK_FAILS(kvt_model_parse(&model, "m.yaml", rows[i].text, strlen(rows[i].text), &err),
                    err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, rows[i].message, rows[i].text);
    }
    char text[8192] = HEAD "groups:\n";
    for (int i = 0; i < 65; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "  - {count: 1, " GQA "}\n");
    struct kvt_model model;
    struct kvt_err err = {0};
    CHECK_FAILS(kvt_model_parse(&model, "m.yaml", text, strlen(text), &err), err, KVT_ECONFIG);
    CHECK_HOLDS(err.text, "groups: want at most 64, got 65", "groups");
}

/* What is read is printed, and read again as the same. */
static void a_model_of_rare_parts_reads_back_as_itself(void)
{
    static const struct {
        const char *text, *printed;
    } rows[] = {
        {OF("mlp: {inter: 16}"), "attention:\n      kind: none\n    mlp:\n      inter: 16\n"},
        {OF(GQA), "    mlp: {}\n"},
        {OF(GQA ", mlp: {inter: 16, gated: false, bias: true}"),
         "gated: false\n      bias: true\n"},
        {OF(GQA ", dtypes: {q: fp8, o: nvfp4}"), "dtypes:\n      q: fp8\n      o: nvfp4\n"},
        {HEAD
         "tied-embeddings: true\nvision-params: 77\nmtp-layers: 1\nmtp: {" GQA
         ", dtypes: {k: fp8}}\ncheckpoint: {weights: int4-g32, scope-4bit: mlp, kv: fp8}\n" GROUP,
         "mtp:\n  attention:\n"},
        {OF("attention: {kind: gqa, heads: 2, kv-heads: 1, head-dim: 4, v-dim: 2, output-gate: "
            "true}"),
         "v-dim: 2\n      output-gate: true\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kvt_model model, again;
        struct kvt_err err = {0};
        CHECK_OK(kvt_model_parse(&model, "m.yaml", rows[i].text, strlen(rows[i].text), &err), err);
        char *text = kvt_model_print(&model);
        CHECK_HOLDS(text, rows[i].printed, rows[i].text);
        CHECK_OK(kvt_model_parse(&again, "again.yaml", text, strlen(text), &err), err);
        CHECK_NOTE(memcmp(&model, &again, sizeof model) == 0, rows[i].text);
        free(text);
    }
}

static void a_wrong_gpu_file_is_told(void)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"- 1\n", "a GPU file: want a mapping, got a list"},
        {"name: a\nmemroy: 3\n", "unknown key \"memroy\""},
        {"name: a\n", "a GPU file needs the keys name and memory-visible"},
        {"memory-visible: 3 GiB\n", "a GPU file needs the keys name and memory-visible"},
        {"name: [1]\n", "name: want"},
        {"name: a\nsource: {}\n", "source: want"},
        {"name: a\naliases: 3\n", "aliases: want a list, got"},
        {"name: a\naliases: [[1]]\n", "aliases: want"},
        {"name: a\naliases: [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q]\n",
         "aliases: want at most 16, got 17"},
        {"name: a\nsms: [1]\n", "sms: want a count up to 100000"},
        {"name: a\nsms: -1\n", "sms: want a count up to 100000"},
        {"name: a\nmemory-visible: [1]\n", "memory-visible: want"},
        {"name: a\nmemory-visible: 3 parsecs\n", "memory-visible: "},
        {"name: a\nmemory-visible: -3 GiB\n", "memory-visible: "},
        {"name: a\nmemory-visible: 3 GiB\nmemory-usable: 4 GiB\n",
         "memory-usable: want at most memory-visible"},
        {"name: [a\n", ""},
    };
    const char *path = check_temp("gpu.yaml");
    struct kvt_gpu gpu;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kvt_err err = {0};
        CHECK_OK(kvt_file_write(path, rows[i].text, strlen(rows[i].text), &err), err);
        CHECK_FAILS(kvt_gpu_load(&gpu, path, -1, &err), err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, rows[i].message, rows[i].text);
        CHECK_HOLDS(err.text, path, rows[i].text);
    }
    static const char good[] = "name: a\nmemory-visible: 8 GiB\nprice: 2 USD/h\nsms: 7\n";
    struct kvt_err err = {0};
    CHECK_OK(kvt_file_write(path, good, strlen(good), &err), err);
    CHECK_OK(kvt_gpu_load(&gpu, path, -1, &err), err);
    CHECK_I64(gpu.sms, 7, "sms");
    CHECK_CLOSE(gpu.memory_usable, gpu.memory_visible, 0, "all of it, where nothing is said");
    unlink(path);
}

static void a_gpu_that_is_not_shipped_is_its_memory(void)
{
    const double gib = 1073741824.0;
    struct kvt_gpu gpu;
    struct kvt_err err = {0};
    CHECK_OK(kvt_gpu_load(&gpu, "my/card", 4 * gib, &err), err);
    CHECK_CLOSE(gpu.memory_context, 0.2 * gib, 1e-12, "a twentieth of a small card");
    CHECK_CLOSE(gpu.memory_peers, 0.2 * gib, 1e-12, "a twentieth of a small card");
    CHECK_OK(kvt_gpu_load(&gpu, "my-card", 64 * gib, &err), err);
    CHECK_CLOSE(gpu.memory_context, 0.5 * gib, 1e-12, "no more than half a GiB");
    CHECK_OK(kvt_gpu_known(&gpu, "my-card", 64e9, &err), err);
    CHECK_CLOSE(gpu.memory_nominal, 64 * gib * 0.996, 1e-12, "vendors mean GiB by GB");
    CHECK_OK(kvt_gpu_known(&gpu, "A100", 640e9, &err), err);
    CHECK_TEXT(gpu.source, "by memory size", "no A100 is so large");
    CHECK_OK(kvt_gpu_load(&gpu, "A100", -1, &err), err);
    CHECK_TEXT(gpu.name, "a100-80g", "the largest of that name");
    CHECK_FAILS(kvt_gpu_load(&gpu, "no/such-card", -1, &err), err, KVT_ECONFIG);
    CHECK_HOLDS(err.text, "no GPU is named \"no/such-card\"", "a path that is not there");
}

static void suffixes_go_and_sizes_stay(void)
{
    static const char *const rows[][2] = {
        {"M-20250528", "m"},   {"M-250528", "m"},      {"M-0528", "m"},
        {"M-1301", "m"},       {"M-1200", "m"},        {"M-0013", "m-0013"},
        {"M-9999", "m-9999"},  {"M-12345", "m-12345"}, {"M-g32", "m"},
        {"M-g128", "m"},       {"M-g1234", "m-g1234"}, {"M-g", "m-g"},
        {"M-g3a", "m-g3a"},    {"M-gx", "m-gx"},       {"M-Chat-AWQ", "m"},
        {"Org/Sub/M-It", "m"}, {"M-7B", "m-7b"},       {"meta-llama-3", "llama-3"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[64];
        int32_t dtype;
        kvt_model_canonical_name(rows[i][0], name, sizeof name, &dtype);
        CHECK_TEXT(name, rows[i][1], rows[i][0]);
    }
}

static void names_are_folded(void)
{
    static const char *const rows[][2] = {
        {"A_b\tC d", "a-b-c-d"}, {"a (of (two) kinds) b", "a-b"},
        {"--a__b--", "a-b"},     {"a) b", "a)-b"},
        {"(all)", ""},           {"abcdefghijklmnopq", "abcdefghijklmno"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[16];
        kvt_name_fold(rows[i][0], name, sizeof name);
        CHECK_TEXT(name, rows[i][1], rows[i][0]);
    }
}

const struct check_test check_model_files[] = {
    {"a wrong model file is told", a_wrong_model_file_is_told, false},
    {"a model of rare parts reads back as itself", a_model_of_rare_parts_reads_back_as_itself,
     false},
    {"a wrong GPU file is told", a_wrong_gpu_file_is_told, false},
    {"a GPU that is not shipped is its memory", a_gpu_that_is_not_shipped_is_its_memory, false},
    {"suffixes go and sizes stay", suffixes_go_and_sizes_stay, false},
    {"names are folded", names_are_folded, false},
    {NULL, NULL, false},
};
