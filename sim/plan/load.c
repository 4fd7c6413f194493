#include "sim/plan/load.h"

static struct kvt_lengths_spec lengths_of(const struct kvt_config_lengths *from,
                                          struct kvt_where where)
{
    return (struct kvt_lengths_spec){.kind = from->kind,
                                     .mean = from->mean,
                                     .min = from->min,
                                     .max = from->max,
                                     .p99 = from->p99,
                                     .cv = from->cv,
                                     .where = where};
}

/* Read a trace that the config names at `where`: a file that is not there is a mistake of that
 * line, what is wrong inside it has a place of its own. */
static enum kvt_status read_at(struct kvt_trace *trace, const char *path, double speed,
                               struct kvt_where where, struct kvt_err *err)
{
    struct kvt_err why = {0};
    enum kvt_status status = kvt_trace_read(trace, path, speed, &why);
    if (status == KVT_OK)
        return KVT_OK;
    return status == KVT_EIO ? kvt_err_at(err, status, where, "%s", why.text)
                             : kvt_err_set(err, status, "%s", why.text);
}

static enum kvt_status source_read(struct kvt_trace *source, const struct kvt_config_lengths *from,
                                   struct kvt_where where, struct kvt_err *err)
{
    return from->kind == KVT_LENGTHS_EMPIRICAL ? read_at(source, from->file, 1, where, err)
                                               : KVT_OK;
}

enum kvt_status kvt_load_init(struct kvt_load *load, const struct kvt_config *config,
                              struct kvt_err *err)
{
    const struct kvt_config_workload *from = &config->workload;
    bool is_open = from->kind == KVT_WORKLOAD_OPEN;
    *load = (struct kvt_load){0};
    if (!is_open && from->kind != KVT_WORKLOAD_CLOSED)
        return kvt_err_at(err, KVT_ECONFIG, from->where,
                          "want a workload to generate (open or closed), got %s",
                          from->kind == KVT_WORKLOAD_TRACE ? "a trace" : "none");
    load->spec = (struct kvt_trace_spec){
        .where = from->where,
        .where_rate = kvt_config_where(config, is_open ? "workload.open.rate" : "workload.closed"),
        .where_until = kvt_config_where(config, "run.until"),
        .where_gaps = kvt_config_where(config, "workload.open.arrivals"),
        .where_prefixes = kvt_config_where(config, "workload.open.prefixes"),
        .seed = config->run.seed,
        .rate = is_open ? from->rate : 0,
        .requests = from->requests,
        .until = is_open ? config->run.until : -1,
        .gaps = is_open ? from->arrivals.kind : KVT_GAPS_POISSON,
        .cv = from->arrivals.cv,
        .shape = from->arrivals.shape,
        .on = from->arrivals.on,
        .off = from->arrivals.off,
        .input =
            lengths_of(&from->input, kvt_config_where(config, is_open ? "workload.open.input"
                                                                      : "workload.closed.input")),
        .output =
            lengths_of(&from->output, kvt_config_where(config, is_open ? "workload.open.output"
                                                                       : "workload.closed.output")),
        .prefix_groups = from->prefixes.groups,
        .prefix_share = from->prefixes.share,
        .prefix_tokens = from->prefixes.tokens,
        .block_tokens = KVT_LOAD_BLOCK_TOKENS,
    };
    enum kvt_status status = source_read(&load->sources[0], &from->input, from->where, err);
    if (status == KVT_OK)
        status = source_read(&load->sources[1], &from->output, from->where, err);
    load->spec.input.sample = load->sources[0].input;
    load->spec.input.sample_count = load->sources[0].count;
    load->spec.output.sample = load->sources[1].output;
    load->spec.output.sample_count = load->sources[1].count;
    if (status != KVT_OK)
        kvt_load_release(load);
    return status;
}

void kvt_load_release(struct kvt_load *load)
{
    kvt_trace_release(&load->sources[0]);
    kvt_trace_release(&load->sources[1]);
    *load = (struct kvt_load){0};
}

enum kvt_status kvt_load_trace(struct kvt_trace *trace, const struct kvt_config *config,
                               struct kvt_err *err)
{
    const struct kvt_config_workload *from = &config->workload;
    struct kvt_load load;
    if (from->kind == KVT_WORKLOAD_TRACE)
        return read_at(trace, from->trace, from->trace_speed, from->where, err);
    *trace = (struct kvt_trace){0};
    KVT_TRY(kvt_load_init(&load, config, err));
    enum kvt_status status;
    if (from->kind == KVT_WORKLOAD_CLOSED && load.spec.requests < 0)
        status =
            kvt_err_at(err, KVT_ECONFIG, from->where, "want workload.closed.requests, got none");
    else
        status = kvt_trace_generate(trace, &load.spec, err);
    kvt_load_release(&load);
    return status;
}
