/*
 * mirror.h - arrays that the host fills and a device's kernels read, or the other way round
 *
 * A block of host memory and one of equal size on the device. Arrays are laid out in the host's;
 * kvt_mirror_there turns an address in it into the same place on the device. On a device with host
 * memory both are one block, and sending and fetching do nothing: no copy, no device memory.
 *
 * Sent bytes have been read when kvt_mirror_send returns; fetched bytes are there after the
 * device's next wait. Memory is taken once: sending and fetching allocate nothing.
 */
#ifndef KVT_RUNTIME_MIRROR_H
#define KVT_RUNTIME_MIRROR_H

#include "runtime/device.h"

struct kvt_mirror {
    struct kvt_device *device; /* borrowed */
    char *host;                /* owned, zeroed, aligned to 64 */
    char *there;               /* on the device; equal to host where that is the host's memory */
    int64_t bytes;
};

/* what: for the message of KVT_ENOMEM. A mirror of 0 bytes is empty. */
enum kvt_status kvt_mirror_init(struct kvt_mirror *mirror, struct kvt_device *device, int64_t bytes,
                                const char *what, struct kvt_err *err);
void kvt_mirror_release(struct kvt_mirror *mirror);

/* The place on the device of an address in the host's block; NULL of NULL. */
void *kvt_mirror_there(const struct kvt_mirror *mirror, const void *host);

/* bytes from an address in the host's block to its place on the device, and back. */
void kvt_mirror_send(struct kvt_mirror *mirror, const void *host, size_t bytes);
void kvt_mirror_fetch(struct kvt_mirror *mirror, void *host, size_t bytes);

#endif
