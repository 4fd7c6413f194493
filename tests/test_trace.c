#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/trace/stats.h"
#include "sim/trace/trace.h"
#include "tests/check.h"

static enum kvt_status parse(struct kvt_trace *trace, const char *text, struct kvt_err *err)
{
    *err = (struct kvt_err){0};
    return kvt_trace_parse(trace, "t", text, strlen(text), 1, err);
}

/* ---- formats ---- */

/* Two requests 1.5 s apart with 100 and 200 in, 7 and 9 out, in every format. */
static const struct {
    const char *note, *text;
    int32_t block_tokens, dropped;
} known[] = {
    {"own ns", "arrival_ns,input_tokens,output_tokens\n5,100,7\n1500000005,200,9\n", 0, 0},
    {"own us", "arrival_us,input_tokens,output_tokens\n5,100,7\n1500005,200,9\n", 0, 0},
    {"own ms", "arrival_ms,input_tokens,output_tokens\n0.5,100,7\n1500.5,200,9", 0, 0},
    {"own s, other order", "output_tokens,arrival_s,input_tokens\n7,3,100\n9,4.5,200\n", 0, 0},
    {"own with hashes",
     "arrival_s,input_tokens,output_tokens,hashes:100\n0,100,7,4\n"
     "1.5,200,9,4|18446744073709551615\n",
     100, 0},
    {"azure 2023",
     "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
     "2023-11-16 18:59:59.9799600,100,7\r\n2023-11-16 19:00:01.4799600,200,9",
     0, 0},
    {"azure 2024",
     "TIMESTAMP,ContextTokens,GeneratedTokens\n"
     "2024-02-29 23:59:59.25+00:00,100,7\n2024-03-01 01:00:00.750+01:00,200,9\n",
     0, 0},
    {"azure with images",
     "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n"
     "2025-01-01T00:00:00Z,2,100,7\n2025-01-01T00:00:01.5Z,0,200,9\n",
     0, 0},
    {"vidur",
     "arrived_at,num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n"
     "0.25,100,7,107,14.28\n1.750000000000,200,9,209,22.2\n",
     0, 0},
    {"splitwise",
     "request_id,request_type,application_id,arrival_timestamp,batch_size,"
     "prompt_size,token_size\n0,2,0,0.0,1,100,7\n1,2,0,1.5,1,200,9\n",
     0, 0},
    {"burstgpt, failures dropped",
     "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
     "1,GPT-4,50,0,50,API log\n2,ChatGPT,100,7,107,\"Conversation, \"\"log\"\"\"\n"
     "3,GPT-4,50,0,50,API log\n3.5,ChatGPT,200,9,209,API log\n",
     0, 2},
    {"fleet-sim",
     "timestamp,prompt_tokens,generated_tokens,selected_model\n1e1,100,7,a\n"
     "11.5,200,9,b\n",
     0, 0},
    {"mooncake",
     "{\"timestamp\": 27, \"input_length\": 100, \"output_length\": 7, "
     "\"hash_ids\": [3]}\n {\"hash_ids\":[3],\"timestamp\":1527,"
     "\"input_length\":200,\"output_length\":9 }\n",
     512, 0},
    {"mooncake without hashes",
     "{\"timestamp\":0,\"input_length\":100,\"output_length\":7}\n"
     "{\"timestamp\":1500,\"input_length\":200,\"output_length\":9}",
     0, 0},
    {"bailian",
     "{\"chat_id\":7,\"parent_chat_id\":-1,\"timestamp\":61.25,\"input_length\":100,"
     "\"output_length\":7,\"type\":\"te\\\"xt\",\"turn\":1,"
     "\"hash_ids\":[1,2,3,4,5,6,7]}\r\n"
     "{\"chat_id\":9,\"parent_chat_id\":7,\"timestamp\":62.75,\"input_length\":200,"
     "\"output_length\":9,\"type\":\"file\",\"turn\":2,"
     "\"hash_ids\":[1,2,3,4,5,6,8,9,10,11,12,13,14]}\r\n",
     16, 0},
    {"blank lines at the end",
     "arrival_s,input_tokens,output_tokens\r\n0,100,7\r\n1.5,200,9\r\n\r\n\n", 0, 0},
};

