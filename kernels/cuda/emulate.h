/*
 * emulate.h - CUDA kernels run on the host, one fiber for each CUDA thread (C++17)
 *
 * The kernels of this folder are one source for nvcc and for g++ or clang++. Under the latter
 * this header stands for the CUDA headers: blocks of the grid run one after the other, threads of a
 * block as fibers that change places only at __syncthreads and at the collectives of a warp
 * (shuffles, ballots, __syncwarp, mma, ldmatrix). Fiber order, and whether an asynchronous copy
 * lands at once or as late as it may, follow from a seed (kvt_emulate::set_seed), so that a missing
 * barrier or wait gives other results under one seed or another.
 *
 * What it finds, as an error of the launch that names block, thread, file and line:
 *     threads of a block at different barriers, or gone while others wait
 *     lanes of a warp at different collectives, with different masks, or gone
 *     a wait for ever
 *     a block larger than the hardware's, more shared memory than a block may have
 * Shared memory is dynamic only. It is filled with 0xcd before each block and lies between two
 * guards that are checked behind it (and poisoned for AddressSanitizer, which also watches device
 * memory: kvt_cuda_alloc is malloc here).
 *
 * Device memory may be out of the host's reach but for launches: set_gate names a function that
 * opens and closes it.
 *
 * What it cannot find: bodies in PTX (device.cuh keeps a twin of each), races between blocks, and
 * anything about speed. A switch costs 10 to 20 ns, an mma 4 to 10 us under sanitizers.
 *
 * One host thread only. Kernels hold nothing with a destructor: a launch that fails drops its
 * fibers where they are. AddressSanitizer needs detect_stack_use_after_return=0.
 */
#ifndef KVT_CUDA_EMULATE_H
#define KVT_CUDA_EMULATE_H

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

/* A switch of our own where we have one; elsewhere, or when told so, ucontext's: ten times slower.
 */
#if defined(__x86_64__) && !defined(KVT_EMULATE_UCONTEXT)
#define KVT_EMULATE_SWITCH 1
#else
#define KVT_EMULATE_SWITCH 0
#endif

#include <sys/mman.h>
#if !KVT_EMULATE_SWITCH
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define KVT_EMULATE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KVT_EMULATE_ASAN 1
#endif
#endif
#ifdef KVT_EMULATE_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes)   ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

