/*
 * fuzz_run.c - a run file with bytes changed, against the reader of run files
 *
 * Input: two bytes that say where the file is cut (0: nowhere), then four bytes for each change:
 * three say where, one what. The file is tests/fuzz/run.h5, a logged run of two requests, compared
 * with the changed one: a comparison, or a message, and nothing left open.
 */
#include <hdf5.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/assert.h"
#include "sim/output/compare.h"

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

static void write_changed(FILE *file, const uint8_t *bytes, size_t count)
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
    kvt_assert(fwrite(changed, 1, cut, file) == cut && fflush(file) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct kvt_comparison comparison;
    static struct kvt_err err;
    char path[] = "/tmp/fuzz-run-XXXXXX"; /* named: HDF5 wants the real path of what it opens */
    if (whole_count == 0)
        read_whole();
    int descriptor = mkstemp(path);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
    FILE *nowhere = fopen("/dev/null", "w");
    kvt_assert(file != NULL && nowhere != NULL);
    write_changed(file, bytes, count);
    memset(&err, 0, sizeof err);
    enum kvt_status status = kvt_comparison_init(&comparison, WHOLE, path, &err);
    bool changed = count > 2 || (count == 2 && (bytes[0] != 0 || bytes[1] != 0));
    kvt_assert(changed || (status == KVT_OK && comparison.equal)); /* the target does open it */
    if (status == KVT_OK)
        kvt_assert(kvt_comparison_text(&comparison, nowhere, &err) == KVT_OK);
    else
        kvt_assert(err.count >= 1);
    kvt_comparison_release(&comparison);
    fclose(nowhere);
    fclose(file);
    unlink(path);
    return 0;
}