static void formats_are_told_by_their_header(void)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct kvt_trace trace;
        struct kvt_err err;
        CHECK_OK(parse(&trace, known[i].text, &err), err);
        CHECK_I64(trace.count, 2, known[i].note);
        if (trace.count != 2)
            continue;
        CHECK_I64(trace.arrival[0], 0, known[i].note);
        CHECK_I64(trace.arrival[1], 3 * KVT_TICKS_PER_S / 2, known[i].note);
        CHECK_I64(trace.input[0], 100, known[i].note);
        CHECK_I64(trace.input[1], 200, known[i].note);
        CHECK_I64(trace.output[0], 7, known[i].note);
        CHECK_I64(trace.output[1], 9, known[i].note);
        CHECK_I64(trace.block_tokens, known[i].block_tokens, known[i].note);
        CHECK_I64(trace.hash_begin != NULL, known[i].block_tokens > 0, known[i].note);
        CHECK_I64(trace.dropped, known[i].dropped, known[i].note);
        kvt_trace_release(&trace);
    }
}

static void optional_columns_arrive(void)
{
    struct kvt_trace trace;
    struct kvt_err err;
    CHECK_OK(parse(&trace,
                   "request_id,arrival_ns,input_tokens,output_tokens,tenant,hashes:512\n"
                   "18446744073709551615,0,1025,1,3,0|9|18446744073709551615\n7,0,1,1,0,0\n",
                   &err),
             err);
    CHECK_I64(trace.tenants, 4, "tenants");
    CHECK_I64(trace.tenant[0], 3, "tenant of the first");
    CHECK_I64(kvt_trace_hash_count(&trace, 0), 3, "hashes of the first");
    CHECK_I64(kvt_trace_hash_count(&trace, 1), 1, "hashes of the second");
    CHECK(trace.hashes[2] == UINT64_MAX);
    CHECK_I64((int64_t)trace.hashes[1], 9, "hash");
    kvt_trace_release(&trace);
}

static void lengths_alone_arrive_at_once(void)
{
    struct kvt_trace trace;
    struct kvt_err err;
    CHECK_OK(parse(&trace, "input_tokens,output_tokens\n5,6\n7,8\n", &err), err);
    CHECK_I64(trace.arrival[1], 0, "second arrival");
    kvt_trace_release(&trace);
}

static void stamps_are_exact_ticks(void)
{
    static const struct {
        const char *note, *first, *second;
        kvt_ticks want;
    } rows[] = {
        {"100 ns", "0", "0.0000001", 102400},
        {"1 ns", "0", "0.000000001", 1024},
        {"one tick is 2^-10 ns", "0", "0.000000000000976563", 1},
        {"more than half a tick rounds up", "0", "0.00000000000049", 1},
        {"less than half a tick is none", "0", "0.00000000000048", 0},
        {"digits after the 18th do not matter", "0", "1.0000000000000000009999", KVT_TICKS_PER_S},
        {"a fraction that rounds to a second", "0", "0.9999999999999", KVT_TICKS_PER_S},
        {"a large base", "999999999999.999999999", "1000000000000", 1024},
        {"an exponent", "1e-3", "2.5E-3", 1536 * 1000 * 1000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        struct kvt_trace trace;
        struct kvt_err err;
        snprintf(text, sizeof text, "arrival_s,input_tokens,output_tokens\n%s,1,1\n%s,1,1\n",
                 rows[i].first, rows[i].second);
        CHECK_OK(parse(&trace, text, &err), err);
        CHECK_I64(trace.arrival[1], rows[i].want, rows[i].note);
        kvt_trace_release(&trace);
    }
}

static void speed_divides_the_gaps(void)
{
    const char *text = "arrival_ns,input_tokens,output_tokens\n7,1,1\n11,1,1\n4007,1,1\n";
    struct kvt_trace trace;
    struct kvt_err err = {0};
    CHECK_OK(kvt_trace_parse(&trace, "t", text, strlen(text), 4, &err), err);
    CHECK_I64(trace.arrival[1], 1024, "4 ns at 4 times the speed");
    CHECK_I64(trace.arrival[2], 1024000, "4 us at 4 times the speed");
    kvt_trace_release(&trace);
    static const double bad[] = {0, -1, 1e10, (double)NAN};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        err = (struct kvt_err){0};
        CHECK_FAILS(kvt_trace_parse(&trace, "t", text, strlen(text), bad[i], &err), err,
                    KVT_ECONFIG);
        CHECK_HOLDS(err.text, "t: want a speed in (0, 1e9]", "bad speed");
        CHECK(trace.arrival == NULL);
    }
}

