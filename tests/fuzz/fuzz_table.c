/* Any bytes as a table of kernel times: a status and messages, never more. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cost/table.h"
#include "tests/fuzz/place.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const char *const headers[] = {
        "op_name,gemm_dtype,m,n,k,latency\ngemm,bfloat16,",
        "op_name,kv_cache_dtype,num_heads,batch_size,isl,step,latency\nmla_generation,fp8,",
        "backend,device,family,variant,shape,time_ns,bytes,flops,gb_per_s,status\n"
        "cpu,it,int4-experts,g32,tokens=1 hidden=8 inter=8 experts=4 topk=2,9,0,0,0,ok\ncpu,it,",
        ""};
    struct kvt_tables tables = {0};
    struct kvt_err err = {0};
    double floor;
    const char *header = headers[count > 0 ? bytes[0] % 4 : 3];
    char *text = place_text(header, bytes, count);
    kvt_tables_parse(&tables, "h200_sxm-own-1-table.csv", text, strlen(header) + count, "h200-sxm",
                     NULL, &err);
    for (int32_t i = 0; i < tables.series_count; i++)
        kvt_series_average(&tables.series[i], &floor);
    kvt_tables_release(&tables);
    free(text);
    return 0;
}
