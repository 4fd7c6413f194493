/* For sched_setaffinity. */
#define _GNU_SOURCE
#include "runtime/canary.h"

#include <gsl/gsl_statistics_double.h>
#include <omp.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/ceilings.h"
#include "runtime/device.h"

#define CANARY_BYTES ((size_t)24 << 20) /* more than a core's own cache */
#define TRIES        3

static cpu_set_t allowed; /* before threads were pinned */

bool kvt_pin_threads(void)
{
    size_t processor[CPU_SETSIZE];
    int threads = omp_get_max_threads(), count = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return false;
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &allowed))
            processor[count++] = i;
    if (count < threads)
        return false;
    bool pinned = true;
#pragma omp parallel num_threads(threads) reduction(&& : pinned)
    {
        cpu_set_t own;
        CPU_ZERO(&own);
        CPU_SET(processor[omp_get_thread_num()], &own);
        pinned = sched_setaffinity(0, sizeof own, &own) == 0;
    }
    if (!pinned)
        kvt_unpin_threads();
    return pinned;
}

void kvt_unpin_threads(void)
{
#pragma omp parallel
    sched_setaffinity(0, sizeof allowed, &allowed);
}

enum kvt_status kvt_canary_init(struct kvt_canary *canary, struct kvt_err *err)
{
    canary->bytes = CANARY_BYTES;
    canary->memory = aligned_alloc(64, CANARY_BYTES);
    if (canary->memory == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a canary of %zu bytes", CANARY_BYTES);
    memset(canary->memory, 1, CANARY_BYTES);
    return KVT_OK;
}

void kvt_canary_release(struct kvt_canary *canary)
{
    free(canary->memory);
    *canary = (struct kvt_canary){0};
}

/* Seconds. */
static double read_all(const struct kvt_canary *canary, int threads)
{
    static volatile uint32_t sum;
    int all = omp_get_max_threads();
    omp_set_num_threads(threads);
    double start = kvt_device_now();
    sum = kvt_cpu_ceiling_read(canary->memory, canary->bytes);
    double time = kvt_device_now() - start;
    omp_set_num_threads(all);
    (void)sum;
    return time;
}

double kvt_canary_ratio(const struct kvt_canary *canary)
{
    double ratio[TRIES];
    for (int i = 0; i < TRIES; i++)
        ratio[i] = read_all(canary, 1) / read_all(canary, omp_get_max_threads());
    return gsl_stats_median(ratio, 1, TRIES);
}
