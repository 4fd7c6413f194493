/*
 * cdf.h - what a figure needs of a million requests: distributions as a few hundred points,
 * requests in flight, rates per bin
 *
 * Times are seconds unless a parameter says ticks. What is made here is owned by who asked for it
 * and released by the function beside it. Errors: KVT_ENOMEM only. Cost: O(requests), sorting
 * O(n log n); what is kept has the size of a figure.
 */
#ifndef KVT_REPORT_CDF_H
#define KVT_REPORT_CDF_H

#include "sim/report/report.h"

/* Of a stored histogram: pairs of lower edge (ticks) and count. */
enum kvt_status kvt_cdf_of_histogram(struct kvt_cdf *cdf, const double pairs[], int64_t bins,
                                     struct kvt_err *err);

/* Of values in seconds, which are sorted. */
enum kvt_status kvt_cdf_of_values(struct kvt_cdf *cdf, double values[], int64_t count,
                                  struct kvt_err *err);
void kvt_cdf_release(struct kvt_cdf *cdf);

/* Mean requests in flight over the time in which counted requests were served, as a client would
 * see it: the sum of their latencies over the duration. NaN without completed requests. */
double kvt_mean_concurrency(const struct kvt_report_run *run);

/* Fill one bin a width of how much of `rate` per second lies in it: requests from begin to end
 * (seconds, [rows]; end < begin: none) each give weight / (end - begin), or all at once. */
struct kvt_flow_bins {
    double *step, *offset; /* owned, [count + 1] */
    double width;
    int32_t count;
};
bool kvt_flow_bins_init(struct kvt_flow_bins *bins, double end_s, int32_t count);
void kvt_flow_bins_add(struct kvt_flow_bins *bins, double begin_s, double end_s, double weight);
/* Mean rate of each bin; out [count]. Releases bins. */
void kvt_flow_bins_take(struct kvt_flow_bins *bins, double out[]);

#endif
