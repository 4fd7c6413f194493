/*
 * fuzz_calibration.c - the reader of calibrations, and of the rules of `calibrate --kernel`
 *
 * Input: the text of a calibration; after a '=', one rule. A calibration is refused with a message,
 * or it prices every kind of work with a time, and comes back as it prints.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/cost/calibration.h"
#include "sim/cost/calibration_print.h"
#include "sim/cost/fit_calibration.h"
#include "tests/fuzz/place.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static const struct kvt_gpu gpu = {.name = "h200-sxm",
                                   .bandwidth = 4.8e12,
                                   .flops_bf16 = 989.4e12,
                                   .flops_fp8 = 1978.9e12,
                                   .link_bandwidth = 450e9,
                                   .nic_bandwidth = 50e9,
                                   .host_bandwidth = 64e9};

static char *printed(const struct kvt_calibration *calibration)
{
    char *text = NULL;
    size_t count;
    FILE *out = open_memstream(&text, &count);
    kvt_assert(out != NULL);
    kvt_calibration_print(calibration, "", out);
    fclose(out);
    return text;
}

static void price(const struct kvt_calibration *calibration)
{
    for (int size = 0; size < 3; size++) {
        struct kvt_work work = {.bytes = 1e6, .flops = 1e9, .batch = 4, .context = 4e3};
        work.token_bytes = 1e3, work.windowed = 1e3, work.index_bytes = 64;
        for (int d = 0; d < KVT_DIM_COUNT; d++)
            work.dim[d] = size == 0 ? 1 : size == 1 ? 100 + d : 1e6;
        for (int family = 0; family < KVT_FAMILY_COUNT; family++) {
            const struct kvt_law *law =
                kvt_calibration_law(calibration, (enum kvt_family)family, &work);
            kvt_assert(law != NULL);
            kvt_assert(!isnan(kvt_calibration_time(calibration, law, &work, NULL)));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct kvt_calibration first, second;
    static struct kvt_err err;
    memset(&err, 0, sizeof err);
    char *text = place_text("", bytes, count);
    if (text[0] == '=') {
        struct kvt_kernel_rule rule;
        enum kvt_status status = kvt_kernel_rule_parse(&rule, text + 1, &err);
        kvt_assert((status == KVT_OK) == (err.count == 0));
    } else if (kvt_calibration_parse(&first, "fuzz", text, count, &gpu, NULL, &err) == KVT_OK) {
        price(&first);
        char *once = printed(&first);
        enum kvt_status status =
            kvt_calibration_parse(&second, "fuzz", once, strlen(once), &gpu, NULL, &err);
        if (status != KVT_OK)
            fprintf(stderr, "%s\n%s\n", once, err.text);
        kvt_assert(status == KVT_OK);
        char *again = printed(&second);
        kvt_assert(strcmp(once, again) == 0);
        free(again);
        free(once);
        kvt_calibration_release(&second);
        kvt_calibration_release(&first);
    } else {
        kvt_assert(err.count >= 1);
    }
    free(text);
    return 0;
}
