/*
 * formats.h - the trace formats that kvt_trace_read knows
 *
 * CSV formats are told by their header, JSON lines by the keys of the first row. Columns may stand
 * in any order. Every row must have all columns (keys) that the first has; a column that no format
 * knows is an error, not ignored: it may mean something (a delay, a priority) that a run would
 * miss.
 *
 * format      columns or keys                                              stamps         hash
 * own         arrival_ns | _us | _ms | _s, input_tokens, output_tokens     ns us ms s     N in name
 *             [, tenant] [, request_id] [, hashes:N]
 * lengths     input_tokens, output_tokens                                  all at 0
 * azure       TIMESTAMP, ContextTokens, GeneratedTokens [, NumImages]      UTC, to 1 ns
 * vidur       arrived_at, num_prefill_tokens, num_decode_tokens            s
 *             [, num_total_tokens] [, pd_ratio]; without arrived_at: lengths
 * splitwise   arrival_timestamp, prompt_size, token_size, request_id, ...  s
 * burstgpt    Timestamp, Request tokens, Response tokens, ...              s
 * fleet-sim   timestamp, prompt_tokens, generated_tokens [, selected_model] s
 * mooncake    timestamp, input_length, output_length, hash_ids             ms             512
 * bailian     chat_id, parent_chat_id, timestamp, input_length,            s              16
 *             output_length, type, turn, hash_ids
 *
 * - own: hashes:N holds "3|17|18", one hash per N tokens, the last may cover fewer. arrival_ns is
 *   exact; it is what kvt_trace_write writes. Tenants are numbers from 0.
 * - lengths: ShareGPT and the like hold text; tokenise them elsewhere and give the two lengths.
 * - burstgpt: a row with 0 response tokens is a failed request; it is dropped and counted.
 * - bailian: input_length already holds the earlier turns of its chat; it is taken as it is.
 * - mooncake, bailian: hash_ids may be missing, but then in every row.
 */
#ifndef KVT_TRACE_FORMATS_H
#define KVT_TRACE_FORMATS_H

#include "sim/trace/scan.h"
#include "sim/trace/trace.h"

/* Read the rest of the text as CSV; scan stands on the header row. On failure *trace is empty. */
enum kvt_status kvt_trace_csv_read(struct kvt_trace *trace, struct kvt_scan *scan,
                                   struct kvt_err *err);

/* The same for JSON lines; scan stands on the first row. */
enum kvt_status kvt_trace_jsonl_read(struct kvt_trace *trace, struct kvt_scan *scan,
                                     struct kvt_err *err);

#endif
