/*
 * fuzz_server.c - tables of measured servers against any bytes
 *
 * Input: the text of a table; after an odd byte, rows below a header that is given. A row is
 * refused with a reason, or the config that it makes is one that the reader of configs takes.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/server_load.h"
#include "sim/base/assert.h"
#include "sim/config/config.h"
#include "tests/fuzz/place.h"

#define ROWS_MAX 4

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static const char head[] =
    "engine,engine_version,model,gpu,gpu_mem_gb,n_gpus,tp,dp,ep,pp,dcp,weight_dtype,kv_dtype,"
    "mem_fraction,page_or_block_tokens,max_model_len,spec_decode,mode,dataset,length_dist,"
    "isl_tokens,osl_tokens,concurrency,request_rate_rps,num_requests,latency_stat,notes\n";

static void read_row(const struct kvt_table *table, int32_t index)
{
    static struct kvt_server_row row;
    static struct kvt_server_load load;
    static struct kvt_err err;
    struct kvt_config config;
    memset(&row, 0, sizeof row);
    memset(&err, 0, sizeof err);
    row.table = table;
    row.index = index;
    if (!kvt_server_read(&row) || !kvt_server_load_read(&row, &load, true)) {
        kvt_assert(row.reason[0] != '\0');
        return;
    }
    kvt_assert(kvt_server_load_seeds(&load) >= 1);
    char *text = kvt_server_config(&row, &load);
    kvt_assert(text != NULL);
    enum kvt_status status =
        kvt_config_parse(&config, "row", text, strlen(text), "", NULL, 0, &err);
    if (status != KVT_OK)
        fprintf(stderr, "%s\n%s\n", text, err.text);
    kvt_assert(status == KVT_OK);
    kvt_config_release(&config);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct kvt_table table;
    struct kvt_err err = {0};
    place_catalogue();
    const char *ahead = count > 0 && bytes[0] % 2 == 1 ? head : "";
    size_t skip = count > 0, length = strlen(ahead) + count - skip;
    char *text = place_text(ahead, bytes + skip, count - skip);
    if (kvt_table_read(&table, place_bytes(text, length), &err) == KVT_OK) {
        for (int32_t i = 0; i < table.row_count && i < ROWS_MAX; i++)
            read_row(&table, i);
        kvt_table_free(&table);
    } else {
        kvt_assert(err.count >= 1);
    }
    free(text);
    return 0;
}
