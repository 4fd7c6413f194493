#include "sim/trace/scan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

struct kvt_where kvt_scan_where(const struct kvt_scan *scan, const char *at)
{
    return (struct kvt_where){
        .file = scan->file, .line = scan->line, .column = (int32_t)(at - scan->row) + 1};
}

enum kvt_status kvt_scan_begin(struct kvt_scan *scan, const char *file, const char *text,
                               size_t count, struct kvt_err *err)
{
    kvt_assert(text[count] == '\0');
    *scan = (struct kvt_scan){.file = file, .next = text, .limit = text + count};
    const char *zero = memchr(text, '\0', count);
    if (zero == NULL)
        return KVT_OK;
    scan->row = scan->next;
    scan->line = 1;
    for (const char *p = scan->next; p < zero; p++) {
        if (*p == '\n') {
            scan->line++;
            scan->row = p + 1;
        }
    }
    return kvt_err_at(err, KVT_ECONFIG, kvt_scan_where(scan, zero),
                      "want text, got a zero byte; is this a trace?");
}

static bool rest_is_blank(const char *p, const char *limit)
{
    while (p < limit && (*p == '\n' || *p == '\r'))
        p++;
    return p == limit;
}

enum kvt_status kvt_scan_row(struct kvt_scan *scan, struct kvt_err *err)
{
    if (scan->next == scan->limit) {
        scan->row = NULL;
        return KVT_OK;
    }
    scan->row = scan->at = scan->next;
    scan->line++;
    const char *end = memchr(scan->row, '\n', (size_t)(scan->limit - scan->row));
    scan->next = end != NULL ? end + 1 : scan->limit;
    scan->row_end = end != NULL ? end : scan->limit;
    if (scan->row_end > scan->row && scan->row_end[-1] == '\r')
        scan->row_end--;
    if ((size_t)(scan->row_end - scan->row) > KVT_SCAN_ROW_BYTES_MAX)
        return kvt_err_at(err, KVT_ELIMIT, kvt_scan_where(scan, scan->row),
                          "want lines of at most 64 MiB, got one of %zu bytes",
                          (size_t)(scan->row_end - scan->row));
    if (scan->row_end > scan->row)
        return KVT_OK;
    if (!rest_is_blank(scan->row, scan->limit))
        return kvt_err_at(err, KVT_ECONFIG, kvt_scan_where(scan, scan->row),
                          "want a row, got an empty line before the end");
    scan->next = scan->limit;
    scan->row = NULL;
    return KVT_OK;
}

enum kvt_status kvt_scan_refuse(const struct kvt_scan *scan, const char *at, const char *want,
                                struct kvt_err *err)
{
    const char *end = at;
    while (end < scan->row_end && *end != ',' && *end != '}' && *end != ']' && end - at < 60)
        end++;
    struct kvt_where where = kvt_scan_where(scan, at);
    if (end == at && at < scan->row_end)
        end++;
    if (end == at)
        return kvt_err_at(err, KVT_ECONFIG, where, "want %s, got the end of the row", want);
    return kvt_err_at(err, KVT_ECONFIG, where, "want %s, got \"%.*s\"", want, (int)(end - at), at);
}

enum kvt_status kvt_scan_whole(struct kvt_scan *scan, const char *what, uint64_t max,
                               uint64_t *value, struct kvt_err *err)
{
    const char *p = scan->at;
    uint64_t sum = 0;
    while (is_digit(*p) && p - scan->at < 19)
        sum = sum * 10 + (uint64_t)(*p++ - '0');
    bool over = false;
    while (is_digit(*p)) { /* the 20th digit and later: 2^64 - 1 has 20 */
        uint64_t digit = (uint64_t)(*p++ - '0');
        over = over || sum > (UINT64_MAX - digit) / 10;
        sum = over ? UINT64_MAX : sum * 10 + digit;
    }
    char want[160];
    if (p == scan->at || *p == '.' || *p == 'e' || *p == 'E') {
        snprintf(want, sizeof want, "a whole number as %s", what);
        return kvt_scan_refuse(scan, scan->at, want, err);
    }
    if (over || sum > max) {
        snprintf(want, sizeof want, "at most %llu as %s", (unsigned long long)max, what);
        return kvt_scan_refuse(scan, scan->at, want, err);
    }
    *value = sum;
    scan->at = p;
    return KVT_OK;
}

