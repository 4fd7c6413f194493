#include "runtime/device.h"

#include <inttypes.h>
#include <string.h>

#include "sim/base/assert.h"

#define X(name, text) text,
const char *const kvt_backend_names[KVT_BACKEND_COUNT] = {KVT_BACKENDS(X)};
#undef X

static const struct kvt_device_ops *ops_of(enum kvt_backend backend)
{
    switch (backend) {
    case KVT_BACKEND_CPU:
        return &kvt_device_cpu_ops;
    case KVT_BACKEND_REFERENCE:
        return &kvt_device_reference_ops;
    case KVT_BACKEND_CUDA:
#ifdef KVT_CUDA
        return &kvt_device_cuda_ops;
#else
        return NULL;
#endif
    case KVT_BACKEND_COUNT:
        break;
    }
    kvt_unreachable();
}

enum kvt_status kvt_device_open(struct kvt_device *device, enum kvt_backend backend, int64_t limit,
                                struct kvt_err *err)
{
    *device = (struct kvt_device){.ops = ops_of(backend), .limit = limit, .workers = 1};
    if (device->ops == NULL)
        return kvt_err_set(err, KVT_EDEVICE,
                           "--backend %s: want a program built with CUDA, this one was built "
                           "without CUDA",
                           kvt_backend_names[backend]);
    enum kvt_status status = device->ops->open(device, err);
    if (status != KVT_OK)
        device->ops = NULL;
    return status;
}

void kvt_device_close(struct kvt_device *device)
{
    if (device->ops == NULL)
        return;
    kvt_assert(device->used == 0);
    device->ops->close(device);
    *device = (struct kvt_device){0};
}

enum kvt_status kvt_device_take(struct kvt_device *device, int64_t bytes, const char *what,
                                void *out, struct kvt_err *err)
{
    void *memory = NULL;
    kvt_assert(bytes >= 0);
    memcpy(out, &memory, sizeof memory);
    if (bytes == 0)
        return KVT_OK;
    int64_t rounded = kvt_device_rounded(bytes);
    if (rounded > device->limit - device->used)
        return kvt_err_set(err, KVT_ENOMEM,
                           "%s: want %" PRId64 " bytes of device memory, %" PRId64 " of %" PRId64
                           " are in use",
                           what, rounded, device->used, device->limit);
    memory = device->ops->map(device, (size_t)rounded);
    if (memory == NULL)
        return kvt_err_set(err, KVT_ENOMEM,
                           "%s: want %" PRId64 " bytes, the system has no memory for them", what,
                           rounded);
    device->used += rounded;
    if (device->used > device->peak)
        device->peak = device->used;
    memcpy(out, &memory, sizeof memory);
    return KVT_OK;
}

void kvt_device_give(struct kvt_device *device, void *memory, int64_t bytes)
{
    if (memory == NULL)
        return;
    int64_t rounded = kvt_device_rounded(bytes);
    device->ops->unmap(device, memory, (size_t)rounded);
    device->used -= rounded;
    kvt_assert(device->used >= 0);
}

int32_t kvt_device_attention_workers(const struct kvt_device *device,
                                     const struct kvt_page_layout *layout, int32_t heads)
{
    if (device->ops->attention_workers == NULL)
        return device->workers;
    return device->ops->attention_workers(device, layout, heads);
}
