#define _DEFAULT_SOURCE /* flock */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "sim/base/arena.h"
#include "sim/base/file.h"
#include "sim/base/random.h"
#include "sim/base/spelling.h"
#include "sim/base/ticks.h"
#include "sim/base/units.h"
#include "tests/check.h"

static void philox_gives_the_published_vector(void)
{
    struct kvt_stream stream;
    kvt_stream_init(&stream, 0, (enum kvt_purpose)0, 0);
    CHECK_I64(kvt_stream_u32(&stream), 0x6627e8d5, "Random123 kat, word 0");
    CHECK_I64(kvt_stream_u32(&stream), 0xe169c58d, "word 1");
    CHECK_I64(kvt_stream_u32(&stream), 0xbc57ac4c, "word 2");
    CHECK_I64(kvt_stream_u32(&stream), 0x9b00dbd8, "word 3");
}

static void streams_of_two_purposes_share_no_draw(void)
{
    struct kvt_stream a, b;
    kvt_stream_init(&a, 7, KVT_PURPOSE_INPUT, 3);
    kvt_stream_init(&b, 7, KVT_PURPOSE_OUTPUT, 3);
    int equal = 0;
    for (int i = 0; i < 1000; i++)
        equal += kvt_stream_u32(&a) == kvt_stream_u32(&b);
    CHECK_I64(equal, 0, "1000 draws");
}

static void a_gsl_rng_draws_what_the_stream_draws(void)
{
    struct kvt_stream stream;
    kvt_stream_init(&stream, 2385, KVT_PURPOSE_ARRIVAL, 1);
    gsl_rng *rng = gsl_rng_alloc(kvt_rng_type);
    kvt_rng_attach(rng, &stream);
    for (int i = 0; i < 9; i++)
        CHECK_I64((int64_t)gsl_rng_get(rng), kvt_stream_u32(&stream), "same stream");
    gsl_rng_free(rng);
}

static void a_transfer_rounds_up_to_a_whole_tick(void)
{
    CHECK_I64(kvt_muldiv_ceil(10, 1000000000, 3), 3333333334, "ceil(10e9/3)");
    CHECK_I64(kvt_muldiv_ceil(INT64_MAX, INT64_MAX, 1), INT64_MAX, "saturates");
    CHECK_I64(kvt_muldiv_ceil(INT64_C(141) << 30, 1000000000, INT64_C(4800000000000)), 31541167,
              "141 GiB at 4.8 TB/s in ns");
    CHECK_I64(kvt_ns_from_ticks(1535), 1, "1.499 ns");
    CHECK_I64(kvt_ns_from_ticks(1536), 2, "1.5 ns");
}

static void quantities_carry_units(void)
{
    static const struct {
        const char *text;
        enum kvt_dimension dimension;
        double want;
    } rows[] = {
        {"141 GiB", KVT_DIMENSION_BYTES, 141.0 * 1073741824},
        {"80GB", KVT_DIMENSION_BYTES, 80e9},
        {"50 GB/s", KVT_DIMENSION_BANDWIDTH, 50e9},
        {"400 Gbit/s", KVT_DIMENSION_BANDWIDTH, 50e9},
        {"10 us", KVT_DIMENSION_TIME, 1e-5},
        {"2.5 min", KVT_DIMENSION_TIME, 150},
        {"4 req/s", KVT_DIMENSION_RATE, 4},
        {"3.5 USD/h", KVT_DIMENSION_PRICE, 3.5},
        {"-3", KVT_DIMENSION_NONE, -3},
    };
    struct kvt_err err = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double got = (double)NAN;
        CHECK_OK(kvt_quantity_parse(rows[i].text, rows[i].dimension, &got, &err), err);
        CHECK_CLOSE(got, rows[i].want, 0, rows[i].text);
        char text[64];
        double back = (double)NAN;
        kvt_quantity_print(got, rows[i].dimension, text, sizeof text);
        CHECK_OK(kvt_quantity_parse(text, rows[i].dimension, &back, &err), err);
        CHECK_CLOSE(back, got, 0, text);
    }
}

static void a_quantity_of_another_kind_is_refused(void)
{
    static const char *const bad[] = {"",        "nan GiB", "inf GiB",  "141",
                                      "141 Gib", "141 us",  "0x10 GiB", "1e999 GiB",
                                      "GiB",     "1 GiB x", " 1 GiB",   "1e308 TiB"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct kvt_err err = {0};
        double value = 2.385;
        CHECK_FAILS(kvt_quantity_parse(bad[i], KVT_DIMENSION_BYTES, &value, &err), err,
                    KVT_ECONFIG);
        CHECK_HOLDS(err.text, "141 GiB", bad[i]);
        CHECK_CLOSE(value, 2.385, 0, "untouched");
    }
}

