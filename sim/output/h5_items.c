#include "sim/output/h5_items.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/file.h"
#include "sim/output/h5.h"
#include "sim/output/h5_driver.h"

struct writer {
    struct kvt_h5 h5;
    hid_t file, datasets, groups, group; /* group: the one open, or the file */
    const char *group_name;
};

static void text_close(struct writer *w, hid_t type)
{
    if (type >= 0)
        kvt_h5_done(&w->h5, "H5Tclose", H5Tclose(type));
}

/* A string of this length, its zero byte included. */
static hid_t text_type(struct writer *w, size_t bytes)
{
    hid_t type = kvt_h5_id(&w->h5, "H5Tcopy", H5Tcopy(H5T_C_S1));
    if (type >= 0 && kvt_h5_done(&w->h5, "H5Tset_size", H5Tset_size(type, bytes)))
        kvt_h5_done(&w->h5, "H5Tset_cset", H5Tset_cset(type, H5T_CSET_UTF8));
    return type;
}

static void attribute_write(struct writer *w, const struct kvt_h5_item *item)
{
    bool is_text = item->kind == KVT_H5_ATTRIBUTE_TEXT;
    const char *text = is_text && item->values != NULL ? item->values : "";
    hid_t type = is_text ? text_type(w, strlen(text) + 1) : H5T_STD_I64LE;
    hid_t space = kvt_h5_id(&w->h5, "H5Screate", H5Screate(H5S_SCALAR));
    hid_t attribute = -1;
    if (!w->h5.failed)
        attribute =
            kvt_h5_id(&w->h5, "H5Acreate",
                      H5Acreate2(w->group, item->name, type, space, H5P_DEFAULT, H5P_DEFAULT));
    if (attribute >= 0) {
        kvt_h5_done(&w->h5, "H5Awrite",
                    H5Awrite(attribute, type, is_text ? (const void *)text : item->values));
        kvt_h5_done(&w->h5, "H5Aclose", H5Aclose(attribute));
    }
    if (space >= 0)
        H5Sclose(space);
    if (is_text)
        text_close(w, type);
}

static void column_write(struct writer *w, const struct kvt_h5_item *item, hid_t type,
                         const void *values)
{
    hsize_t extent = (hsize_t)item->rows;
    hid_t space = kvt_h5_id(&w->h5, "H5Screate_simple", H5Screate_simple(1, &extent, NULL));
    hid_t dataset = -1;
    if (!w->h5.failed)
        dataset = kvt_h5_id(
            &w->h5, "H5Dcreate",
            H5Dcreate2(w->group, item->name, type, space, H5P_DEFAULT, w->datasets, H5P_DEFAULT));
    if (dataset >= 0) {
        if (item->rows > 0)
            kvt_h5_done(&w->h5, "H5Dwrite",
                        H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
        kvt_h5_done(&w->h5, "H5Dclose", H5Dclose(dataset));
    }
    if (space >= 0)
        H5Sclose(space);
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
            strcpy(block + (size_t)i * bytes, texts[i]);
    hid_t type = text_type(w, bytes);
    if (!w->h5.failed)
        column_write(w, item, type, block);
    text_close(w, type);
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
            column_write(w, item, H5T_STD_I64LE, item->values);
            break;
        case KVT_H5_F64:
            column_write(w, item, H5T_IEEE_F64LE, item->values);
            break;
        case KVT_H5_TEXT:
            texts_write(w, item);
            break;
        case KVT_H5_ATTRIBUTE_I64:
        case KVT_H5_ATTRIBUTE_TEXT:
            attribute_write(w, item);
            break;
        }
    }
}

static void file_create(struct writer *w, const char *path, int *failure)
{
    hid_t creation = kvt_h5_plain(&w->h5, H5P_FILE_CREATE);
    hid_t access = kvt_h5_id(&w->h5, "H5Pcreate", H5Pcreate(H5P_FILE_ACCESS));
    w->datasets = kvt_h5_plain(&w->h5, H5P_DATASET_CREATE);
    w->groups = kvt_h5_plain(&w->h5, H5P_GROUP_CREATE);
    if (!w->h5.failed) {
        kvt_h5_done(&w->h5, "H5Pset_libver_bounds",
                    H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110));
        kvt_h5_done(&w->h5, "H5Pset_driver", kvt_h5_driver_set(access, failure));
    }
    if (!w->h5.failed)
        w->file = kvt_h5_id(&w->h5, "H5Fcreate", H5Fcreate(path, H5F_ACC_TRUNC, creation, access));
    w->group = w->file;
    if (creation >= 0)
        H5Pclose(creation);
    if (access >= 0)
        H5Pclose(access);
}

enum kvt_status kvt_h5_items_write(const char *path, const struct kvt_h5_item items[],
                                   int32_t count, struct kvt_err *err)
{
    int failure = 0;
    struct kvt_output output;
    KVT_TRY(kvt_output_begin(&output, path, err));
    struct writer w = {
        .h5 = {.path = output.path, .status = KVT_EIO, .failure = &failure, .err = err},
        .file = -1,
        .group_name = ""};
    file_create(&w, output.temp_path, &failure);
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
