#include "sim/output/interval.h"

#include <math.h>
#include <string.h>

#define DIGITS       2 /* of what follows the sign */
#define DECIMALS_MAX 9

const char *kvt_number_print(double value, int decimals, char *out, size_t size_bytes)
{
    char plain[400]; /* the largest double has 309 digits */
    snprintf(plain, sizeof plain, "%.*f", decimals, value);
    size_t first = strcspn(plain, "0123456789"), digits = strspn(plain + first, "0123456789");
    size_t used = 0;
    for (size_t i = 0; plain[i] != '\0' && used + 1 < size_bytes; i++) {
        size_t left = i >= first && i < first + digits ? first + digits - i : 1;
        if (i > first && i < first + digits && left % 3 == 0)
            out[used++] = ',';
        if (used + 1 < size_bytes)
            out[used++] = plain[i];
    }
    out[used] = '\0';
    return out;
}

const char *kvt_interval_print(double value, double low, double high, int decimals, char *out,
                               size_t size_bytes)
{
    double half = 0.5 * (high - low);
    char middle[64], width[64];
    if (!(half > 0.0) || !isfinite(half))
        return kvt_number_print(value, decimals, out, size_bytes);
    double needed = DIGITS - 1 - floor(log10(half));
    decimals = needed < 0 ? 0 : needed > DECIMALS_MAX ? DECIMALS_MAX : (int)needed;
    snprintf(out, size_bytes, "%s \xc2\xb1 %s",
             kvt_number_print(value, decimals, middle, sizeof middle),
             kvt_number_print(half, decimals, width, sizeof width));
    return out;
}

void kvt_print_right(FILE *file, const char *text, int columns)
{
    int characters = 0;
    for (const char *c = text; *c != '\0'; c++)
        characters += ((unsigned char)*c & 0xc0) != 0x80;
    fprintf(file, "%*s%s", columns > characters ? columns - characters : 0, "", text);
}