static void a_typing_mistake_finds_its_name(void)
{
    static const char *const names[] = {"replicas", "parallel", "weights", "page_tokens"};
    CHECK_TEXT(kvt_nearest_name("replcias", names, 4), "replicas", "swap");
    CHECK_TEXT(kvt_nearest_name("page_token", names, 4), "page_tokens", "deletion");
    CHECK(kvt_nearest_name("zebra", names, 4) == NULL);
}

static void an_error_collects_ten_messages(void)
{
    struct kvt_err err = {0};
    struct kvt_where where = {"a.yaml", 3, 7};
    for (int i = 0; i < 12; i++)
        kvt_err_at(&err, i == 0 ? KVT_ECONFIG : KVT_EIO, where, "mistake %d", i);
    CHECK_I64(err.status, KVT_ECONFIG, "of the first");
    CHECK_I64(err.count, 12, "");
    CHECK_HOLDS(err.text, "a.yaml:3:7: mistake 9", "");
    CHECK(strstr(err.text, "mistake 10") == NULL);
}

static void an_arena_is_zeroed_aligned_and_bounded(void)
{
    struct kvt_arena arena;
    struct kvt_err err = {0};
    CHECK_OK(kvt_arena_init(&arena, 8192, &err), err);
    char *first = kvt_arena_take(&arena, 3, 7);
    char *second = kvt_arena_take(&arena, 1, 1);
    CHECK_I64(second - first, 64, "aligned to a cache line");
    CHECK_I64(first[20] + second[0], 0, "zeroed");
    CHECK(kvt_arena_take(&arena, 8192, 1) == NULL);
    CHECK(kvt_arena_take(&arena, SIZE_MAX / 2, 4) == NULL);
    void *out = NULL;
    CHECK_FAILS(kvt_arena_get(&arena, 9000, 1, "pages", &out, &err), err, KVT_ENOMEM);
    CHECK_HOLDS(err.text, "pages", "names what was wanted");
    kvt_arena_release(&arena);
    memset(&arena, 0x55, sizeof arena);
    CHECK_FAILS(kvt_arena_init(&arena, SIZE_MAX / 4, &err), err, KVT_ENOMEM);
    CHECK(arena.base == NULL);
    CHECK_I64((int64_t)arena.mapped, 0, "what is not there may be released");
    kvt_arena_release(&arena);
    CHECK_FAILS(kvt_arena_init(&arena, SIZE_MAX - 1, &err), err, KVT_ENOMEM);
}

static int64_t sum_of(const unsigned char *bytes, size_t count)
{
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += bytes[i];
    return sum;
}

/* Mappings are kept from one arena to the next: what was in them must not be seen again. */
static void an_arena_after_another_is_as_new(void)
{
    static const size_t limits[] = {4096, (size_t)40 << 20, 70000, (size_t)40 << 20, 1 << 20};
    struct kvt_arena arenas[12];
    struct kvt_err err = {0};
    size_t count = sizeof limits / sizeof limits[0];
    for (size_t turn = 0; turn < 4; turn++) {
        for (size_t i = 0; i < 12; i++) { /* more than a thread keeps */
            size_t limit = limits[(i + turn) % count];
            CHECK_OK(kvt_arena_init(&arenas[i], limit, &err), err);
            CHECK_I64((int64_t)arenas[i].limit, (int64_t)(limit + 4095) / 4096 * 4096, "limit");
            CHECK_I64((int64_t)arenas[i].used, 0, "used");
            size_t much = i % 3 == 0 ? arenas[i].limit : arenas[i].limit / 3;
            unsigned char *bytes = kvt_arena_take(&arenas[i], much, 1);
            CHECK_I64(sum_of(bytes, much), 0, "zeroed");
            CHECK(kvt_arena_take(&arenas[i], arenas[i].limit, 1) == NULL);
            memset(bytes, 0xff, much);
        }
        for (size_t i = 0; i < 12; i++)
            kvt_arena_release(&arenas[(i * 5) % 12]);
    }
}

/* ---- outputs ---- */

