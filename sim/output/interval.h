/*
 * interval.h - numbers with their intervals, for people
 *
 *     1,558 ± 40
 *
 * What follows ± is half the width of the interval, with two digits; the number has as many
 * decimals. Both ends are in JSON and CSV: they need not lie equally far from the number. The text
 * is UTF-8.
 */
#ifndef KVT_OUTPUT_INTERVAL_H
#define KVT_OUTPUT_INTERVAL_H

#include <stddef.h>
#include <stdio.h>

/* value with so many decimals and a comma before each three digits. Returns out. */
const char *kvt_number_print(double value, int decimals, char *out, size_t size_bytes);

/* The same with its interval, low <= high; an interval of no width shows the value with the given
 * decimals alone. Returns out. */
const char *kvt_interval_print(double value, double low, double high, int decimals, char *out,
                               size_t size_bytes);

/* text at the right end of so many columns, each character one; longer ones are not cut. */
void kvt_print_right(FILE *file, const char *text, int columns);

#endif
