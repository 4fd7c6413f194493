#include "sim/plan/sweep.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/base/assert.h"
#include "sim/base/random.h"
#include "sim/output/h5_items.h"
#include "sim/output/journal.h"
#include "sim/plan/sweep_files.h"

#define BATCH_MOST   16     /* points of one message */
#define BATCHES_LEFT 4      /* per worker, of the points that are left */
#define POLL_NS      400000 /* a rank asks every 16 points: it can wait so long */
#define BYE_S        0.4    /* after a stop: ranks that have not said goodbye by then are lost */

/* From a rank to rank 0 and back. */
enum tag {
    TAG_BEGIN, /* 0 to all: int32 status; not KVT_OK: there is nothing to do */
    TAG_TAKE,  /* to 0: empty; the answer is a batch, empty when there is nothing to do */
    TAG_DONE,  /* to 0: int64 point, then the packed point */
    TAG_BYE,   /* to 0: int32 status, then text: the last message of a rank */
};

/* Points first, first + 1, ... end - 1 for one worker. */
struct batch {
    int64_t first, end;
};

struct job {
    struct kvt_sweep *sweep;
    struct kvt_ranks *ranks;
    const struct kvt_sweep_options *options;
    struct kvt_journal journal; /* file -1: none */
    int64_t next;               /* no point below it is left to hand out */
    int64_t workers;            /* of all ranks, if each has as many as rank 0 */
    enum kvt_status status;     /* of the first failure that ends the sweep */
    struct kvt_err err;
    int32_t byes; /* other ranks that said goodbye */
    int32_t lost; /* that did not, long after all were told to stop */
};

static bool is_stopped(const struct job *job)
{
    return job->status != KVT_OK || kvt_stop_asked(job->options->stop);
}

static void fail(struct job *job, enum kvt_status status, const char *text)
{
    if (job->status != KVT_OK)
        return;
    job->status = status;
    kvt_err_set(&job->err, status, "%s", text);
}

/* ---- rank 0: rows ------------------------------------------------------------------------- */

static enum kvt_status take_memory(struct kvt_sweep *sweep, struct kvt_err *err)
{
    size_t count = (size_t)sweep->count;
    sweep->done = calloc(count, sizeof *sweep->done);
    sweep->status = calloc(count, sizeof *sweep->status);
    sweep->digest = calloc(count, sizeof *sweep->digest);
    sweep->message = calloc(count, sizeof *sweep->message);
    sweep->values = calloc(count * (size_t)sweep->columns.count, sizeof *sweep->values);
    bool whole = sweep->done != NULL && sweep->status != NULL && sweep->digest != NULL &&
                 sweep->message != NULL && sweep->values != NULL;
    return whole ? KVT_OK
                 : kvt_err_set(err, KVT_ENOMEM, "no memory for %" PRId64 " points", sweep->count);
}

static enum kvt_status store(struct kvt_sweep *sweep, int64_t number, const struct kvt_point *point,
                             struct kvt_err *err)
{
    if (sweep->done[number])
        return KVT_OK;
    if (point->status != KVT_OK) {
        sweep->message[number] = strdup(point->message);
        if (sweep->message[number] == NULL)
            return kvt_err_set(err, KVT_ENOMEM, "no memory for a message");
        sweep->failed++;
    }
    sweep->done[number] = true;
    sweep->done_count++;
    sweep->status[number] = (int64_t)point->status;
    sweep->digest[number] = point->digest;
    for (int32_t c = 0; c < sweep->columns.count; c++)
        sweep->values[(int64_t)c * sweep->count + number] = point->values[c];
    return KVT_OK;
}

static enum kvt_status store_packed(struct kvt_sweep *sweep, int64_t number,
                                    const unsigned char *bytes, size_t count, struct kvt_err *err)
{
    double values[KVT_POINT_COLUMNS_MAX];
    struct kvt_point point = {.values = values};
    if (number < 0 || number >= sweep->count ||
        !kvt_point_unpack(&point, &sweep->columns, bytes, count))
        return kvt_err_set(err, KVT_ECONFIG, "a record that is no point of this sweep");
    return store(sweep, number, &point, err);
}

