#include "sim/plan/ranks.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define POLL_NS 50000

/* Whether a launcher started several of us. */
static bool is_launched(void)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *text = getenv(sizes[i]);
        if (text != NULL && strtol(text, NULL, 10) > 1)
            return true;
    }
    return getenv("PMIX_RANK") != NULL && getenv("OMPI_COMM_WORLD_SIZE") == NULL;
}

/* "kvtwin-mpi.so" beside the program. */
static bool plugin_path(char *path, size_t bytes)
{
    ssize_t length = readlink("/proc/self/exe", path, bytes - 1);
    if (length <= 0)
        return false;
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    size_t used = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    return (size_t)snprintf(path + used, bytes - used, "kvtwin-mpi.so") < bytes - used;
}

enum kvt_status kvt_ranks_begin(struct kvt_ranks *ranks, struct kvt_err *err)
{
    char path[4096];
    *ranks = (struct kvt_ranks){.count = 1};
    if (!is_launched())
        return KVT_OK;
    if (!plugin_path(path, sizeof path))
        return kvt_err_set(err, KVT_EIO, "cannot tell where the program lies");
    ranks->library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (ranks->library == NULL)
        return kvt_err_set(err, KVT_EUSAGE,
                           "started as one of several ranks, but built without MPI: install "
                           "libopenmpi-dev and build again (%s)",
                           dlerror());
    ranks->with = dlsym(ranks->library, "kvt_ranks_mpi");
    if (ranks->with == NULL || !ranks->with->begin(&ranks->rank, &ranks->count)) {
        ranks->with = NULL;
        return kvt_err_set(err, KVT_EUSAGE, "%s: MPI does not start", path);
    }
    return KVT_OK;
}

void kvt_ranks_end(struct kvt_ranks *ranks)
{
    if (ranks->with != NULL)
        ranks->with->end();
    /* The library stays loaded: MPI leaves handlers behind that run at exit. */
    *ranks = (struct kvt_ranks){.count = 1};
}

void kvt_ranks_abandon(struct kvt_ranks *ranks)
{
    ranks->with = NULL;
}

void kvt_ranks_wait(const struct kvt_ranks *ranks, int32_t from, struct kvt_rank_message *message)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    while (!ranks->with->probe(from, message))
        nanosleep(&pause, NULL);
}