static const int64_t tens[] = {1,      10,      100,      1000,      10000,
                               100000, 1000000, 10000000, 100000000, 1000000000};

/* The number was written with an exponent; rare enough (tiny floats of a script) for strtod. */
static enum kvt_status moment_from_text(const struct kvt_scan *scan, int64_t unit_ns,
                                        const char **end, struct kvt_moment *moment,
                                        struct kvt_err *err)
{
    char *after;
    double seconds = strtod(scan->at, &after) * ((double)unit_ns * 1e-9);
    if (after == scan->at || !(seconds >= 0 && seconds < 1e15))
        return kvt_scan_refuse(scan, scan->at, "a time of at most 1e15 s", err);
    double whole = floor(seconds);
    moment->s = (int64_t)whole;
    moment->ticks = (int64_t)nearbyint((seconds - whole) * (double)KVT_TICKS_PER_S);
    *end = after;
    return KVT_OK;
}

/* round(fraction * unit_ns * 1024 / 10^digits) ticks, halves up */
static int64_t ticks_of_fraction(uint64_t fraction, int digits, int64_t unit_ns)
{
    if (digits <= 9 && unit_ns % tens[digits] == 0)
        return (int64_t)fraction * (unit_ns / tens[digits]) * KVT_TICKS_PER_NS;
    kvt_u128 divisor = (kvt_u128)tens[digits / 2] * (kvt_u128)tens[digits - digits / 2];
    kvt_u128 ticks = (kvt_u128)fraction * (kvt_u128)(unit_ns * KVT_TICKS_PER_NS);
    return (int64_t)((ticks + divisor / 2) / divisor);
}

enum kvt_status kvt_scan_decimal(struct kvt_scan *scan, int64_t unit_ns, struct kvt_moment *moment,
                                 struct kvt_err *err)
{
    static const char want[] = "a time that is a number >= 0";
    const char *p = scan->at;
    uint64_t whole = 0, fraction = 0;
    int digits = 0;
    while (is_digit(*p) && p - scan->at < 19)
        whole = whole * 10 + (uint64_t)(*p++ - '0');
    if (p == scan->at)
        return kvt_scan_refuse(scan, scan->at, want, err);
    int64_t units_per_s = 1000000000 / unit_ns;
    if (is_digit(*p) || whole / (uint64_t)units_per_s >= UINT64_C(1000000000000000)) {
        char most[48]; /* 19 digits are read */
        snprintf(most, sizeof most, "a time of at most 1e%.0f s",
                 fmin(15, 10 + log10((double)unit_ns)));
        return kvt_scan_refuse(scan, scan->at, most, err);
    }
    if (*p == '.') {
        const char *point = p++;
        for (; is_digit(*p); p++) {
            if (digits < 18) {
                fraction = fraction * 10 + (uint64_t)(*p - '0');
                digits++;
            }
        }
        if (p == point + 1)
            return kvt_scan_refuse(scan, scan->at, want, err);
    }
    if (*p == 'e' || *p == 'E') {
        KVT_TRY(moment_from_text(scan, unit_ns, &p, moment, err));
    } else {
        moment->s = (int64_t)(whole / (uint64_t)units_per_s);
        moment->ticks = (int64_t)(whole % (uint64_t)units_per_s) * (unit_ns * KVT_TICKS_PER_NS);
        if (digits > 0)
            moment->ticks += ticks_of_fraction(fraction, digits, unit_ns);
    }
    if (moment->ticks >= KVT_TICKS_PER_S) {
        moment->s++;
        moment->ticks -= KVT_TICKS_PER_S;
    }
    scan->at = p;
    return KVT_OK;
}