/* ---- errors ---- */

#define OWN   "arrival_s,input_tokens,output_tokens\n"
#define AZURE "TIMESTAMP,ContextTokens,GeneratedTokens\n"
#define MOON(t, in, out, ids)                                                                      \
    "{\"timestamp\":" t ",\"input_length\":" in ",\"output_length\":" out ",\"hash_ids\":[" ids    \
    "]}\n"

static const struct {
    const char *text, *want;
} refused[] = {
    {"", "t: want a trace, got an empty file"},
    {"\n\r\n", "t: want a trace, got an empty file"},
    {OWN, "t: want requests, got a header only"},
    {"a,b,c\n1,2,3\n", "t:1:1: want the header of a known trace format, got \"a,b,c\"; known "
                       "are own (arrival_ns"},
    {"TIMESTAMP,ContextTokens,Generated\n", "t:1:25: want columns of the azure format, got "
                                            "\"Generated\""},
    {"TIMESTAMP,ContextTokens\n", "t:1:1: want a column \"GeneratedTokens\" in a trace of the "
                                  "azure format, got none"},
    {"arrival_s,arrival_ns,input_tokens,output_tokens\n", "t:1:11: want each column once"},
    {"input_tokens,input_tokens,output_tokens\n", "t:1:14: want each column once"},
    {"input_tokens,output_tokens,hashes:x\n", "t:1:35: want a whole number as tokens per hash"},
    {"input_tokens,output_tokens,hashes:0\n", "t:1:28: want a column such as \"hashes:512\""},
    {"input_tokens,output_tokens,hashes:9x\n", "t:1:28: want a column such as \"hashes:512\""},
    {OWN "0,1,1\n1,2", "t:3:4: want 3 columns, got a row that ends after 2"},
    {OWN "0,1,1\n1", "t:3:2: want 3 columns, got a row that ends after 1"},
    {OWN "0,1,1,1\n", "t:2:6: want 3 columns, got more"},
    {OWN "0,1,1;\n", "t:2:6: want the end of the row, got \";\""},
    {OWN "0,1;1\n", "t:2:4: want a comma after the number, got \";1\""},
    {OWN "0,,1\n", "t:2:3: want a whole number as input tokens, got \",\""},
    {OWN "0,1,\n", "t:2:5: want a whole number as output tokens, got the end of the row"},
    {OWN "0,1,1\n\n0,1,1\n", "t:3:1: want a row, got an empty line before the end"},
    {OWN "nan,1,1\n", "t:2:1: want a time that is a number >= 0, got \"nan\""},
    {OWN "inf,1,1\n", "t:2:1: want a time that is a number >= 0, got \"inf\""},
    {OWN "-3,1,1\n", "t:2:1: want a time that is a number >= 0, got \"-3\""},
    {OWN " 3,1,1\n", "t:2:1: want a time that is a number >= 0, got \" 3\""},
    {OWN "3.,1,1\n", "t:2:1: want a time that is a number >= 0, got \"3.\""},
    {OWN "1e999,1,1\n", "t:2:1: want a time of at most 1e15 s, got \"1e999\""},
    {OWN "99999999999999999999,1,1\n", "t:2:1: want a time of at most 1e15 s"},
    {OWN "0,1,1\n8640002,1,1\n", "t:3:1: want a trace of at most 100 days, got an arrival"},
    {OWN "0,-1,1\n", "t:2:3: want a whole number as input tokens, got \"-1\""},
    {OWN "0,1.0,1\n", "t:2:3: want a whole number as input tokens, got \"1.0\""},
    {OWN "0,1e3,1\n", "t:2:3: want a whole number as input tokens, got \"1e3\""},
    {OWN "0,67108865,1\n", "t:2:3: want at most 67108864 as input tokens, got \"67108865\""},
    {OWN "0,1,99999999999999999999999\n", "t:2:5: want at most 67108864 as output tokens"},
    {OWN "0,0,1\n", "t:2:3: want at least 1 input token, got 0"},
    {OWN "0,1,0\n", "t:2:5: want at least 1 output token, got 0"},
    {OWN "4,1,1\n9,1,1\n4.5,1,1\n", "t:4:1: want arrivals in order of time, got one 4.5 s "
                                    "before that of line 3"},
    {"request_id," OWN "4,0,1,1\n5,0,1,1\n4,0,1,1\n5,0,1,1\n",
     "t:4: want each request_id once, got 4 again, which line 2 has"},
    {"tenant," OWN "65536,0,1,1\n", "t:2:1: want at most 65535 as tenant"},
    {"hashes:4," OWN "1|2,0,9,1\n", "t:2:1: want 3 hashes for 9 input tokens (4 tokens each), "
                                    "got 2"},
    {"hashes:4," OWN "1|2|18446744073709551616,0,9,1\n", "t:2:5: want at most "
                                                         "18446744073709551615 as hash"},
    {"hashes:4," OWN "|2,0,9,1\n", "t:2:1: want a whole number as hash"},
    {AZURE "2023-02-29 00:00:00,1,1\n", "t:2:1: want a time stamp such as 2023-11-16 18:17:03"},
    {AZURE "2023-11-16,1,1\n", "t:2:1: want a time stamp"},
    {AZURE "2023-11-16 24:00:00,1,1\n", "t:2:1: want a time stamp"},
    {AZURE "2023-11-16 10:00:00.,1,1\n", "t:2:1: want a time stamp"},
    {AZURE "2023-11-16 10:00:00.1234567890,1,1\n", "t:2:1: want a time stamp"},
    {AZURE "2023-11-16 10:00:00+1,1,1\n", "t:2:1: want a time stamp"},
    {AZURE "2023-11-16 10:00:0", "t:2:1: want a time stamp"},
    {"Timestamp,Request tokens,Response tokens\n1,5,0\n", "t: want requests, got only 1 row "
                                                          "without output tokens"},
    {"Timestamp,Model,Request tokens,Response tokens\n1,\"GPT,5,1\n",
     "t:2:3: want a closing quote in this row"},
    {"[{\"id\":1}]\n", "t:1:1: want one JSON object a line, got a list; ShareGPT holds text"},
    {"{\"id\":1}\n", "t:1:2: want a key of a mooncake trace (timestamp, input_length"},
    {"{\"timestamp\":1}\n", "t:1:1: want a key \"input_length\", got a row without it"},
    {"{\"timestamp\":0,\"type\":\"a\\\"}\n", "t:1:23: want a closing quote in this row"},
    {MOON("0", "5", "1", ""), "t:1:62: want 1 hash for 5 input tokens (512 tokens each), got 0"},
    {AZURE "2023-11-16 10:00:00+01:6x,1,1\n", "t:2:1: want a time stamp"},
    {AZURE "2023-13-16 10:00:00,1,1\n", "t:2:1: want a time stamp"},
    {AZURE "1969-12-31 10:00:00,1,1\n", "t:2:1: want a time stamp"},
    {" \t[1]\n", "t:1:3: want one JSON object a line"},
    {"{}\n", "t:1:2: want a key in quotes, got \"}\""},
    {MOON("0", "5", "1", "1") "{\"timestamp\":1,\"input_length\":5,\"output_length\":1}\n",
     "t:2:1: want the keys of line 1, got a row without \"hash_ids\""},
    {"{\"timestamp\":1,\"input_length\":5,\"output_length\":1}\n" MOON("2", "5", "1", "1"),
     "t:2:1: want the keys of line 1, got \"hash_ids\", which it lacks"},
    {MOON("0", "5", "1", "1,2"), "t:1:62: want 1 hash for 5 input tokens (512 tokens each), "
                                 "got 2"},
    {MOON("0", "\"5\"", "1", "1"), "t:1:31: want a whole number as input tokens, got \"\"5\"\""},
    {MOON("true", "5", "1", "1"), "t:1:14: want a time that is a number >= 0, got \"true\""},
    {MOON("NaN", "5", "1", "1"), "t:1:14: want a time that is a number >= 0, got \"NaN\""},
    {MOON("0", "05", "1", "1"), "t:1:31: want a number without leading zeros, got \"05\""},
    {MOON("0", "5", "1", "1 2"), "t:1:65: want a comma or the end of the list"},
    {MOON("0", "5", "1", "1.5"), "t:1:63: want a whole number as hash"},
    {MOON("5", "5", "1", "1") MOON("4", "5", "1", "1"),
     "t:2:14: want arrivals in order of time, got one 0.001 s before that of line 1"},
    {"{\"timestamp\":0,\"timestamp\":0}\n", "t:1:16: want each key once, got \"timestamp\""},
    {"{\"timestamp\":0,\"input_length\":5,\"output_length\":1} x\n",
     "t:1:52: want the end of the row after the object, got \"x\""},
    {"{\"timestamp\":0,\"input_length\":5,\"outp", "t:1:33: want a closing quote in this row"},
    {"{\"timestamp\":0,\"input_length\":5", "t:1:32: want a comma or a closing brace, got the "
                                            "end of the row"},
};

