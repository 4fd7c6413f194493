/*
 * ranks_mpi.c - the ranks of a job by MPI: kvtwin-mpi.so, built where mpicc is (sim/plan/ranks.h)
 */
/* For setenv. NOLINTNEXTLINE(*reserved-identifier,cert-dcl*) */
#define _POSIX_C_SOURCE 200809L
#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "sim/plan/ranks.h"

extern const struct kvt_ranks_plugin kvt_ranks_mpi;

/* What we send is a few hundred bytes now and then: shared memory and TCP will do, and looking for
 * faster fabrics takes Open MPI 0.2 s at each start. What the user has set stays. */
static void want_plain_transports(void)
{
#ifdef OPEN_MPI
    setenv("OMPI_MCA_pml", "ob1", 0);
    setenv("OMPI_MCA_btl", "^openib,ofi", 0);
#endif
}

static bool begin(int32_t *rank, int32_t *count)
{
    want_plain_transports();
    int given, own, all;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given) != MPI_SUCCESS)
        return false;
    if (given < MPI_THREAD_SERIALIZED || MPI_Comm_rank(MPI_COMM_WORLD, &own) != MPI_SUCCESS ||
        MPI_Comm_size(MPI_COMM_WORLD, &all) != MPI_SUCCESS)
        return false;
    *rank = own;
    *count = all;
    return true;
}

/* MPI_Send may wait until rank 0 looks for messages. So a message is copied, and only the one that
 * was sent SLOTS messages ago has to have left. */
#define SLOTS 32

static struct {
    MPI_Request request;
    unsigned char *bytes;
    size_t room;
} slots[SLOTS];
static size_t next_slot;

/* Until the message of a slot has left, if there was one. */
static void wait_for(size_t i)
{
    if (slots[i].bytes != NULL) /* NOLINTNEXTLINE(*MPI-Checker): bytes are there once it was sent */
        MPI_Wait(&slots[i].request, MPI_STATUS_IGNORE);
}

static void put(int32_t to, int32_t tag, const void *bytes, size_t count)
{
    size_t i = next_slot++ % SLOTS;
    wait_for(i);
    if (slots[i].room < count + 1) {
        free(slots[i].bytes);
        slots[i].bytes = malloc(count + 1);
        slots[i].room = slots[i].bytes != NULL ? count + 1 : 0;
    }
    int length = count < INT_MAX ? (int)count : INT_MAX;
    if (slots[i].bytes == NULL) {
        MPI_Send(bytes, length, MPI_BYTE, to, tag, MPI_COMM_WORLD);
        return;
    }
    if (count > 0)
        memcpy(slots[i].bytes, bytes, count);
    MPI_Isend(slots[i].bytes, length, MPI_BYTE, to, tag, MPI_COMM_WORLD, &slots[i].request);
}

static bool probe(int32_t from, struct kvt_rank_message *message)
{
    int any = 0, count = 0;
    MPI_Status status;
    MPI_Iprobe(from < 0 ? MPI_ANY_SOURCE : from, MPI_ANY_TAG, MPI_COMM_WORLD, &any, &status);
    if (!any)
        return false;
    MPI_Get_count(&status, MPI_BYTE, &count);
    message->from = status.MPI_SOURCE;
    message->tag = status.MPI_TAG;
    message->count = (size_t)count;
    return true;
}

static void receive(const struct kvt_rank_message *message, void *bytes)
{
    MPI_Recv(bytes, (int)message->count, MPI_BYTE, message->from, message->tag, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
}

static void end(void)
{
    for (size_t i = 0; i < SLOTS; i++)
        wait_for(i);
    MPI_Finalize();
}

const struct kvt_ranks_plugin kvt_ranks_mpi = {
    .begin = begin, .send = put, .probe = probe, .receive = receive, .end = end};
