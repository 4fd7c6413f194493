/* Any bytes as a GPU file: rates and sizes that make sense, or a message. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/model/gpu.h"
#include "tests/fuzz/place.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct kvt_gpu gpu;
    struct kvt_err err = {0};
    enum kvt_status status = kvt_gpu_load(&gpu, place_bytes(bytes, count), -1, &err);
    kvt_assert((status == KVT_OK) == (err.count == 0));
    if (status != KVT_OK)
        return 0;
    kvt_assert(gpu.name[0] != '\0' && kvt_gpu_is_named(&gpu, gpu.name));
    kvt_assert(gpu.memory_usable > 0 && gpu.memory_usable <= gpu.memory_visible);
    kvt_assert(isfinite(gpu.memory_visible) && gpu.bandwidth >= 0 && gpu.flops_bf16 >= 0);
    return 0;
}
