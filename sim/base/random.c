#include "sim/base/random.h"

#include <Random123/philox.h>
#include <string.h>

#include "sim/base/assert.h"

void kvt_stream_init(struct kvt_stream *stream, uint64_t seed, enum kvt_purpose purpose,
                     uint64_t entity)
{
    *stream = (struct kvt_stream){.seed = seed, .entity = entity, .purpose = (uint32_t)purpose};
}

uint32_t kvt_stream_u32(struct kvt_stream *stream)
{
    uint32_t lane = (uint32_t)(stream->draw & 3);
    if (lane == 0) {
        uint64_t block = stream->draw >> 2;
        /* The purpose rides in the top of the counter: seeds keep all 64 bits of the key. */
        philox4x32_ctr_t counter = {{(uint32_t)block,
                                     (uint32_t)(block >> 32) ^ (stream->purpose << 24),
                                     (uint32_t)stream->entity, (uint32_t)(stream->entity >> 32)}};
        philox4x32_key_t key = {{(uint32_t)stream->seed, (uint32_t)(stream->seed >> 32)}};
        philox4x32_ctr_t out = philox4x32(counter, key);
        memcpy(stream->block, out.v, sizeof stream->block);
    }
    stream->draw++;
    return stream->block[lane];
}

uint64_t kvt_stream_u64(struct kvt_stream *stream)
{
    uint64_t high = kvt_stream_u32(stream);
    return high << 32 | kvt_stream_u32(stream);
}

double kvt_stream_unit(struct kvt_stream *stream)
{
    uint64_t high = kvt_stream_u32(stream);
    uint64_t low = kvt_stream_u32(stream);
    return (double)((high << 21) ^ (low >> 11)) * 0x1p-53;
}

uint64_t kvt_stream_below(struct kvt_stream *stream, uint64_t limit)
{
    kvt_assert(limit > 0);
    uint64_t reject = (UINT64_MAX - limit + 1) % limit; /* 2^64 mod limit */
    for (;;) {
        uint64_t draw = kvt_stream_u64(stream);
        if (draw >= reject)
            return draw % limit;
    }
}

static void rng_set(void *state, unsigned long seed)
{
    kvt_stream_init(state, seed, KVT_PURPOSE_TEST, 0);
}

static unsigned long rng_get(void *state)
{
    return kvt_stream_u32(state);
}

static double rng_get_double(void *state)
{
    return kvt_stream_unit(state);
}

static const gsl_rng_type rng_type = {
    .name = "kvt-philox4x32-10",
    .max = 0xffffffffUL,
    .min = 0,
    .size = sizeof(struct kvt_stream),
    .set = rng_set,
    .get = rng_get,
    .get_double = rng_get_double,
};

const gsl_rng_type *const kvt_rng_type = &rng_type;

void kvt_rng_attach(gsl_rng *rng, const struct kvt_stream *stream)
{
    kvt_assert(rng->type == kvt_rng_type);
    memcpy(rng->state, stream, sizeof *stream);
}

uint64_t kvt_hash_text(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t kvt_hash_real(uint64_t hash, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 29;
    hash *= UINT64_C(0xbf58476d1ce4e5b9);
    return hash ^ hash >> 32;
}
