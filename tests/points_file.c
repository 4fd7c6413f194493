#include "tests/points_file.h"

#include <string.h>

#include "sim/output/h5_items.h"
#include "sim/output/hdf5.h"
#include "tests/check.h"

void points_file_write(const char *path, const char *kind)
{
    static const char *const counts[] = {"1", "2", "4"}, *const kv[] = {"fp8", "bf16", "fp8"};
    static const char *const states[] = {"misses", "meets", "meets"};
    static const char *const messages[] = {"TTFT p90 900 ms, want <500> ms", "", ""};
    static const double ttft[] = {900, 300, 310}, usd[] = {4, 8, 16}, output[] = {100, 101, 102};
    static const int64_t front[] = {0, 1, 0}, gpus[] = {1, 2, 4}, layout = KVT_RUN_LAYOUT, best = 1;
    static const char *const config = "model: tiny\n";
    const char *group = strcmp(kind, "plan") == 0 ? "candidates" : "points";
    const struct kvt_h5_item items[] = {
        {"", "layout", KVT_H5_ATTRIBUTE_I64, 0, &layout},
        {"", "program", KVT_H5_ATTRIBUTE_TEXT, 0, "kvtwin"},
        {"", "kind", KVT_H5_ATTRIBUTE_TEXT, 0, kind},
        {"", "config", KVT_H5_TEXT, 1, &config},
        {"settings", "fleet.serve.replicas", KVT_H5_TEXT, 3, counts},
        {"settings", "fleet.serve.kv", KVT_H5_TEXT, 3, kv},
        {group, "state", KVT_H5_TEXT, 3, states},
        {group, "message", KVT_H5_TEXT, 3, messages},
        {group, "on_front", KVT_H5_I64, 3, front},
        {group, "gpus", KVT_H5_I64, 3, gpus},
        {group, "usd_per_h", KVT_H5_F64, 3, usd},
        {group, "objective", KVT_H5_F64, 3, usd},
        {"metrics", "p90_ttft_ms", KVT_H5_F64, 3, ttft},
        {"metrics", "output_throughput", KVT_H5_F64, 3, output},
        {"meta", "best", KVT_H5_ATTRIBUTE_I64, 0, &best},
    };
    struct kvt_err err = {0};
    CHECK_OK(kvt_h5_items_write(path, items, sizeof items / sizeof *items, &err), err);
}
