/*
 * random.h - named random streams: one more draw in one of them moves nothing in another
 *
 * A stream is Philox4x32-10 (Salmon et al., SC'11; the Random123 package) with key = (seed,
 * purpose) and counter = (entity, draw). Streams need no start-up, never overlap, and their state
 * is a few bytes that can be printed, stored and cloned. kvt_rng_attach() makes a
 * gsl_rng of one, so that every gsl_ran_* distribution works on it.
 *
 * Known answer (Random123's own vector): key 0, counter 0 -> 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
 */
#ifndef KVT_BASE_RANDOM_H
#define KVT_BASE_RANDOM_H

#include <gsl/gsl_rng.h>
#include <stdint.h>

enum kvt_purpose { /* values are part of the results: append, never renumber */
                   KVT_PURPOSE_ARRIVAL = 1,
                   KVT_PURPOSE_INPUT = 2,
                   KVT_PURPOSE_OUTPUT = 3,
                   KVT_PURPOSE_PREFIX = 4,
                   KVT_PURPOSE_COST = 5,
                   KVT_PURPOSE_FAULT = 6,
                   KVT_PURPOSE_TAG = 7,
                   KVT_PURPOSE_TEST = 8,
                   KVT_PURPOSE_PATIENCE = 9,
                   KVT_PURPOSE_WEIGHT = 10,
                   KVT_PURPOSE_TEXT = 11,
                   KVT_PURPOSE_BOOTSTRAP = 12,
};

struct kvt_stream {
    uint64_t seed, entity, draw; /* draw counts 32-bit numbers handed out */
    uint32_t purpose;
    uint32_t block[4]; /* the four numbers of counter draw / 4, valid while draw % 4 != 0 */
};

void kvt_stream_init(struct kvt_stream *stream, uint64_t seed, enum kvt_purpose purpose,
                     uint64_t entity);

/* 32 uniform bits. */
uint32_t kvt_stream_u32(struct kvt_stream *stream);

/* 64 of them: two draws. */
uint64_t kvt_stream_u64(struct kvt_stream *stream);

/* Uniform in [0, 1), 53 bits: two draws. */
double kvt_stream_unit(struct kvt_stream *stream);

/* Uniform in [0, limit), without bias. limit > 0. */
uint64_t kvt_stream_below(struct kvt_stream *stream, uint64_t limit);

/* The generator behind gsl_rng_alloc(kvt_rng_type); seed it with kvt_rng_attach, not gsl_rng_set.
 */
extern const gsl_rng_type *const kvt_rng_type;

/* Make rng (of kvt_rng_type) draw from a copy of stream. */
void kvt_rng_attach(gsl_rng *rng, const struct kvt_stream *stream);

/* FNV-1a of a text. */
uint64_t kvt_hash_text(const char *text);

/* A hash of what was hashed before and of one more number. */
uint64_t kvt_hash_real(uint64_t hash, double value);

#endif
