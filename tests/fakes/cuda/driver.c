/* The driver API: devices and contexts. */
#define _GNU_SOURCE
#include "driver.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

seat_t seats[MOST_DEVICES];
int seat_count, via_mps, broken, current = -1;
static pid_t owner; /* who called cuInit; a fork of it has no CUDA */

/* --- what others see ------------------------------------------------------------------------------- */

uint64_t overhead(void) { return state_number("cuda.context_bytes", 64ULL << 20); }

void publish(void) {
    static char uuids[MOST_DEVICES][TEXT];
    static uint64_t bytes[MOST_DEVICES];
    int count = 0;
    for (int i = 0; i < seat_count; i++)
        if (seats[i].contexts) {
            snprintf(uuids[count], TEXT, "%s", seats[i].device.uuid);
            bytes[count++] = seats[i].allocated_bytes + overhead();
        }
    write_entry(via_mps, count, (const char (*)[TEXT])uuids, bytes);
    mps_write_client(count, (const char (*)[TEXT])uuids);
}

static void leave(void) {
    if (owner != getpid()) return;
    forget_entry();
    mps_leave();
}

int usable(void) {
    if (owner != getpid()) return NOT_INITIALIZED;
    if (!broken) broken = mps_check();
    return broken;
}

/* --- devices --------------------------------------------------------------------------------------- */

static int seen(const device_t *device, const char *wanted, int ordinal) {
    size_t length = strlen(wanted);
    char *end;
    if (length >= 4 && !strncmp(device->uuid, wanted, length)) return 1;
    long number = strtol(wanted, &end, 10);
    return end != wanted && !*end && device->at.instance < 0 && number == ordinal;
}

static void choose(const device_t *devices, int count, int index) {
    if (devices[index].at.instance < 0 && devices[index].mig_enabled) { /* only its first instance is seen */
        for (int i = index + 1; i < count && devices[i].at.instance >= 0; i++)
            if (devices[i].uuid[0]) { index = i; break; }
        if (devices[index].at.instance < 0) return;
    }
    if (seat_count < MOST_DEVICES) seats[seat_count++] = (seat_t){.device = devices[index]};
}

static void look_around(void) { /* CUDA_VISIBLE_DEVICES, up to the first that is not there */
    static device_t devices[MOST_DEVICES];
    int count = read_devices(devices);
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    char copy[4096], *rest = copy, *part;
    seat_count = 0;
    if (!visible) {
        for (int i = 0; i < count; i++)
            if (devices[i].at.instance < 0 && !devices[i].prohibited) choose(devices, count, i);
        return;
    }
    snprintf(copy, sizeof copy, "%s", visible);
    while ((part = strsep(&rest, ","))) {
        int found = -1, ordinal = -1;
        for (int i = 0; i < count && found < 0; i++) {
            if (devices[i].at.instance < 0) ordinal++;
            if (*part && seen(&devices[i], part, ordinal)) found = i;
        }
        if (found < 0) return;
        choose(devices, count, found);
        if (devices[found].at.instance >= 0) return; /* one MIG instance a process */
    }
}

static void hold_device_open(void) { /* as a process that uses CUDA has /dev/nvidia-uvm open */
    char path[PATH_SIZE + 16];
    if (!beside_state("dev", path)) return;
    if (access(path, F_OK)) write_whole(path, "nvidia-uvm", "");
    strcat(path, "/nvidia-uvm");
    (void)!open(path, O_RDONLY | O_CLOEXEC);
}

int cuInit(unsigned flags) {
    static int registered;
    if (flags) return INVALID_VALUE;
    if (owner == getpid()) return OK;
    if (owner) return NOT_INITIALIZED; /* forked */
    if (state_refresh()) return NO_DEVICE;
    look_around();
    if (!seat_count) return NO_DEVICE;
    int mps = state_number("cuda.mps", 1) ? mps_join() : 0;
    if (mps > 1) return mps;
    via_mps = mps;
    owner = getpid();
    if (!registered++) atexit(leave);
    hold_device_open();
    int lock = lock_world();
    publish();
    unlock_world(lock);
    return OK;
}

int cuDriverGetVersion(int *version) {
    *version = (int)state_number("cuda", 13040);
    return OK;
}

int cuDeviceGetCount(int *count) {
    int error = usable();
    *count = error ? 0 : seat_count;
    return error;
}

int cuDeviceGet(int *device, int ordinal) {
    if (usable()) return usable();
    if (ordinal < 0 || ordinal >= seat_count) return INVALID_DEVICE;
    *device = ordinal;
    return OK;
}

static int known(int device) { return device >= 0 && device < seat_count; }

