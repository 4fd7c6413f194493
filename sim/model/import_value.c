/*
 * import_value.c - keys of a config.json as checked values, and what is said about them
 */
#include "sim/model/import.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void kvt_import_note(struct kvt_import *import, const char *format, ...)
{
    va_list list;
    if (import->talk == NULL)
        return;
    fprintf(import->talk, "kvtwin: %s: note: ", import->file);
    va_start(list, format);
    vfprintf(import->talk, format, list);
    va_end(list);
    fputc('\n', import->talk);
}

enum kvt_status kvt_import_fail(struct kvt_import *import, const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return kvt_err_at(import->err, KVT_ECONFIG, (struct kvt_where){.file = import->file}, "%s",
                      text);
}

void kvt_import_clean(char *text)
{
    static const char *const words[] = {"-Infinity", "Infinity", "NaN"};
    bool inside = false;
    for (char *c = text; *c != '\0'; c++) {
        if (inside && *c == '\\' && c[1] != '\0') {
            c++;
            continue;
        }
        if (*c == '"')
            inside = !inside;
        for (size_t i = 0; !inside && i < 3; i++) {
            size_t count = strlen(words[i]);
            if (strncmp(c, words[i], count) != 0)
                continue;
            memset(c, ' ', count);
            memcpy(c, i < 2 ? "null" : "0e0", i < 2 ? 4 : 3);
            c += count - 1;
            break;
        }
    }
}

json_t *kvt_import_find(const struct kvt_import *import, const char *key)
{
    json_t *value = json_object_get(import->text, key);
    if (value == NULL || json_is_null(value))
        value = json_object_get(import->root, key);
    return value == NULL || json_is_null(value) ? NULL : value;
}

/* The first of several keys that is there; keys ends with NULL. *which gets its name. */
static json_t *find_any(const struct kvt_import *import, const char *const keys[],
                        const char **which)
{
    for (size_t i = 0; keys[i] != NULL; i++) {
        json_t *value = kvt_import_find(import, keys[i]);
        if (value != NULL) {
            *which = keys[i];
            return value;
        }
    }
    *which = keys[0];
    return NULL;
}

/* A list of equal whole numbers: a width per layer that is the same in all. */
static bool is_uniform(const json_t *value)
{
    size_t i;
    const json_t *item;
    if (!json_is_array(value) || json_array_size(value) == 0)
        return false;
    json_array_foreach(value, i, item)
    {
        if (!json_is_integer(item) ||
            json_integer_value(item) != json_integer_value(json_array_get(value, 0)))
            return false;
    }
    return true;
}

enum kvt_status kvt_import_count(struct kvt_import *import, const char *const keys[],
                                 int64_t fallback, int64_t max, int32_t *out)
{
    const char *key;
    const json_t *value = find_any(import, keys, &key);
    int64_t number = fallback;
    if (value == NULL && import->family != NULL &&
        kvt_model_family_default(import->family, keys[0], &number))
        kvt_import_note(import, "%s is missing: %lld, as the family's own code has it", keys[0],
                        (long long)number);
    else if (value == NULL && fallback < 0)
        return kvt_import_fail(import, "the key \"%s\" is missing", key);
    if (is_uniform(value))
        value = json_array_get(value, 0);
    if (json_is_integer(value))
        number = (int64_t)json_integer_value(value);
    else if (json_is_real(value) && floor(json_real_value(value)) == json_real_value(value) &&
             fabs(json_real_value(value)) < 1e15)
        number = (int64_t)json_real_value(value);
    else if (value != NULL)
        return kvt_import_fail(import, "%s: want a whole number", key);
    if (number < 0 || number > max)
        return kvt_import_fail(import, "%s: want 0 to %lld, got %lld", key, (long long)max,
                               (long long)number);
    *out = (int32_t)number;
    return KVT_OK;
}

bool kvt_import_bool(const struct kvt_import *import, const char *const keys[], bool fallback)
{
    const char *key;
    const json_t *value = find_any(import, keys, &key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

const char *kvt_import_word(const struct kvt_import *import, const char *key)
{
    const char *text = json_string_value(kvt_import_find(import, key));
    return text == NULL ? "" : text;
}

bool kvt_import_has(const struct kvt_import_shape *shape, enum kvt_model_family_flag flag)
{
    return (shape->family->flags & (unsigned)flag) != 0;
}

bool kvt_import_lists(const json_t *list, int64_t number)
{
    size_t i;
    const json_t *item;
    json_array_foreach(list, i, item)
    {
        if (json_is_integer(item) && json_integer_value(item) == number)
            return true;
    }
    return false;
}