static void bad_traces_are_refused_with_their_place(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct kvt_trace trace;
        struct kvt_err err;
        CHECK_FAILS(parse(&trace, refused[i].text, &err), err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, refused[i].want, refused[i].text);
        CHECK_I64(err.text[0] == 't' && err.count == 1, true, refused[i].want);
        CHECK_NOTE(trace.arrival == NULL && trace.count == 0, refused[i].want);
    }
}

/* Each part of a stamp at and beyond its ends; a day is the Gregorian calendar's. */
static void a_stamp_that_is_no_time_is_refused(void)
{
    static const struct {
        const char *stamp;
        bool is_time;
    } rows[] = {
        {"1970-01-01 00:00:00", true},        {"2199-12-31 23:59:59", true},
        {"2000-02-29T18:17:03Z", true},       {"2023-11-16 18:17:03+14:00", true},
        {"2023-11-16 18:17:03-01:30", true},  {"1969-12-31 18:17:03", false},
        {"2200-01-01 18:17:03", false},       {"2023-00-16 18:17:03", false},
        {"2023-13-16 18:17:03", false},       {"2023-11-00 18:17:03", false},
        {"2023-11-31 18:17:03", false},       {"2100-02-29 18:17:03", false},
        {"2023-02-29 18:17:03", false},       {"2023/11-16 18:17:03", false},
        {"2023-11/16 18:17:03", false},       {"2023-1x-16 18:17:03", false},
        {"2023-11-1x 18:17:03", false},       {"2023-11-16_18:17:03", false},
        {"2023-11-16 1x:17:03", false},       {"2023-11-16 24:17:03", false},
        {"2023-11-16 18-17:03", false},       {"2023-11-16 18:1x:03", false},
        {"2023-11-16 18:60:03", false},       {"2023-11-16 18:17-03", false},
        {"2023-11-16 18:17:0x", false},       {"2023-11-16 18:17:60", false},
        {"2023-11-16 18:17:03.", false},      {"2023-11-16 18:17:03.1234567891", false},
        {"2023-11-16 18:17:03+15:00", false}, {"2023-11-16 18:17:03+0x:00", false},
        {"2023-11-16 18:17:03+01-00", false}, {"2023-11-16 18:17:03+01:60", false},
        {"2023-11-16 18:17:03+01:0x", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[200];
        struct kvt_trace trace;
        struct kvt_err err;
        snprintf(text, sizeof text, "TIMESTAMP,ContextTokens,GeneratedTokens\n%s,1,1\n",
                 rows[i].stamp);
        enum kvt_status status = parse(&trace, text, &err);
        CHECK_I64(status, rows[i].is_time ? KVT_OK : KVT_ECONFIG, rows[i].stamp);
        if (!rows[i].is_time)
            CHECK_HOLDS(err.text, "t:2:1: want a time stamp such as 2023-11-16", rows[i].stamp);
        kvt_trace_release(&trace);
    }
}

/* Rows that are nearly right: what is wanted, and where. */
static void a_row_that_is_nearly_right_is_refused(void)
{
#define MOONCAKE "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 6, "
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"arrival_s,input_tokens,output_tokens\n1e99,5,6\n", "want a time of at most 1e15 s"},
        {"arrival_s,input_tokens,output_tokens\n1e,5,6\n", "t:2:2: want"},
        {"arrival_ms,input_tokens,output_tokens\n9999999999999999999,5,6\n",
         "want a time of at most 1e15 s"},
        {"arrival_s,input_tokens,output_tokens\n1000000000000000,5,6\n",
         "want a time of at most 1e15 s"},
        {"arrival_ns,input_tokens,output_tokens\n99999999999999999999,10,5\n",
         "want a time of at most 1e10 s, got \"99999999999999999999\""},
        {"arrival_s,input_tokens,output_tokens\n1,5E1,6\n", "want a whole number as input tokens"},
        {"arrival_s,input_tokens,output_tokens,hashes:16\n1,5,6,3|x\n", "a whole number as hash"},
        {"a_header_that_no_format_of_a_trace_has_and_that_is_longer_than_eighty_letters_is_cut,a\n"
         "1,2\n",
         "got "
         "\"a_header_that_no_format_of_a_trace_has_and_that_is_longer_than_eighty_letters_is\""},
        {MOONCAKE "\"hash_ids\": 5}\n", "want a list of hashes, got \"5\""},
        {MOONCAKE "\"hash_ids\": [01]}\n", "want a number without leading zeros"},
        {MOONCAKE "\"hash_ids\": [1;2]}\n", "want a comma or the end of the list"},
        {MOONCAKE "\"hash_ids\": [1 , 2 3]}\n", "want a comma or the end of the list"},
        {MOONCAKE "\"type\": 5}\n", "want a text in quotes, got \"5\""},
        {MOONCAKE "\"type\": \"ab\x01\"}\n", "want"},
        {MOONCAKE "\"type\": \"ab\\", "want"},
        {"{\"timestamp\": 00, \"input_length\": 5, \"output_length\": 6}\n",
         "want a number without leading zeros"},
        {"{\"a_key_that_no_trace_has_and_that_is_longer_than_eighty_letters_is_cut_where_a_line_"
         "ends"
         "\": 5}\n",
         "is_cut_where_a_li\""},
        {MOONCAKE "\"hash_ids\": [1]}\n\n{}\n", "want a row, got an empty line before the end"},
        {MOONCAKE "\"hash_ids\": [1]}\n7\n", "t:2:1: want an object in braces, got \"7\""},
    };
