#include "kernels/attention.h"

#include <math.h>
#include <string.h>

#include "sim/base/assert.h"

#define SLOT_ALIGN 128

static bool is_mla(const struct kvt_page_layout *layout)
{
    return kvt_page_format_is_mla((enum kvt_page_format)layout->format);
}

int32_t kvt_attention_units(const struct kvt_page_layout *layout, int32_t heads)
{
    if (!is_mla(layout))
        return layout->kv_heads;
    return (heads + KVT_ATTENTION_MLA_UNIT_HEADS - 1) / KVT_ATTENTION_MLA_UNIT_HEADS;
}

size_t kvt_attention_slot_bytes(const struct kvt_page_layout *layout, int32_t heads, int32_t units)
{
    size_t per_head = ((size_t)layout->value_dim + 2) * sizeof(float);
    size_t bytes = (size_t)kvt_attention_unit_heads(heads, units) * per_head;
    return (bytes + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
}

size_t kvt_attention_workspace_bytes(const struct kvt_page_layout *layout, int32_t heads,
                                     const struct kvt_split *split)
{
    return 2 * (size_t)split->workers * kvt_attention_slot_bytes(layout, heads, split->units);
}

/* ---- check ---- */

static enum kvt_status shape_check(const struct kvt_attention_call *a, struct kvt_err *err)
{
    const struct kvt_page_layout *layout = a->layout;
    int32_t kv_heads = layout->kv_heads;
    if (a->rows < 0 || a->pool_pages < 1 || a->page_table_size < 0)
        return kvt_err_set(
            err, KVT_ELIMIT,
            "attention: %d rows over %d pages with a page table of %d: all are counts", a->rows,
            a->pool_pages, a->page_table_size);
    if (is_mla(layout) && (a->heads < 1 || a->heads > 128))
        return kvt_err_set(err, KVT_ELIMIT, "attention: MLA has 1..128 heads, not %d", a->heads);
    if (a->heads < 1 || a->heads % kv_heads != 0)
        return kvt_err_set(err, KVT_ELIMIT,
                           "attention: heads are a multiple of the %d kv heads, not %d", kv_heads,
                           a->heads);
    if (!is_mla(layout) && a->heads / kv_heads > 16)
        return kvt_err_set(err, KVT_ELIMIT,
                           "attention: a kv head serves 1..16 heads, not %d (%d heads over %d)",
                           a->heads / kv_heads, a->heads, kv_heads);
    if (!(a->scale > 0) || !isfinite(a->scale))
        return kvt_err_set(err, KVT_ELIMIT, "attention: scale is finite and above 0, not %g",
                           (double)a->scale);
    if (layout->format == KVT_PAGE_MLA_PLAIN &&
        (!(a->plain_scale > 0) || !isfinite(a->plain_scale)))
        return kvt_err_set(err, KVT_ELIMIT, "attention: plain_scale is finite and above 0, not %g",
                           (double)a->plain_scale);
    return KVT_OK;
}

static enum kvt_status split_check(const struct kvt_attention_call *a, struct kvt_err *err)
{
    const struct kvt_split *split = a->split;
    if (split == NULL)
        return KVT_OK;
    if (split->rows != a->rows)
        return kvt_err_set(err, KVT_ELIMIT, "attention: the split is planned for %d rows, not %d",
                           split->rows, a->rows);
    int32_t units = split->units;
    bool fits =
        is_mla(a->layout)
            ? units >= 1 && (units - 1) * kvt_attention_unit_heads(a->heads, units) < a->heads
            : units == a->layout->kv_heads;
    if (!fits)
        return kvt_err_set(err, KVT_ELIMIT,
                           "attention: a split of %d units a row does not fit %d heads over %d kv "
                           "heads",
                           units, a->heads, a->layout->kv_heads);
    return KVT_OK;
}

static enum kvt_status row_check(const struct kvt_attention_call *a, int32_t row,
                                 struct kvt_err *err)
{
    int32_t context = a->context[row], begin = a->row_pages[row];
    if (context < 0)
        return kvt_err_set(err, KVT_ELIMIT, "attention: row %d has a context of %d tokens", row,
                           context);
    int64_t pages = ((int64_t)context + a->layout->page_tokens - 1) / a->layout->page_tokens;
    if (begin < 0 || begin + pages > a->page_table_size)
        return kvt_err_set(err, KVT_ELIMIT,
                           "attention: row %d has %d pages from %d on, the page table has %d", row,
                           (int)pages, begin, a->page_table_size);
    for (int32_t slot = 0; slot < (int32_t)pages; slot++) {
        int32_t page = a->page_table[begin + slot];
        if (page < 1 || page >= a->pool_pages)
            return kvt_err_set(err, KVT_ELIMIT,
                               "attention: row %d, slot %d: page %d is not in 1..%d", row, slot,
                               page, a->pool_pages - 1);
    }
    return KVT_OK;
}

enum kvt_status kvt_attention_check(const struct kvt_attention_call *attention, struct kvt_err *err)
{
    KVT_TRY(shape_check(attention, err));
    KVT_TRY(split_check(attention, err));
    for (int32_t row = 0; row < attention->rows; row++)
        KVT_TRY(row_check(attention, row, err));
    return KVT_OK;
}

/* ---- reference ---- */

#define VALUE_MAX 512
#define KEY_MAX   KVT_MLA_DIM

#define HEADS 16 /* at a time: a token is dequantised once for all of them */

/* What a head has seen so far: out and sum are relative to exp(max). */
struct online {
    double max, sum, out[VALUE_MAX];
};

static void online_add(struct online *seen, double score, const double *value, int32_t dim)
{
    double max = score > seen->max ? score : seen->max;
    double keep = seen->sum != 0 ? exp(seen->max - max) : 0, p = exp(score - max);
    seen->max = max;
    seen->sum = seen->sum * keep + p;
    for (int32_t d = 0; d < dim; d++)
        seen->out[d] = seen->out[d] * keep + p * value[d];
}

static void write_head(const struct kvt_attention_call *a, int32_t row, int32_t head,
                       const struct online *seen)
{
    int64_t index = (int64_t)row * a->heads + head;
    kvt_bf16 *out = a->out + index * a->layout->value_dim;
    bool empty = a->context[row] == 0;
    for (int32_t d = 0; d < a->layout->value_dim; d++)
        out[d] = empty ? 0 : kvt_bf16_from_float((float)(seen->out[d] / seen->sum));
    if (a->lse != NULL)
        a->lse[index] = empty ? -INFINITY : (float)(seen->max + log(seen->sum));
}

/* Heads first .. first + count, all of one kv head. */
static void heads_attend(const struct kvt_attention_call *a, int32_t row, int32_t kv_head,
                         int32_t first, int32_t count)
{
    const struct kvt_page_layout *layout = a->layout;
    double q[HEADS][KEY_MAX], key[KEY_MAX], value[VALUE_MAX];
    struct online seen[HEADS];
    for (int32_t h = 0; h < count; h++) {
        const kvt_bf16 *from = a->q + ((int64_t)row * a->heads + first + h) * layout->head_dim;
        for (int32_t d = 0; d < layout->head_dim; d++)
            q[h][d] = (double)kvt_bf16_to_float(from[d]);
        seen[h] = (struct online){.max = -(double)INFINITY};
    }
    for (int32_t t = 0; t < a->context[row]; t++) {
        int32_t page = a->page_table[a->row_pages[row] + t / layout->page_tokens];
        kvt_page_dequantise(layout, a->pool + page * layout->page_bytes, t % layout->page_tokens,
                            kv_head, a->plain_scale, key, value);
        for (int32_t h = 0; h < count; h++) {
            double dot = 0;
            for (int32_t d = 0; d < layout->head_dim; d++)
                dot += q[h][d] * key[d];
            online_add(&seen[h], dot * (double)a->scale, value, layout->value_dim);
        }
    }
    for (int32_t h = 0; h < count; h++)
        write_head(a, row, first + h, &seen[h]);
}

void kvt_ref_attention(const struct kvt_attention_call *attention)
{
    int32_t kv_heads = attention->layout->kv_heads, group = attention->heads / kv_heads;
    for (int32_t row = 0; row < attention->rows; row++)
        for (int32_t kv_head = 0; kv_head < kv_heads; kv_head++)
            for (int32_t h = 0; h < group; h += HEADS)
                heads_attend(attention, row, kv_head, kv_head * group + h,
                             group - h < HEADS ? group - h : HEADS);
}
