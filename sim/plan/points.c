#include "sim/plan/points.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"

#define FILE_BYTES ((size_t)16 << 20)

enum kvt_status kvt_points_init(struct kvt_points *points, const struct kvt_config *config,
                                const char *path, const char *const sets[], int32_t set_count,
                                struct kvt_err *err)
{
    *points =
        (struct kvt_points){.config = config, .path = path, .sets = sets, .set_count = set_count};
    double count = 1;
    for (int32_t i = 0; i < config->domains; i++)
        count *= kvt_config_domain(config, i)->count;
    if (count > KVT_POINTS_MAX)
        return kvt_err_at(err, KVT_ELIMIT, config->where_domain,
                          "want at most %d points, got %.6g: %d domain%s, whose choices multiply",
                          KVT_POINTS_MAX, count, config->domains, kvt_plural(config->domains));
    points->count = (int64_t)count;
    if (strcmp(path, "-") == 0)
        return kvt_err_set(err, KVT_EUSAGE,
                           "want a file, which is read once for each point, got -");
    points->folder = kvt_path_folder(path);
    if (points->folder == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "%s: no memory for its points", path);
    return kvt_text_read(path, FILE_BYTES, &points->text, err);
}

void kvt_points_release(struct kvt_points *points)
{
    kvt_text_free(&points->text);
    free(points->folder);
    *points = (struct kvt_points){0};
}

static int32_t digit(const struct kvt_points *points, int64_t point, int32_t domain)
{
    kvt_assert(point >= 0 && point < points->count);
    for (int32_t i = points->config->domains - 1; i > domain; i--)
        point /= kvt_config_domain(points->config, i)->count;
    return (int32_t)(point % kvt_config_domain(points->config, domain)->count);
}

const char *kvt_points_text(const struct kvt_points *points, int64_t point, int32_t domain)
{
    return kvt_config_domain(points->config, domain)->texts[digit(points, point, domain)];
}

/* "path=text", malloc'ed. */
static char *set_of(const struct kvt_points *points, int64_t point, int32_t domain)
{
    const char *path = kvt_config_domain(points->config, domain)->path;
    const char *value = kvt_points_text(points, point, domain);
    size_t bytes = strlen(path) + strlen(value) + 2;
    char *set = malloc(bytes);
    if (set != NULL)
        snprintf(set, bytes, "%s=%s", path, value);
    return set;
}

enum kvt_status kvt_points_choose(const struct kvt_points *points, int64_t point,
                                  const char *const more[], int32_t more_count,
                                  struct kvt_config *chosen, struct kvt_err *err)
{
    int32_t given = points->set_count, domains = points->config->domains;
    int32_t count = given + domains + more_count;
    const char **sets = calloc((size_t)count + 1, sizeof *sets);
    char **own = calloc((size_t)domains + 1, sizeof *own);
    memset(chosen, 0, sizeof *chosen);
    if (sets == NULL || own == NULL) {
        free(own);
        free(sets);
        return kvt_err_set(err, KVT_ENOMEM, "%s: no memory for a point", points->path);
    }
    bool whole = true;
    for (int32_t i = 0; i < given; i++)
        sets[i] = points->sets[i];
    for (int32_t i = 0; whole && i < domains; i++) {
        own[i] = set_of(points, point, i);
        sets[given + i] = own[i];
        whole = own[i] != NULL;
    }
    for (int32_t i = 0; whole && i < more_count; i++)
        sets[given + domains + i] = more[i];
    enum kvt_status status = KVT_ENOMEM;
    if (whole)
        status = kvt_config_parse(chosen, points->path, points->text.bytes, points->text.count,
                                  points->folder, sets, count, err);
    else
        kvt_err_set(err, KVT_ENOMEM, "%s: no memory for a point", points->path);
    for (int32_t i = 0; i < domains; i++)
        free(own[i]);
    free(own);
    free(sets);
    return status;
}