/* count digits at p as a number, or -1. Stops at the zero after the text, so it reads no further.
 */
static int digits_at(const char *p, int count)
{
    int sum = 0;
    for (int i = 0; i < count; i++) {
        if (!is_digit(p[i]))
            return -1;
        sum = sum * 10 + (p[i] - '0');
    }
    return sum;
}

/* Days from 1970-01-01 in the Gregorian calendar, month 1..12. */
static int64_t days_from_date(int year, int month, int day)
{
    int y = month <= 2 ? year - 1 : year; /* years start in March: the leap day comes last */
    int era = y / 400;
    int year_of_era = y - era * 400;
    int day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    int day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return (int64_t)era * 146097 + day_of_era - 719468;
}

static bool date_is_valid(int year, int month, int day)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (year < 1970 || year > 2199 || month < 1 || month > 12 || day < 1)
        return false;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return day <= days[month - 1] + (leap && month == 2);
}

/* Z, +hh:mm or -hh:mm at p: seconds east of UTC, or INT32_MIN when it is malformed. */
static int32_t zone_at(const char **p)
{
    const char *z = *p;
    if (*z == 'Z') {
        *p = z + 1;
        return 0;
    }
    if (*z != '+' && *z != '-')
        return 0;
    int hours = digits_at(z + 1, 2);
    if (hours < 0 || hours > 14 || z[3] != ':')
        return INT32_MIN;
    int minutes = digits_at(z + 4, 2);
    if (minutes < 0 || minutes > 59)
        return INT32_MIN;
    *p = z + 6;
    return (*z == '-' ? -60 : 60) * (hours * 60 + minutes);
}

/* The 19 characters of "2023-11-16 18:17:03" as seconds from 1970, or -1. Every part is looked at
 * only after the one before it was whole, so the end of the text is never passed. */
static int64_t seconds_of_stamp(const char *p)
{
    int year = digits_at(p, 4);
    if (year < 0 || p[4] != '-')
        return -1;
    int month = digits_at(p + 5, 2);
    if (month < 0 || p[7] != '-')
        return -1;
    int day = digits_at(p + 8, 2);
    if (day < 0 || (p[10] != ' ' && p[10] != 'T') || !date_is_valid(year, month, day))
        return -1;
    int hour = digits_at(p + 11, 2);
    if (hour < 0 || hour > 23 || p[13] != ':')
        return -1;
    int minute = digits_at(p + 14, 2);
    if (minute < 0 || minute > 59 || p[16] != ':')
        return -1;
    int second = digits_at(p + 17, 2);
    if (second < 0 || second > 59)
        return -1;
    return days_from_date(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
}

enum kvt_status kvt_scan_stamp(struct kvt_scan *scan, struct kvt_moment *moment,
                               struct kvt_err *err)
{
    static const char want[] = "a time stamp such as 2023-11-16 18:17:03.9799600";
    int64_t seconds = seconds_of_stamp(scan->at);
    if (seconds < 0)
        return kvt_scan_refuse(scan, scan->at, want, err);
    const char *p = scan->at + 19;
    int64_t ns = 0;
    if (*p == '.') {
        const char *point = p++;
        while (is_digit(*p) && p - point <= 9)
            ns = ns * 10 + (*p++ - '0');
        if (p == point + 1 || is_digit(*p))
            return kvt_scan_refuse(scan, scan->at, want, err);
        ns *= tens[9 - (p - point - 1)];
    }
    int32_t zone = zone_at(&p);
    if (zone == INT32_MIN)
        return kvt_scan_refuse(scan, scan->at, want, err);
    *moment = (struct kvt_moment){.s = seconds - zone, .ticks = ns * KVT_TICKS_PER_NS};
    scan->at = p;
    return KVT_OK;
}
