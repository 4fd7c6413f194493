/* The device face of launch.h without a device: an address space of its own, streams that run at
 * once.
 *
 * Device memory lies in one mapping that nobody may touch but emulated kernels and copies: a host
 * that reads or writes it directly is stopped by a fault. Blocks lie apart, with bytes between them
 * that are poisoned for AddressSanitizer. A copy to the host arrives when its stream is waited for;
 * until then its target holds 0xcd. A copy from the host has read it when it returns.
 */
#include <sys/mman.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>

#include "kernels/cuda/emulate.h"
#include "tests/cuda/cuda_check.h"
#include "tests/cuda/emulated.h"

/* Fibers have stacks of their own. */
extern "C" const char *__asan_default_options(void);
extern "C" const char *__asan_default_options(void)
{
    return "detect_stack_use_after_return=0";
}

const bool cuda_is_emulated = true;

void cuda_set_seed(uint64_t seed)
{
    kvt_emulate::set_seed(seed);
}

void cuda_set_fault(int number)
{
    kvt_emulate::now.fault = static_cast<enum kvt_emulate::fault>(number);
}

/* ---- memory ---- */

static const size_t memory_bytes = static_cast<size_t>(1) << 30, block_align = 256;
static const size_t filled_bytes = static_cast<size_t>(1) << 20; /* of a block: with 0xcd */

struct block {
    size_t end, bytes; /* bytes: that were asked for */
};

static struct {
    char *base;
    size_t used_end;                      /* blocks end here */
    int open;                             /* how many are inside */
    std::map<size_t, struct block> taken; /* by where they begin */
    size_t taken_bytes, limit = memory_bytes;
} memory;

