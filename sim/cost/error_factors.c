#include "sim/cost/error_factors.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <string.h>

#include "sim/base/random.h"

#define Z95           1.6448536269514722 /* of a standard normal, 95 % lie below */
#define COVERAGE      0.9                /* of an interval from low to high */
#define COVERAGE_MIN  0.3                /* what is stated below is a matter of a few rows */
#define NORMAL_MEAN   2.0615             /* p90 over the mean of |x|, x normal */
#define NORMAL_MEDIAN 2.4387             /* p90 over its median */
#define UNSTATED      1.5                /* either way, where a law says nothing of its error */
#define GUESS_LOW     0.72
#define GUESS_HIGH    5.9
#define GUESS_FACTOR  3.0 /* of constants, either way */

/* A family's shape as bits of kvt_dim. */
#define D(dim)    (1u << KVT_DIM_##dim)
#define GEMM      (D(N) | D(K))
#define EXPERTS   (D(HIDDEN) | D(INTER) | D(EXPERTS) | D(TOPK) | D(RANKS))
#define ATTENTION (D(HEADS) | D(KV_HEADS) | D(HEAD_DIM))
#define MODULE    (D(HEADS) | D(HIDDEN))
/* clang-format off */
static const unsigned shapes[KVT_FAMILY_COUNT] = {
    [KVT_FAMILY_GEMM_BF16] = GEMM, [KVT_FAMILY_GEMM_FP8] = GEMM,
    [KVT_FAMILY_GEMM_FP8_BLOCK] = GEMM, [KVT_FAMILY_GEMM_INT4] = GEMM,
    [KVT_FAMILY_GEMM_FP4] = GEMM,
    [KVT_FAMILY_EXPERTS_BF16] = EXPERTS, [KVT_FAMILY_EXPERTS_FP8] = EXPERTS,
    [KVT_FAMILY_EXPERTS_FP8_BLOCK] = EXPERTS, [KVT_FAMILY_EXPERTS_INT4] = EXPERTS,
    [KVT_FAMILY_EXPERTS_FP4] = EXPERTS,
    [KVT_FAMILY_MLA_DECODE_BF16] = ATTENTION, [KVT_FAMILY_MLA_DECODE_FP8] = ATTENTION,
    [KVT_FAMILY_MLA_BMM] = ATTENTION, [KVT_FAMILY_MLA_PREFILL] = ATTENTION,
    [KVT_FAMILY_GQA_DECODE_BF16] = ATTENTION, [KVT_FAMILY_GQA_DECODE_FP8] = ATTENTION,
    [KVT_FAMILY_GQA_PREFILL] = ATTENTION,
    [KVT_FAMILY_SPARSE_DECODE_BF16] = MODULE, [KVT_FAMILY_SPARSE_DECODE_FP8] = MODULE,
    [KVT_FAMILY_SPARSE_SHARED_BF16] = MODULE, [KVT_FAMILY_SPARSE_SHARED_FP8] = MODULE,
    [KVT_FAMILY_SPARSE_PREFILL_BF16] = ATTENTION, [KVT_FAMILY_SPARSE_PREFILL_FP8] = ATTENTION,
    [KVT_FAMILY_INDEX_PREFILL] = ATTENTION,
    [KVT_FAMILY_ALL_REDUCE] = D(RANKS), [KVT_FAMILY_ALL_GATHER] = D(RANKS),
    [KVT_FAMILY_REDUCE_SCATTER] = D(RANKS), [KVT_FAMILY_DISPATCH_LL] = D(HIDDEN),
    [KVT_FAMILY_DISPATCH] = D(HIDDEN),
};
/* clang-format on */

static bool is_constant(enum kvt_family family)
{
    return kvt_family_is_gap(family) ||
           (family >= KVT_FAMILY_HOST_FLOOR && family <= KVT_FAMILY_REQUEST);
}

/* ---- how wide ----------------------------------------------------------------------------- */

static struct kvt_law_spread either_way(double factor)
{
    return (struct kvt_law_spread){.low = 1.0 / factor, .high = factor};
}

