/* Any bytes as the configurations of two runs that are compared; without a zero byte between them
 * both are the same, and then nothing differs. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"
#include "sim/output/pairs.h"
#include "tests/fuzz/place.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct kvt_pairs pairs = {0};
    struct kvt_err err = {0};
    char *text = place_text("", bytes, count);
    size_t length = strlen(text);
    const char *other = length < count ? text + length + 1 : text;
    enum kvt_status status = kvt_pairs_add_yaml(&pairs, 0, "a", text, &err);
    if (status == KVT_OK)
        status = kvt_pairs_add_yaml(&pairs, 1, "b", other, &err);
    kvt_assert((status == KVT_OK) == (err.count == 0));
    if (status == KVT_OK) {
        kvt_pairs_judge(&pairs);
        kvt_assert(pairs.different >= 0 && pairs.different <= pairs.count);
        kvt_assert(other != text || pairs.different == 0);
    }
    kvt_pairs_release(&pairs);
    free(text);
    return 0;
}
