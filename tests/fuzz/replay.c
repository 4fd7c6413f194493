/*
 * replay.c - the corpora of the fuzzers through their targets, without a fuzzer
 *
 *   replay                every file of tests/fuzz/corpus/NAME/ through fuzz_NAME
 *   replay NAME FILE...   these files: what a fuzzer left when it found a fault
 *
 * A fault aborts; the file under way is named.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/file.h"

/* clang-format off */
#define TARGETS(X)                                                      \
    X(config) X(points) X(simulate) X(trace) X(table) X(calibration)    \
    X(model) X(gpu) X(bench) X(server) X(run) X(pairs) X(journal)
/* clang-format on */
#define FILES_MAX 1000
#define BYTES_MAX (1 << 20)

#define X(name) int fuzz_##name(const uint8_t *bytes, size_t count);
TARGETS(X)
#undef X

static const struct target {
    const char *name;
    int (*run)(const uint8_t *bytes, size_t count);
} targets[] = {
#define X(name) {#name, fuzz_##name},
    TARGETS(X)
#undef X
};

static const char *under_way = "";

static void on_abort(int signal_number)
{
    (void)signal_number;
    if (write(STDERR_FILENO, under_way, strlen(under_way)) >= 0 &&
        write(STDERR_FILENO, ": aborts\n", 9) >= 0)
        return;
}

static int replay(const struct target *target, const char *path)
{
    static uint8_t bytes[BYTES_MAX];
    under_way = path;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    size_t count = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return target->run(bytes, count);
}

static int replay_corpus(const struct target *target, int *replayed)
{
    char folder[64], *files[FILES_MAX];
    int failed = 0;
    snprintf(folder, sizeof folder, "tests/fuzz/corpus/%s", target->name);
    int32_t count;
    struct kvt_err err = {0};
    if (kvt_folder_files(folder, "", files, FILES_MAX, &count, &err) != KVT_OK || count == 0) {
        fprintf(stderr, "%s: no corpus %s\n", folder, err.text);
        return 1;
    }
    for (int32_t i = 0; i < count; i++) {
        failed += replay(target, files[i]) != 0;
        free(files[i]);
    }
    *replayed += count;
    return failed;
}

int main(int argc, char **argv)
{
    size_t count = sizeof targets / sizeof targets[0];
    int failed = 0, replayed = 0;
    signal(SIGABRT, on_abort);
    for (size_t i = 0; i < count; i++) {
        if (argc < 2) {
            failed += replay_corpus(&targets[i], &replayed);
        } else if (strcmp(argv[1], targets[i].name) == 0) {
            for (int k = 2; k < argc; k++, replayed++)
                failed += replay(&targets[i], argv[k]) != 0;
        }
    }
    printf("replay: %d inputs of %zu fuzzers, %d failed\n", replayed, count, failed);
    return failed > 0 || replayed == 0;
}
