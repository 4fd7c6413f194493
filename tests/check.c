#include "tests/check.h"

#include <CUnit/Basic.h>
#include <CUnit/CUnit.h>
#include <gsl/gsl_errno.h>
#include <hdf5.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/suites.h"

#define X(name) extern const struct check_test check_##name[];
CHECK_SUITES(X)
#undef X

static const struct {
    const char *name;
    const struct check_test *tests;
} suites[] = {
#define X(name) {#name, check_##name},
    CHECK_SUITES(X)
#undef X
};

static int skips;

void check_skip(const char *why)
{
    skips++;
    printf("(skipped: %s) ", why);
}

const char *check_temp(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "/tmp/kvtwin-test-%ld-%s", (long)getpid(), name);
    return path;
}

const char *check_shared(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "../shared/%s", name);
    if (access(path, R_OK) == 0)
        return path;
    check_skip(path);
    return NULL;
}

static void record(bool holds, const char *text, const char *file, unsigned line)
{
    CU_assertImplementation(holds ? CU_TRUE : CU_FALSE, line, text, file, "", CU_FALSE);
}

void check_that(bool holds, const char *expr, const char *note, const char *file, unsigned line)
{
    char text[512];
    snprintf(text, sizeof text, "%s [%s]", expr, note);
    record(holds, text, file, line);
}

void check_i64(int64_t got, int64_t want, const char *expr, const char *note, const char *file,
               unsigned line)
{
    char text[512];
    snprintf(text, sizeof text, "%s: got %" PRId64 ", want %" PRId64 " [%s]", expr, got, want,
             note);
    record(got == want, text, file, line);
}

void check_close(double got, double want, double rel, const char *expr, const char *note,
                 const char *file, unsigned line)
{
    char text[512];
    snprintf(text, sizeof text, "%s: got %.9g, want %.9g within %.3g [%s]", expr, got, want, rel,
             note);
    record(fabs(got - want) <= rel * fabs(want), text, file, line);
}

void check_text(const char *got, const char *want, const char *expr, const char *note,
                const char *file, unsigned line)
{
    char text[2048];
    got = got != NULL ? got : "(null)";
    snprintf(text, sizeof text, "%s: got \"%.900s\", want \"%.900s\" [%s]", expr, got, want, note);
    record(strcmp(got, want) == 0, text, file, line);
}

void check_holds(const char *got, const char *part, const char *expr, const char *note,
                 const char *file, unsigned line)
{
    char text[2048];
    snprintf(text, sizeof text, "%s: got \"%.1200s\", want \"%.500s\" in it [%s]", expr, got, part,
             note);
    record(strstr(got, part) != NULL, text, file, line);
}

void check_status(enum kvt_status got, const struct kvt_err *err, enum kvt_status want,
                  const char *expr, const char *file, unsigned line)
{
    char text[2048];
    snprintf(text, sizeof text, "%s: got status %d (%.1500s), want %d", expr, got,
             err->count > 0 ? err->text : "no message", want);
    record(got == want, text, file, line);
}

static bool suite_is_wanted(const char *name, int argc, char **argv)
{
    bool named = false;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-')
            continue;
        named = true;
        if (strcmp(argv[i], name) == 0)
            return true;
    }
    return !named;
}

/* check [--slow] [SUITE...]: CU_basic_run_tests returns 0 even when tests fail, so count here. */
int main(int argc, char **argv)
{
    bool slow = false;
    for (int i = 1; i < argc; i++)
        slow = slow || strcmp(argv[i], "--slow") == 0;
    gsl_set_error_handler_off();
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    if (CU_initialize_registry() != CUE_SUCCESS)
        return EXIT_FAILURE;
    for (size_t s = 0; s < sizeof suites / sizeof suites[0]; s++) {
        if (!suite_is_wanted(suites[s].name, argc, argv))
            continue;
        CU_pSuite suite = CU_add_suite(suites[s].name, NULL, NULL);
        for (const struct check_test *test = suites[s].tests; test->name != NULL; test++)
            if (slow || !test->slow)
                CU_add_test(suite, test->name, test->run);
    }
    setvbuf(stdout, NULL, _IOLBF, 4096);
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    unsigned failures = CU_get_number_of_failures();
    unsigned run = CU_get_number_of_tests_run();
    CU_cleanup_registry();
    printf("skipped for want of data: %d\n", skips);
    return failures == 0 && run > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