static enum kvt_status resume(void *context, int64_t key, const void *bytes, size_t count,
                              struct kvt_err *err)
{
    struct kvt_sweep *sweep = context;
    return store_packed(sweep, key, bytes, count, err);
}

/* The next points that nobody has; none when there are none or the sweep ends early. Many at first,
 * so that a message is worth its while, and one by one at the end, where all wait for the last. */
static struct batch hand_out(struct job *job, int64_t most)
{
    const struct kvt_sweep *sweep = job->sweep;
    while (job->next < sweep->count && sweep->done[job->next])
        job->next++;
    struct batch batch = {job->next, job->next};
    int64_t share = (sweep->count - job->next) / (BATCHES_LEFT * job->workers);
    int64_t want = share < 1 ? 1 : share < most ? share : most;
    while (!is_stopped(job) && batch.end < sweep->count && batch.end - batch.first < want &&
           !sweep->done[batch.end])
        batch.end++;
    job->next = batch.end;
    return batch;
}

static void tell_progress(const struct job *job)
{
    const struct kvt_sweep *sweep = job->sweep;
    kvt_tell(&job->options->tell, (double)sweep->done_count / (double)sweep->count,
             sweep->done_count);
}

/* ---- rank 0: what other ranks ask --------------------------------------------------------- */

static void answer(struct job *job, const struct kvt_rank_message *message, unsigned char *bytes)
{
    const struct kvt_ranks_plugin *with = job->ranks->with;
    struct kvt_err err = {0};
    struct batch batch;
    int64_t number = -1;
    int32_t status;
    with->receive(message, bytes);
    switch ((enum tag)message->tag) {
    case TAG_TAKE:
        batch = hand_out(job, BATCH_MOST);
        with->send(message->from, TAG_TAKE, &batch, sizeof batch);
        break;
    case TAG_DONE:
        memcpy(&number, bytes, sizeof number);
        if (store_packed(job->sweep, number, bytes + sizeof number, message->count - sizeof number,
                         &err) != KVT_OK)
            fail(job, err.status, err.text);
        tell_progress(job);
        break;
    case TAG_BYE:
        memcpy(&status, bytes, sizeof status);
        bytes[message->count] = '\0';
        if (status != KVT_OK)
            fail(job, (enum kvt_status)status, (const char *)bytes + sizeof status);
        job->byes++;
        break;
    case TAG_BEGIN:
        break;
    }
}

/* Serve the others until all of them have said goodbye. When a rank dies its launcher stops the
 * others, and soon kills them: nobody waits for the dead then. */
static void coordinate(struct job *job)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    size_t room = sizeof(int64_t) + kvt_point_bytes_max(&job->sweep->columns);
    room = room > sizeof(struct kvt_err) ? room : sizeof(struct kvt_err) + 64;
    unsigned char *bytes = malloc(room);
    kvt_assert(bytes != NULL);
    double stopped_at = -1;
    while (job->byes < job->ranks->count - 1 &&
           (stopped_at < 0 || kvt_wall_seconds() < stopped_at + BYE_S)) {
        struct kvt_rank_message message;
        bool any;
#pragma omp critical(kvt_sweep)
        {
            any = job->ranks->with->probe(-1, &message);
            if (any)
                answer(job, &message, bytes);
        }
        if (stopped_at < 0 && kvt_stop_asked(job->options->stop))
            stopped_at = kvt_wall_seconds();
        if (!any)
            nanosleep(&pause, NULL);
    }
    job->lost = job->ranks->count - 1 - job->byes;
    free(bytes);
}

/* ---- every rank: work --------------------------------------------------------------------- */

/* The next point of a worker, out of its batch or of a new one; -1: there is none. */
static int64_t take(struct job *job, struct batch *batch)
{
    struct kvt_rank_message message;
    int64_t number = -1;
#pragma omp critical(kvt_sweep)
    if (!is_stopped(job)) {
        if (batch->first == batch->end && job->ranks->rank == 0) {
            *batch = hand_out(job, 1);
        } else if (batch->first == batch->end) {
            job->ranks->with->send(0, TAG_TAKE, NULL, 0);
            kvt_ranks_wait(job->ranks, 0, &message);
            job->ranks->with->receive(&message, batch);
        }
        if (batch->first < batch->end)
            number = batch->first++;
    }
    return number;
}

