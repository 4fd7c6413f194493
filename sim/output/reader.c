#include "sim/output/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/output/h5.h"
#include "sim/output/hdf5.h"

static struct kvt_h5 h5_of(const struct kvt_run_reader *reader, struct kvt_err *err)
{
    return (struct kvt_h5){.path = reader->path, .status = KVT_ECONFIG, .err = err};
}

static enum kvt_status no_memory(const struct kvt_run_reader *reader, struct kvt_err *err)
{
    return kvt_err_at(err, KVT_ENOMEM, (struct kvt_where){.file = reader->path},
                      "no memory to read it");
}

static enum kvt_status bad_file(const struct kvt_run_reader *reader, const char *what,
                                struct kvt_err *err)
{
    return kvt_err_at(err, KVT_ECONFIG, (struct kvt_where){.file = reader->path}, "%s", what);
}

/* The text of an attribute of an object, or NULL (kvt_h5_text). */
static char *text_at(hid_t file, const char *object, const char *name, enum kvt_status *why)
{
    *why = KVT_ECONFIG;
    hid_t attribute = H5Aopen_by_name(file, object, name, H5P_DEFAULT, H5P_DEFAULT);
    if (attribute < 0)
        return NULL;
    char *text = kvt_h5_text(attribute, why);
    H5Aclose(attribute);
    return text;
}

/* The one value of an attribute; a damaged file may say that it has more. */
static bool read_one(hid_t attribute, hid_t type, void *value)
{
    hid_t space = H5Aget_space(attribute);
    bool one = space >= 0 && H5Sget_simple_extent_npoints(space) == 1;
    if (space >= 0)
        H5Sclose(space);
    return one && H5Aread(attribute, type, value) >= 0;
}

static enum kvt_status check_layout(const struct kvt_run_reader *reader, struct kvt_err *err)
{
    enum kvt_status why;
    char *program = text_at(reader->file, "/", "program", &why);
    bool ours = program != NULL && strcmp(program, "kvtwin") == 0;
    free(program);
    if (why == KVT_ENOMEM)
        return no_memory(reader, err);
    if (!ours)
        return bad_file(reader, "is an HDF5 file, but not one of a kvtwin run", err);
    int layout = 0;
    hid_t attribute = H5Aopen(reader->file, "layout", H5P_DEFAULT);
    bool known = attribute >= 0 && read_one(attribute, H5T_NATIVE_INT, &layout);
    if (attribute >= 0)
        H5Aclose(attribute);
    if (!known || layout != KVT_RUN_LAYOUT)
        return kvt_err_at(err, KVT_ECONFIG, (struct kvt_where){.file = reader->path},
                          "want layout %d, got %d: it was written by another version",
                          KVT_RUN_LAYOUT, layout);
    return KVT_OK;
}

static enum kvt_status open_decisions(struct kvt_run_reader *reader, struct kvt_err *err)
{
    struct kvt_h5 h5 = h5_of(reader, err);
    htri_t logged = H5Lexists(reader->file, "decisions", H5P_DEFAULT);
    if (!kvt_h5_done(&h5, "H5Lexists", logged))
        return h5.status;
    if (logged == 0)
        return KVT_OK;
    struct kvt_h5_array array;
    kvt_h5_array_open(&h5, reader->file, "decisions", &array);
    hid_t want = h5.failed ? -1 : kvt_h5_decision_type(&h5);
    bool fits = want >= 0 && array.count >= 0 && H5Tequal(array.type, want) > 0 &&
                H5Sget_simple_extent_ndims(array.space) == 1;
    if (want >= 0)
        H5Tclose(want);
    reader->decision_count = fits ? array.count : 0;
    if (fits) { /* to stay open */
        reader->decisions = array.dataset;
        array.dataset = -1;
    }
    kvt_h5_array_close(&array);
    if (h5.failed)
        return h5.status;
    return fits ? KVT_OK : bad_file(reader, "/decisions does not hold decisions", err);
}

