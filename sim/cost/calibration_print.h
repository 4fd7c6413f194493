/*
 * calibration_print.h - a calibration as the file that kvt_calibration_parse reads
 *
 * Invariant: printed, read and printed again is the same text, whatever order the rows had that it
 * was fitted to. Nothing fails here: who owns the stream looks at its error flag. O(knots).
 */
#ifndef KVT_COST_CALIBRATION_PRINT_H
#define KVT_COST_CALIBRATION_PRINT_H

#include <stdio.h>

#include "sim/cost/calibration.h"

/* Everything but the guesses. Numbers have four significant digits, surfaces whole half percents;
 * so a calibration that was read comes back the same. note: lines of comment at the top, without
 * '#'.
 */
void kvt_calibration_print(const struct kvt_calibration *calibration, const char *note, FILE *out);

#endif
