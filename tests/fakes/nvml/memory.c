/* How much memory a device has. */
#define _GNU_SOURCE
#include "state.h"

#include <stdlib.h>

struct memory {
    unsigned long long total, free, used;
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

static int memory_of(struct device *device, struct memory_v2 *into)
{
    const char *fault = device_get(device, "memory"), *total = device_get(device, "memory.total");
    const char *reserved = device_get(device, "memory.reserved");
    if (fault && error_of(fault))
        return error_of(fault);
    if (!total)
        return NOT_SUPPORTED;
    into->total = strtoull(total, NULL, 10);
    into->reserved = reserved ? strtoull(reserved, NULL, 10) : 0;
    into->used = memory_used_on(device);
    if (into->used > into->total - into->reserved)
        into->used = into->total - into->reserved;
    into->free = into->total - into->reserved - into->used;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(struct device *device, struct memory *into)
{
    BEFORE(device);
    struct memory_v2 all = {0};
    int refused = memory_of(device, &all);
    if (!refused)
        *into = (struct memory){all.total, all.free, all.used + all.reserved};
    return refused;
}

int nvmlDeviceGetMemoryInfo_v2(struct device *device, struct memory_v2 *into)
{
    BEFORE(device);
    if (into->version != (sizeof *into | 2u << 24))
        return VERSION_MISMATCH;
    return memory_of(device, into);
}
