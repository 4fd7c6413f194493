#include "sim/output/h5.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/decision.h"
#include "sim/output/h5_driver.h"

/* The words of the innermost record, or of the operating system where HDF5 quotes them. */
static herr_t find_reason(unsigned n, const H5E_error2_t *record, void *data)
{
    char *reason = data;
    static const char mark[] = "error message = '";
    const char *quoted = record->desc != NULL ? strstr(record->desc, mark) : NULL;
    if (quoted != NULL) {
        quoted += sizeof mark - 1;
        size_t count = strcspn(quoted, "'");
        snprintf(reason, 128, "%.*s", count > 100 ? 100 : (int)count, quoted);
        return 1; /* stop: nothing says it better */
    }
    if (n == 0 || reason[0] == '\0')
        snprintf(reason, 128, "%.120s", record->desc != NULL ? record->desc : "");
    return 0;
}

static void fail(struct kvt_h5 *h5, const char *call)
{
    if (h5->failed)
        return;
    h5->failed = true;
    char reason[128] = "";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, find_reason, reason);
    struct kvt_where where = {.file = h5->path};
    const char *what = h5->status == KVT_EIO ? "cannot write" : "is not a complete run file";
    kvt_err_at(h5->err, h5->status, where, "%s: %s (%s)", what,
               reason[0] != '\0' ? reason : "HDF5 gives no reason", call);
}

/* A write that failed under a call which knows nothing of it. */
static void look_at_failure(struct kvt_h5 *h5)
{
    if (h5->failed || h5->failure == NULL || *h5->failure == 0)
        return;
    h5->failed = true;
    struct kvt_where where = {.file = h5->path};
    kvt_err_at(h5->err, h5->status, where, "cannot write: %s", strerror(*h5->failure));
}

hid_t kvt_h5_id(struct kvt_h5 *h5, const char *call, hid_t result)
{
    look_at_failure(h5);
    if (result < 0)
        fail(h5, call);
    return result;
}

bool kvt_h5_done(struct kvt_h5 *h5, const char *call, herr_t result)
{
    look_at_failure(h5);
    if (result < 0)
        fail(h5, call);
    return result >= 0;
}

hid_t kvt_h5_plain(struct kvt_h5 *h5, hid_t property_class)
{
    hid_t list = kvt_h5_id(h5, "H5Pcreate", H5Pcreate(property_class));
    if (list < 0)
        return list;
    kvt_h5_done(h5, "H5Pset_obj_track_times", H5Pset_obj_track_times(list, false));
    /* Attributes stay in the object's header, where reading them costs nothing. */
    kvt_h5_done(h5, "H5Pset_attr_phase_change", H5Pset_attr_phase_change(list, 1024, 0));
    kvt_h5_done(h5, "H5Pset_attr_creation_order",
                H5Pset_attr_creation_order(list, H5P_CRT_ORDER_TRACKED));
    return list;
}

hid_t kvt_h5_decision_type(struct kvt_h5 *h5)
{
    static const struct {
        const char *name;
        size_t offset;
        int bytes;
    } fields[] = {
        {"time", offsetof(struct kvt_decision, time), 8},
        {"count", offsetof(struct kvt_decision, count), 8},
        {"request", offsetof(struct kvt_decision, request), 4},
        {"replica", offsetof(struct kvt_decision, replica), 2},
        {"kind", offsetof(struct kvt_decision, kind), 2},
    };
    hid_t type = kvt_h5_id(h5, "H5Tcreate", H5Tcreate(H5T_COMPOUND, sizeof(struct kvt_decision)));
    for (size_t i = 0; type >= 0 && i < sizeof fields / sizeof *fields; i++) {
        hid_t field = fields[i].bytes == 8   ? H5T_STD_I64LE
                      : fields[i].bytes == 4 ? H5T_STD_I32LE
                                             : H5T_STD_I16LE;
        kvt_h5_done(h5, "H5Tinsert", H5Tinsert(type, fields[i].name, fields[i].offset, field));
    }
    return type;
}

void kvt_h5_rows_open(struct kvt_h5 *h5, hid_t dataset, int64_t first, int64_t count,
                      struct kvt_h5_rows *rows)
{
    hsize_t start = (hsize_t)first, length = (hsize_t)count;
    rows->type = kvt_h5_decision_type(h5);
    rows->space = kvt_h5_id(h5, "H5Dget_space", H5Dget_space(dataset));
    rows->memory = kvt_h5_id(h5, "H5Screate_simple", H5Screate_simple(1, &length, NULL));
    if (!h5->failed)
        kvt_h5_done(h5, "H5Sselect_hyperslab",
                    H5Sselect_hyperslab(rows->space, H5S_SELECT_SET, &start, NULL, &length, NULL));
}

void kvt_h5_rows_close(struct kvt_h5_rows *rows)
{
    if (rows->memory >= 0)
        H5Sclose(rows->memory);
    if (rows->space >= 0)
        H5Sclose(rows->space);
    if (rows->type >= 0)
        H5Tclose(rows->type);
}

