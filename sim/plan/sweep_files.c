/* What a sweep leaves on disk: journals while it runs, one HDF5 file at its end. */
#include "sim/plan/sweep_files.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/output/h5_items.h"
#include "sim/plan/sweep.h"

enum kvt_status kvt_sweep_journal_path(const char *output, int32_t rank, char *path, size_t bytes,
                                       struct kvt_err *err)
{
    int length = snprintf(path, bytes, "%s.journal.%d", output, rank);
    if (length < 0 || (size_t)length >= bytes)
        return kvt_err_set(err, KVT_EIO, "%s: a path that is too long for a journal", output);
    return KVT_OK;
}

enum kvt_status kvt_sweep_journals(const char *output,
                                   enum kvt_status (*each)(void *context, const char *path,
                                                           struct kvt_err *err),
                                   void *context, struct kvt_err *err)
{
    char start[300];
    const char *slash = strrchr(output, '/');
    char *folder = kvt_path_folder(output);
    if (folder == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for a path");
    DIR *listing = opendir(folder[0] != '\0' ? folder : ".");
    enum kvt_status status = KVT_OK;
    if (listing == NULL)
        status =
            kvt_err_set(err, KVT_EIO, "%s: cannot read the folder: %s", output, strerror(errno));
    int length = snprintf(start, sizeof start, "%s.journal.", slash != NULL ? slash + 1 : output);
    const struct dirent *entry;
    while (status == KVT_OK && (entry = readdir(listing)) != NULL) {
        const char *end = entry->d_name + length;
        if (strncmp(entry->d_name, start, (size_t)length) != 0 || *end == '\0' ||
            strspn(end, "0123456789") != strlen(end))
            continue;
        char *path = kvt_path_join(folder, entry->d_name);
        status = path == NULL ? kvt_err_set(err, KVT_ENOMEM, "no memory for a path")
                              : each(context, path, err);
        free(path);
    }
    if (listing != NULL)
        closedir(listing);
    free(folder);
    return status;
}

enum kvt_status kvt_sweep_read_journal(void *context, const char *path, struct kvt_err *err)
{
    const struct kvt_sweep_reading *reading = context;
    return kvt_journal_read(path, reading->identity, reading->record, reading->context, err);
}

static enum kvt_status remove_journal(void *context, const char *path, struct kvt_err *err)
{
    (void)context;
    if (unlink(path) != 0)
        return kvt_err_set(err, KVT_EIO, "%s: cannot remove: %s", path, strerror(errno));
    return KVT_OK;
}

/* ---- the file ----------------------------------------------------------------------------- */

struct items {
    struct kvt_h5_item *rows;
    int32_t count;
};

static void add(struct items *items, const char *group, const char *name, enum kvt_h5_kind kind,
                int64_t rows, const void *values)
{
    items->rows[items->count++] = (struct kvt_h5_item){group, name, kind, rows, values};
}

/* Texts of the settings and digests: [domains + 1][points], digests last. */
static const char **texts_of(const struct kvt_sweep *sweep, char (*digests)[17])
{
    int32_t domains = sweep->points->config->domains;
    const char **texts = calloc((size_t)sweep->count * (size_t)(domains + 1), sizeof *texts);
    for (int64_t i = 0; texts != NULL && i < sweep->count; i++) {
        for (int32_t d = 0; d < domains; d++)
            texts[d * sweep->count + i] = kvt_points_text(sweep->points, i, d);
        snprintf(digests[i], sizeof digests[i], "%016" PRIx64, sweep->digest[i]);
        texts[domains * sweep->count + i] = digests[i];
    }
    return texts;
}

static enum kvt_status write_items(const struct kvt_sweep *sweep, const char *path,
                                   struct items *items, const char *const texts[],
                                   const char *config, struct kvt_err *err)
{
    static const int64_t layout = KVT_SWEEP_LAYOUT;
    int64_t seed = (int64_t)sweep->points->config->run.seed, count = sweep->count;
    int32_t domains = sweep->points->config->domains;
    add(items, "", "layout", KVT_H5_ATTRIBUTE_I64, 0, &layout);
    add(items, "", "program", KVT_H5_ATTRIBUTE_TEXT, 0, "kvtwin");
    add(items, "", "kind", KVT_H5_ATTRIBUTE_TEXT, 0, "sweep");
    add(items, "", "config", KVT_H5_TEXT, 1, &config);
    for (int32_t d = 0; d < domains; d++)
        add(items, "settings", kvt_config_domain(sweep->points->config, d)->path, KVT_H5_TEXT,
            count, texts + d * count);
    add(items, "points", "status", KVT_H5_I64, count, sweep->status);
    add(items, "points", "message", KVT_H5_TEXT, count, sweep->message);
    add(items, "points", "digest", KVT_H5_TEXT, count, texts + domains * count);
    for (int32_t c = 0; c < sweep->columns.count; c++)
        add(items, "metrics", sweep->columns.names[c], KVT_H5_F64, count,
            sweep->values + (int64_t)c * count);
    add(items, "meta", "seed", KVT_H5_ATTRIBUTE_I64, 0, &seed);
    add(items, "meta", "version", KVT_H5_ATTRIBUTE_TEXT, 0, KVT_VERSION);
    add(items, "meta", "points", KVT_H5_ATTRIBUTE_I64, 0, &count);
    add(items, "meta", "failed", KVT_H5_ATTRIBUTE_I64, 0, &sweep->failed);
    add(items, "meta", "identity", KVT_H5_TEXT, 1, &sweep->identity);
    return kvt_h5_items_write(path, items->rows, items->count, err);
}

enum kvt_status kvt_sweep_write(const struct kvt_sweep *sweep, const char *path,
                                struct kvt_err *err)
{
    size_t most = (size_t)sweep->points->config->domains + (size_t)sweep->columns.count + 16;
    struct items items = {.rows = calloc(most, sizeof *items.rows)};
    char(*digests)[17] = calloc((size_t)sweep->count, sizeof *digests);
    const char **texts = digests != NULL ? texts_of(sweep, digests) : NULL;
    char *config = kvt_config_print(sweep->points->config);
    enum kvt_status status;
    if (items.rows == NULL || texts == NULL || config == NULL)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory to write %s", path);
    else
        status = write_items(sweep, path, &items, texts, config, err);
    free(config);
    free(texts);
    free(digests);
    free(items.rows);
    if (status == KVT_OK)
        status = kvt_sweep_journals(path, remove_journal, NULL, err);
    return status;
}
