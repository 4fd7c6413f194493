/*
 * status.h - how a function says what went wrong, and where
 *
 * Whatever a config, a trace, a device or a full disk can cause is a status, never an abort. A
 * fallible function returns enum kvt_status; its last parameter is a struct kvt_err, filled on
 * failure and untouched on success. The status values are the exit codes of the program.
 *
 * One kvt_err collects up to KVT_ERR_MESSAGES messages, one a line, so that a config with many
 * mistakes is reported at once. Its status is that of the first message. A message has GNU's form,
 *
 *     file:line:column: lower-case text that says what was wanted and what was found
 *
 * without a final full stop; only main() puts the program's name before it and prints it.
 */
#ifndef KVT_BASE_STATUS_H
#define KVT_BASE_STATUS_H

#include <stdint.h>

/* clang-format off */
#define KVT_STATUSES(X)                                   \
    X(OK,        0, "ok")                                 \
    X(NEGATIVE,  1, "ran, and the answer is negative")    \
    X(EUSAGE,    2, "bad command line")                   \
    X(ECONFIG,   3, "bad configuration or trace")         \
    X(EIO,       4, "input or output failed")             \
    X(ENOMEM,    5, "out of host memory")                 \
    X(ELIMIT,    6, "a limit was exceeded")               \
    X(EDEVICE,   7, "the device reported an error")       \
    X(EINTR,   130, "interrupted")
/* clang-format on */

enum kvt_status {
#define X(name, code, text) KVT_##name = (code),
    KVT_STATUSES(X)
#undef X
};

#define KVT_ERR_MESSAGES 10

/* A place in a text file. Lines and columns count from 1; 0 is "unknown". */
struct kvt_where {
    const char *file; /* borrowed; lives as long as the config or trace it names */
    int32_t line, column;
};

struct kvt_err {
    enum kvt_status status; /* of the first message; KVT_OK while there is none */
    int32_t count;          /* messages collected, those dropped past the limit included */
    char text[6144];        /* the messages, separated by newlines */
};

/* Add one message and return status, so that `return kvt_err_set(...)` reads well. err may be
 * NULL: then only the status is returned. */
enum kvt_status kvt_err_set(struct kvt_err *err, enum kvt_status status, const char *format, ...)
    __attribute__((cold, format(printf, 3, 4)));

/* The same, with a place before the text; parts of the place that are unknown are left out. */
enum kvt_status kvt_err_at(struct kvt_err *err, enum kvt_status status, struct kvt_where where,
                           const char *format, ...) __attribute__((cold, format(printf, 4, 5)));

#ifdef KVT_ANALYSE /* what an analyser cannot see from another file: both return their status */
#define kvt_err_set(err, status, ...) ((void)kvt_err_set((err), (status), __VA_ARGS__), (status))
#define kvt_err_at(err, status, ...)  ((void)kvt_err_at((err), (status), __VA_ARGS__), (status))
#endif

/* One clause for a status, as the man page lists it. */
const char *kvt_status_text(enum kvt_status status);

/* Leave the calling function with the status of expr unless it is KVT_OK. */
#define KVT_TRY(expr)                                                                              \
    do {                                                                                           \
        enum kvt_status kvt_try_ = (expr);                                                         \
        if (kvt_try_ != KVT_OK)                                                                    \
            return kvt_try_;                                                                       \
    } while (0)

/* The ending of a counted noun in a message: "" for 1, else "s". */
static inline const char *kvt_plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

#endif
