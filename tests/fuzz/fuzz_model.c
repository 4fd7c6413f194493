/* Any bytes as a Hugging Face config.json (after a zero byte: an hf_quant_config.json), or as a
 * model file of ours: a model that keeps its checks and reads back as it prints, or a message. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/model/model.h"
#include "tests/fuzz/place.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void model_check(const struct kvt_model *model, struct kvt_err *err)
{
    static struct kvt_model again;
    kvt_assert(kvt_model_check(model, err) == KVT_OK);
    char *printed = kvt_model_print(model);
    kvt_assert(printed != NULL);
    if (kvt_model_parse(&again, "fuzz", printed, strlen(printed), err) != KVT_OK)
        fprintf(stderr, "%s\n%s\n", printed, err->text);
    kvt_assert(err->count == 0);
    free(printed);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct kvt_model model;
    static struct kvt_err err;
    memset(&err, 0, sizeof err);
    char *text = place_text("", bytes, count);
    size_t length = strlen(text);
    const char *quant = length < count ? text + length + 1 : NULL;
    enum kvt_status status = text[0] == '{'
                                 ? kvt_model_import_text(&model, "fuzz", text, quant, NULL, &err)
                                 : kvt_model_parse(&model, "fuzz", text, length, &err);
    if (status == KVT_OK)
        model_check(&model, &err);
    else
        kvt_assert(err.count >= 1 && err.status == status);
    free(text);
    return 0;
}