#undef MOONCAKE
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kvt_trace trace;
        struct kvt_err err;
        CHECK_FAILS(parse(&trace, rows[i].text, &err), err, KVT_ECONFIG);
        CHECK_HOLDS(err.text, rows[i].message, rows[i].text);
    }
}

static void chat_ids_are_used_once(void)
{
    struct kvt_trace trace;
    struct kvt_err err;
    CHECK_FAILS(parse(&trace,
                      "{\"chat_id\":7,\"timestamp\":1,\"input_length\":1,\"output_length\":7}\n"
                      "{\"chat_id\":7,\"timestamp\":2,\"input_length\":1,\"output_length\":7}\n",
                      &err),
                err, KVT_ECONFIG);
    CHECK_TEXT(err.text, "t:2: want each chat_id once, got 7 again, which line 1 has", "");
}

static void a_zero_byte_is_refused_with_its_place(void)
{
    static const char text[] = "arrival_s,input_tokens,output_tokens\n0,1,1\n1,\0001,1\n";
    struct kvt_trace trace;
    struct kvt_err err = {0};
    CHECK_FAILS(kvt_trace_parse(&trace, "t", text, sizeof text - 1, 1, &err), err, KVT_ECONFIG);
    CHECK_HOLDS(err.text, "t:3:3: want text, got a zero byte", "");
}