static void file_put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    if (file == NULL)
        return;
    CHECK(fputs(text, file) >= 0);
    CHECK_I64(fclose(file), 0, path);
}

static void check_file(const char *path, const char *want)
{
    struct kvt_text text = {0};
    struct kvt_err err = {0};
    CHECK_OK(kvt_text_read(path, 1000, &text, &err), err);
    CHECK_TEXT(text.bytes, want, "contents");
    kvt_text_free(&text);
}

static void a_byte_order_mark_is_no_text(void)
{
    static const char *const rows[][2] = {{"\xef\xbb\xbf{}", "{}"},
                                          {"\xef\xbb\xbf", ""},
                                          {"\xef\xbb", "\xef\xbb"},
                                          {"", ""},
                                          {"a\xef\xbb\xbf", "a\xef\xbb\xbf"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        file_put(check_temp("mark.txt"), rows[i][0]);
        check_file(check_temp("mark.txt"), rows[i][1]);
    }
    remove(check_temp("mark.txt"));
}

static void what_a_killed_run_left_is_overwritten(void)
{
    char path[160], temp[192];
    struct kvt_err err = {0};
    snprintf(path, sizeof path, "%s", check_temp("left.txt"));
    snprintf(temp, sizeof temp, "%s.tmp.kvtwin", path);
    file_put(path, "old");
    file_put(temp, "more than the new one has");
    CHECK_OK(kvt_file_write(path, "new", 3, &err), err);
    check_file(path, "new");
    CHECK_NOTE(access(temp, F_OK) != 0, "the temporary has the final name");
    unlink(path);
}

/* The lock is of an open file, so that one process can play two. */
static void an_output_that_another_run_writes_is_refused(void)
{
    char path[160], temp[192];
    struct kvt_err err = {0};
    snprintf(path, sizeof path, "%s", check_temp("shared.txt"));
    snprintf(temp, sizeof temp, "%s.tmp.kvtwin", path);
    int other = open(temp, O_WRONLY | O_CREAT, 0666);
    CHECK(other >= 0 && flock(other, LOCK_EX) == 0 && write(other, "theirs", 6) == 6);
    CHECK_FAILS(kvt_file_write(path, "mine", 4, &err), err, KVT_EIO);
    CHECK_HOLDS(err.text, "another run writes it", "says why");
    check_file(temp, "theirs");
    CHECK(rename(temp, path) == 0); /* it has its final name, and the lock is still held */
    err = (struct kvt_err){0};
    CHECK_OK(kvt_file_write(path, "mine", 4, &err), err);
    check_file(path, "mine");
    close(other);
    unlink(path);
}

static void a_text_in_memory_that_is_cut_off_is_told(void)
{
    char *text = NULL;
    size_t count = 0;
    FILE *memory = kvt_memory_open(&text, &count);
    fputs("whole", memory);
    CHECK(kvt_memory_close(memory, &text));
    CHECK_TEXT(text, "whole", "");
    free(text);
    char few[4], *cut = strdup("too");
    memory = fmemopen(few, sizeof few, "w");
    fputs("too long", memory);
    fflush(memory);
    CHECK(!kvt_memory_close(memory, &cut));
    CHECK(cut == NULL);
}

const struct check_test check_base[] = {
    {"Philox gives the published vector", philox_gives_the_published_vector, false},
    {"streams of two purposes share no draw", streams_of_two_purposes_share_no_draw, false},
    {"a gsl_rng draws what the stream draws", a_gsl_rng_draws_what_the_stream_draws, false},
    {"a transfer rounds up to a whole tick", a_transfer_rounds_up_to_a_whole_tick, false},
    {"quantities carry units", quantities_carry_units, false},
    {"a quantity of another kind is refused", a_quantity_of_another_kind_is_refused, false},
    {"a typing mistake finds its name", a_typing_mistake_finds_its_name, false},
    {"an error collects ten messages", an_error_collects_ten_messages, false},
    {"an arena is zeroed, aligned and bounded", an_arena_is_zeroed_aligned_and_bounded, false},
    {"an arena after another is as new", an_arena_after_another_is_as_new, false},
    {"a byte order mark is no text", a_byte_order_mark_is_no_text, false},
    {"what a killed run left is overwritten", what_a_killed_run_left_is_overwritten, false},
    {"an output that another run writes is refused", an_output_that_another_run_writes_is_refused,
     false},
    {"a text in memory that is cut off is told", a_text_in_memory_that_is_cut_off_is_told, false},
    {NULL, NULL, false},
};
