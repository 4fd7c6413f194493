#include "sim/output/h5_items.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sim/base/file.h"
#include "sim/output/h5.h"
#include "sim/output/journal.h"
#include "sim/output/reader.h"

struct writer {
    struct kvt_h5 h5;
    hid_t file, datasets, groups, group; /* group: the one open, or the file */
    const char *group_name;
};

static void column_write(struct writer *w, const struct kvt_h5_item *item, hid_t type)
{
    kvt_h5_column(&w->h5, w->group, item->name, type, item->values, item->rows, w->datasets);
}

static void texts_write(struct writer *w, const struct kvt_h5_item *item)
{
    const char *const *texts = item->values;
    size_t bytes = 1;
    for (int64_t i = 0; i < item->rows; i++) {
        size_t length = texts[i] != NULL ? strlen(texts[i]) + 1 : 1;
        bytes = length > bytes ? length : bytes;
    }
    char *block = calloc((size_t)item->rows + 1, bytes);
    if (block == NULL) {
        w->h5.failed = true;
        w->h5.status = kvt_err_set(w->h5.err, KVT_ENOMEM, "no memory for column %s", item->name);
        return;
    }
    for (int64_t i = 0; i < item->rows; i++)
        if (texts[i] != NULL)
            memcpy(block + (size_t)i * bytes, texts[i], strlen(texts[i]));
    hid_t type = kvt_h5_text_type(&w->h5, bytes);
    kvt_h5_column(&w->h5, w->group, item->name, type, block, item->rows, w->datasets);
    if (type >= 0)
        kvt_h5_done(&w->h5, "H5Tclose", H5Tclose(type));
    free(block);
}

static void group_close(struct writer *w)
{
    if (w->group >= 0 && w->group != w->file)
        kvt_h5_done(&w->h5, "H5Gclose", H5Gclose(w->group));
    w->group = w->file;
}

/* Items of one group follow each other, or come back to it. */
static void group_enter(struct writer *w, const char *name)
{
    if (strcmp(w->group_name, name) == 0)
        return;
    group_close(w);
    w->group_name = name;
    if (name[0] == '\0' || w->h5.failed)
        return;
    bool there = H5Lexists(w->file, name, H5P_DEFAULT) > 0;
    w->group = there ? kvt_h5_id(&w->h5, "H5Gopen", H5Gopen2(w->file, name, H5P_DEFAULT))
                     : kvt_h5_id(&w->h5, "H5Gcreate",
                                 H5Gcreate2(w->file, name, H5P_DEFAULT, w->groups, H5P_DEFAULT));
}

static void items_write(struct writer *w, const struct kvt_h5_item items[], int32_t count)
{
    for (int32_t i = 0; i < count && !w->h5.failed; i++) {
        const struct kvt_h5_item *item = &items[i];
        group_enter(w, item->group);
        if (w->h5.failed)
            return;
        switch (item->kind) {
        case KVT_H5_I64:
            column_write(w, item, H5T_STD_I64LE);
            break;
        case KVT_H5_F64:
            column_write(w, item, H5T_IEEE_F64LE);
            break;
        case KVT_H5_TEXT:
            texts_write(w, item);
            break;
        case KVT_H5_ATTRIBUTE_I64:
            kvt_h5_attribute(&w->h5, w->group, item->name, H5T_STD_I64LE, item->values);
            break;
        case KVT_H5_ATTRIBUTE_TEXT:
            kvt_h5_attribute_text(&w->h5, w->group, item->name,
                                  item->values != NULL ? item->values : "");
            break;
        }
    }
}

enum kvt_status kvt_h5_items_write(const char *path, const struct kvt_h5_item items[],
                                   int32_t count, struct kvt_err *err)
{
    int failure = 0;
    struct kvt_output output;
    KVT_TRY(kvt_output_begin(&output, path, err));
    struct writer w = {
        .h5 = {.path = output.path, .status = KVT_EIO, .failure = &failure, .err = err},
        .group_name = ""};
    w.file = w.group = kvt_h5_create(&w.h5, output.temp_path, &failure);
    w.datasets = kvt_h5_plain(&w.h5, H5P_DATASET_CREATE);
    w.groups = kvt_h5_plain(&w.h5, H5P_GROUP_CREATE);
    if (!w.h5.failed)
        items_write(&w, items, count);
    group_close(&w);
    if (w.datasets >= 0)
        H5Pclose(w.datasets);
    if (w.groups >= 0)
        H5Pclose(w.groups);
    if (w.file >= 0)
        kvt_h5_done(&w.h5, "H5Fclose", H5Fclose(w.file));
    enum kvt_status status = w.h5.failed ? w.h5.status : kvt_output_commit(&output, err);
    kvt_output_abandon(&output);
    return status;
}

enum kvt_status kvt_h5_items_check(const char *path, const char *journal, const char *identity,
                                   struct kvt_err *err)
{
    struct stat about;
    struct kvt_output output = {0};
    struct kvt_run_reader reader;
    struct kvt_err own = {0};
    char kind[16], *found = NULL;
    if (stat(journal, &about) != 0)
        KVT_TRY(kvt_output_begin(&output, path, err));
    kvt_output_abandon(&output);
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0)
        return KVT_OK;
    enum kvt_status status = kvt_points_reader_open(&reader, path, kind, &own);
    if (status == KVT_OK && kind[0] == '\0')
        status = kvt_err_at(&own, KVT_ECONFIG, (struct kvt_where){.file = path},
                            "is the file of a run (simulate -o)");
    if (status == KVT_OK)
        status = kvt_points_reader_identity(&reader, &found, &own);
    kvt_run_reader_close(&reader);
    if (status != KVT_OK)
        return kvt_err_set(err, status, "%s; remove it, or name another output", own.text);
    if (strcmp(found, identity) != 0)
        status = kvt_journal_refuse(path, found, identity, err);
    free(found);
    return status;
}
