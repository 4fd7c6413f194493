/*
 * cmd_bench.c - measure our kernels on this machine
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/backend.h"
#include "cli/cli.h"
#include "runtime/bench.h"
#include "sim/base/file.h"

static const struct kvt_cli_option options[] = {
    {"backend", "NAME", "where kernels run: cpu (default) or cuda"},
    {"family", "NAME", "this family alone, and the ceilings"},
    {"quick", NULL, "a few sizes of each family"},
    {NULL, NULL, NULL},
};

static void write_csv(const struct kvt_bench *bench, FILE *out)
{
    fputs("backend,device,family,variant,shape,time_ns,mad_ns,repeats,bytes,flops,gb_per_s,ceiling,"
          "fraction_of_ceiling,status\n",
          out);
    for (int32_t i = 0; i < bench->count; i++) {
        const struct kvt_bench_row *row = &bench->rows[i];
        fprintf(out, "%s,\"%s\",%s,%s,%s,%.0f,%.0f,%d,%.0f,%.0f,%.3f,%s,%.4f,%s\n",
                kvt_backend_names[bench->device.ops->backend], bench->device.name, row->family,
                row->variant, row->shape, 1e9 * row->time, 1e9 * row->mad, row->repeats, row->bytes,
                row->flops, 1e-9 * row->bytes / row->time, row->ceiling, row->fraction,
                row->right ? "ok" : "wrong");
    }
}

static enum kvt_status print_json(const struct kvt_bench *bench, struct kvt_err *err)
{
    json_t *rows = json_array();
    for (int32_t i = 0; i < bench->count; i++) {
        const struct kvt_bench_row *row = &bench->rows[i];
        json_array_append_new(rows,
                              json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:s}", "family",
                                        row->family, "variant", row->variant, "shape", row->shape,
                                        "time_ns", 1e9 * row->time, "bytes", row->bytes, "gb_per_s",
                                        1e-9 * row->bytes / row->time, "fraction_of_ceiling",
                                        row->fraction, "status", row->right ? "ok" : "wrong"));
    }
    json_t *object =
        json_pack("{s:{s:f, s:f, s:f, s:f}, s:o}", "ceilings", "read_gb_per_s", 1e-9 * bench->read,
                  "copy_gb_per_s", 1e-9 * bench->copy, "gemm_tflops", 1e-12 * bench->peak,
                  "launch_us", 1e6 * bench->launch, "kernels", rows);
    char *text = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(object);
    if (text == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the result");
    puts(text);
    free(text);
    return KVT_OK;
}

static void print_text(const struct kvt_bench *bench)
{
    printf("%s: read %.1f GB/s, copy %.1f GB/s, GEMM %.3f TFLOP/s, launch %.1f us\n",
           bench->device.name, 1e-9 * bench->read, 1e-9 * bench->copy, 1e-12 * bench->peak,
           1e6 * bench->launch);
    for (int32_t i = 0; i < bench->count; i++) {
        const struct kvt_bench_row *row = &bench->rows[i];
        printf("%-11s %-5s %-50s %10.1f us %7.1f GB/s %5.2f of %s%s\n", row->family, row->variant,
               row->shape, 1e6 * row->time, 1e-9 * row->bytes / row->time, row->fraction,
               row->ceiling, row->right ? "" : " WRONG");
    }
}

static enum kvt_status check_family(const char *family, struct kvt_err *err)
{
    for (int i = 0; family != NULL && kvt_bench_families[i] != NULL; i++)
        if (strcmp(family, kvt_bench_families[i]) == 0)
            return KVT_OK;
    return family == NULL ? KVT_OK
                          : kvt_err_set(err, KVT_EUSAGE, "--family: no family \"%.40s\"", family);
}

static enum kvt_status run(const struct kvt_cli *cli, struct kvt_err *err)
{
    static struct kvt_bench bench;
    enum kvt_backend backend;
    struct kvt_output output = {0};
    bench.only = kvt_cli_get(cli, "family");
    bench.quick = kvt_cli_get(cli, "quick") != NULL;
    bench.stop = &kvt_cli_interrupted;
    KVT_TRY(kvt_cli_backend(cli, &backend, err));
    KVT_TRY(check_family(bench.only, err));
    if (cli->output != NULL)
        KVT_TRY(kvt_output_begin(&output, cli->output, err));
    enum kvt_status status = kvt_bench_run(&bench, backend, err);
    if (status == KVT_OK && cli->output != NULL) {
        FILE *file = fopen(output.temp_path, "w");
        if (file != NULL)
            write_csv(&bench, file);
        if (file == NULL || fclose(file) != 0)
            status = kvt_err_set(err, KVT_EIO, "%s: cannot write", cli->output);
        if (status == KVT_OK)
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
                   "compared with its plain definition before it is timed. With -o the rows go "
                   "into a CSV table that calibrate reads.",
    .example = "kvtwin bench --quick -o own.csv",
    .uses = KVT_USES_OUTPUT,
    .operands_min = 0,
    .operands_max = 0,
    .options = options,
    .run = run,
};
