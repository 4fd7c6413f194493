/* The suites, in the order of the source. One line each: X(name) for check_<name> in test_<name>.c.
 */
#define CHECK_SUITES(X)                                                                            \
    X(base)                                                                                        \
    X(costs)                                                                                       \
    X(metrics)