static void a_line_over_64_mib_is_refused(void)
{
    static const char header[] = "Timestamp,Model,Request tokens,Response tokens\n1,";
    size_t count = sizeof header - 1 + ((size_t)64 << 20);
    char *text = malloc(count + 1);
    CHECK(text != NULL);
    if (text == NULL)
        return;
    memset(text, 'x', count);
    memcpy(text, header, sizeof header - 1);
    text[count] = '\0';
    struct kvt_trace trace;
    struct kvt_err err = {0};
    CHECK_FAILS(kvt_trace_parse(&trace, "t", text, count, 1, &err), err, KVT_ELIMIT);
    CHECK_HOLDS(err.text, "t:2:1: want lines of at most 64 MiB, got one of 67108866 bytes", "");
    free(text);
}

static void missing_files_and_folders_are_io_errors(void)
{
    struct kvt_trace trace;
    struct kvt_err err = {0};
    CHECK_FAILS(kvt_trace_read(&trace, "/nowhere/t.csv", 1, &err), err, KVT_EIO);
    CHECK_HOLDS(err.text, "/nowhere/t.csv: cannot open", "");
    CHECK_OK(parse(&trace, OWN "0,1,1\n", &err), err);
    CHECK_FAILS(kvt_trace_write(&trace, "/nowhere/t.csv", &err), err, KVT_EIO);
    CHECK_HOLDS(err.text, "/nowhere/t.csv: cannot write", "");
    kvt_trace_release(&trace);
}