static void gate(bool open)
{
    memory.open += open ? 1 : -1;
    if (memory.base == nullptr || (open ? memory.open != 1 : memory.open != 0))
        return;
    size_t page = 4096, end = (memory.used_end + page - 1) / page * page;
    if (end > 0 && mprotect(memory.base, end, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
        abort();
}

/* Device memory may be touched while one of these lives. */
struct inside {
    inside()
    {
        gate(true);
    }
    ~inside()
    {
        gate(false);
    }
};

static bool is_on_device(const void *address)
{
    auto *at = static_cast<const char *>(address);
    return memory.base != nullptr && at >= memory.base && at < memory.base + memory_bytes;
}

size_t cuda_emulated_bytes(void)
{
    return memory.taken_bytes;
}

void cuda_emulated_limit(size_t bytes)
{
    memory.limit = bytes;
}

/* ---- calls that fail ---- */

static struct {
    long count, fails;
} calls;

void cuda_emulated_fail(long number)
{
    calls = {0, number};
}

long cuda_emulated_calls(void)
{
    return calls.count;
}

static bool refuse(void)
{
    return ++calls.count == calls.fails;
}

static enum kvt_status refused(const char *call, struct kvt_err *err)
{
    return kvt_err_set(err, KVT_EDEVICE, "emulated: %s fails", call);
}

enum kvt_status kvt_cuda_open(int32_t index, int64_t need_bytes, struct kvt_cuda_device *device,
                              struct kvt_err *err)
{
    if (refuse())
        return refused("open", err);
    if (index != 0)
        return kvt_err_set(err, KVT_EDEVICE, "emulated: no GPU %d: there is one", index);
    if (memory.base == nullptr) {
        void *base = mmap(nullptr, memory_bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED)
            return kvt_err_set(err, KVT_ENOMEM, "emulated: no address space");
        memory.base = static_cast<char *>(base);
        ASAN_POISON_MEMORY_REGION(memory.base, memory_bytes);
        kvt_emulate::set_gate(gate);
        kvt_emulate::refuse = refuse;
    }
    *device = {};
    snprintf(device->name, sizeof device->name, "emulated");
    device->major = 9;
    device->multiprocessors = 2;
    device->shared_bytes = kvt_emulate::shared_bytes_max;
    device->memory_bytes = static_cast<int64_t>(memory.limit);
    device->free_bytes = static_cast<int64_t>(memory.limit - memory.taken_bytes);
    if (need_bytes > device->free_bytes)
        return kvt_err_set(err, KVT_ENOMEM, "emulated: want %lld bytes free, got %lld",
                           static_cast<long long>(need_bytes),
                           static_cast<long long>(device->free_bytes));
    return KVT_OK;
}

enum kvt_status kvt_cuda_alloc(void **out, size_t bytes, struct kvt_err *err)
{
    if (refuse())
        return kvt_err_set(err, KVT_ENOMEM, "emulated: no %zu bytes", bytes);
    /* As on the device on 256 bytes, and not one more than asked. The first gap that is enough. */
    size_t need = (bytes + block_align - 1) / block_align * block_align + block_align, begin = 0;
    for (const auto &block : memory.taken) {
        if (block.first - begin >= need)
            break;
        begin = block.second.end;
    }
    if (begin + need > memory_bytes || memory.taken_bytes + bytes > memory.limit)
        return kvt_err_set(err, KVT_ENOMEM, "emulated: want %zu bytes, %zu of %zu are free", bytes,
                           memory.limit - memory.taken_bytes, memory.limit);
    memory.taken[begin] = {begin + need, bytes};
    memory.taken_bytes += bytes;
    memory.used_end = std::max(memory.used_end, begin + need);
    ASAN_UNPOISON_MEMORY_REGION(memory.base + begin, bytes);
    inside here;
    memset(memory.base + begin, kvt_emulate::poison, std::min(bytes, filled_bytes));
    *out = memory.base + begin;
    return KVT_OK;
}

void kvt_cuda_free(void *address)
{
    if (address == nullptr)
        return;
    size_t begin = static_cast<size_t>(static_cast<char *>(address) - memory.base);
    auto at = memory.taken.find(begin);
    if (!is_on_device(address) || at == memory.taken.end()) {
        fprintf(stderr, "emulated: kvt_cuda_free of what was not taken\n");
        abort();
    }
    ASAN_POISON_MEMORY_REGION(address, at->second.end - begin);
    memory.taken_bytes -= at->second.bytes;
    memory.taken.erase(at);
}

/* ---- streams ---- */

struct arrival { /* at the host */
    void *to;
    std::vector<unsigned char> bytes;
};

struct stream {
    std::vector<struct arrival> arrivals;
};

static struct stream default_stream;

static struct stream *stream_of(void *stream)
{
    return stream == nullptr ? &default_stream : static_cast<struct stream *>(stream);
}

enum kvt_status kvt_cuda_copy(void *to, const void *from, size_t bytes, void *stream,
                              struct kvt_err *err)
{
    if (refuse())
        return refused("copy", err);
    inside here;
    if (bytes == 0)
        return KVT_OK;
    if (is_on_device(to) || !is_on_device(from)) {
        memcpy(to, from, bytes);
        return KVT_OK;
    }
    auto *first = static_cast<const unsigned char *>(from);
    stream_of(stream)->arrivals.push_back({to, std::vector<unsigned char>(first, first + bytes)});
    memset(to, kvt_emulate::poison, bytes);
    return KVT_OK;
}

enum kvt_status kvt_cuda_fill(void *to, int byte, size_t bytes, void *, struct kvt_err *err)
{
    if (refuse())
        return refused("fill", err);
    inside here;
    memset(to, byte, bytes);
    return KVT_OK;
}

enum kvt_status kvt_cuda_copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride,
                                   size_t row_bytes, size_t rows, void *stream, struct kvt_err *err)
{
    for (size_t row = 0; row < rows; row++)
        KVT_TRY(kvt_cuda_copy(static_cast<char *>(to) + row * to_stride,
                              static_cast<const char *>(from) + row * from_stride, row_bytes,
                              stream, err));
    return KVT_OK;
}

enum kvt_status kvt_cuda_stream_new(void **stream, struct kvt_err *err)
{
    if (refuse())
        return refused("stream", err);
    *stream = new struct stream;
    return KVT_OK;
}

void kvt_cuda_stream_free(void *stream)
{
    delete static_cast<struct stream *>(stream);
}

enum kvt_status kvt_cuda_sync(void *stream, struct kvt_err *err)
{
    if (refuse())
        return refused("wait", err);
    struct stream *mine = stream_of(stream);
    for (const struct arrival &arrival : mine->arrivals)
        memcpy(arrival.to, arrival.bytes.data(), arrival.bytes.size());
    mine->arrivals.clear();
    return KVT_OK;
}

/* ---- events: the host's clock; graphs: none ---- */

using instant = std::chrono::steady_clock::time_point;

enum kvt_status kvt_cuda_event_new(void **event, struct kvt_err *err)
{
    if (refuse())
        return refused("event", err);
    *event = new instant;
    return KVT_OK;
}

void kvt_cuda_event_free(void *event)
{
    delete static_cast<instant *>(event);
}

enum kvt_status kvt_cuda_event_record(void *event, void *, struct kvt_err *err)
{
    if (refuse())
        return refused("record", err);
    *static_cast<instant *>(event) = std::chrono::steady_clock::now();
    return KVT_OK;
}

enum kvt_status kvt_cuda_event_ms(void *from, void *to, double *ms, struct kvt_err *err)
{
    if (refuse())
        return refused("time between events", err);
    *ms = std::chrono::duration<double, std::milli>(*static_cast<instant *>(to) -
                                                    *static_cast<instant *>(from))
              .count();
    return KVT_OK;
}

static enum kvt_status no_graphs(struct kvt_err *err)
{
    return kvt_err_set(err, KVT_EDEVICE, "emulated: there are no graphs");
}

enum kvt_status kvt_cuda_graph_begin(void *, struct kvt_err *err)
{
    return no_graphs(err);
}

enum kvt_status kvt_cuda_graph_end(void *, void **, struct kvt_err *err)
{
    return no_graphs(err);
}

enum kvt_status kvt_cuda_graph_launch(void *, void *, struct kvt_err *err)
{
    return no_graphs(err);
}

void kvt_cuda_graph_free(void *)
{
}

/* ---- the products of cuBLASLt ---- */

bool kvt_cuda_blas_here(void)
{
    return true;
}

enum kvt_status kvt_cuda_gemm_bf16(const struct kvt_gemm *gemm, void *, void *, struct kvt_err *err)
{
    if (refuse())
        return refused("GEMM", err);
    inside here;
    if (gemm->m > 0)
        kvt_ref_gemm(gemm);
    return KVT_OK;
}

enum kvt_status kvt_cuda_gemm_fp8(const struct kvt_gemm *gemm, const kvt_e4m3 *a8,
                                  const float *a8_scale, void *, void *, struct kvt_err *err)
{
    if (refuse())
        return refused("GEMM of FP8", err);
    inside here;
    auto *w = static_cast<const kvt_e4m3 *>(gemm->w);
    for (int64_t i = 0; i < gemm->m; i++)
        for (int64_t j = 0; j < gemm->n; j++) {
            double sum = 0;
            for (int64_t c = 0; c < gemm->k; c++)
                sum += static_cast<double>(kvt_e4m3_to_float(a8[i * gemm->k + c])) *
                       static_cast<double>(kvt_e4m3_to_float(w[j * gemm->k + c]));
            gemm->out[i * gemm->n + j] =
                kvt_bf16_from_float(static_cast<float>(sum) * a8_scale[i] * gemm->scale[j]);
        }
    return KVT_OK;
}
