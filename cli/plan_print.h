/*
 * plan_print.h - what a search found, for people and for programs (cmd_plan.c)
 */
#ifndef KVT_CLI_PLAN_PRINT_H
#define KVT_CLI_PLAN_PRINT_H

#include "sim/plan/search.h"

/* The winner first, then what limits it, its neighbours and the front. */
void kvt_plan_print_text(const struct kvt_search *search, FILE *out);

/* best, pareto[], candidates, evaluated (design: contract), and why the rest was not taken. */
enum kvt_status kvt_plan_print_json(const struct kvt_search *search, FILE *out,
                                    struct kvt_err *err);

/* A row per candidate. */
void kvt_plan_print_csv(const struct kvt_search *search, FILE *out);

#endif
