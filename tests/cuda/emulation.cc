/* What the emulation must find: each of these kernels has one fault. */
#include "kernels/cuda/launch.cuh"
#include "tests/cuda/cuda_check.h"

struct fault_args {
    int32_t fault, *out;
};

enum fault {
    NONE,
    HALF_AT_BARRIER,
    TWO_BARRIERS,
    LEFT_EARLY,
    HALF_SHUFFLES,
    OTHER_MASK,
    BARRIER_AGAINST_SHUFFLE,
    ONE_BYTE_MORE,
    NO_BARRIER,
    NO_WAIT
};

static void fault_k(struct fault_args args)
{
    unsigned t = threadIdx.x;
    auto *shared = reinterpret_cast<int32_t *>(kvt_shared());
    switch (args.fault) {
    case HALF_AT_BARRIER:
        if (t < 32)
            __syncthreads();
        break;
    case TWO_BARRIERS:
        if (t % 2 == 0)
            __syncthreads();
        else
            __syncthreads();
        break;
    case LEFT_EARLY:
        if (t == 5)
            return;
        break;
    case HALF_SHUFFLES:
        if (t % 32 < 16)
            kvt_warp_max(1.0f, 31);
        break;
    case OTHER_MASK:
        __ballot_sync(t % 32 < 16 ? 0xffffffffu : 0xffff0000u, 1);
        break;
    case BARRIER_AGAINST_SHUFFLE:
        if (t == 3)
            __syncthreads();
        else
            __syncwarp();
        break;
    case ONE_BYTE_MORE:
#ifndef KVT_EMULATE_ASAN /* which stops the program */
        if (t == 0)
            kvt_shared()[256] = 1;
#endif
        break;
    }
    if (args.fault == NO_WAIT) {
        if (t < 16)
            kvt_copy_async16(shared + 4 * t, args.out + 4 * t, 16);
        kvt_copy_commit();
    } else {
        shared[t] = static_cast<int32_t>(t);
    }
    if (args.fault != NO_BARRIER)
        __syncthreads();
    args.out[t] = shared[63 - t];
}

static std::string run_fault(enum fault fault, bool *right)
{
    std::vector<int32_t> values(64);
    for (int32_t i = 0; i < 64; i++)
        values[static_cast<size_t>(i)] = i;
    on_device<int32_t> out(values);
    struct fault_args args = {fault, out.get()};
    struct kvt_err err = {};
    enum kvt_status status = KVT_LAUNCH(fault_k, dim3(2), 64, 256, nullptr, args, &err);
    values = out.read();
    *right = true;
    for (int32_t i = 0; i < 64; i++)
        *right = *right && values[static_cast<size_t>(i)] == 63 - i;
    return status == KVT_OK ? "" : err.text;
}

static void faults_are_named()
{
    static const struct {
        enum fault fault;
        const char *problem, *detail;
    } rows[] = {
        {HALF_AT_BARRIER, "divergence at a barrier", "emulation.cc:"},
        {TWO_BARRIERS, "divergence at a barrier", "__syncthreads"},
        {LEFT_EARLY, "", "thread (5,0,0) has left the kernel"},
        {HALF_SHUFFLES, "divergence in a warp", "__shfl_xor_sync"},
        {OTHER_MASK, "divergence in a warp", "__ballot_sync"},
        {BARRIER_AGAINST_SHUFFLE, "divergence in a warp", "__syncwarp"},
#ifndef KVT_EMULATE_ASAN
        {ONE_BYTE_MORE, "wrote outside of its 256 bytes of shared memory", ""},
#endif
    };
    bool right;
    for (const auto &row : rows) {
        std::string text = run_fault(row.fault, &right);
        CHECK(text.find(row.problem) != std::string::npos && !text.empty() &&
                  text.find(row.detail) != std::string::npos &&
                  text.find("fault_k, block (") != std::string::npos,
              "fault %d: got \"%s\", want \"%s ... %s\"", row.fault, text.c_str(), row.problem,
              row.detail);
    }
    std::string text = run_fault(NONE, &right);
    CHECK(text.empty() && right, "no fault: \"%s\"", text.c_str());
}

/* Results are wrong under most seeds, if not under all. */
static void missing_waits_show()
{
    static const enum fault faults[] = {NO_BARRIER, NO_WAIT};
    for (enum fault fault : faults) {
        int wrong = 0;
        for (uint64_t seed = 1; seed <= 20; seed++) {
            bool right;
            kvt_emulate::set_seed(seed);
            std::string text = run_fault(fault, &right);
            wrong += text.empty() && !right;
        }
        CHECK(wrong >= (fault == NO_BARRIER ? 20 : 10), "fault %d: wrong under %d of 20 seeds",
              fault, wrong);
    }
}

struct mma_args {
    int32_t half;
    const uint32_t *a, *b; /* [32][4], [32][2] */
    float *d;              /* [32][4] */
};

static void mma_k(struct mma_args args)
{
    unsigned t = threadIdx.x;
    if (args.half)
        kvt_mma_f16(args.d + 4 * t, args.a + 4 * t, args.b + 2 * t);
    else
        kvt_mma_bf16(args.d + 4 * t, args.a + 4 * t, args.b + 2 * t);
}

static void mma_is_a_product()
{
    noise noise(5);
    for (int half = 0; half < 2; half++) {
        double a[16][16], b[16][8];
        std::vector<uint32_t> fa(128), fb(64);
        auto put = [&](std::vector<uint32_t> &f, size_t at, int high, double *value) {
            float x = noise.normal();
            uint32_t code = half ? kvt_f16x2(x, 0) & 0xffff : kvt_bf16x2(x, 0) & 0xffff;
            *value = static_cast<double>(half ? kvt_twin::half_to_float(code) : kvt_bf16_low(code));
            f[at] |= code << 16 * high;
        };
        for (int row = 0; row < 16; row++) /* as the PTX manual lays out the fragments */
            for (int k = 0; k < 16; k++)
                put(fa, static_cast<size_t>((row % 8 * 4 + k % 8 / 2) * 4 + row / 8 + k / 8 * 2),
                    k % 2, &a[row][k]);
        for (int k = 0; k < 16; k++)
            for (int column = 0; column < 8; column++)
                put(fb, static_cast<size_t>((column * 4 + k % 8 / 2) * 2 + k / 8), k % 2,
                    &b[k][column]);
        on_device<uint32_t> da(fa), db(fb);
        on_device<float> dd(std::vector<float>(128, 0.5f));
        struct mma_args args = {half, da.get(), db.get(), dd.get()};
        RUN(KVT_LAUNCH(mma_k, dim3(1), 32, 0, nullptr, args, &err));
        std::vector<float> d = dd.read();
        for (int row = 0; row < 16; row++)
            for (int column = 0; column < 8; column++) {
                double want = 0.5;
                for (int k = 0; k < 16; k++)
                    want += a[row][k] * b[k][column];
                double got = static_cast<double>(d[static_cast<size_t>(
                    (row % 8 * 4 + column / 2) * 4 + row / 8 * 2 + column % 2)]);
                CHECK(std::fabs(got - want) < 2e-6, "[%d][%d]: got %g, want %g", row, column, got,
                      want);
            }
    }
}

const struct cuda_test emulation_tests[] = {
    {"emulation: divergence, early exits and overruns are named with their place",
     faults_are_named},
    {"emulation: a missing barrier or wait changes the result", missing_waits_show},
    {"emulation: mma is the product, in the fragments of the PTX manual", mma_is_a_product},
    {nullptr, nullptr},
};