static struct kvt_law_spread spread_of_unseen(const struct kvt_unseen *unseen)
{
    double grow = 1.0;
    if (unseen->coverage > 0.0 && unseen->coverage < COVERAGE) {
        double covered = fmax(unseen->coverage, COVERAGE_MIN);
        grow = Z95 / gsl_cdf_ugaussian_Pinv(0.5 + 0.5 * covered);
    }
    return (struct kvt_law_spread){.low = pow(unseen->low, grow), .high = pow(unseen->high, grow)};
}

struct kvt_law_spread kvt_law_spread_of(const struct kvt_law *law)
{
    if (law->scatter_time > 0.0)
        return (struct kvt_law_spread){.low = 1.0, .high = 1.0, .shift = law->scatter_time};
    if (law->scatter > 0.0)
        return either_way(1.0 + law->scatter);
    if (law->unseen.low > 0.0 && law->unseen.high >= law->unseen.low)
        return spread_of_unseen(&law->unseen);
    if (law->error_p90 > 0.0)
        return either_way(1.0 + law->error_p90);
    if (law->error_rows > 0)
        return either_way(1.0 +
                          fmax(NORMAL_MEAN * law->error_mean, NORMAL_MEDIAN * law->error_median));
    if (!law->guess)
        return either_way(UNSTATED);
    if (is_constant(law->family))
        return either_way(GUESS_FACTOR);
    return (struct kvt_law_spread){.low = GUESS_LOW, .high = GUESS_HIGH};
}

static double factor_of(const struct kvt_law_spread *spread, double z)
{
    double low = log(spread->low), high = log(spread->high), share = z / Z95;
    if (low > 0.0 || high < 0.0)
        return exp(0.5 * (low + high) + share * 0.5 * (high - low));
    return exp(share > 0.0 ? share * high : -share * low);
}

/* ---- what is drawn ------------------------------------------------------------------------ */

static uint64_t mix_shape(uint64_t hash, enum kvt_family family, const struct kvt_work *work)
{
    for (unsigned left = shapes[family]; left != 0; left &= left - 1)
        hash = kvt_hash_real(hash, work->dim[__builtin_ctz(left)]);
    return hash;
}

double kvt_error_draw(uint64_t seed, uint64_t resample, enum kvt_family family,
                      const struct kvt_work *work)
{
    struct kvt_stream stream;
    /* A family is known by its name, which stays when the list of families grows. */
    kvt_stream_init(&stream, seed, KVT_PURPOSE_COST,
                    mix_shape(kvt_hash_text(kvt_family_names[family]), family, work));
    stream.draw = 4 * resample; /* a block of the generator for each resample */
    return gsl_cdf_ugaussian_Pinv((kvt_stream_u32(&stream) + 0.5) * 0x1p-32);
}

void kvt_error_factors_init(struct kvt_error_factors *errors, uint64_t seed, uint64_t resample)
{
    *errors = (struct kvt_error_factors){.seed = seed, .resample = resample};
}

/* The entry of this key and law, or the free one where it belongs. */
static struct kvt_error_entry *find(struct kvt_error_factors *errors, uint64_t key,
                                    const struct kvt_law *law)
{
    uint64_t at = key % KVT_ERROR_SHAPES;
    while (errors->entries[at].law != NULL &&
           (errors->entries[at].key != key || errors->entries[at].law != law))
        at = (at + 1) % KVT_ERROR_SHAPES;
    return &errors->entries[at];
}

double kvt_error_time(struct kvt_error_factors *errors, const struct kvt_law *law,
                      const struct kvt_work *work, double time)
{
    enum kvt_family family = law->family;
    uint64_t key = mix_shape((uint64_t)family, family, work);
    struct kvt_error_entry *entry = find(errors, key, law), fresh = {.key = key, .law = law};
    if (entry->law == NULL) {
        double z = kvt_error_draw(errors->seed, errors->resample, family, work);
        struct kvt_law_spread spread = kvt_law_spread_of(law);
        fresh.factor = factor_of(&spread, z);
        fresh.shift = spread.shift * z / Z95;
        if (errors->count < KVT_ERROR_SHAPES / 2) { /* at most half full: looking up stays short */
            *entry = fresh;
            errors->count++;
        }
        entry = &fresh;
    }
    double truth = time * entry->factor + entry->shift;
    return truth < 0.0 && !kvt_family_is_gap(family) ? 0.0 : truth;
}
