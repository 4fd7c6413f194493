/*
 * cuda_check.h - tests of the CUDA kernels, one source for a device and for the emulation (C++17)
 *
 * The tests call the launchers of kernels/cuda/launch.h and compare with the references of
 * kernels/. Linked with emulated.cc they run on any machine, under several seeds (thread orders,
 * early and late copies); linked with the CUDA runtime they run on a GPU. A failed check is printed
 * and counted; a test goes on.
 */
#ifndef KVT_TESTS_CUDA_CHECK_H
#define KVT_TESTS_CUDA_CHECK_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
#include "kernels/cuda/launch.h"
}

struct cuda_test {
    const char *name;
    void (*run)();
};

extern const struct cuda_test codec_tests[], paging_tests[], attention_tests[], gemm_tests[],
    emulation_tests[]; /* ended by an empty row */

/* Emulated: true. On a device: false, and seed does nothing. */
extern const bool cuda_is_emulated;
void cuda_set_seed(uint64_t seed);
/* Plant a fault of emulate.h, by number, into the kernels. On a device: nothing. */
void cuda_set_fault(int number);

bool check_failed(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define CHECK(holds, ...) ((holds) || check_failed(__FILE__, __LINE__, __VA_ARGS__))

/* This test does not run here: it is counted and says why. */
void skip_test(const char *why);

/* expr is a status with a message in err; the test ends when it is not KVT_OK. */
#define RUN(expr)                                                                                  \
    do {                                                                                           \
        struct kvt_err err = {};                                                                   \
        if ((expr) != KVT_OK) {                                                                    \
            check_failed(__FILE__, __LINE__, "%s: %s", #expr, err.text);                           \
            return;                                                                                \
        }                                                                                          \
    } while (0)

/* Deterministic noise: splitmix64 of a counter. */
struct noise {
    uint64_t state;
    explicit noise(uint64_t seed) : state(seed * UINT64_C(0x9e3779b97f4a7c15))
    {
    }
    uint64_t next()
    {
        uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15);
        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
    }
    int32_t below(int32_t limit)
    {
        return static_cast<int32_t>(next() % static_cast<uint64_t>(limit));
    }
    /* About normal with deviation 1: the sum of twelve. */
    float normal()
    {
        double sum = -6;
        for (int i = 0; i < 12; i++)
            sum += static_cast<double>(next() >> 11) * 0x1p-53;
        return static_cast<float>(sum);
    }
    kvt_bf16 bf16(float deviation)
    {
        return kvt_bf16_from_float(normal() * deviation);
    }
};

/* A copy of host values on the device. */
template <class T> class on_device
{
  public:
    explicit on_device(const std::vector<T> &values) : count(values.size())
    {
        struct kvt_err err = {};
        if (kvt_cuda_alloc(&memory, bytes(), &err) != KVT_OK ||
            kvt_cuda_copy(memory, values.data(), bytes(), nullptr, &err) != KVT_OK ||
            kvt_cuda_sync(nullptr, &err) != KVT_OK) {
            fprintf(stderr, "%s\n", err.text);
            exit(KVT_EDEVICE);
        }
    }
    on_device(const on_device &) = delete;
    on_device &operator=(const on_device &) = delete;
    ~on_device()
    {
        kvt_cuda_free(memory);
    }
    T *get() const
    {
        return static_cast<T *>(memory);
    }
    std::vector<T> read() const
    {
        std::vector<T> values(count);
        struct kvt_err err = {};
        if (kvt_cuda_copy(values.data(), memory, bytes(), nullptr, &err) != KVT_OK ||
            kvt_cuda_sync(nullptr, &err) != KVT_OK)
            check_failed(__FILE__, __LINE__, "%s", err.text);
        return values;
    }

  private:
    size_t bytes() const
    {
        return count * sizeof(T);
    }
    size_t count;
    void *memory = nullptr;
};

#endif
