/*
 * cmd_bench.c - measure our kernels on this machine
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/backend.h"
#include "cli/cli.h"
#include "runtime/bench.h"
#include "sim/base/file.h"
#include "sim/base/json.h"

static const struct kvt_cli_option options[] = {
    {"backend", "NAME", "where kernels run: cpu (default) or cuda"},
    {"family", "NAME", "this family alone, and the ceilings"},
    {"quick", NULL,
     "a few sizes of each family, 3 repeats: a look at the machine; a large cache may help them, "
     "and they are too few for calibrate"},
    {NULL, NULL, NULL},
};

static double gb_per_s(const struct kvt_bench_row *row)
{
    return row->time > 0 ? 1e-9 * row->bytes / row->time : 0;
}

static const char *status_of(const struct kvt_bench_row *row)
{
    return row->right ? "ok" : "wrong";
}

static void write_csv(const struct kvt_bench *bench, FILE *out)
{
    fputs("backend,device,family,variant,shape,time_ns,mad_ns,repeats,bytes,flops,gb_per_s,ceiling,"
          "fraction_of_ceiling,status\n",
          out);
    for (int32_t i = 0; i < bench->count; i++) {
        const struct kvt_bench_row *row = &bench->rows[i];
        fprintf(out, "%s,\"%s, %d threads\",%s,%s,%s,%.1f,%.1f,%d,%.0f,%.0f,%.4f,%s,%.4f,%s\n",
                kvt_backend_names[bench->device.ops->backend], bench->device.name,
                bench->device.workers, row->family, row->variant, row->shape, 1e9 * row->time,
                1e9 * row->mad, row->repeats, row->bytes, row->flops, gb_per_s(row), row->ceiling,
                row->fraction, status_of(row));
    }
}

static json_t *json_row(const struct kvt_bench_row *row)
{
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:i, s:f, s:f, s:f, s:s, s:f, s:s}", "family",
                     row->family, "variant", row->variant, "shape", row->shape, "time_ns",
                     1e9 * row->time, "mad_ns", 1e9 * row->mad, "repeats", row->repeats, "bytes",
                     row->bytes, "flops", row->flops, "gb_per_s", gb_per_s(row), "ceiling",
                     row->ceiling, "fraction_of_ceiling", row->fraction, "status", status_of(row));
}

static json_t *json_target(const struct kvt_bench_target *target)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:b}", "what", target->what, "where",
                     target->where, "unit", target->unit, "bound",
                     target->at_most ? "at most" : "at least", "asked", target->asked, "reached",
                     target->reached, "met", target->met);
}

static enum kvt_status print_json(const struct kvt_bench *bench, struct kvt_err *err)
{
    json_t *rows = json_array(), *targets = json_array();
    for (int32_t i = 0; i < bench->count; i++)
        json_array_append_new(rows, json_row(&bench->rows[i]));
    for (int32_t i = 0; i < bench->target_count; i++)
        json_array_append_new(targets, json_target(&bench->targets[i]));
    json_t *object =
        json_pack("{s:s, s:s, s:i, s:{s:f, s:f, s:f, s:f, s:f}, s:o, s:o}", "backend",
                  kvt_backend_names[bench->device.ops->backend], "device", bench->device.name,
                  "threads", bench->device.workers, "ceilings", "read_gb_per_s", 1e-9 * bench->read,
                  "copy_gb_per_s", 1e-9 * bench->copy, "gemm_tflops", 1e-12 * bench->peak,
                  "vector_tflops", 1e-12 * bench->vectors, "launch_us", 1e6 * bench->launch,
                  "kernels", rows, "targets", targets);
    return kvt_json_print(object, 9, stdout, err);
}

static bool is_ceiling(const struct kvt_bench_row *row)
{
    return strcmp(row->family, row->ceiling) == 0;
}

static void print_row(const struct kvt_bench_row *row)
{
    double rate = row->time > 0 ? 1e-9 * row->flops / row->time : 0;
    printf("  %-10s %-52s ", row->variant, row->shape);
    if (!row->right) {
        puts("WRONG: differs from its definition, not timed");
        return;
    }
    printf("%10.1f us %4.0f%% %7.2f GB/s", 1e6 * row->time, 100 * row->mad / row->time,
           gb_per_s(row));
    if (rate > 0)
        printf(" %8.1f GFLOP/s", rate);
    else
        printf(" %16s", "");
    printf("  %5.2f of %s\n", row->fraction, row->ceiling);
}

/* 12.3, 4.56, 0.078: three digits. */
static void print_number(double value)
{
    printf("%8.*f", value >= 100 ? 0 : value >= 10 ? 1 : value >= 0.1 ? 2 : 4, value);
}

