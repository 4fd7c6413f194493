/*
 * fleets.h - two small fleets on real memory: what the suite of the runtime and the engines on the
 * emulated device serve, the latter with fewer requests and tighter pools
 */
#ifndef KVT_TESTS_RUNTIME_FLEETS_H
#define KVT_TESTS_RUNTIME_FLEETS_H

#define FLEETS_GPU "{file: tests/runtime/small-gpu.yaml}"

/* GQA handed over, BF16 to FP8: pages of the decode role and the load are strings of numbers. */
#define FLEETS_DISAGGREGATED(decode_pages, requests, input_max, output_max)                        \
    "model: {file: tests/runtime/tiny-gqa.yaml}\n"                                                 \
    "engine: sglang\n"                                                                             \
    "fleet:\n"                                                                                     \
    "  prefill: {gpu: " FLEETS_GPU ", kv: bf16, page_tokens: 16,\n"                                \
    "            memory: {fraction: 0.5, pages: 40},\n"                                            \
    "            scheduler: {chunk_tokens: 48, max_running: 8}}\n"                                 \
    "  decode: {gpu: " FLEETS_GPU ", kv: fp8-scaled, page_tokens: 16,\n"                           \
    "           memory: {fraction: 0.5, pages: " decode_pages "},\n"                               \
    "           scheduler: {max_running: 8, reserved_decode_tokens: 1}}\n"                         \
    "  link: {bandwidth: 1 GB/s, latency: 10 us, stream: by-chunk}\n"                              \
    "workload: {open: {rate: 2000 req/s, requests: " requests ",\n"                                \
    "           input: {uniform: {min: 17, max: " input_max "}},\n"                                \
    "           output: {uniform: {min: 8, max: " output_max "}}}}\n"                              \
    "run: {seed: 3}\n"

/* MLA and INT4 weights, one role. */
#define FLEETS_COLOCATED(pages, requests, input_max, output_max)                                   \
    "model: {file: tests/runtime/tiny-mla.yaml}\n"                                                 \
    "engine: vllm\n"                                                                               \
    "fleet:\n"                                                                                     \
    "  serve: {gpu: " FLEETS_GPU ", weights: int4-g32, kv: fp8, page_tokens: 16,\n"                \
    "          memory: {fraction: 0.9, pages: " pages "},\n"                                       \
    "          scheduler: {chunk_tokens: 48, max_running: 8, max_model_len: 512}}\n"               \
    "workload: {open: {rate: 2000 req/s, requests: " requests ",\n"                                \
    "           input: {uniform: {min: 17, max: " input_max "}},\n"                                \
    "           output: {uniform: {min: 8, max: " output_max "}}}}\n"                              \
    "run: {seed: 5}\n"

#endif