/* First the journal, then the row: what is known elsewhere is never lost. */
static void give(struct job *job, int64_t number, const struct kvt_point *point,
                 unsigned char *bytes)
{
    struct kvt_err err = {0};
    memcpy(bytes, &number, sizeof number);
    size_t count = kvt_point_pack(point, &job->sweep->columns, bytes + sizeof number);
#pragma omp critical(kvt_sweep)
    {
        enum kvt_status status = KVT_OK;
        if (job->journal.file >= 0)
            status = kvt_journal_append(&job->journal, number, bytes + sizeof number, count, &err);
        if (status == KVT_OK && job->ranks->rank == 0)
            status = store(job->sweep, number, point, &err);
        else if (status == KVT_OK)
            job->ranks->with->send(0, TAG_DONE, bytes, sizeof number + count);
        if (status != KVT_OK)
            fail(job, status, err.text);
        if (job->ranks->rank == 0)
            tell_progress(job);
    }
}

static void work(struct job *job)
{
    double values[KVT_POINT_COLUMNS_MAX];
    const struct kvt_point_columns *columns = &job->sweep->columns;
    struct kvt_point point = {.values = values};
    unsigned char *bytes = malloc(sizeof(int64_t) + kvt_point_bytes_max(columns));
    struct batch batch = {0, 0};
    int64_t number;
    if (bytes == NULL) {
#pragma omp critical(kvt_sweep)
        fail(job, KVT_ENOMEM, "no memory for a point");
    }
    while (bytes != NULL && (number = take(job, &batch)) >= 0) {
        struct kvt_err err = {0};
        if (kvt_point_run(&point, job->sweep->points, number, columns, job->sweep->resamples,
                          job->options->stop, &err) == KVT_OK) {
            give(job, number, &point, bytes);
            continue;
        }
#pragma omp critical(kvt_sweep)
        fail(job, err.status, err.text);
    }
    free(bytes);
}

static void run(struct job *job)
{
    int32_t threads =
        job->options->threads > 0 ? job->options->threads : (int32_t)omp_get_max_threads();
    bool leads = job->ranks->rank == 0 && job->ranks->count > 1;
    job->workers = (int64_t)threads * job->ranks->count;
#pragma omp parallel num_threads(threads + leads)
    {
        if (leads && omp_get_thread_num() == 0)
            coordinate(job);
        else
            work(job);
    }
}

/* ---- all of it ---------------------------------------------------------------------------- */

/* malloc'ed; NULL without memory. */
static char *identity_of(const struct kvt_sweep *sweep)
{
    enum { BYTES = 256 };
    char *config = kvt_config_print(sweep->points->config);
    char *text = config != NULL ? malloc(BYTES) : NULL;
    if (text != NULL)
        snprintf(text, BYTES,
                 "kvtwin %s\nseed %" PRIu64 "\npoints %" PRId64 "\ncolumns %d\nresamples %d\n"
                 "config %016" PRIx64 "\n",
                 KVT_VERSION, sweep->points->config->run.seed, sweep->count, sweep->columns.count,
                 sweep->resamples, kvt_hash_text(config));
    free(config);
    return text;
}

/* Rank 0 takes over what all journals hold, then each rank opens its own. */
static enum kvt_status open_journal(struct job *job, struct kvt_err *err)
{
    char path[4096];
    const char *identity = job->sweep->identity;
    if (job->options->output == NULL)
        return KVT_OK;
    KVT_TRY(kvt_sweep_journal_path(job->options->output, job->ranks->rank, path, sizeof path, err));
    if (job->ranks->rank == 0) {
        KVT_TRY(kvt_h5_items_check(job->options->output, path, identity, err));
        KVT_TRY(kvt_sweep_journals(job->options->output, kvt_sweep_read_journal,
                                   &(struct kvt_sweep_reading){identity, resume, job->sweep}, err));
    }
    return kvt_journal_open(&job->journal, path, identity, NULL, NULL, err);
}

