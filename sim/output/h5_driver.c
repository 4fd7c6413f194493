#include "sim/output/h5_driver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct driver_info {
    int *failure;
};

/* One open file. HDF5 wants its own part first. */
struct driver_file {
    H5FD_t shared;
    int descriptor;
    int *failure;
    haddr_t allocated; /* end of the addresses that HDF5 has given out */
    haddr_t written;   /* end of the file */
};

static void keep_failure(struct driver_file *file)
{
    if (*file->failure == 0)
        *file->failure = errno != 0 ? errno : EIO;
}

static H5FD_t *driver_open(const char *name, unsigned flags, hid_t access_list, haddr_t max)
{
    (void)flags; /* outputs are created, never reopened */
    (void)max;
    const struct driver_info *info = H5Pget_driver_info(access_list);
    struct driver_file *file = calloc(1, sizeof *file);
    if (info == NULL || file == NULL) {
        free(file);
        return NULL;
    }
    file->failure = info->failure;
    file->descriptor = open(name, O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (file->descriptor < 0) {
        keep_failure(file);
        free(file);
        return NULL;
    }
    return &file->shared;
}

static herr_t driver_close(H5FD_t *shared)
{
    struct driver_file *file = (struct driver_file *)shared;
    if (close(file->descriptor) != 0)
        keep_failure(file);
    free(file);
    return 0;
}

static herr_t driver_query(const H5FD_t *shared, unsigned long *features)
{
    (void)shared;
    *features = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA |
                H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_AGGREGATE_SMALLDATA;
    return 0;
}

static haddr_t driver_get_eoa(const H5FD_t *shared, H5FD_mem_t type)
{
    (void)type;
    return ((const struct driver_file *)shared)->allocated;
}

static herr_t driver_set_eoa(H5FD_t *shared, H5FD_mem_t type, haddr_t address)
{
    (void)type;
    ((struct driver_file *)shared)->allocated = address;
    return 0;
}

static haddr_t driver_get_eof(const H5FD_t *shared, H5FD_mem_t type)
{
    (void)type;
    return ((const struct driver_file *)shared)->written;
}

/* What was never written reads as zeros. */
static herr_t driver_read(H5FD_t *shared, H5FD_mem_t type, hid_t transfer, haddr_t address,
                          size_t bytes, void *buffer)
{
    (void)type;
    (void)transfer;
    struct driver_file *file = (struct driver_file *)shared;
    unsigned char *to = buffer;
    while (bytes > 0) {
        ssize_t got = pread(file->descriptor, to, bytes, (off_t)address);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            if (got < 0)
                keep_failure(file);
            memset(to, 0, bytes);
            return 0;
        }
        to += got;
        address += (haddr_t)got;
        bytes -= (size_t)got;
    }
    return 0;
}

static herr_t driver_write(H5FD_t *shared, H5FD_mem_t type, hid_t transfer, haddr_t address,
                           size_t bytes, const void *buffer)
{
    (void)type;
    (void)transfer;
    struct driver_file *file = (struct driver_file *)shared;
    const unsigned char *from = buffer;
    haddr_t end = address + bytes;
    while (bytes > 0 && *file->failure == 0) {
        ssize_t wrote = pwrite(file->descriptor, from, bytes, (off_t)address);
        if (wrote < 0 && errno != EINTR)
            keep_failure(file);
        if (wrote < 0)
            continue;
        from += wrote;
        address += (haddr_t)wrote;
        bytes -= (size_t)wrote;
    }
    if (end > file->written)
        file->written = end;
    return 0;
}

static herr_t driver_truncate(H5FD_t *shared, hid_t transfer, hbool_t closing)
{
    (void)transfer;
    (void)closing;
    struct driver_file *file = (struct driver_file *)shared;
    if (file->allocated != file->written && *file->failure == 0 &&
        ftruncate(file->descriptor, (off_t)file->allocated) != 0)
        keep_failure(file);
    file->written = file->allocated;
    return 0;
}

static const H5FD_class_t driver_class = {
#if H5_VERSION_GE(1, 13, 0)
    .version = H5FD_CLASS_VERSION,
    .value = (H5FD_class_value_t)512, /* from the range for private use */
#endif
    .name = "kvtwin",
    .maxaddr = (haddr_t)INT64_MAX,
    .fc_degree = H5F_CLOSE_STRONG,
    .fapl_size = sizeof(struct driver_info),
    .open = driver_open,
    .close = driver_close,
    .query = driver_query,
    .get_eoa = driver_get_eoa,
    .set_eoa = driver_set_eoa,
    .get_eof = driver_get_eof,
    .read = driver_read,
    .write = driver_write,
    .truncate = driver_truncate,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

herr_t kvt_h5_driver_set(hid_t access_list, int *failure)
{
    static hid_t driver = -1;
    if (driver < 0)
        driver = H5FDregister(&driver_class);
    struct driver_info info = {.failure = failure};
    return driver < 0 ? -1 : H5Pset_driver(access_list, driver, &info);
}
