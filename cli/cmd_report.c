/*
 * cmd_report.c - kvtwin report FILE.h5 -o report.html: a run, a sweep or a search as a page, its
 * figures as files
 */
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "sim/base/file.h"
#include "sim/report/points.h"
#include "sim/report/report.h"

#define CONVERTER "rsvg-convert"
#define PNG_WIDTH "1320" /* three pixels for each unit of a figure */

static const struct kvt_cli_option options[] = {
    {"compare", "FILE",
     "set a measured run (JSON of vLLM's or SGLang's benchmark) or another run beside it; repeats"},
    {"svg", "DIR", "also write each figure as an SVG file into this folder"},
    {"png", "DIR", "also write each figure as a PNG file; needs rsvg-convert"},
    {NULL, NULL, NULL},
};

/* What is shown: a run, or the points of a sweep or a search. */
struct shown {
    struct kvt_report *run;         /* one of them, */
    struct kvt_points_page *points; /* the other is NULL */
};

static int figures_of(const struct shown *what)
{
    return what->run != NULL ? (int)KVT_FIGURE_COUNT : (int)KVT_POINTS_METRIC_COUNT;
}

static const char *figure_name(const struct shown *what, int figure)
{
    return what->run != NULL ? kvt_figure_names[figure] : kvt_points_figure_names[figure];
}

static enum kvt_status print_figure(const struct shown *what, int figure, FILE *out, bool *any,
                                    struct kvt_err *err)
{
    return what->run != NULL
               ? kvt_report_figure(what->run, (enum kvt_figure)figure, true, out, any, err)
               : kvt_points_page_figure(what->points, (enum kvt_points_metric)figure, true, out,
                                        any, err);
}

static enum kvt_status write_page(const struct shown *what, const char *path, struct kvt_err *err)
{
    struct kvt_output output;
    FILE *file;
    KVT_TRY(kvt_output_open(&output, path, &file, err));
    enum kvt_status status = what->run != NULL ? kvt_report_html(what->run, file, err)
                                               : kvt_points_page_html(what->points, file, err);
    if (status == KVT_OK)
        return kvt_output_commit(&output, err);
    kvt_output_abandon(&output);
    return status;
}

/* NULL: none is wanted. */
static enum kvt_status make_folder(const char *folder, struct kvt_err *err)
{
    struct stat info;
    if (folder == NULL || mkdir(folder, 0777) == 0 ||
        (stat(folder, &info) == 0 && S_ISDIR(info.st_mode)))
        return KVT_OK;
    return kvt_err_set(err, KVT_EIO, "%s: cannot make the folder: %s", folder, strerror(errno));
}

extern char **environ;

/* Turn an SVG file into a PNG file. */
static enum kvt_status convert(const char *svg, const char *png, struct kvt_err *err)
{
    char *argv[] = {(char[]){CONVERTER},
                    (char[]){"--width"},
                    (char[]){PNG_WIDTH},
                    (char[]){"--output"},
                    strdup(png),
                    strdup(svg),
                    NULL};
    pid_t child;
    int code = 0, state = 0;
    if (argv[4] == NULL || argv[5] == NULL)
        code = ENOMEM;
    else
        code = posix_spawnp(&child, CONVERTER, NULL, NULL, argv, environ);
    free(argv[4]);
    free(argv[5]);
    while (code == 0 && waitpid(child, &state, 0) < 0)
        if (errno != EINTR)
            return kvt_err_set(err, KVT_EIO, "--png: %s: %s", CONVERTER, strerror(errno));
    if (code == ENOENT || (WIFEXITED(state) && WEXITSTATUS(state) == 127))
        return kvt_err_set(err, KVT_EIO,
                           "--png: %s is not installed (Debian: apt-get install librsvg2-bin); "
                           "--svg needs nothing",
                           CONVERTER);
    if (code != 0)
        return kvt_err_set(err, KVT_EIO, "--png: cannot start %s: %s", CONVERTER, strerror(code));
    if (!WIFEXITED(state) || WEXITSTATUS(state) != 0)
        return kvt_err_set(err, KVT_EIO, "--png: %s could not write %s", CONVERTER, png);
    return KVT_OK;
}

/* A drawing as a PNG file, by way of an SVG file beside it that goes again. */
static enum kvt_status write_png(const char *path, const char *text, size_t bytes,
                                 struct kvt_err *err)
{
    struct kvt_output output = {0};
    char drawing[PATH_MAX + 8];
    snprintf(drawing, sizeof drawing, "%s.svg", path);
    KVT_TRY(kvt_file_write(drawing, text, bytes, err));
    enum kvt_status status = kvt_output_begin(&output, path, err);
    if (status == KVT_OK)
        status = convert(drawing, output.temp_path, err);
    if (status == KVT_OK)
        status = kvt_output_commit(&output, err);
    kvt_output_abandon(&output);
    unlink(drawing);
    return status;
}

