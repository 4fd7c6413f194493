#include "sim/base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local bool failed;

static void *allocate(size_t size_bytes)
{
    void *memory = malloc(size_bytes);
    failed = failed || memory == NULL;
    return memory;
}

void kvt_json_begin(void)
{
    json_set_alloc_funcs(allocate, free);
    failed = false;
}

bool kvt_json_failed(void)
{
    return failed;
}

enum kvt_status kvt_json_check(struct kvt_err *err)
{
    return failed ? kvt_err_set(err, KVT_ENOMEM, "no memory for the JSON output") : KVT_OK;
}

enum kvt_status kvt_json_print(json_t *tree, size_t digits, FILE *file, struct kvt_err *err)
{
    failed = failed || tree == NULL;
    if (!failed)
        (void)json_dumpf(tree, file, JSON_INDENT(2) | JSON_REAL_PRECISION(digits));
    fputc('\n', file);
    json_decref(tree);
    return kvt_json_check(err);
}

json_t *kvt_json_text(const char *text)
{
    json_t *value = json_string(text);
    if (value != NULL || failed)
        return value;
    char *ascii = strdup(text);
    for (char *c = ascii; c != NULL && *c != '\0'; c++)
        *c = (unsigned char)*c < 128 ? *c : '?';
    failed = ascii == NULL;
    value = json_string(ascii);
    free(ascii);
    return value;
}

json_t *kvt_json_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}