/* Every cut of a good trace is either a good shorter one or an error at its last line. */
static void truncation_is_never_a_crash(void)
{
    static const char *const texts[] = {
        OWN "0,12,3\n1.5,20,9\n",
        AZURE "2023-11-16 18:59:59.9799600,100,7\r\n2023-11-16 19:00:01.4799600,200,9",
        MOON("0", "5", "1", "1") MOON("4", "600", "1", "1,2"),
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        for (size_t cut = 0; cut < strlen(texts[i]); cut++) {
            char *copy = malloc(cut + 1); /* exactly, so that a sanitizer sees an overrun */
            memcpy(copy, texts[i], cut);
            copy[cut] = '\0';
            struct kvt_trace trace;
            struct kvt_err err = {0};
            enum kvt_status status = kvt_trace_parse(&trace, "t", copy, cut, 1, &err);
            CHECK_NOTE(status == KVT_OK || (status == KVT_ECONFIG && err.count == 1), copy);
            CHECK_NOTE(status != KVT_OK || trace.count >= 1, copy);
            kvt_trace_release(&trace);
            free(copy);
        }
    }
}

/* ---- public traces: the numbers of their README ---- */

static void measure_shared(const char *name, struct kvt_trace_stats *stats)
{
    struct kvt_trace trace;
    struct kvt_err err = {0};
    CHECK_OK(kvt_trace_read(&trace, name, 1, &err), err);
    CHECK_OK(kvt_trace_measure(&trace, stats, &err), err);
    kvt_trace_release(&trace);
}

static void azure_conversation_has_its_published_statistics(void)
{
    const char *path = check_shared("traces/AzureLLMInferenceTrace_conv.csv");
    struct kvt_trace_stats stats;
    if (path == NULL)
        return;
    measure_shared(path, &stats);
    CHECK_I64(stats.count, 19366, "rows");
    CHECK_I64(stats.stamps, 19366, "stamps");
    CHECK_CLOSE(stats.duration, 3501.7219370, 1e-12, "s");
    CHECK_CLOSE(stats.rate, 5.53, 1e-3, "requests/s");
    CHECK_CLOSE(stats.input.mean, 1155, 5e-4, "input");
    CHECK_CLOSE(stats.input.p50, 1020, 0, "input p50");
    CHECK_CLOSE(stats.input.p99, 4142, 0, "input p99");
    CHECK_CLOSE(stats.input.max, 14050, 0, "input max");
    CHECK_CLOSE(stats.output.mean, 211, 1e-3, "output");
    CHECK_CLOSE(stats.output.p50, 129, 0, "output p50");
    CHECK_CLOSE(stats.output.p99, 601, 0, "output p99");
    CHECK_CLOSE(stats.output.max, 1000, 0, "output max");
}

static void azure_code_has_its_published_statistics(void)
{
    const char *path = check_shared("traces/AzureLLMInferenceTrace_code.csv");
    struct kvt_trace_stats stats;
    if (path == NULL)
        return;
    measure_shared(path, &stats);
    CHECK_I64(stats.count, 8819, "rows");
    CHECK_CLOSE(stats.duration, 3436, 1e-4, "s");
    CHECK_CLOSE(stats.rate, 2.57, 2e-3, "requests/s");
    CHECK_CLOSE(stats.input.mean, 2048, 5e-4, "input");
    CHECK_CLOSE(stats.output.mean, 27.9, 1e-3, "output");
}

