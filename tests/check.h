/*
 * check.h - checks that print what they got and what they wanted, over CUnit
 *
 * A suite is one file test_<name>.c that defines `const struct check_test check_<name>[]`, ended
 * by an empty row, and one line in suites.h. Test names are sentences. A test that needs data which
 * is not there (../shared) calls check_skip and returns; skips are counted and printed.
 */
#ifndef KVT_TESTS_CHECK_H
#define KVT_TESTS_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/base/status.h"

struct check_test {
    const char *name;
    void (*run)(void);
    bool slow; /* left out of `make test` */
};

void check_that(bool holds, const char *expr, const char *note, const char *file, unsigned line);
void check_i64(int64_t got, int64_t want, const char *expr, const char *note, const char *file,
               unsigned line);
void check_close(double got, double want, double rel, const char *expr, const char *note,
                 const char *file, unsigned line);
void check_text(const char *got, const char *want, const char *expr, const char *note,
                const char *file, unsigned line);
void check_holds(const char *got, const char *part, const char *expr, const char *note,
                 const char *file, unsigned line);
void check_status(enum kvt_status got, const struct kvt_err *err, enum kvt_status want,
                  const char *expr, const char *file, unsigned line);
void check_skip(const char *why);

/* Path of a file in ../shared, or NULL (after check_skip) when it is not there. Static storage. */
const char *check_shared(const char *name);

/* Path of a file that a test may write and should remove: no other process has it. Until the next
 * call with another name. */
const char *check_temp(const char *name);

#define CHECK(x)                   check_that((x), #x, "", __FILE__, __LINE__)
#define CHECK_NOTE(x, note)        check_that((x), #x, (note), __FILE__, __LINE__)
#define CHECK_I64(got, want, note) check_i64((got), (want), #got, (note), __FILE__, __LINE__)
#define CHECK_CLOSE(got, want, rel, note)                                                          \
    check_close((got), (want), (rel), #got, (note), __FILE__, __LINE__)
#define CHECK_TEXT(got, want, note)  check_text((got), (want), #got, (note), __FILE__, __LINE__)
#define CHECK_HOLDS(got, part, note) check_holds((got), (part), #got, (note), __FILE__, __LINE__)
/* expr returns a status and fills err (a struct kvt_err). */
#define CHECK_OK(expr, err)          check_status((expr), &(err), KVT_OK, #expr, __FILE__, __LINE__)
#define CHECK_FAILS(expr, err, want) check_status((expr), &(err), (want), #expr, __FILE__, __LINE__)

#endif