int cuDeviceGetName(char *name, int length, int device) {
    if (!known(device)) return INVALID_DEVICE;
    snprintf(name, (size_t)length, "%s", seats[device].device.name);
    return usable();
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    if (!known(device)) return INVALID_DEVICE;
    const char *at = strchr(seats[device].device.uuid, '-');
    memset(uuid, 0, 16);
    for (int i = 0; at && *at && i < 32; at++) {
        int digit = *at >= '0' && *at <= '9' ? *at - '0' : (*at | 32) >= 'a' && (*at | 32) <= 'f' ? (*at | 32) - 87 : -1;
        if (digit < 0) continue;
        uuid[i / 2] = (unsigned char)(uuid[i / 2] | digit << (i % 2 ? 0 : 4));
        i++;
    }
    return usable();
}

int cuDeviceGetUuid(unsigned char *uuid, int device) { return cuDeviceGetUuid_v2(uuid, device); }

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    if (!known(device)) return INVALID_DEVICE;
    *bytes = seats[device].device.total_bytes;
    return usable();
}

int multiprocessors(int device) { /* a percentage is rounded down to pairs */
    int all = seats[device].device.multiprocessors;
    int some = all * (via_mps ? mps_percentage() : 100) / 100;
    return some == all ? all : some < 2 ? 2 : some / 2 * 2;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    if (!known(device)) return INVALID_DEVICE;
    const device_t *what = &seats[device].device;
    switch (attribute) {
    case 16: *value = multiprocessors(device); break;         /* MULTIPROCESSOR_COUNT */
    case 20: *value = what->exclusive ? 3 : what->prohibited ? 2 : 0; break; /* COMPUTE_MODE */
    case 75: *value = what->major; break;                     /* COMPUTE_CAPABILITY_MAJOR */
    case 76: *value = what->minor; break;
    default: return INVALID_VALUE;
    }
    return usable();
}

/* --- contexts -------------------------------------------------------------------------------------- */

int fits(int seat, uint64_t more, uint64_t *limit) {
    const device_t *device = &seats[seat].device;
    uint64_t own = seats[seat].allocated_bytes + (seats[seat].contexts ? overhead() : 0);
    uint64_t mps = via_mps ? mps_memory_limit(device->uuid, seat) : UINT64_MAX;
    uint64_t total = device->total_bytes, used = used_on(device);
    int allowed = within_limits(device, more, limit);
    if (mps < *limit) *limit = mps;
    return allowed && own + more <= mps && used + more <= total;
}

static int enter(int device) {
    uint64_t limit;
    int error = usable();
    if (error) return error;
    if (!known(device)) return INVALID_DEVICE;
    if (seats[device].contexts) return seats[device].contexts++, OK;
    int lock = lock_world();
    const device_t *what = &seats[device].device;
    if (what->prohibited || (what->exclusive && !via_mps && other_processes_on(what))) error = UNAVAILABLE;
    else if (!fits(device, overhead(), &limit)) error = OUT_OF_MEMORY;
    else seats[device].contexts = 1, publish();
    unlock_world(lock);
    return error;
}

static int quit(int device) {
    if (!known(device) || !seats[device].contexts) return INVALID_CONTEXT;
    if (--seats[device].contexts) return OK;
    free_blocks_of(device);
    seats[device].allocated_bytes = 0;
    int lock = lock_world();
    publish();
    unlock_world(lock);
    return OK;
}

static void *as_context(int device) { return (void *)(intptr_t)(device + 1); }
static int as_device(void *context) { return (int)(intptr_t)context - 1; }

int cuDevicePrimaryCtxRetain(void **context, int device) {
    int error = enter(device);
    if (!error) *context = as_context(device);
    return error;
}

int cuDevicePrimaryCtxRelease_v2(int device) { return quit(device); }
int cuDevicePrimaryCtxRelease(int device) { return quit(device); }

int cuCtxSetCurrent(void *context) {
    if (context && !known(as_device(context))) return INVALID_CONTEXT;
    current = context ? as_device(context) : -1;
    return usable();
}

int cuCtxGetCurrent(void **context) {
    *context = current < 0 ? NULL : as_context(current);
    return usable();
}

int cuCtxCreate_v2(void **context, unsigned flags, int device) {
    (void)flags;
    int error = enter(device);
    if (error) return error;
    *context = as_context(device);
    return cuCtxSetCurrent(*context);
}

int cuCtxDestroy_v2(void *context) {
    if (current == as_device(context)) current = -1;
    return quit(as_device(context));
}

int cuCtxSynchronize(void) { return usable(); }
