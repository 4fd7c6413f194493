/*
 * json.h - JSON trees that are built without a look at each call
 *
 * Model: jansson tells of each call that memory has ended, by NULL or -1, and takes what such a
 * call gave (NULL) as an argument of the next. So a tree is built as if memory had no end; the
 * allocator that jansson is given here remembers, for this thread, that it failed, and who prints
 * looks once. Whoever parses looks too: jansson calls it a mistake in the text.
 *
 * Invariant: a tree is printed whole or KVT_ENOMEM is told. Errors of the stream stay in its error
 * flag, for whoever owns it. Source: the jansson manual, "Custom Memory Allocation".
 */
#ifndef KVT_BASE_JSON_H
#define KVT_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "sim/base/status.h"

/* Before a tree: nothing has failed yet. Not while another thread calls jansson. */
void kvt_json_begin(void);

/* Whether an allocation for JSON has failed since, in this thread. */
bool kvt_json_failed(void);

/* KVT_ENOMEM where one has. */
enum kvt_status kvt_json_check(struct kvt_err *err);

/* Print a tree, indented, numbers with so many digits (0: all), and a newline. The tree is taken;
 * NULL is one for which there was no memory. */
enum kvt_status kvt_json_print(json_t *tree, size_t digits, FILE *file, struct kvt_err *err);

/* Paths and what damaged files hold need not be UTF-8, as JSON must be: then other bytes than ASCII
 * become '?'. Nor need numbers be finite: then null. */
json_t *kvt_json_text(const char *text);
json_t *kvt_json_real(double value);

#endif
