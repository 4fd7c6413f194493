/*
 * The tests of the CUDA kernels as a program: emulated or on a device.
 *
 *   check [--seeds N] [--fault N] [PART ...]    tests whose name holds one of the parts
 *
 * --fault plants fault N of emulate.h into the kernels: then tests must fail.
 *
 * Exit 0 all hold, 1 some do not, 7 no device (the tests are counted as skipped).
 */
#include <chrono>
#include <cstdarg>

#include "tests/cuda/cuda_check.h"

static int failures, failures_shown, skipped;
static const char *skip_reason;
static const char *running;
static uint64_t running_seed;

bool check_failed(const char *file, int line, const char *format, ...)
{
    failures++;
    if (failures_shown++ < 40) {
        fprintf(stderr, "%s:%d: %s (seed %d): ", file, line, running,
                static_cast<int>(running_seed));
        va_list list;
        va_start(list, format);
        vfprintf(stderr, format, list);
        va_end(list);
        fputc('\n', stderr);
    }
    return false;
}

void skip_test(const char *why)
{
    skip_reason = why;
}

static bool is_chosen(const char *name, int argc, char **argv, int first)
{
    for (int i = first; i < argc; i++)
        if (strstr(name, argv[i]) != nullptr)
            return true;
    return first >= argc;
}

static void run(const struct cuda_test *test, uint64_t seeds)
{
    auto from = std::chrono::steady_clock::now();
    int before = failures;
    skip_reason = nullptr;
    running = test->name;
    for (running_seed = 0; running_seed < seeds; running_seed++) {
        cuda_set_seed(running_seed);
        test->run();
    }
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - from;
    printf("%-72s %6.2f s %s\n", test->name, took.count(),
           failures > before        ? "FAILED"
           : skip_reason != nullptr ? "skipped"
                                    : "ok");
    if (skip_reason != nullptr) {
        printf("    skipped: %s\n", skip_reason);
        skipped++;
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    uint64_t seeds = cuda_is_emulated ? 3 : 1;
    int first = 1;
    for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
        int number = static_cast<int>(strtol(argv[first + 1], nullptr, 10));
        if (strcmp(argv[first], "--seeds") == 0)
            seeds = static_cast<uint64_t>(number);
        else if (strcmp(argv[first], "--fault") == 0)
            cuda_set_fault(number);
    }
    struct kvt_cuda_device device = {};
    struct kvt_err err = {};
    if (kvt_cuda_open(0, INT64_C(1) << 30, &device, &err) != KVT_OK) {
        printf("cuda tests skipped: %s\n", err.text);
        return KVT_EDEVICE;
    }
    printf("%s, %d multiprocessors, %d seeds\n", device.name, device.multiprocessors,
           static_cast<int>(seeds));
    int count = 0;
    for (const struct cuda_test *suite :
         {emulation_tests, codec_tests, paging_tests, attention_tests, gemm_tests})
        for (const struct cuda_test *test = suite; test->name != nullptr; test++) {
            if (!is_chosen(test->name, argc, argv, first))
                continue;
            run(test, seeds);
            count++;
        }
    printf("%d tests, %d failed checks, %d skipped\n", count, failures, skipped);
    return failures == 0 && count > 0 ? 0 : 1;
}
