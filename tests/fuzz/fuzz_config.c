/*
 * fuzz_config.c - the reader of configurations against any bytes
 *
 * Input: the text of a config; after a first zero byte, one --set a line. It is refused with a
 * message, or read, printed, and read back as what prints the same.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/config/config.h"
#include "tests/fuzz/place.h"

#define SETS_MAX 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count)
{
    struct kvt_config first, second;
    static struct kvt_err err;
    const uint8_t *zero = memchr(data, 0, count);
    size_t length = zero != NULL ? (size_t)(zero - data) : count;
    char *text = place_text("", data, count);
    const char *sets[SETS_MAX];
    int32_t set_count = zero != NULL ? place_lines(text + length + 1, sets, SETS_MAX) : 0;
    memset(&err, 0, sizeof err);
    enum kvt_status status =
        kvt_config_parse(&first, "fuzz", text, length, "folder", sets, set_count, &err);
    kvt_assert((status == KVT_OK) == (err.count == 0));
    if (status == KVT_OK) {
        char *printed = kvt_config_print(&first);
        status = kvt_config_parse(&second, "fuzz", printed, strlen(printed), "", NULL, 0, &err);
        if (status != KVT_OK)
            fprintf(stderr, "%s\n%s\n", printed, err.text);
        kvt_assert(status == KVT_OK);
        char *again = kvt_config_print(&second);
        kvt_assert(strcmp(printed, again) == 0);
        kvt_assert(first.domains == second.domains);
        free(again);
        free(printed);
        kvt_config_release(&second);
    }
    kvt_config_release(&first);
    free(text);
    return 0;
}
