/* The suites, in the order of the source: X(name) for check_<name> in test_<name>.c. */
/* clang-format off */
#define CHECK_SUITES(X) \
    X(base) \
    X(pages)            \
    X(prefix)           \
    X(batch)            \
    X(policy)           \
    X(handoff)          \
    X(handoff_model)    \
    X(link)             \
    X(queueing)         \
    X(des)              \
    X(config)           \
    X(config_errors)    \
    X(model)            \
    X(import)           \
    X(memory)           \
    X(trace)            \
    X(generate)         \
    X(load)             \
    X(costs)            \
    X(calibration)      \
    X(cost)             \
    X(recipe)           \
    X(host)             \
    X(errors)           \
    X(fit)              \
    X(fit_parameters)   \
    X(bench_table)      \
    X(rare)             \
    X(faults)           \
    X(fault_plan)       \
    X(fault_policies)   \
    X(kv_write)         \
    X(attention)        \
    X(metrics)          \
    X(output)           \
    X(journal)          \
    X(bench_result)     \
    X(compare)          \
    X(report)           \
    X(perfetto)         \
    X(exchange)         \
    X(resample)         \
    X(sweep)            \
    X(search)           \
    X(serving_fit)      \
    X(reproduce)        \
    X(left_out)         \
    X(gemm_kernels)     \
    X(int4_kernels)     \
    X(tag_check)        \
    X(elementwise)      \
    X(runtime)          \
    X(validate)         \
    X(cli)
/* clang-format on */