/* One figure as <folder>/<name>.svg or .png; nothing when the run has nothing for it. */
static enum kvt_status write_figure(const struct shown *what, int figure, const char *folder,
                                    bool png, struct kvt_err *err)
{
    char name[64], *text = NULL;
    size_t bytes = 0;
    bool shown = false;
    FILE *memory = kvt_memory_open(&text, &bytes);
    if (memory == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a figure");
    enum kvt_status status = print_figure(what, figure, memory, &shown, err);
    if (!kvt_memory_close(memory, &text) && status == KVT_OK)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory for a figure");
    snprintf(name, sizeof name, "%s.%s", figure_name(what, figure), png ? "png" : "svg");
    char *path = kvt_path_join(folder, name);
    if (path == NULL && status == KVT_OK)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory for a path");
    if (status == KVT_OK && shown)
        status = png ? write_png(path, text, bytes, err) : kvt_file_write(path, text, bytes, err);
    free(path);
    free(text);
    return status;
}

static enum kvt_status write_figures(const struct shown *what, const char *folder, bool png,
                                     struct kvt_err *err)
{
    for (int f = 0; folder != NULL && f < figures_of(what); f++)
        KVT_TRY(write_figure(what, f, folder, png, err));
    return KVT_OK;
}

/* Places that cannot be written are told before anything is there. */
static enum kvt_status write_all(const struct kvt_cli *cli, const struct shown *what,
                                 struct kvt_err *err)
{
    const char *svg = kvt_cli_get(cli, "svg"), *png = kvt_cli_get(cli, "png");
    KVT_TRY(make_folder(svg, err));
    KVT_TRY(make_folder(png, err));
    if (cli->output != NULL)
        KVT_TRY(write_page(what, cli->output, err));
    KVT_TRY(write_figures(what, svg, false, err));
    return write_figures(what, png, true, err);
}

static enum kvt_status report_run(const struct kvt_cli *cli, const char *const compare[],
                                  int32_t count, struct kvt_err *err)
{
    struct kvt_report *report = calloc(1, sizeof *report);
    if (report == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the report");
    enum kvt_status status = kvt_report_read(report, cli->operands[0], compare, count, err);
    if (status == KVT_OK)
        status = write_all(cli, &(const struct shown){.run = report}, err);
    kvt_report_release(report);
    free(report);
    return status;
}

static enum kvt_status report_points(const struct kvt_cli *cli, struct kvt_err *err)
{
    struct kvt_points_page page;
    enum kvt_status status = kvt_points_page_read(&page, cli->operands[0], err);
    if (status == KVT_OK)
        status = write_all(cli, &(const struct shown){.points = &page}, err);
    kvt_points_page_release(&page);
    return status;
}

static enum kvt_status run_report(const struct kvt_cli *cli, struct kvt_err *err)
{
    const char *compare[KVT_BESIDE_MAX] = {NULL};
    struct kvt_run_reader reader;
    char kind[16];
    int32_t count = 0, at = 0;
    for (const char *path = kvt_cli_next(cli, "compare", &at); path != NULL;
         path = kvt_cli_next(cli, "compare", &at)) {
        if (count == KVT_BESIDE_MAX)
            return kvt_err_set(err, KVT_EUSAGE, "--compare: want at most %d files", KVT_BESIDE_MAX);
        KVT_TRY(kvt_cli_check_input(cli, "compare", path, err));
        compare[count++] = path;
    }
    if (cli->output == NULL && kvt_cli_get(cli, "svg") == NULL && kvt_cli_get(cli, "png") == NULL)
        return kvt_err_set(err, KVT_EUSAGE, "report: want -o FILE.html, --svg DIR or --png DIR");
    KVT_TRY(kvt_points_reader_open(&reader, cli->operands[0], kind, err));
    kvt_run_reader_close(&reader);
    if (kind[0] == '\0')
        return report_run(cli, compare, count, err);
    if (count > 0)
        return kvt_err_set(err, KVT_EUSAGE, "--compare wants the file of a run, %s is another (%s)",
                           cli->operands[0], kind);
    return report_points(cli, err);
}

const struct kvt_command kvt_command_report = {
    .name = "report",
    .operands = "FILE.h5",
    .help = "a run, sweep or plan as one HTML page: numbers, figures, configuration",
    .description =
        "Turns a file that simulate -o wrote into one HTML file that needs no network: summary "
        "(with intervals where the run has resamples), memory map of each role, distributions of "
        "latencies, throughput against concurrency, queue, batch, KV usage and hand-off link over "
        "time, preemptions, faults, and the effective configuration. Of a file of sweep -o: "
        "metrics "
        "against what was swept, and the points; of plan -o: cost against latency with the Pareto "
        "front, and the candidates.",
    .example = "kvtwin simulate configs/examples/quickstart.yaml -o run.h5\n"
               "kvtwin report run.h5 -o report.html --compare bench.json",
    .uses = KVT_USES_OUTPUT,
    .operands_min = 1,
    .operands_max = 1,
    .options = options,
    .run = run_report,
};
