/* Who uses a device: the three lists of processes, and how busy each keeps it. */
#define _GNU_SOURCE
#include "state.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The oldest form of an entry. */
struct short_entry {
    unsigned pid;
    unsigned long long bytes;
};

/* The form of _v2 and _v3; drivers of branch 535 wrote eight bytes more under the latter name. */
struct entry {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

struct entry_r535 {
    struct entry entry;
    unsigned long long protected_bytes;
};

enum list { COMPUTE, MPS, GRAPHICS };

static int belongs(const struct process *process, enum list list)
{
    return list == GRAPHICS ? process->graphics
           : list == MPS    ? process->mps
                            : !process->mps && !process->graphics;
}

enum form { SHORT, LONG, NEWEST };

static size_t size_of(enum form form)
{
    const char *style = state_get("processes");
    int longer = form == NEWEST && style && !strcmp(style, "r535");
    return form == SHORT ? sizeof(struct short_entry) : longer ? sizeof(struct entry_r535) : sizeof(struct entry);
}

/* A GPU in MIG mode lists what its instances list. */
static size_t all_on(const struct device *device, struct process *into)
{
    size_t count = processes_on(device, into);
    for (int i = 0; device->instance < 0 && i < MOST_INSTANCES; i++) {
        struct process more[MOST_PROCESSES];
        struct device part = {device->gpu, i};
        if (!device_get(&part, "uuid"))
            continue;
        size_t got = processes_on(&part, more);
        if (got > MOST_PROCESSES - count)
            got = MOST_PROCESSES - count;
        memcpy(into + count, more, got * sizeof *more);
        count += got;
    }
    return count;
}

static int list_of(const char *function, struct device *device, enum list list, enum form form,
                   unsigned *count, char *into)
{
    int refused = before(function, device);
    const char *fault = refused ? NULL : device_get(device, "%s", function);
    if (!refused && !fault)
        fault = device_get(device, "processes");
    if (refused || (fault && (refused = error_of(fault))))
        return refused;
    struct process found[MOST_PROCESSES];
    size_t all = all_on(device, found), mine = 0, size = size_of(form);
    for (size_t i = 0; i < all; i++)
        if (belongs(&found[i], list)) {
            struct entry_r535 one = {
                {found[i].pid, found[i].bytes, found[i].gpu_instance, found[i].compute_instance}, 0};
            if (into && mine < *count)
                memcpy(into + mine * size, &one, size);
            mine++;
        }
    int fits = into ? mine <= *count : !mine;
    *count = (unsigned)mine;
    return fits ? SUCCESS : INSUFFICIENT_SIZE;
}

#define LIST(function, list, form)                                                                        \
    int function(struct device *device, unsigned *count, char *into)                                      \
    {                                                                                                     \
        return list_of(__func__, device, list, form, count, into);                                        \
    }

LIST(nvmlDeviceGetComputeRunningProcesses, COMPUTE, SHORT)
LIST(nvmlDeviceGetComputeRunningProcesses_v2, COMPUTE, LONG)
LIST(nvmlDeviceGetComputeRunningProcesses_v3, COMPUTE, NEWEST)
LIST(nvmlDeviceGetMPSComputeRunningProcesses, MPS, SHORT)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, MPS, LONG)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, MPS, NEWEST)
LIST(nvmlDeviceGetGraphicsRunningProcesses, GRAPHICS, SHORT)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, GRAPHICS, LONG)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, GRAPHICS, NEWEST)

struct usage {
    unsigned pid;
    unsigned long long when;
    unsigned sm, memory, encoder, decoder;
};

/* "gpu0.usage pid:sm:memory:encoder:decoder,…", all taken now. */
int nvmlDeviceGetProcessUtilization(struct device *device, struct usage *into, unsigned *count,
                                    unsigned long long since)
{
    int refused = before(__func__, device);
    const char *value = device_get(device, "usage");
    if (refused || (refused = error_of(value ? value : "!6")))
        return refused;
    if (*value == '!') { /* "!0": the library says success where there is no sample */
        *count = 0;
        return SUCCESS;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    unsigned long long microseconds = (unsigned long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    unsigned found = 0;
    (void)since;
    for (unsigned long long n[5]; next_number(&value, &n[0]); found++) {
        for (int i = 1; i < 5; i++)
            if (!next_number(&value, &n[i]))
                return UNKNOWN;
        if (into && found < *count)
            into[found] = (struct usage){(unsigned)n[0], microseconds,   (unsigned)n[1],
                                         (unsigned)n[2], (unsigned)n[3], (unsigned)n[4]};
    }
    int fits = into ? found <= *count : 0;
    *count = found;
    return fits ? SUCCESS : INSUFFICIENT_SIZE;
}
