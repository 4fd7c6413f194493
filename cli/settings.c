#include "cli/settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *kvt_setting_label(const char *path, char *out, size_t size_bytes)
{
    const char *last = strrchr(path, '.');
    bool is_fleet = strncmp(path, "fleet.", 6) == 0;
    if (last == NULL || (is_fleet && strchr(path + 6, '.') == NULL))
        snprintf(out, size_bytes, "%s", is_fleet ? path + 6 : path);
    else if (is_fleet)
        snprintf(out, size_bytes, "%.*s%s", (int)strcspn(path + 6, "."), path + 6, last);
    else
        snprintf(out, size_bytes, "%s", last + 1);
    return out;
}

const char *kvt_settings_text(const struct kvt_points *points, int64_t point, char *out,
                              size_t size_bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (int32_t d = 0; d < points->config->domains && used < size_bytes; d++) {
        char label[80];
        int wrote = snprintf(
            out + used, size_bytes - used, "%s%s %s", d > 0 ? ", " : "",
            kvt_setting_label(kvt_config_domain(points->config, d)->path, label, sizeof label),
            kvt_points_text(points, point, d));
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    return out;
}

static json_t *value_json(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return json_boolean(text[0] == 't');
    if (text[0] == '\0' || *end != '\0' || !isfinite(value))
        return json_string(text);
    bool is_whole = strspn(text, "-0123456789") == strlen(text) && fabs(value) < 9e15;
    return is_whole ? json_integer((json_int_t)value) : json_real(value);
}

json_t *kvt_settings_json(const struct kvt_points *points, int64_t point)
{
    json_t *object = json_object();
    for (int32_t d = 0; object != NULL && d < points->config->domains; d++)
        json_object_set_new(object, kvt_config_domain(points->config, d)->path,
                            value_json(kvt_points_text(points, point, d)));
    return object;
}
