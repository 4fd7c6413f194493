#include "sim/cost/calibration_kept.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cost/surface.h"

struct kept {
    char *text;
    size_t count;
    struct kvt_gpu gpu;
    struct kvt_calibration calibration;
};

/* What lies below kept_count never changes. */
static struct kept kept[KVT_CALIBRATIONS_KEPT];
static _Atomic int32_t kept_count;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static const struct kept *find(const char *text, size_t count, const struct kvt_gpu *gpu)
{
    int32_t most = atomic_load(&kept_count);
    for (int32_t i = 0; i < most; i++)
        /* Padding that differs costs another reading, no more:
         * NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c) */
        if (kept[i].count == count && memcmp(&kept[i].gpu, gpu, sizeof *gpu) == 0 &&
            memcmp(kept[i].text, text, count) == 0)
            return &kept[i];
    return NULL;
}

/* As one that was just read. false without memory: nothing is left then. */
static bool copy(struct kvt_calibration *to, const struct kvt_calibration *from, FILE *talk)
{
    size_t count = (size_t)from->law_count;
    *to = *from;
    to->talk = talk;
    to->said = calloc(count, sizeof *to->said);
    to->laws = malloc(count * sizeof *to->laws);
    bool whole = to->said != NULL && to->laws != NULL;
    to->law_count = 0;
    for (size_t i = 0; whole && i < count; i++) {
        to->laws[i] = from->laws[i];
        if (from->laws[i].surface != NULL)
            to->laws[i].surface = kvt_surface_copy(from->laws[i].surface);
        whole = from->laws[i].surface == NULL || to->laws[i].surface != NULL;
        to->law_count++;
    }
    if (!whole)
        kvt_calibration_release(to);
    return whole;
}

bool kvt_calibration_from_kept(struct kvt_calibration *calibration, const char *text, size_t count,
                               const struct kvt_gpu *gpu, FILE *talk)
{
    const struct kept *found = find(text, count, gpu);
    return found != NULL && copy(calibration, &found->calibration, talk);
}

void kvt_calibration_keep(const struct kvt_calibration *calibration, const char *text, size_t count,
                          const struct kvt_gpu *gpu)
{
    pthread_mutex_lock(&kept_lock);
    int32_t at = atomic_load(&kept_count);
    if (at < KVT_CALIBRATIONS_KEPT && find(text, count, gpu) == NULL) {
        struct kept *slot = &kept[at];
        slot->text = malloc(count + 1);
        if (slot->text != NULL && copy(&slot->calibration, calibration, NULL)) {
            memcpy(slot->text, text, count);
            slot->count = count;
            memcpy(&slot->gpu, gpu, sizeof *gpu);
            atomic_store(&kept_count, at + 1);
        } else {
            free(slot->text);
        }
    }
    pthread_mutex_unlock(&kept_lock);
}