char *kvt_h5_text(hid_t of, enum kvt_status *why)
{
    bool is_attribute = H5Iget_type(of) == H5I_ATTR;
    hid_t type = is_attribute ? H5Aget_type(of) : H5Dget_type(of);
    hid_t space = is_attribute ? H5Aget_space(of) : H5Dget_space(of);
    char *text = NULL;
    *why = KVT_ECONFIG;
    if (type >= 0 && space >= 0 && H5Tget_class(type) == H5T_STRING &&
        H5Tis_variable_str(type) == 0 && H5Sget_simple_extent_npoints(space) == 1 &&
        H5Tget_size(type) <= KVT_H5_TEXT_MAX) {
        text = calloc(H5Tget_size(type) + 1, 1);
        if (text == NULL)
            *why = KVT_ENOMEM;
        else if ((is_attribute ? H5Aread(of, type, text)
                               : H5Dread(of, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text)) < 0) {
            free(text);
            text = NULL;
        }
    }
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    return text;
}

void kvt_h5_array_open(struct kvt_h5 *h5, hid_t file, const char *path, struct kvt_h5_array *array)
{
    *array = (struct kvt_h5_array){.type = -1, .space = -1, .count = -1};
    array->dataset = kvt_h5_id(h5, "H5Dopen", H5Dopen2(file, path, H5P_DEFAULT));
    if (array->dataset < 0)
        return;
    array->type = H5Dget_type(array->dataset);
    array->space = H5Dget_space(array->dataset);
    size_t bytes = array->type >= 0 ? H5Tget_size(array->type) : 0;
    hssize_t count = array->space >= 0 ? H5Sget_simple_extent_npoints(array->space) : -1;
    if (bytes > 0 && count >= 0 && H5Dget_storage_size(array->dataset) / bytes >= (hsize_t)count)
        array->count = (int64_t)count;
}

void kvt_h5_array_close(const struct kvt_h5_array *array)
{
    if (array->space >= 0)
        H5Sclose(array->space);
    if (array->type >= 0)
        H5Tclose(array->type);
    if (array->dataset >= 0)
        H5Dclose(array->dataset);
}

hid_t kvt_h5_create(struct kvt_h5 *h5, const char *path, int *failure)
{
    hid_t file = -1;
    hid_t creation = kvt_h5_plain(h5, H5P_FILE_CREATE);
    hid_t access = kvt_h5_id(h5, "H5Pcreate", H5Pcreate(H5P_FILE_ACCESS));
    if (access >= 0) {
        kvt_h5_done(h5, "H5Pset_libver_bounds",
                    H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110));
        kvt_h5_done(h5, "H5Pset_fclose_degree", H5Pset_fclose_degree(access, H5F_CLOSE_STRONG));
        kvt_h5_done(h5, "H5Pset_driver", kvt_h5_driver_set(access, failure));
    }
    if (!h5->failed)
        file = kvt_h5_id(h5, "H5Fcreate", H5Fcreate(path, H5F_ACC_TRUNC, creation, access));
    if (access >= 0)
        H5Pclose(access);
    if (creation >= 0)
        H5Pclose(creation);
    return file;
}

hid_t kvt_h5_text_type(struct kvt_h5 *h5, size_t bytes)
{
    hid_t type = kvt_h5_id(h5, "H5Tcopy", H5Tcopy(H5T_C_S1));
    if (type >= 0) {
        kvt_h5_done(h5, "H5Tset_size", H5Tset_size(type, bytes));
        kvt_h5_done(h5, "H5Tset_cset", H5Tset_cset(type, H5T_CSET_UTF8));
    }
    return type;
}

void kvt_h5_attribute(struct kvt_h5 *h5, hid_t at, const char *name, hid_t type, const void *value)
{
    if (h5->failed)
        return;
    hid_t space = kvt_h5_id(h5, "H5Screate", H5Screate(H5S_SCALAR));
    hid_t attribute =
        kvt_h5_id(h5, "H5Acreate", H5Acreate2(at, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
    if (attribute >= 0) {
        kvt_h5_done(h5, "H5Awrite", H5Awrite(attribute, type, value));
        kvt_h5_done(h5, "H5Aclose", H5Aclose(attribute));
    }
    if (space >= 0)
        kvt_h5_done(h5, "H5Sclose", H5Sclose(space));
}

void kvt_h5_attribute_text(struct kvt_h5 *h5, hid_t at, const char *name, const char *text)
{
    if (h5->failed)
        return;
    hid_t type = kvt_h5_text_type(h5, strlen(text) + 1);
    kvt_h5_attribute(h5, at, name, type, text);
    if (type >= 0)
        kvt_h5_done(h5, "H5Tclose", H5Tclose(type));
}

hid_t kvt_h5_dataset(struct kvt_h5 *h5, hid_t at, const char *name, hid_t type, int rank,
                     const hsize_t extent[], hid_t list)
{
    if (h5->failed)
        return -1;
    hid_t space = kvt_h5_id(h5, "H5Screate_simple", H5Screate_simple(rank, extent, NULL));
    hid_t dataset = -1;
    if (space >= 0) {
        dataset = kvt_h5_id(h5, "H5Dcreate",
                            H5Dcreate2(at, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT));
        kvt_h5_done(h5, "H5Sclose", H5Sclose(space));
    }
    return dataset;
}

void kvt_h5_dataset_close(struct kvt_h5 *h5, hid_t dataset)
{
    if (dataset >= 0)
        kvt_h5_done(h5, "H5Dclose", H5Dclose(dataset));
}

void kvt_h5_column(struct kvt_h5 *h5, hid_t at, const char *name, hid_t type, const void *values,
                   int64_t rows, hid_t list)
{
    hsize_t extent = (hsize_t)rows;
    hid_t dataset = kvt_h5_dataset(h5, at, name, type, 1, &extent, list);
    if (dataset >= 0 && rows > 0)
        kvt_h5_done(h5, "H5Dwrite", H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    kvt_h5_dataset_close(h5, dataset);
}