/* Other ranks begin when rank 0 could: one of them says what is wrong. */
static enum kvt_status begin(struct job *job, enum kvt_status status, struct kvt_err *err)
{
    int32_t word = (int32_t)status;
    struct kvt_rank_message message;
    for (int32_t r = 1; job->ranks->rank == 0 && r < job->ranks->count; r++)
        job->ranks->with->send(r, TAG_BEGIN, &word, sizeof word);
    if (job->ranks->rank == 0)
        return status;
    kvt_ranks_wait(job->ranks, 0, &message);
    job->ranks->with->receive(&message, &word);
    return word == KVT_OK ? KVT_OK
                          : kvt_err_set(err, (enum kvt_status)word, "rank 0 could not begin");
}

static void say_goodbye(const struct job *job)
{
    unsigned char bytes[sizeof(int32_t) + 1024];
    int32_t status = (int32_t)job->status;
    size_t text = strlen(job->err.text);
    text = text < 1023 ? text : 1023;
    memcpy(bytes, &status, sizeof status);
    memcpy(bytes + sizeof status, job->err.text, text);
    job->ranks->with->send(0, TAG_BYE, bytes, sizeof status + text);
}

static enum kvt_status finish(struct job *job, struct kvt_err *err)
{
    const struct kvt_sweep *sweep = job->sweep;
    bool whole = sweep->done_count == sweep->count;
    if (job->ranks->rank > 0)
        return job->status;
    if (job->status != KVT_OK && job->status != KVT_EINTR)
        return kvt_err_set(err, job->status, "%s", job->err.text);
    if (whole)
        return KVT_OK;
    char lost[64] = "";
    if (job->lost > 0)
        snprintf(lost, sizeof lost, ", %d of %d ranks are gone", job->lost, job->ranks->count);
    return kvt_err_set(err, KVT_EINTR, "interrupted after %" PRId64 " of %" PRId64 " point%s%s%s",
                       sweep->done_count, sweep->count, kvt_plural(sweep->count), lost,
                       job->options->output != NULL ? "; the same command goes on from there" : "");
}

enum kvt_status kvt_sweep_run(struct kvt_sweep *sweep, const struct kvt_points *points,
                              struct kvt_ranks *ranks, const struct kvt_sweep_options *options,
                              struct kvt_err *err)
{
    *sweep = (struct kvt_sweep){
        .points = points, .resamples = options->resamples, .count = points->count};
    struct job *job = calloc(1, sizeof *job);
    if (job == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a sweep");
    *job =
        (struct job){.sweep = sweep, .ranks = ranks, .options = options, .journal = {.file = -1}};
    enum kvt_status status =
        kvt_point_columns_init(&sweep->columns, points, options->resamples, err);
    sweep->identity = status == KVT_OK ? identity_of(sweep) : NULL;
    if (status == KVT_OK && sweep->identity == NULL)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory for a sweep");
    if (status == KVT_OK && ranks->rank == 0)
        status = take_memory(sweep, err);
    if (status == KVT_OK && ranks->rank == 0)
        status = open_journal(job, err);
    status = begin(job, status, err);
    if (status == KVT_OK && ranks->rank > 0 && open_journal(job, &job->err) != KVT_OK)
        job->status = job->err.status;
    if (status == KVT_OK) {
        sweep->resumed = sweep->done_count;
        run(job);
        if (ranks->rank > 0)
            say_goodbye(job);
        if (job->lost > 0)
            kvt_ranks_abandon(ranks);
        status = finish(job, err);
    }
    kvt_journal_close(&job->journal);
    free(job);
    return status;
}

void kvt_sweep_release(struct kvt_sweep *sweep)
{
    for (int64_t i = 0; sweep->message != NULL && i < sweep->count; i++)
        free(sweep->message[i]);
    free(sweep->done);
    free(sweep->identity);
    free(sweep->status);
    free(sweep->digest);
    free(sweep->message);
    free(sweep->values);
    *sweep = (struct kvt_sweep){0};
}
