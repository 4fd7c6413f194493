/*
 * fuzz_run.c - a run file with bytes changed, against the reader of run files
 *
 * Input: two bytes that say where the file is cut (0: nowhere), then four bytes for each change:
 * three say where, one what. The file is tests/fuzz/run.h5, a logged run of two requests. It is
 * compared with the changed one, or, when bytes are left over, the changed one is read for a report
 * whose page is written: a comparison or a page, or a message, and nothing left open.
 */
#include <hdf5.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/output/compare.h"
#include "sim/report/report.h"
#include "tests/fuzz/place.h"

#define WHOLE     "tests/fuzz/run.h5"
#define BYTES_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static uint8_t whole[BYTES_MAX];
static size_t whole_count;

static void read_whole(void)
{
    FILE *file = fopen(WHOLE, "rb");
    if (file == NULL) {
        fprintf(stderr, "%s: not here; run from the root of the sources\n", WHOLE);
        exit(1);
    }
    whole_count = fread(whole, 1, sizeof whole, file);
    kvt_assert(whole_count > 0 && whole_count < BYTES_MAX);
    fclose(file);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* as cli/main.c does */
}

/* The path of the changed file. */
static const char *place_changed(const uint8_t *bytes, size_t count)
{
    static uint8_t changed[BYTES_MAX];
    size_t cut = whole_count;
    memcpy(changed, whole, whole_count);
    if (count >= 2 && (bytes[0] != 0 || bytes[1] != 0))
        cut = (size_t)(bytes[0] * 256 + bytes[1]) % whole_count;
    for (size_t i = 2; i + 4 <= count; i += 4) {
        size_t at = ((size_t)bytes[i] << 16 | (size_t)bytes[i + 1] << 8 | bytes[i + 2]);
        changed[at % whole_count] = bytes[i + 3];
    }
    return place_bytes(changed, cut);
}

static void compare(const char *path, bool changed, FILE *out)
{
    struct kvt_comparison comparison;
    static struct kvt_err err;
    memset(&err, 0, sizeof err);
    enum kvt_status status = kvt_comparison_init(&comparison, WHOLE, path, &err);
    kvt_assert(changed || (status == KVT_OK && comparison.equal)); /* the target does open it */
    if (status == KVT_OK)
        kvt_assert(kvt_comparison_text(&comparison, out, &err) == KVT_OK);
    else
        kvt_assert(err.count >= 1);
    kvt_comparison_release(&comparison);
}

static void report(const char *path, bool changed, FILE *out)
{
    static struct kvt_report page;
    static struct kvt_err err;
    memset(&err, 0, sizeof err);
    enum kvt_status status = kvt_report_read(&page, path, NULL, 0, &err);
    kvt_assert(changed || status == KVT_OK);
    kvt_assert((status == KVT_OK) == (err.count == 0));
    if (status == KVT_OK)
        kvt_assert(kvt_report_html(&page, out, &err) == KVT_OK);
    kvt_report_release(&page);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static FILE *nowhere;
    if (whole_count == 0)
        read_whole();
    if (nowhere == NULL)
        nowhere = fopen("/dev/null", "w");
    kvt_assert(nowhere != NULL);
    const char *path = place_changed(bytes, count);
    bool changed = count > 2 || (count == 2 && (bytes[0] != 0 || bytes[1] != 0));
    if (count % 4 == 3 || count == 1)
        report(path, changed, nowhere);
    else
        compare(path, changed, nowhere);
    return 0;
}