static void mooncake_conversation_has_its_published_statistics(void)
{
    const char *path = check_shared("traces/mooncake_conversation.jsonl");
    struct kvt_trace_stats stats;
    if (path == NULL)
        return;
    measure_shared(path, &stats);
    CHECK_I64(stats.count, 12031, "rows");
    CHECK_I64(stats.stamps, 1180, "distinct stamps");
    CHECK_CLOSE(stats.duration, 3537, 1e-5, "s");
    CHECK_CLOSE(stats.rate, 3.40, 1e-3, "requests/s");
    CHECK_CLOSE(stats.input.mean, 12035, 1e-4, "input");
    CHECK_CLOSE(stats.input.p99, 85401, 1e-4, "input p99");
    CHECK_CLOSE(stats.output.mean, 343, 2e-3, "output");
    CHECK_CLOSE(stats.reuse, 0.366, 2e-3, "reusable blocks");
}

static void statistics_of_a_small_trace_are_those_by_hand(void)
{
    /* Gaps 1, 0, 3 s: mean 4/3, variance 14/9, cv sqrt(14)/4. Blocks: 2+3+2+1 = 8; the second
     * request reuses 5; the third reuses 5 6; the fourth has 6 at another place: no reuse. */
    struct kvt_trace trace;
    struct kvt_trace_stats stats;
    struct kvt_err err;
    CHECK_OK(parse(&trace,
                   "arrival_s,input_tokens,output_tokens,hashes:10\n"
                   "0,20,1,5|6\n1,30,2,5|7|8\n1,11,3,5|6\n4,3,10,6\n",
                   &err),
             err);
    CHECK_OK(kvt_trace_measure(&trace, &stats, &err), err);
    CHECK_CLOSE(stats.duration, 4, 0, "");
    CHECK_CLOSE(stats.rate, 1, 0, "");
    CHECK_I64(stats.stamps, 3, "");
    CHECK_CLOSE(stats.gap_cv, 0.93541434669348533, 1e-12, "");
    CHECK_CLOSE(stats.input.mean, 16, 0, "");
    CHECK_CLOSE(stats.input.p50, 15.5, 0, "");
    CHECK_I64(stats.output.total, 16, "");
    CHECK_CLOSE(stats.output.p90, 3 + 0.7 * 7, 1e-12, "");
    CHECK_I64(stats.blocks, 8, "");
    CHECK_I64(stats.blocks_reused, 3, "");
    kvt_trace_release(&trace);
}

const struct check_test check_trace[] = {
    {"every format is told by its header or keys", formats_are_told_by_their_header, false},
    {"tenants, ids and hashes arrive", optional_columns_arrive, false},
    {"lengths without times arrive at once", lengths_alone_arrive_at_once, false},
    {"time stamps become exact ticks", stamps_are_exact_ticks, false},
    {"speed divides the gaps", speed_divides_the_gaps, false},
    {"bad traces are refused with line and column", bad_traces_are_refused_with_their_place, false},
    {"a stamp that is no time is refused", a_stamp_that_is_no_time_is_refused, false},
    {"a row that is nearly right is refused", a_row_that_is_nearly_right_is_refused, false},
    {"chat ids are used once", chat_ids_are_used_once, false},
    {"a zero byte is refused with its place", a_zero_byte_is_refused_with_its_place, false},
    {"a line over 64 MiB is refused", a_line_over_64_mib_is_refused, false},
    {"missing files and folders are I/O errors", missing_files_and_folders_are_io_errors, false},
    {"a trace cut anywhere is an error or a shorter trace", truncation_is_never_a_crash, false},
    {"Azure conversation has its published statistics",
     azure_conversation_has_its_published_statistics, false},
    {"Azure code has its published statistics", azure_code_has_its_published_statistics, false},
    {"Mooncake conversation has its published statistics",
     mooncake_conversation_has_its_published_statistics, false},
    {"statistics of a small trace are those by hand", statistics_of_a_small_trace_are_those_by_hand,
     false},
    {NULL, NULL, false},
};
