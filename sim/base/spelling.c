#include "sim/base/spelling.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX 64

static int edit_distance(const char *a, const char *b)
{
    size_t m = strlen(a), n = strlen(b);
    if (m >= NAME_MAX || n >= NAME_MAX)
        return NAME_MAX;
    int rows[3][NAME_MAX]; /* the last three rows of the Damerau-Levenshtein matrix */
    for (size_t j = 0; j <= n; j++)
        rows[0][j] = (int)j;
    for (size_t i = 1; i <= m; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = (int)i;
        for (size_t j = 1; j <= n; j++) {
            int best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                above2[j - 2] + 1 < best)
                best = above2[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[m % 3][n];
}

const char *kvt_nearest_name(const char *text, const char *const names[], size_t count)
{
    const char *nearest = NULL;
    if (strlen(text) >= NAME_MAX)
        return NULL;
    int limit = (int)(strlen(text) + 2) / 3 + 1; /* one mistake in three letters, and one more */
    for (size_t i = 0; i < count; i++) {
        int distance = edit_distance(text, names[i]);
        if (distance < limit) {
            limit = distance;
            nearest = names[i];
        }
    }
    return nearest;
}

const char *kvt_nearest_hint(const char *text, const char *const names[], size_t count,
                             char out[KVT_HINT_BYTES])
{
    const char *near = kvt_nearest_name(text, names, count);
    out[0] = '\0';
    if (near != NULL)
        snprintf(out, KVT_HINT_BYTES, "; did you mean \"%.63s\"?", near);
    return out;
}

void kvt_name_fold(const char *name, char *out, size_t size_bytes)
{
    size_t used = 0;
    int depth = 0;
    for (; *name != '\0' && used + 1 < size_bytes; name++) {
        depth += *name == '(';
        char c = (char)tolower((unsigned char)*name);
        if (c == '_' || c == ' ' || c == '\t')
            c = '-';
        if (depth == 0 && !(c == '-' && (used == 0 || out[used - 1] == '-')))
            out[used++] = c;
        depth -= *name == ')' && depth > 0;
    }
    while (used > 0 && out[used - 1] == '-')
        used--;
    out[used] = '\0';
}

bool kvt_text_ends(const char *text, const char *end)
{
    size_t count = strlen(text), tail = strlen(end);
    return count >= tail && strcmp(text + count - tail, end) == 0;
}
