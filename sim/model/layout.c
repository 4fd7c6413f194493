#include "sim/model/layout.h"

#include "sim/model/model.h"

static enum kvt_status want_factor(int32_t part, const char *part_name, int32_t whole,
                                   const char *whole_name, struct kvt_where where,
                                   struct kvt_err *err)
{
    if (whole % part == 0)
        return KVT_OK;
    return kvt_err_at(err, KVT_ECONFIG, where, "parallel: %s %d does not divide %s %d", part_name,
                      part, whole_name, whole);
}

static enum kvt_status check_heads(const struct kvt_attention *a, int32_t ranks,
                                   struct kvt_where where, struct kvt_err *err)
{
    if (a->kind == KVT_ATTENTION_NONE)
        return KVT_OK;
    KVT_TRY(want_factor(ranks, "tp / dp =", a->heads, "attention heads", where, err));
    if (a->kind == KVT_ATTENTION_MLA || ranks >= a->kv_heads)
        return a->kind == KVT_ATTENTION_MLA
                   ? KVT_OK
                   : want_factor(a->kv_heads, "kv heads", ranks, "tp / dp =", where, err);
    return want_factor(ranks, "tp / dp =", a->kv_heads, "kv heads", where, err);
}

enum kvt_status kvt_layout_check(const struct kvt_layout *layout, const struct kvt_model *model,
                                 struct kvt_where where, struct kvt_err *err)
{
    const int32_t sizes[] = {layout->tp, layout->pp, layout->dp, layout->ep, layout->dcp};
    static const char *const names[] = {"tp", "pp", "dp", "ep", "dcp"};
    for (int i = 0; i < 5; i++)
        if (sizes[i] < 1 || sizes[i] > 4096)
            return kvt_err_at(err, KVT_ECONFIG, where, "parallel: want %s from 1 to 4096, got %d",
                              names[i], sizes[i]);
    KVT_TRY(want_factor(layout->dp, "dp", layout->tp, "tp", where, err));
    int32_t ranks = kvt_layout_attention_tp(layout);
    KVT_TRY(want_factor(layout->dcp, "dcp", ranks, "tp / dp =", where, err));
    if (layout->pp > model->layers)
        return kvt_err_at(err, KVT_ECONFIG, where, "parallel: pp %d is more than the %d layers",
                          layout->pp, model->layers);
    for (int32_t g = 0; g < model->group_count; g++) {
        const struct kvt_layer_group *group = &model->groups[g];
        KVT_TRY(check_heads(&group->attention, ranks, where, err));
        if (layout->ep > 1 && group->mlp.experts > 0 && layout->ep > group->mlp.experts)
            return kvt_err_at(err, KVT_ECONFIG, where,
                              "parallel: ep %d is more than the %d experts", layout->ep,
                              group->mlp.experts);
    }
    return KVT_OK;
}
