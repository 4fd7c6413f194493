#include "kernels/cpu/ceilings_avx512.h"

#define ROWS 16

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Four tiles of sums, each of its own; what they are multiplied by stays in its tiles. */
static double tiles(int32_t rounds)
{
    _Alignas(64) struct tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = ROWS;
    }
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (int32_t round = 0; round < rounds; round++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
    return 4.0 * rounds * ROWS * 16 * 32 * 2;
}

const struct kvt_ceilings_isa kvt_ceilings_amx = {.read = ceiling_read_avx512,
                                                  .copy = ceiling_copy_avx512,
                                                  .vectors = ceiling_vectors_avx512,
                                                  .tiles = tiles};