#define __global__ static
#define __device__
#define __launch_bounds__(...)
#define __restrict__ __restrict

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};
struct alignas(8) uint2 {
    uint32_t x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct alignas(16) ulonglong2 {
    unsigned long long x, y;
};
struct alignas(16) int4 {
    int32_t x, y, z, w;
};

namespace kvt_emulate
{

constexpr size_t stack_bytes = 256 << 10, guard_bytes = 256, shared_bytes_max = 232448;
constexpr unsigned threads_max = 1024;
constexpr unsigned char poison = 0xcd, guard = 0xa5;

struct place {
    const char *file;
    int line;
};

/* Faults that kernels have when a test asks for one (KVT_FAULT of device.cuh): tests must tell. */
enum fault {
    no_fault,
    fault_page_range, /* a page id is not compared with the pool */
    fault_half_warp,  /* a reduction leaves out half of the lanes */
    fault_no_barrier, /* a barrier of the block is missing */
    fault_no_wait,    /* copies are not waited for */
    fault_behind_end, /* the page list is read behind its end */
    fault_late_stage, /* a stage is filled while it is read */
};

enum state { ready, at_barrier, at_collective, gone };

struct async_copy {
    void *to;
    const void *from;
    uint32_t bytes, valid; /* the rest is zeros */
    int64_t group;
};

struct fiber {
    enum state state;
    dim3 thread;
    struct place at;
    const char *what; /* name of the collective */
    uint32_t mask;
    void *operand; /* of the collective, on the fiber's stack */
    std::vector<struct async_copy> copies;
    int64_t groups; /* committed */
    unsigned char *stack;
#if KVT_EMULATE_SWITCH
    void *sp;
#else
    ucontext_t context;
#endif
};

/* The one block that is running. */
struct block {
    std::vector<struct fiber> fibers;
    std::vector<unsigned> order;
    unsigned threads, left, waiting, running;
    bool broken;
    dim3 index, size, grid;
    unsigned char *shared; /* behind its first guard */
    size_t shared_bytes;
    void (*entry)(void *), *arguments;
    const char *kernel;
    uint64_t seed;
    enum fault fault;
    bool copies_late;
    char text[768];
#if KVT_EMULATE_SWITCH
    void *scheduler_sp;
#else
    ucontext_t scheduler;
#endif
};

inline struct block now;
inline struct fiber *me;
inline void (*gate)(bool open); /* to device memory, around a launch; may be null */

inline bool (*refuse)(void); /* whether a launch fails; may be null */

inline void set_gate(void (*function)(bool open))
{
    gate = function;
}

/* ---- switching ---- */

#if KVT_EMULATE_SWITCH
extern "C" void kvt_emulate_switch(void **from, void *to);
/* Save what the calling convention keeps on this stack, go on with the other one. */
asm(".text\n"
    ".weak kvt_emulate_switch\n"
    ".type kvt_emulate_switch, @function\n"
    "kvt_emulate_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    ".size kvt_emulate_switch, .-kvt_emulate_switch\n");

inline void to_scheduler()
{
    kvt_emulate_switch(&me->sp, now.scheduler_sp);
}

inline void to_fiber(struct fiber *fiber)
{
    me = fiber;
    kvt_emulate_switch(&now.scheduler_sp, fiber->sp);
}
#else
inline void to_scheduler()
{
    swapcontext(&me->context, &now.scheduler);
}

inline void to_fiber(struct fiber *fiber)
{
    me = fiber;
    swapcontext(&now.scheduler, &fiber->context);
}
#endif

__attribute__((no_sanitize("address"))) inline void trampoline()
{
    now.entry(now.arguments);
    me->state = gone;
    now.left++;
    to_scheduler();
    abort(); /* nobody runs a fiber that is gone */
}

inline void start(struct fiber *fiber)
{
    if (fiber->stack == nullptr) {
        size_t page = 4096; /* below the stack: an overrun is a fault, not a neighbour's data */
        void *memory = mmap(nullptr, stack_bytes + page, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0)
            abort();
        fiber->stack = static_cast<unsigned char *>(memory) + page;
    }
    fiber->state = ready;
    fiber->groups = 0;
    fiber->copies.clear();
#if KVT_EMULATE_SWITCH
    void **top = reinterpret_cast<void **>(fiber->stack + stack_bytes - 64);
    *--top = nullptr; /* so that the stack is aligned as after a call */
    *--top = reinterpret_cast<void *>(&trampoline);
    for (int i = 0; i < 6; i++)
        *--top = nullptr;
    fiber->sp = top;
#else
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = stack_bytes;
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, trampoline, 0);
#endif
}

/* ---- what goes wrong ---- */

inline int say_place(char *text, size_t size, const struct fiber *fiber)
{
    return snprintf(text, size, "thread (%u,%u,%u) at %s in %s:%d", fiber->thread.x,
                    fiber->thread.y, fiber->thread.z, fiber->what, fiber->at.file, fiber->at.line);
}

__attribute__((format(printf, 1, 2))) inline void note(const char *format, ...)
{
    int used = snprintf(now.text, sizeof now.text, "%s, block (%u,%u,%u): ", now.kernel,
                        now.index.x, now.index.y, now.index.z);
    va_list list;
    va_start(list, format);
    vsnprintf(now.text + used, sizeof now.text - static_cast<size_t>(used), format, list);
    va_end(list);
    now.broken = true;
}

/* From within a fiber, which never goes on: the launch ends here. */
inline void fail_between(const char *problem, const struct fiber *other)
{
    char mine[256], theirs[256];
    say_place(mine, sizeof mine, me);
    if (other->state == gone)
        snprintf(theirs, sizeof theirs, "thread (%u,%u,%u) has left the kernel", other->thread.x,
                 other->thread.y, other->thread.z);
    else
        say_place(theirs, sizeof theirs, other);
    note("%s: %s, %s", problem, mine, theirs);
    to_scheduler();
}

inline void note_stuck()
{
    const struct fiber *waits = nullptr, *other = nullptr;
    for (unsigned t = 0; t < now.threads; t++) {
        const struct fiber *fiber = &now.fibers[t];
        if (fiber->state != gone && waits == nullptr)
            waits = fiber;
    }
    for (unsigned t = 0; t < now.threads; t++)
        if (now.fibers[t].state != waits->state)
            other = &now.fibers[t];
    char mine[256], theirs[256] = "";
    say_place(mine, sizeof mine, waits);
    if (other != nullptr && other->state == gone)
        snprintf(theirs, sizeof theirs, "; thread (%u,%u,%u) has left the kernel", other->thread.x,
                 other->thread.y, other->thread.z);
    else if (other != nullptr) {
        theirs[0] = ';';
        theirs[1] = ' ';
        say_place(theirs + 2, sizeof theirs - 2, other);
    }
    note("deadlock: %s waits for ever%s", mine, theirs);
}

/* ---- barriers and collectives ---- */

inline void barrier(struct place at)
{
    unsigned thread = static_cast<unsigned>(me - now.fibers.data());
    me->state = at_barrier;
    me->what = "__syncthreads";
    me->at = at;
    for (unsigned t = 0; t < now.threads; t++) {
        const struct fiber *other = &now.fibers[t];
        if (other->state == gone || (other->state == at_barrier && other->at.line != at.line))
            fail_between("divergence at a barrier", other);
        if (other->state == at_collective && t / 32 == thread / 32 &&
            other->mask >> thread % 32 & 1)
            fail_between("divergence in a warp", other);
    }
    if (++now.waiting < now.threads) {
        to_scheduler();
        return;
    }
    now.waiting = 0;
    for (unsigned t = 0; t < now.threads; t++)
        now.fibers[t].state = ready;
}

/* The lanes of mask come together; the last one does act(first fiber of the warp), which may read
 * and write every lane's operand. */
template <class Act>
__attribute__((noinline)) void collective(const char *what, uint32_t mask, void *operand,
                                          struct place at, Act act)
{
    unsigned thread = static_cast<unsigned>(me - now.fibers.data()), lane = thread % 32;
    struct fiber *warp = me - lane;
    me->state = at_collective;
    me->what = what;
    me->at = at;
    me->mask = mask;
    me->operand = operand;
    bool complete = true;
    for (unsigned i = 0; i < 32; i++) {
        const struct fiber *other = warp + i;
        bool mine = mask >> i & 1;
        if (i == lane) {
            if (!mine)
                fail_between("a lane is not in its own mask", me);
            continue;
        }
        if (thread - lane + i >= now.threads) {
            if (mine)
                fail_between("the mask names lanes that the block does not have", me);
            continue;
        }
        bool waits = other->state == at_collective;
        bool same = waits && other->mask == mask && other->at.line == at.line &&
                    strcmp(other->what, what) == 0;
        if ((mine && (other->state == gone || other->state == at_barrier)) ||
            (waits && !same && (mine || other->mask >> lane & 1)))
            fail_between("divergence in a warp", other);
        complete = complete && (same || !mine);
    }
    if (!complete) {
        to_scheduler();
        return;
    }
    act(warp);
    for (unsigned i = 0; i < 32; i++)
        if (mask >> i & 1)
            warp[i].state = ready;
}

/* ---- asynchronous copies ---- */

inline void copy_async(void *to, const void *from, uint32_t bytes, uint32_t valid)
{
    if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % bytes != 0) {
        me->what = "cp.async";
        note("cp.async: thread (%u,%u,%u) copies %u bytes to or from an address that is no "
             "multiple of that",
             me->thread.x, me->thread.y, me->thread.z, bytes);
        to_scheduler();
    }
    memset(to, poison, bytes); /* under way: neither the old bytes nor the new ones */
    me->copies.push_back({to, from, bytes, valid, me->groups});
    if (now.copies_late)
        return;
    memset(to, 0, bytes);
    memcpy(to, from, valid);
    me->copies.pop_back();
}

inline void copy_commit()
{
    me->groups++;
}

inline void copy_wait(int64_t pending)
{
    size_t kept = 0;
    for (const struct async_copy &copy : me->copies) {
        if (copy.group >= me->groups - pending) {
            me->copies[kept++] = copy;
            continue;
        }
        memset(copy.to, 0, copy.bytes);
        if (copy.valid > 0)
            memcpy(copy.to, copy.from, copy.valid);
    }
    me->copies.resize(kept);
}

/* ---- the grid ---- */

inline uint64_t mix(uint64_t x) /* splitmix64 */
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

inline void set_seed(uint64_t seed)
{
    now.seed = seed;
}

/* Threads in order of a stride that has no factor in common with their number, from somewhere; seed
 * 0 is the natural order with copies at once. */
inline void shuffle(uint64_t number)
{
    uint64_t draw = now.seed == 0 ? 0 : mix(now.seed * 1000003 + number);
    unsigned first = now.seed == 0 ? 0 : static_cast<unsigned>(draw % now.threads), stride = 1;
    if (now.seed != 0) {
        stride = static_cast<unsigned>((draw >> 20) % now.threads) | 1;
        for (unsigned a = stride, b = now.threads; b != 0 || a != 1;) {
            if (b == 0) { /* a common factor: the next one */
                stride += 2;
                a = stride, b = now.threads;
                continue;
            }
            unsigned rest = a % b;
            a = b, b = rest;
        }
    }
    now.copies_late = draw >> 40 & 1;
    now.order.resize(now.threads);
    for (unsigned i = 0; i < now.threads; i++)
        now.order[i] =
            static_cast<unsigned>((first + static_cast<uint64_t>(i) * stride) % now.threads);
}

inline void run_block(uint64_t number)
{
    shuffle(number);
    now.left = now.waiting = 0;
    memset(now.shared, poison, now.shared_bytes);
    for (unsigned t = 0; t < now.threads; t++) {
        now.fibers[t].thread =
            dim3(t % now.size.x, t / now.size.x % now.size.y, t / now.size.x / now.size.y);
        start(&now.fibers[t]);
    }
    while (now.left < now.threads && !now.broken) {
        bool moved = false;
        for (unsigned i = 0; i < now.threads && !now.broken; i++) {
            struct fiber *fiber = &now.fibers[now.order[i]];
            if (fiber->state != ready)
                continue;
            moved = true;
            to_fiber(fiber);
        }
        if (!moved)
            note_stuck();
    }
}

/* The guards around shared memory, and the memory between them. */
inline unsigned char *shared_new(size_t bytes)
{
    void *memory = nullptr;
    if (posix_memalign(&memory, 1024, bytes + 2 * 1024) != 0)
        abort();
    unsigned char *shared = static_cast<unsigned char *>(memory) + 1024;
    memset(shared - guard_bytes, guard, guard_bytes);
    memset(shared + bytes, guard, guard_bytes);
    ASAN_POISON_MEMORY_REGION(shared - 1024, 1024);
    ASAN_POISON_MEMORY_REGION(shared + bytes, 1024);
    return shared;
}

inline void shared_free(unsigned char *shared, size_t bytes)
{
    ASAN_UNPOISON_MEMORY_REGION(shared - 1024, 1024);
    ASAN_UNPOISON_MEMORY_REGION(shared + bytes, 1024);
    for (size_t i = 0; i < guard_bytes && !now.broken; i++)
        if (shared[i - guard_bytes] != guard || shared[bytes + i] != guard)
            note("wrote outside of its %zu bytes of shared memory", bytes);
    free(shared - 1024);
}

/* Run entry(arguments) for each thread of the grid. NULL, or what went wrong (until the next run).
 */
inline const char *run(const char *kernel, dim3 grid, dim3 size, size_t shared_bytes,
                       void (*entry)(void *), void *arguments)
{
    now.kernel = kernel;
    now.grid = grid;
    now.size = size;
    now.index = dim3(0, 0, 0);
    now.threads = size.x * size.y * size.z;
    now.broken = false;
    now.entry = entry;
    now.arguments = arguments;
    if (refuse != nullptr && refuse()) {
        note("is not launched");
        return now.text;
    }
    if (now.threads < 1 || now.threads > threads_max || shared_bytes > shared_bytes_max ||
        grid.x < 1 || grid.y < 1 || grid.z < 1 || grid.y > 65535 || grid.z > 65535) {
        note("cannot be launched: %u threads, %zu bytes of shared memory, grid (%u,%u,%u)",
             now.threads, shared_bytes, grid.x, grid.y, grid.z);
        return now.text;
    }
    if (now.fibers.size() < now.threads)
        now.fibers.resize(now.threads);
    now.shared_bytes = shared_bytes;
    now.shared = shared_new(shared_bytes);
    uint64_t number = 0;
    if (gate != nullptr)
        gate(true);
    for (unsigned z = 0; z < grid.z && !now.broken; z++)
        for (unsigned y = 0; y < grid.y && !now.broken; y++)
            for (unsigned x = 0; x < grid.x && !now.broken; x++) {
                now.index = dim3(x, y, z);
                run_block(number++);
            }
    if (gate != nullptr)
        gate(false);
    for (unsigned t = 0; t < now.threads && now.broken; t++)
        if (now.fibers[t].stack != nullptr) /* frames that never returned */
            ASAN_UNPOISON_MEMORY_REGION(now.fibers[t].stack, stack_bytes);
    shared_free(now.shared, shared_bytes);
    return now.broken ? now.text : nullptr;
}

} // namespace kvt_emulate

#endif
