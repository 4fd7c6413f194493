#include "runtime/mirror.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/assert.h"

enum kvt_status kvt_mirror_init(struct kvt_mirror *mirror, struct kvt_device *device, int64_t bytes,
                                const char *what, struct kvt_err *err)
{
    *mirror = (struct kvt_mirror){.device = device, .bytes = kvt_device_rounded(bytes)};
    if (bytes == 0)
        return KVT_OK;
    mirror->host = aligned_alloc(KVT_DEVICE_ALIGN, (size_t)mirror->bytes);
    if (mirror->host == NULL)
        return kvt_err_set(err, KVT_ENOMEM, "no memory for %s: want %lld bytes", what,
                           (long long)bytes);
    memset(mirror->host, 0, (size_t)mirror->bytes);
    mirror->there = mirror->host;
    if (device->ops->host_memory)
        return KVT_OK;
    mirror->there = NULL;
    return kvt_device_take(device, mirror->bytes, what, &mirror->there, err);
}

void kvt_mirror_release(struct kvt_mirror *mirror)
{
    if (mirror->there != mirror->host)
        kvt_device_give(mirror->device, mirror->there, mirror->bytes);
    free(mirror->host);
    *mirror = (struct kvt_mirror){0};
}

static int64_t offset(const struct kvt_mirror *mirror, const void *host, size_t bytes)
{
    int64_t at = (const char *)host - mirror->host;
    kvt_assert(at >= 0 && at + (int64_t)bytes <= mirror->bytes);
    return at;
}

void *kvt_mirror_there(const struct kvt_mirror *mirror, const void *host)
{
    return host == NULL ? NULL : mirror->there + offset(mirror, host, 0);
}

void kvt_mirror_send(struct kvt_mirror *mirror, const void *host, size_t bytes)
{
    int64_t at = offset(mirror, host, bytes);
    if (mirror->there != mirror->host && bytes > 0)
        mirror->device->ops->copy(mirror->device, mirror->there + at, host, bytes);
}

void kvt_mirror_fetch(struct kvt_mirror *mirror, void *host, size_t bytes)
{
    int64_t at = offset(mirror, host, bytes);
    if (mirror->there != mirror->host && bytes > 0)
        mirror->device->ops->copy(mirror->device, host, mirror->there + at, bytes);
}
