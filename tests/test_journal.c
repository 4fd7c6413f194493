/* The journal: whole records come back, a cut one does not, and other jobs are refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/file.h"
#include "sim/output/journal.h"
#include "tests/check.h"

#define PATH     check_temp("records.journal")
#define IDENTITY "kvtwin 1\nseed 7\nconfig 0123\n"

static struct kvt_err err;

struct seen {
    int32_t count;
    int64_t keys[8];
    char texts[8][16];
};

static enum kvt_status see(void *context, int64_t key, const void *bytes, size_t count,
                           struct kvt_err *unused)
{
    struct seen *seen = context;
    (void)unused;
    seen->keys[seen->count] = key;
    memcpy(seen->texts[seen->count], bytes, count);
    seen->texts[seen->count++][count] = '\0';
    return KVT_OK;
}

static void append(struct kvt_journal *journal, int64_t key, const char *text)
{
    CHECK_OK(kvt_journal_append(journal, key, text, strlen(text), &err), err);
}

/* A journal of three records; its size in bytes. */
static off_t write_three(void)
{
    struct kvt_journal journal;
    struct stat size;
    remove(PATH);
    CHECK_OK(kvt_journal_open(&journal, PATH, IDENTITY, NULL, NULL, &err), err);
    append(&journal, 5, "five");
    append(&journal, 0, "");
    append(&journal, 3, "three");
    kvt_journal_close(&journal);
    CHECK(stat(PATH, &size) == 0);
    return size.st_size;
}

static void records_come_back_in_the_order_of_writing(void)
{
    struct kvt_journal journal;
    struct seen seen = {0};
    write_three();
    CHECK_OK(kvt_journal_open(&journal, PATH, IDENTITY, see, &seen, &err), err);
    append(&journal, 9, "nine");
    kvt_journal_close(&journal);
    CHECK_I64(seen.count, 3, "records");
    CHECK_I64(seen.keys[0], 5, "the first");
    CHECK_TEXT(seen.texts[0], "five", "its bytes");
    CHECK_TEXT(seen.texts[1], "", "no bytes");
    seen = (struct seen){0};
    CHECK_OK(kvt_journal_read(PATH, IDENTITY, see, &seen, &err), err);
    CHECK_I64(seen.count, 4, "and what was added");
    CHECK_TEXT(seen.texts[3], "nine", "after the others");
    remove(PATH);
}

static void a_journal_cut_anywhere_gives_its_whole_records_and_goes_on(void)
{
    off_t whole = write_three();
    for (off_t bytes = whole; bytes >= 0; bytes--) {
        struct kvt_journal journal;
        struct seen before = {0}, after = {0};
        write_three();
        CHECK(truncate(PATH, bytes) == 0);
        CHECK_OK(kvt_journal_open(&journal, PATH, IDENTITY, see, &before, &err), err);
        append(&journal, 8, "eight");
        kvt_journal_close(&journal);
        CHECK_OK(kvt_journal_read(PATH, IDENTITY, see, &after, &err), err);
        CHECK_I64(after.count, before.count + 1, "the whole ones and the new one");
        CHECK(before.count <= 3);
        if (before.count > 3)
            break;
        CHECK_TEXT(after.texts[before.count], "eight", "the new one");
        CHECK(before.count == 3 ? bytes == whole : bytes < whole);
        static const int64_t keys[] = {5, 0, 3};
        for (int32_t i = 0; i < before.count; i++)
            CHECK_I64(before.keys[i], keys[i], "in order");
    }
    remove(PATH);
}

static void a_changed_byte_ends_the_journal_before_its_record(void)
{
    off_t whole = write_three();
    for (off_t bytes = 12; bytes < whole; bytes++) {
        struct seen seen = {0};
        write_three();
        FILE *file = fopen(PATH, "r+b");
        CHECK(file != NULL);
        if (file == NULL)
            return;
        CHECK(fseek(file, bytes, SEEK_SET) == 0);
        int was = fgetc(file);
        CHECK(fseek(file, bytes, SEEK_SET) == 0);
        fputc(was ^ 0x41, file);
        CHECK(fclose(file) == 0);
        struct kvt_err own = {0};
        enum kvt_status status = kvt_journal_read(PATH, IDENTITY, see, &seen, &own);
        CHECK(status == KVT_OK && seen.count < 3);
    }
    remove(PATH);
}

static void another_job_and_another_kind_of_file_are_refused(void)
{
    struct kvt_journal journal;
    struct kvt_err own = {0};
    write_three();
    CHECK_FAILS(
        kvt_journal_open(&journal, PATH, "kvtwin 1\nseed 8\nconfig 0123\n", NULL, NULL, &own), own,
        KVT_ECONFIG);
    CHECK_HOLDS(own.text, "want \"seed 8\", got \"seed 7\"", "what differs");
    CHECK_OK(kvt_file_write(PATH, "title: x\n", 9, &err), err);
    own = (struct kvt_err){0};
    CHECK_FAILS(kvt_journal_open(&journal, PATH, IDENTITY, NULL, NULL, &own), own, KVT_ECONFIG);
    CHECK_HOLDS(own.text, "want a journal", "what it is not");
    own = (struct kvt_err){0};
    CHECK_FAILS(kvt_journal_open(&journal, "/nowhere/x", IDENTITY, NULL, NULL, &own), own, KVT_EIO);
    CHECK_FAILS(kvt_journal_read("/nowhere/x", IDENTITY, NULL, NULL, &own), own, KVT_EIO);
    remove(PATH);
}

const struct check_test check_journal[] = {
    {"records come back in the order of writing", records_come_back_in_the_order_of_writing, false},
    {"a journal cut anywhere gives its whole records and goes on",
     a_journal_cut_anywhere_gives_its_whole_records_and_goes_on, false},
    {"a changed byte ends the journal before its record",
     a_changed_byte_ends_the_journal_before_its_record, false},
    {"another job and another kind of file are refused",
     another_job_and_another_kind_of_file_are_refused, false},
    {NULL, NULL, false},
};
