#include "tests/devices.h"

#include "runtime/device.h"

static bool are_apart;
static bool (*fails)(void);
static struct kvt_device_ops table[KVT_BACKEND_COUNT]; /* of the devices opened last */
static const struct kvt_device_ops *real[KVT_BACKEND_COUNT];

/* The real one, as the linker names it. NOLINTBEGIN(*reserved-identifier,cert-dcl*) */
enum kvt_status __real_kvt_device_open(struct kvt_device *device, enum kvt_backend backend,
                                       int64_t limit, struct kvt_err *err);
enum kvt_status __wrap_kvt_device_open(struct kvt_device *device, enum kvt_backend backend,
                                       int64_t limit, struct kvt_err *err);
/* NOLINTEND(*reserved-identifier,cert-dcl*) */

static enum kvt_status wait(struct kvt_device *device, struct kvt_err *err)
{
    if (fails != NULL && fails())
        return kvt_err_set(err, KVT_EDEVICE, "the device is lost");
    return real[device->ops->backend]->wait(device, err);
}

void devices_are(bool apart, bool (*wait_fails)(void))
{
    are_apart = apart;
    fails = wait_fails;
}

enum kvt_status __wrap_kvt_device_open(struct kvt_device *device, enum kvt_backend backend,
                                       int64_t limit, struct kvt_err *err)
{
    enum kvt_status status = __real_kvt_device_open(device, backend, limit, err);
    if (status != KVT_OK || !(are_apart || fails != NULL))
        return status;
    real[backend] = device->ops;
    table[backend] = *device->ops;
    table[backend].wait = wait;
    table[backend].host_memory = !are_apart;
    device->ops = &table[backend];
    return KVT_OK;
}
