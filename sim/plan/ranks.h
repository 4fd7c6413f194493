/*
 * ranks.h - the processes of one job that run side by side, started by mpirun or Slurm
 *
 * Alone there is one rank and nothing is loaded. Started by a launcher (OMPI_COMM_WORLD_SIZE,
 * PMI_SIZE, PMIX_RANK or SLURM_STEP_NUM_TASKS says so) the program loads kvtwin-mpi.so from beside
 * itself, the one part that is linked with MPI, so that a plain build needs none and no start of
 * the program pays for it. Where that file is missing a job of several ranks is refused: each of
 * them would do all of the work.
 *
 * Messages are bytes with a tag. Only one thread of a rank may be in these functions at a time.
 */
#ifndef KVT_PLAN_RANKS_H
#define KVT_PLAN_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/base/status.h"

struct kvt_rank_message {
    int32_t from, tag;
    size_t count; /* bytes */
};

/* What kvtwin-mpi.so exports as kvt_ranks_mpi. */
struct kvt_ranks_plugin {
    bool (*begin)(int32_t *rank, int32_t *count); /* false: MPI does not start */
    /* bytes may be used again at once; messages to one rank come in the order of sending */
    void (*send)(int32_t to, int32_t tag, const void *bytes, size_t count);
    bool (*probe)(int32_t from, struct kvt_rank_message *message); /* from -1: any. Does not wait */
    void (*receive)(const struct kvt_rank_message *message, void *bytes);
    void (*end)(void);
};

struct kvt_ranks {
    int32_t rank, count; /* 0 and 1: alone */
    const struct kvt_ranks_plugin *with;
    void *library;
};

enum kvt_status kvt_ranks_begin(struct kvt_ranks *ranks, struct kvt_err *err);

/* Every rank must come here, after its last message. Safe when alone. */
void kvt_ranks_end(struct kvt_ranks *ranks);

/* Instead of the end, when a rank died: the end would wait for it. */
void kvt_ranks_abandon(struct kvt_ranks *ranks);

/* Wait for the next message from that rank. */
void kvt_ranks_wait(const struct kvt_ranks *ranks, int32_t from, struct kvt_rank_message *message);

#endif