static void print_targets(const struct kvt_bench *bench)
{
    int32_t met = 0;
    if (bench->target_count == 0)
        return;
    printf("\n%-34s %-62s %9s %9s\n", "targets", "", "asked", "reached");
    for (int32_t i = 0; i < bench->target_count; i++) {
        const struct kvt_bench_target *target = &bench->targets[i];
        met += target->met;
        printf("  %-32s %-62s %s", target->what, target->where, target->at_most ? "<=" : ">=");
        print_number(target->asked);
        print_number(target->reached);
        printf(" %-14s %s\n", target->unit, target->met ? "met" : "MISSED");
    }
    printf("  %d of %d met\n", met, bench->target_count);
}

static void print_text(const struct kvt_bench *bench)
{
    const char *family = "";
    printf("%s, %d thread%s\n", bench->device.name, bench->device.workers,
           kvt_plural(bench->device.workers));
    printf("  read %.1f GB/s, copy %.1f GB/s, matrix units %.3f TFLOP/s", 1e-9 * bench->read,
           1e-9 * bench->copy, 1e-12 * bench->peak);
    if (bench->vectors > 0)
        printf(", vectors %.3f TFLOP/s", 1e-12 * bench->vectors);
    printf(", launch %.2f us\n", 1e6 * bench->launch);
    if (bench->read_high > bench->read_low)
        printf("  beside the kernels, memory was read at %.1f to %.1f GB/s\n",
               1e-9 * bench->read_low, 1e-9 * bench->read_high);
    for (int32_t i = 0; i < bench->count; i++) {
        const struct kvt_bench_row *row = &bench->rows[i];
        if (is_ceiling(row))
            continue;
        if (strcmp(row->family, family) != 0)
            printf("\n%s\n", row->family);
        family = row->family;
        print_row(row);
    }
    print_targets(bench);
}

static enum kvt_status check_family(const char *family, struct kvt_err *err)
{
    char names[400] = "";
    for (int i = 0; kvt_bench_families[i] != NULL; i++) {
        size_t used = strlen(names);
        if (family == NULL || strcmp(family, kvt_bench_families[i]) == 0)
            return KVT_OK;
        snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                 kvt_bench_families[i]);
    }
    return kvt_err_set(err, KVT_EUSAGE, "--family: want one of %s, got \"%.40s\"", names, family);
}

static enum kvt_status run(const struct kvt_cli *cli, struct kvt_err *err)
{
    static struct kvt_bench bench;
    enum kvt_backend backend;
    struct kvt_output output = {0};
    FILE *file = NULL;
    bench.only = kvt_cli_get(cli, "family");
    bench.quick = kvt_cli_get(cli, "quick") != NULL;
    bench.stop = &kvt_cli_interrupted;
    KVT_TRY(kvt_cli_backend(cli, &backend, err));
    KVT_TRY(check_family(bench.only, err));
    if (cli->output != NULL)
        KVT_TRY(kvt_output_open(&output, cli->output, &file, err));
    enum kvt_status status = kvt_bench_run(&bench, backend, err);
    kvt_cli_say_clock(cli);
    if (status == KVT_OK && file != NULL) {
        write_csv(&bench, file);
        status = kvt_output_commit(&output, err);
    }
    kvt_output_abandon(&output);
    if (status != KVT_OK)
        return status;
    if (cli->format == KVT_FORMAT_JSON)
        return print_json(&bench, err);
    if (cli->format == KVT_FORMAT_CSV)
        write_csv(&bench, stdout);
    else
        print_text(&bench);
    return KVT_OK;
}

const struct kvt_command kvt_command_bench = {
    .name = "bench",
    .operands = "",
    .help = "measure our kernels on this machine",
    .description = "Ceilings first (reading, copying, GEMM, launching), then a grid of sizes for "
                   "each family of kernels, over operands that no cache holds. Each family is "
                   "compared with its plain definition before it is timed. At the end, what was "
                   "asked of the kernels and what they reached. With -o the rows go into a CSV "
                   "table that calibrate reads (without --quick).",
    .example = "kvtwin bench --quick\n"
               "kvtwin bench -o own.csv",
    .uses = KVT_USES_OUTPUT,
    .operands_min = 0,
    .operands_max = 0,
    .options = options,
    .run = run,
};
