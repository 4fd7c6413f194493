#include "sim/report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"
#include "sim/report/cdf.h"

/* ---- what stands beside the run ---- */

static enum kvt_status add_list(struct kvt_cdf *cdf, const struct kvt_bench_list *list,
                                struct kvt_err *err)
{
    return list->count > 0 ? kvt_cdf_of_values(cdf, list->seconds, list->count, err) : KVT_OK;
}

/* NULL past the limit, and err says so. */
static struct kvt_beside *new_beside(struct kvt_report *report, const char *path, const char *what,
                                     struct kvt_err *err)
{
    if (report->beside_count == KVT_BESIDE_MAX) {
        kvt_err_at(err, KVT_ELIMIT, (struct kvt_where){.file = path},
                   "want at most %d runs to compare with", KVT_BESIDE_MAX);
        return NULL;
    }
    struct kvt_beside *beside = &report->beside[report->beside_count++];
    snprintf(beside->label, sizeof beside->label, "%.40s%.20s", kvt_path_name(path), what);
    return beside;
}

/* Little's law: what arrives a second times how long it stays. */
static double concurrency_of(const struct kvt_bench_run *run)
{
    double rate = run->metric[KVT_BENCH_REQUEST_THROUGHPUT];
    double flying = rate * run->metric[KVT_BENCH_MEAN_E2EL] / 1e3;
    return isfinite(flying)       ? flying
           : run->concurrency > 0 ? (double)run->concurrency
                                  : (double)NAN;
}

static enum kvt_status add_bench(struct kvt_report *report, const char *path, struct kvt_err *err)
{
    struct kvt_bench_file file;
    KVT_TRY(kvt_bench_file_read(&file, path, err));
    enum kvt_status status = KVT_OK;
    for (int32_t i = 0; i < file.count && status == KVT_OK; i++) {
        const struct kvt_bench_run *run = &file.runs[i];
        char what[24] = "";
        if (file.count > 1)
            snprintf(what, sizeof what, " run %d", i + 1);
        struct kvt_beside *beside = new_beside(report, path, what, err);
        if (beside == NULL) {
            status = KVT_ELIMIT;
            break;
        }
        memcpy(beside->metric, run->metric, sizeof beside->metric);
        beside->completed = (double)run->completed;
        beside->duration = run->duration > 0 ? run->duration : (double)NAN;
        beside->concurrency = concurrency_of(run);
        const struct kvt_bench_list *lists[KVT_LATENCY_COUNT] = {[KVT_LATENCY_TTFT] = &run->ttft,
                                                                 [KVT_LATENCY_TPOT] = &run->tpot,
                                                                 [KVT_LATENCY_ITL] = &run->itl,
                                                                 [KVT_LATENCY_E2EL] = &run->e2el};
        for (int l = 0; l < KVT_LATENCY_COUNT && status == KVT_OK; l++)
            status = add_list(&beside->cdf[l], lists[l], err);
    }
    kvt_bench_file_release(&file);
    return status;
}

static enum kvt_status take_cdfs(struct kvt_cdf cdf[], const struct kvt_report_run *run,
                                 struct kvt_err *err)
{
    for (int l = 0; l < KVT_LATENCY_COUNT; l++)
        KVT_TRY(kvt_cdf_of_histogram(&cdf[l], run->histogram[l], run->bins[l], err));
    return KVT_OK;
}

static enum kvt_status add_run(struct kvt_report *report, const char *path, struct kvt_err *err)
{
    struct kvt_report_run *run = calloc(1, sizeof *run);
    struct kvt_beside *beside = NULL;
    if (run == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for %s", path);
    enum kvt_status status = kvt_report_run_read(run, path, err);
    if (status == KVT_OK && (beside = new_beside(report, path, "", err)) == NULL)
        status = KVT_ELIMIT;
    if (status == KVT_OK) {
        for (int m = 0; m < KVT_BENCH_METRIC_COUNT; m++)
            beside->metric[m] = kvt_report_metric(run, kvt_bench_metric_names[m]);
        beside->completed = kvt_report_metric(run, "completed");
        beside->duration = kvt_report_metric(run, "duration");
        beside->concurrency = kvt_mean_concurrency(run);
        status = take_cdfs(beside->cdf, run, err);
    }
    kvt_report_run_release(run);
    free(run);
    return status;
}

/* A run file by its first bytes; a benchmark's result otherwise. */
static bool is_hdf5(const char *path)
{
    static const char mark[] = "\x89HDF";
    char start[4] = "";
    FILE *file = fopen(path, "rb");
    bool is = file != NULL && fread(start, 1, 4, file) == 4 && memcmp(start, mark, 4) == 0;
    if (file != NULL)
        fclose(file);
    return is;
}

enum kvt_status kvt_report_read(struct kvt_report *report, const char *path,
                                const char *const compare[], int32_t compare_count,
                                struct kvt_err *err)
{
    *report = (struct kvt_report){0};
    KVT_TRY(kvt_report_run_read(&report->run, path, err));
    KVT_TRY(take_cdfs(report->cdf, &report->run, err));
    report->concurrency = kvt_mean_concurrency(&report->run);
    for (int32_t i = 0; i < compare_count; i++)
        KVT_TRY(is_hdf5(compare[i]) ? add_run(report, compare[i], err)
                                    : add_bench(report, compare[i], err));
    return KVT_OK;
}

void kvt_report_release(struct kvt_report *report)
{
    kvt_report_run_release(&report->run);
    for (int l = 0; l < KVT_LATENCY_COUNT; l++)
        kvt_cdf_release(&report->cdf[l]);
    for (int32_t i = 0; i < report->beside_count; i++)
        for (int l = 0; l < KVT_LATENCY_COUNT; l++)
            kvt_cdf_release(&report->beside[i].cdf[l]);
    *report = (struct kvt_report){0};
}
