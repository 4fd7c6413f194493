#include "sim/output/h5.h"

#include <stddef.h>
#include <string.h>

#include "sim/base/decision.h"

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
