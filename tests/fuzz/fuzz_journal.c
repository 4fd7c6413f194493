/*
 * fuzz_journal.c - the reader of journals against any bytes
 *
 * Input: after an even byte the file itself; after an odd one its records, for a checksum is
 * hardly ever met by chance: a byte of flaws (1: a wrong checksum, 2: the file ends inside, 4: its
 * bytes are tried as a point of a sweep), a byte for the key, a byte for the length, its bytes.
 *
 * A file that is read is read the same by the one that goes on with it, and what that appends comes
 * last.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "sim/base/assert.h"
#include "sim/output/journal.h"
#include "sim/plan/point.h"
#include "tests/fuzz/place.h"

#define IDENTITY  "job"
#define BYTES_MAX 16384

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static const uint8_t MAGIC[8] = "KVTJRNL1"; /* without an end */
static uint8_t file[BYTES_MAX];
static size_t used;

static void add_record(int64_t key, const void *bytes, uint32_t count, bool right, bool whole)
{
    uLong crc = crc32(crc32(0, (const Bytef *)&key, sizeof key), bytes, count);
    uint32_t sum = (uint32_t)crc + !right;
    if (used + 16 + count > sizeof file)
        return;
    memcpy(file + used, &count, 4);
    memcpy(file + used + 4, &sum, 4);
    memcpy(file + used + 8, &key, 8);
    memcpy(file + used + 16, bytes, count);
    used += whole ? 16 + count : (16 + count) / 2;
}

static void build(const uint8_t *script, size_t count)
{
    memcpy(file, MAGIC, sizeof MAGIC);
    used = sizeof MAGIC;
    add_record(-1, IDENTITY, sizeof IDENTITY - 1, true, true);
    for (size_t i = 0; i + 3 <= count;) {
        size_t length = script[i + 2] < count - i - 3 ? script[i + 2] : count - i - 3;
        add_record((int8_t)script[i + 1], script + i + 3, (uint32_t)length, (script[i] & 1) == 0,
                   (script[i] & 2) == 0);
        i += 3 + length;
    }
}

struct seen {
    int64_t records, last;
    uLong sum;
};

static enum kvt_status see(void *context, int64_t key, const void *bytes, size_t count,
                           struct kvt_err *err)
{
    static struct kvt_point_columns columns = {.count = 3};
    struct seen *seen = context;
    double values[3];
    struct kvt_point point = {.values = values};
    (void)err;
    kvt_assert(key >= 0 && count <= KVT_JOURNAL_BYTES_MAX);
    seen->records++;
    seen->last = key;
    if (count > 0)
        seen->sum = crc32(seen->sum, bytes, (uInt)count);
    if (kvt_point_unpack(&point, &columns, bytes, count))
        kvt_assert(memchr(point.message, '\0', sizeof point.message) != NULL);
    return KVT_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct kvt_journal journal;
    struct seen first = {0}, second = {0}, third = {0};
    struct kvt_err err = {0}, other = {0};
    if (count == 0 || count > BYTES_MAX)
        return 0;
    used = count - 1;
    memcpy(file, bytes + 1, used);
    if (bytes[0] % 2 == 1)
        build(bytes + 1, count - 1);
    const char *path = place_bytes(file, used);
    enum kvt_status status = kvt_journal_read(path, IDENTITY, see, &first, &err);
    kvt_assert((status == KVT_OK) == (err.count == 0));
    enum kvt_status opened = kvt_journal_open(&journal, path, IDENTITY, see, &second, &other);
    if (status == KVT_OK) {
        kvt_assert(opened == KVT_OK && second.records == first.records && second.sum == first.sum);
        kvt_assert(kvt_journal_append(&journal, 77, "end", 3, &err) == KVT_OK);
    }
    kvt_journal_close(&journal);
    if (status == KVT_OK) {
        kvt_assert(kvt_journal_read(path, IDENTITY, see, &third, &err) == KVT_OK);
        kvt_assert(third.records == first.records + 1 && third.last == 77);
    }
    return 0;
}
