/* libnvidia-ml.so.1 for tests: what NVIDIA's library would answer is in a text file (see state.h).
 *
 * Keys, by example ("gpu0.mig1.…" for an instance; a value "!3" is NVML's error 3 instead of an answer; a
 * function without a key is not supported):
 *   driver 615.71                               gpu0.uuid GPU-…            gpu0.name NVIDIA H100
 *   init !9                                     nvmlInit fails so
 *   all !999                                    every function fails so;   gpu0.all !15 every one of a device
 *   missing nvmlDeviceGetMemoryInfo_v2          the library has no such function
 *   gpu0.pci 0 0x3B 0                           domain, bus, device
 *   gpu0.memory.total 85899345920               .reserved, .used (else the sum over processes)
 *   gpu0.memory !3                              both functions for memory
 *   gpu0.nvmlDeviceGetPowerUsage 71000          any getter of one or two numbers
 *   gpu0.nvmlDeviceGetTemperature.0 41          with its arguments behind it; without them for all arguments
 *   gpu0.processes 4711:1048576,4712:-:mps      pid:bytes[:mps|:graphics]
 *   processes r535                              entries as drivers of branch 535 write them
 *   gpu0.field.82 61                            nvmlDeviceGetFieldValues, with ".scope" for a scope
 *   gpu0.gpm.2 31.5                             GPM metrics; gpu0.nvmlGpmQueryDeviceSupport 1
 *   gpu0.usage 4711:30:12:0:0                   pid:sm:memory:encoder:decoder, %
 *   gpu0.compute_mode 0                         also exclusive_process, prohibited
 *   gpu0.nvmlDeviceGetPowerUsage ~500 71000     the answer after 500 ms
 *   events 1:79@0 2:63@1:8                      number:XID@gpu[:event type]
 */
#define _GNU_SOURCE
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct device devices[MOST_GPUS][MOST_INSTANCES + 1];
static int initialised;

/* Errors that come before the answer: the state of the library, of the driver and of the device. */
int before(const char *function, const struct device *device)
{
    if (state_refresh())
        return LIBRARY_NOT_FOUND;
    if (initialised <= 0)
        return UNINITIALIZED;
    if (state_get("missing %s", function))
        return FUNCTION_NOT_FOUND;
    const char *all = state_get("all");
    if (all)
        return error_of(all);
    if (!device)
        return SUCCESS;
    all = state_get("gpu%d.all", device->gpu);
    if (!all && device->instance >= 0)
        all = device_get(device, "all");
    return all ? error_of(all) : device_get(device, "uuid") ? SUCCESS : NOT_FOUND;
}

/* Up to two numbers of a getter, its arguments first looked up with it, then without. */
int numbers_of(const struct device *device, const char *function, const char *arguments,
                      unsigned long long *first, unsigned long long *second)
{
    int refused = before(function, device);
    if (refused)
        return refused;
    const char *value = *arguments ? device_get(device, "%s%s", function, arguments) : NULL;
    if (!value)
        value = device_get(device, "%s", function);
    if ((refused = error_of(value)))
        return refused;
    if (!next_number(&value, first))
        return UNKNOWN;
    if (second && !next_number(&value, second))
        *second = 0;
    return SUCCESS;
}

static int text_of(const char *value, char *into, unsigned length)
{
    int refused = error_of(value);
    if (refused)
        return refused;
    if (strlen(value) >= length)
        return INSUFFICIENT_SIZE;
    strcpy(into, value);
    return SUCCESS;
}

/* ---- the library ---- */

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    if (state_refresh())
        return LIBRARY_NOT_FOUND;
    const char *fault = state_get("init");
    if (!fault)
        fault = state_get("all");
    if (fault && error_of(fault))
        return error_of(fault);
    for (int gpu = 0; gpu < MOST_GPUS; gpu++)
        for (int instance = -1; instance < MOST_INSTANCES; instance++)
            devices[gpu][instance + 1] = (struct device){gpu, instance};
    initialised++;
    return SUCCESS;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void)
{
    if (initialised <= 0)
        return UNINITIALIZED;
    initialised--;
    return SUCCESS;
}

const char *nvmlErrorString(int code)
{
    static char text[64];
    snprintf(text, sizeof text, "Error %d of the fake driver", code);
    return text;
}

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    BEFORE(NULL);
    return text_of(state_get("driver"), version, length);
}

int nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
    BEFORE(NULL);
    return text_of(state_get("nvml"), version, length);
}

int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    BEFORE(NULL);
    const char *value = state_get("cuda");
    *version = value ? atoi(value) : 0;
    return error_of(value);
}

int nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

/* ---- devices ---- */

static int count_gpus(void)
{
    int count = 0;
    while (count < MOST_GPUS && state_get("gpu%d.uuid", count))
        count++;
    return count;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    BEFORE(NULL);
    *count = (unsigned)count_gpus();
    return error_of(state_get("count") ? state_get("count") : "");
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device)
{
    BEFORE(NULL);
    if (index >= (unsigned)count_gpus())
        return INVALID_ARGUMENT;
    BEFORE(&devices[index][0]);
    *device = &devices[index][0];
    return SUCCESS;
}

/* As documented, it is an error when any GPU is lost, also when another one is wanted. */
static int handle_by(const char *key, const char *value, int instances, struct device **device)
{
    for (int gpu = 0; gpu < count_gpus(); gpu++) {
        const char *all = state_get("gpu%d.all", gpu);
        if (all && error_of(all) == GPU_IS_LOST)
            return GPU_IS_LOST;
    }
    for (int gpu = 0; gpu < count_gpus(); gpu++)
        for (int instance = -1; instance < (instances ? MOST_INSTANCES : 0); instance++) {
            struct device *one = &devices[gpu][instance + 1];
            const char *own = device_get(one, "%s", key);
            if (own && !strcasecmp(own, value)) {
                *device = one;
                return before("", one);
            }
        }
    return NOT_FOUND;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **device)
{
    BEFORE(NULL);
    return handle_by("uuid", uuid, 1, device);
}

int nvmlDeviceGetHandleBySerial(const char *serial, struct device **device)
{
    BEFORE(NULL);
    return handle_by("serial", serial, 0, device);
}

int nvmlDeviceGetIndex(struct device *device, unsigned *index)
{
    BEFORE(device);
    *index = (unsigned)device->gpu;
    return device->instance < 0 ? SUCCESS : NOT_SUPPORTED;
}

#define TEXT(function, key)                                                                               \
    int function(struct device *device, char *text, unsigned length)                                      \
    {                                                                                                     \
        BEFORE(device);                                                                                   \
        return text_of(device_get(device, key), text, length);                                            \
    }

TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
TEXT(nvmlDeviceGetBoardPartNumber, "part")

struct pci_info {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};

int nvmlDeviceGetPciInfo_v3(struct device *device, struct pci_info *info)
{
    BEFORE(device);
    const char *value = state_get("gpu%d.pci", device->gpu); /* an instance has its GPU's */
    int refused = error_of(value);
    if (refused)
        return refused;
    unsigned long long numbers[3] = {0};
    for (int i = 0; i < 3; i++)
        next_number(&value, &numbers[i]);
    *info = (struct pci_info){.domain = (unsigned)numbers[0], .bus = (unsigned)numbers[1],
                              .device = (unsigned)numbers[2], .id = 0x233010DE};
    snprintf(info->bus_id, sizeof info->bus_id, "%08X:%02X:%02X.0", info->domain, info->bus, info->device);
    return SUCCESS;
}

/* ---- MIG ---- */

int nvmlDeviceIsMigDeviceHandle(struct device *device, unsigned *is)
{
    BEFORE(NULL);
    *is = device->instance >= 0;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(struct device *device, unsigned index, struct device **instance)
{
    BEFORE(device);
    if (device->instance >= 0 || index >= MOST_INSTANCES)
        return INVALID_ARGUMENT;
    BEFORE(&devices[device->gpu][index + 1]);
    *instance = &devices[device->gpu][index + 1];
    return SUCCESS;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct device *instance, struct device **device)
{
    BEFORE(NULL);
    if (instance->instance < 0)
        return INVALID_ARGUMENT;
    *device = &devices[instance->gpu][0];
    return before("", *device);
}

struct attributes {
    unsigned multiprocessors, copy, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long memory_mb;
};

/* "attributes SMs copy decoders encoders jpeg ofa gpu-slices compute-slices memory-MB"; as in NVIDIA's,
   only for instances. */
int nvmlDeviceGetAttributes_v2(struct device *device, struct attributes *into)
{
    BEFORE(device);
    const char *value = device_get(device, "attributes");
    int refused = error_of(value);
    if (refused)
        return refused;
    unsigned long long numbers[9] = {0};
    for (int i = 0; i < 9; i++)
        next_number(&value, &numbers[i]);
    for (int i = 0; i < 8; i++)
        ((unsigned *)into)[i] = (unsigned)numbers[i];
    into->memory_mb = numbers[8];
    return SUCCESS;
}