static enum kvt_status read_names(struct kvt_run_reader *reader, struct kvt_err *err)
{
    enum kvt_status why;
    reader->names_text = text_at(reader->file, "/series", "names", &why);
    if (reader->names_text == NULL && why == KVT_ENOMEM)
        return no_memory(reader, err);
    if (reader->names_text == NULL)
        return bad_file(reader, "/series has no attribute names: not the file of a run", err);
    int32_t count = 0;
    for (const char *c = reader->names_text; *c != '\0'; c++)
        count += *c == ' ';
    reader->names = calloc((size_t)count + 1, sizeof *reader->names);
    if (reader->names == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the names of the replicas");
    char *rest = NULL;
    for (char *name = strtok_r(reader->names_text, " ", &rest); name != NULL;
         name = strtok_r(NULL, " ", &rest))
        reader->names[reader->name_count++] = name;
    return KVT_OK;
}

/* Open a file of kvtwin's, whatever it holds. */
static enum kvt_status open_file(struct kvt_run_reader *reader, const char *path,
                                 struct kvt_err *err)
{
    *reader = (struct kvt_run_reader){.path = path};
    int descriptor = open(path, O_RDONLY);
    char byte;
    if (descriptor < 0 || read(descriptor, &byte, 1) < 0) {
        int code = errno;
        if (descriptor >= 0)
            close(descriptor);
        return kvt_err_at(err, KVT_EIO, (struct kvt_where){.file = path}, "cannot read: %s",
                          strerror(code));
    }
    close(descriptor);
    if (H5Fis_hdf5(path) <= 0)
        return bad_file(reader, "want an HDF5 file of kvtwin's, got something else", err);
    struct kvt_h5 h5 = h5_of(reader, err);
    hid_t access = kvt_h5_id(&h5, "H5Pcreate", H5Pcreate(H5P_FILE_ACCESS));
    if (access >= 0) {
        kvt_h5_done(&h5, "H5Pset_fclose_degree", H5Pset_fclose_degree(access, H5F_CLOSE_STRONG));
#if H5_VERSION_GE(1, 10, 7)
        /* Finished files do not change: file systems without locks are no reason to fail. */
        kvt_h5_done(&h5, "H5Pset_file_locking", H5Pset_file_locking(access, false, true));
#endif
        hid_t file = kvt_h5_id(&h5, "H5Fopen", H5Fopen(path, H5F_ACC_RDONLY, access));
        reader->file = file < 0 ? 0 : file;
        H5Pclose(access);
    }
    return h5.failed ? h5.status : check_layout(reader, err);
}

/* Files of a sweep, a search and a campaign say so in /kind; those of a run have none: NULL. */
static enum kvt_status read_kind(const struct kvt_run_reader *reader, char **kind,
                                 struct kvt_err *err)
{
    struct kvt_h5 h5 = h5_of(reader, err);
    htri_t there = H5Aexists_by_name(reader->file, "/", "kind", H5P_DEFAULT);
    enum kvt_status why = KVT_OK;
    *kind = NULL;
    if (!kvt_h5_done(&h5, "H5Aexists", there))
        return h5.status;
    if (there > 0)
        *kind = text_at(reader->file, "/", "kind", &why);
    if (there == 0 || *kind != NULL)
        return KVT_OK;
    return why == KVT_ENOMEM ? no_memory(reader, err) : bad_file(reader, "/kind is no text", err);
}

static enum kvt_status check_run(const struct kvt_run_reader *reader, struct kvt_err *err)
{
    char *kind;
    enum kvt_status status = read_kind(reader, &kind, err);
    if (kind != NULL)
        status = kvt_err_at(err, KVT_ECONFIG, (struct kvt_where){.file = reader->path},
                            "want the file of a run (simulate -o), got that of %s",
                            strcmp(kind, "sweep") == 0    ? "a sweep, which kvtwin report shows"
                            : strcmp(kind, "plan") == 0   ? "a plan, which kvtwin report shows"
                            : strcmp(kind, "faults") == 0 ? "a fault campaign (inject -o)"
                                                          : "another kind");
    free(kind);
    return status;
}

enum kvt_status kvt_run_reader_open(struct kvt_run_reader *reader, const char *path,
                                    struct kvt_err *err)
{
    enum kvt_status status = open_file(reader, path, err);
    if (status == KVT_OK)
        status = check_run(reader, err);
    if (status == KVT_OK)
        status = open_decisions(reader, err);
    if (status == KVT_OK)
        status = read_names(reader, err);
    if (status != KVT_OK)
        kvt_run_reader_close(reader);
    return status;
}

enum kvt_status kvt_points_reader_open(struct kvt_run_reader *reader, const char *path,
                                       char kind[16], struct kvt_err *err)
{
    enum kvt_status status = open_file(reader, path, err);
    char *text = NULL;
    if (status == KVT_OK)
        status = read_kind(reader, &text, err);
    snprintf(kind, 16, "%s", text != NULL ? text : "");
    free(text);
    if (status != KVT_OK)
        kvt_run_reader_close(reader);
    return status;
}

void kvt_run_reader_close(struct kvt_run_reader *reader)
{
    if (reader->decisions > 0)
        H5Dclose(reader->decisions);
    if (reader->file > 0)
        H5Fclose(reader->file);
    free(reader->names);
    free(reader->names_text);
    *reader = (struct kvt_run_reader){0};
}

enum kvt_status kvt_run_reader_decisions(struct kvt_run_reader *reader, int64_t first,
                                         int64_t count, struct kvt_decision out[],
                                         struct kvt_err *err)
{
    struct kvt_h5 h5 = h5_of(reader, err);
    struct kvt_h5_rows rows;
    kvt_h5_rows_open(&h5, reader->decisions, first, count, &rows);
    if (!h5.failed)
        kvt_h5_done(
            &h5, "H5Dread",
            H5Dread(reader->decisions, rows.type, rows.memory, rows.space, H5P_DEFAULT, out));
    kvt_h5_rows_close(&rows);
    return h5.failed ? h5.status : KVT_OK;
}

double kvt_stored_number(const struct kvt_stored *stored, const char *name)
{
    for (int32_t i = 0; i < stored->count; i++)
        if (strcmp(stored->values[i].name, name) == 0 && !stored->values[i].is_text)
            return stored->values[i].number;
    return (double)NAN;
}

const char *kvt_stored_text(const struct kvt_stored *stored, const char *name)
{
    for (int32_t i = 0; i < stored->count; i++)
        if (strcmp(stored->values[i].name, name) == 0 && stored->values[i].is_text)
            return stored->values[i].text;
    return "";
}

struct value_list {
    struct kvt_stored *stored;
    bool full; /* no memory */
};

static herr_t add_value(hid_t at, const char *name, const H5A_info_t *info, void *data)
{
    (void)info;
    struct value_list *list = data;
    struct kvt_stored *stored = list->stored;
    if (stored->count == KVT_STORED_MAX)
        return -1;
    hid_t attribute = H5Aopen(at, name, H5P_DEFAULT);
    if (attribute < 0)
        return -1;
    struct kvt_stored_value *value = &stored->values[stored->count];
    *value = (struct kvt_stored_value){0};
    snprintf(value->name, sizeof value->name, "%s", name);
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    H5T_class_t kind = type < 0 ? H5T_NO_CLASS : H5Tget_class(type);
    bool fine = kind != H5T_NO_CLASS && space >= 0 && H5Sget_simple_extent_npoints(space) == 1;
    if (fine && kind == H5T_STRING) {
        enum kvt_status why;
        char *text = kvt_h5_text(attribute, &why);
        fine = text != NULL;
        list->full = !fine && why == KVT_ENOMEM;
        value->is_text = true;
        snprintf(value->text, sizeof value->text, "%.127s", fine ? text : "");
        free(text);
    } else if (fine && (kind == H5T_INTEGER || kind == H5T_FLOAT)) {
        fine = H5Aread(attribute, H5T_NATIVE_DOUBLE, &value->number) >= 0;
    }
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    H5Aclose(attribute);
    stored->count += fine;
    return fine ? 0 : -1;
}

enum kvt_status kvt_run_reader_values(struct kvt_run_reader *reader, const char *group,
                                      struct kvt_stored *out, struct kvt_err *err)
{
    struct kvt_h5 h5 = h5_of(reader, err);
    struct value_list list = {.stored = out};
    out->count = 0;
    hid_t at = kvt_h5_id(&h5, "H5Gopen", H5Gopen2(reader->file, group, H5P_DEFAULT));
    if (at >= 0) {
        kvt_h5_done(&h5, "H5Aiterate",
                    H5Aiterate2(at, H5_INDEX_CRT_ORDER, H5_ITER_INC, NULL, add_value, &list));
        H5Gclose(at);
    }
    if (list.full)
        return no_memory(reader, err);
    return h5.failed ? h5.status : KVT_OK;
}

/* The text of a dataset of one string; malloc'ed. */
static enum kvt_status read_text(struct kvt_run_reader *reader, const char *path, char **text,
                                 struct kvt_err *err)
{
    struct kvt_h5 h5 = h5_of(reader, err);
    enum kvt_status why;
    *text = NULL;
    hid_t dataset = kvt_h5_id(&h5, "H5Dopen", H5Dopen2(reader->file, path, H5P_DEFAULT));
    if (dataset < 0)
        return h5.status;
    *text = kvt_h5_text(dataset, &why);
    H5Dclose(dataset);
    if (*text != NULL)
        return KVT_OK;
    return why == KVT_ENOMEM
               ? no_memory(reader, err)
               : kvt_err_at(err, KVT_ECONFIG, (struct kvt_where){.file = reader->path},
                            "/%s is not a text", path);
}

enum kvt_status kvt_run_reader_config(struct kvt_run_reader *reader, char **text,
                                      struct kvt_err *err)
{
    return read_text(reader, "config", text, err);
}

bool kvt_run_reader_has(struct kvt_run_reader *reader, const char *path)
{
    char part[128];
    for (size_t end = 0;; end++) {
        end += strcspn(path + end, "/");
        if (end >= sizeof part)
            return false;
        snprintf(part, sizeof part, "%.*s", (int)end, path);
        htri_t there = H5Lexists(reader->file, part, H5P_DEFAULT);
        if (there < 0)
            reader->unread = KVT_ECONFIG;
        if (there <= 0)
            return false;
        if (path[end] == '\0')
            return true;
    }
}

/* All of a dataset, of texts as they are or of numbers as doubles, *width bytes each, and one more
 * that is zero; malloc'ed, NULL after a failure. */
static enum kvt_status read_all(struct kvt_run_reader *reader, const char *path, bool of_texts,
                                void **out, size_t *width, int64_t *count, struct kvt_err *err)
{
    struct kvt_h5 h5 = h5_of(reader, err);
    struct kvt_h5_array array;
    enum kvt_status status = KVT_OK;
    *out = NULL;
    *count = 0;
    kvt_h5_array_open(&h5, reader->file, path, &array);
    if (h5.failed)
        return h5.status;
    H5T_class_t kind = array.type >= 0 ? H5Tget_class(array.type) : H5T_NO_CLASS;
    bool fits = of_texts ? kind == H5T_STRING && H5Tis_variable_str(array.type) == 0
                         : kind == H5T_INTEGER || kind == H5T_FLOAT;
    *width = of_texts && fits ? H5Tget_size(array.type) : sizeof(double);
    if (!fits || array.count < 0)
        status =
            kvt_err_at(err, KVT_ECONFIG, (struct kvt_where){.file = reader->path},
                       "/%s does not hold a column of %s", path, of_texts ? "texts" : "numbers");
    else if ((*out = calloc((size_t)array.count + 1, *width)) == NULL)
        status = kvt_err_set(err, KVT_ENOMEM, "no memory for /%s", path);
    else if (array.count > 0 &&
             !kvt_h5_done(&h5, "H5Dread",
                          H5Dread(array.dataset, of_texts ? array.type : H5T_NATIVE_DOUBLE, H5S_ALL,
                                  H5S_ALL, H5P_DEFAULT, *out)))
        status = h5.status;
    if (status == KVT_OK)
        *count = array.count;
    else {
        free(*out);
        *out = NULL;
    }
    kvt_h5_array_close(&array);
    return status;
}

enum kvt_status kvt_run_reader_column(struct kvt_run_reader *reader, const char *path, double **out,
                                      int64_t *count, struct kvt_err *err)
{
    void *numbers;
    size_t width;
    enum kvt_status status = read_all(reader, path, false, &numbers, &width, count, err);
    *out = numbers;
    return status;
}

char *kvt_run_reader_text(struct kvt_run_reader *reader, const char *path, const char *name)
{
    enum kvt_status why;
    htri_t there = kvt_run_reader_has(reader, path + 1)
                       ? H5Aexists_by_name(reader->file, path, name, H5P_DEFAULT)
                       : 0;
    char *text = there > 0 ? text_at(reader->file, path, name, &why) : NULL;
    if (there < 0)
        reader->unread = KVT_ECONFIG;
    if (there > 0 && text == NULL)
        reader->unread = why;
    return text;
}

/* ---- files of points ---- */

struct names {
    char **list; /* owned */
    int32_t count;
    bool failed;
};

static herr_t take_name(hid_t group, const char *name, const H5L_info_t *info, void *context)
{
    struct names *names = context;
    (void)group;
    (void)info;
    if (names->count == KVT_NAMES_MAX)
        return 1;
    names->list[names->count] = strdup(name);
    names->failed = names->list[names->count] == NULL;
    names->count += !names->failed;
    return names->failed ? -1 : 0;
}

enum kvt_status kvt_run_reader_names(struct kvt_run_reader *reader, const char *group, char ***out,
                                     int32_t *count, struct kvt_err *err)
{
    struct names names = {.list = calloc(KVT_NAMES_MAX, sizeof *names.list)};
    *out = names.list;
    *count = 0;
    if (names.list == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the columns of /%s", group);
    struct kvt_h5 h5 = h5_of(reader, err);
    htri_t there = H5Lexists(reader->file, group, H5P_DEFAULT);
    herr_t listed = there > 0 ? H5Literate_by_name(reader->file, group, H5_INDEX_NAME, H5_ITER_INC,
                                                   NULL, take_name, &names, H5P_DEFAULT)
                              : 0;
    *count = names.count;
    if (names.failed)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for the columns of /%s", group);
    kvt_h5_done(&h5, "H5Lexists", there);
    kvt_h5_done(&h5, "H5Literate", listed);
    return h5.failed ? h5.status : KVT_OK;
}

enum kvt_status kvt_points_reader_texts(struct kvt_run_reader *reader, const char *path, char **out,
                                        size_t *width, int64_t *count, struct kvt_err *err)
{
    void *texts;
    enum kvt_status status = read_all(reader, path, true, &texts, width, count, err);
    *out = texts;
    for (int64_t i = 0; i < *count; i++) /* a foreign file may lack zeros */
        (*out)[(size_t)(i + 1) * *width - 1] = '\0';
    return status;
}

enum kvt_status kvt_points_reader_identity(struct kvt_run_reader *reader, char **text,
                                           struct kvt_err *err)
{
    *text = NULL;
    if (!kvt_run_reader_has(reader, "meta/identity"))
        return bad_file(reader, "has no meta/identity, as files have that a job can go on with",
                        err);
    return read_text(reader, "meta/identity", text, err);
}
