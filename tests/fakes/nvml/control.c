/* Functions that change something, and those that measure between two samples (GPM). */
#define _GNU_SOURCE
#include "state.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define NO_LIMIT (~0ull)

/* An error that a test wants from a function; without one, what is the default. */
static int refusal(const char *function, struct device *device, int otherwise)
{
    int refused = before(function, device);
    const char *value = refused ? NULL : device_get(device, "%s", function);
    return refused ? refused : value ? error_of(value) : otherwise;
}

/* ---- memory limits of control groups ---- */

struct set_limits {
    const char *group;
    unsigned long long soft, hard;
};

struct get_limits {
    const char *group;
    unsigned long long soft, hard, used;
};

/* A group's path without where it is mounted. */
static const char *plain(const char *group)
{
    for (const char **root = (const char *[]){"/sys/fs/cgroup/unified", "/sys/fs/cgroup", NULL}; *root; root++)
        if (!strncmp(group, *root, strlen(*root)) && group[strlen(*root)] == '/')
            return group + strlen(*root);
    return group;
}

/* Append a line under the lock; 0 when written. */
static int note_limits(const char *uuid, const struct set_limits *limits)
{
    char path[4200];
    snprintf(path, sizeof path, "%s.lock", state_path());
    int lock = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    if (lock < 0 || flock(lock, LOCK_EX))
        return -1;
    snprintf(path, sizeof path, "%s.limits", state_path());
    FILE *file = fopen(path, "ae");
    if (file)
        fprintf(file, "%s %s %llu %llu\n", uuid, limits->group, limits->soft, limits->hard);
    int failed = !file || fclose(file);
    close(lock);
    return failed ? -1 : 0;
}

int nvmlDeviceSetMemoryLimits_v1(struct device *device, struct set_limits *limits)
{
    int refused = refusal(__func__, device, NOT_SUPPORTED);
    if (refused)
        return refused;
    if (!limits->group || !*limits->group || (limits->hard && limits->soft > limits->hard))
        return INVALID_ARGUMENT;
    return note_limits(device_get(device, "uuid"), limits) ? UNKNOWN : SUCCESS;
}

/* The last line for the device and the group counts. */
static void find_limits(const char *uuid, struct get_limits *limits)
{
    char path[4200], line[4600], of[128], group[4096];
    unsigned long long soft, hard;
    snprintf(path, sizeof path, "%s.limits", state_path());
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%127s %4095s %llu %llu", of, group, &soft, &hard) == 4 && !strcmp(of, uuid) &&
            !strcmp(plain(group), plain(limits->group)))
            limits->soft = soft, limits->hard = hard ? hard : NO_LIMIT;
    if (file)
        fclose(file);
}

/* True when a process is in a control group, or in one below it. */
static int is_in(unsigned pid, const char *group)
{
    char path[64], line[4400];
    size_t length = strlen(group);
    snprintf(path, sizeof path, "/proc/%u/cgroup", pid);
    FILE *file = fopen(path, "re");
    int found = 0;
    while (file && !found && fgets(line, sizeof line, file)) {
        char *own = strchr(line, ':');
        own = own ? strchr(own + 1, ':') : NULL;
        found = own && !strncmp(own + 1, group, length) && strchr("/\n", own[1 + length]);
    }
    if (file)
        fclose(file);
    return found;
}

int nvmlDeviceGetMemoryLimits_v1(struct device *device, struct get_limits *limits)
{
    int refused = refusal(__func__, device, NOT_SUPPORTED);
    if (refused)
        return refused;
    if (!limits->group || !*limits->group)
        return INVALID_ARGUMENT;
    limits->soft = 0, limits->hard = NO_LIMIT, limits->used = 0;
    find_limits(device_get(device, "uuid"), limits);
    struct process found[MOST_PROCESSES];
    size_t count = processes_on(device, found);
    for (size_t i = 0; i < count; i++)
        if (found[i].bytes != ~0ull && is_in(found[i].pid, plain(limits->group)))
            limits->used += found[i].bytes;
    return SUCCESS;
}

/* ---- GPM: "gpu0.gpm.METRIC value" ---- */

struct sample {
    struct device at;
    int taken;
};

struct metric {
    unsigned id;
    int result;
    double value;
    const char *short_name, *long_name, *unit;
};

struct metrics {
    unsigned version, count;
    struct sample *first, *second;
    struct metric metrics[];
};

struct support {
    unsigned version, supported;
};

int nvmlGpmQueryDeviceSupport(struct device *device, struct support *into)
{
    int refused = before(__func__, device);
    const char *value = refused ? NULL : device_get(device, __func__);
    if (refused || (refused = error_of(value)))
        return refused;
    into->supported = (unsigned)atoi(value);
    return SUCCESS;
}

int nvmlGpmSampleAlloc(struct sample **sample)
{
    int refused = before(__func__, NULL);
    if (!refused)
        *sample = calloc(1, sizeof **sample);
    return refused;
}

int nvmlGpmSampleFree(struct sample *sample)
{
    free(sample);
    return SUCCESS;
}

static int take(const char *function, struct device *device, int instance, struct sample *sample)
{
    const char *supported = device_get(device, "nvmlGpmQueryDeviceSupport");
    int refused = refusal(function, device, supported && atoi(supported) ? SUCCESS : NOT_SUPPORTED);
    if (refused)
        return refused;
    *sample = (struct sample){{device->gpu, instance}, 1};
    return SUCCESS;
}

int nvmlGpmSampleGet(struct device *device, struct sample *sample)
{
    return take(__func__, device, -1, sample);
}

/* The instance is named by the id of its GPU instance. */
int nvmlGpmMigSampleGet(struct device *device, unsigned gpu_instance, struct sample *sample)
{
    for (int instance = 0; instance < MOST_INSTANCES; instance++) {
        struct device one = {device->gpu, instance};
        const char *id = device_get(&one, "nvmlDeviceGetGpuInstanceId");
        if (id && (unsigned)atoi(id) == gpu_instance)
            return take(__func__, device, instance, sample);
    }
    return NOT_FOUND;
}

int nvmlGpmMetricsGet(struct metrics *metrics)
{
    int refused = before(__func__, NULL);
    if (refused)
        return refused;
    if (!metrics->first || !metrics->second || !metrics->first->taken || !metrics->second->taken)
        return INVALID_ARGUMENT;
    for (unsigned i = 0; i < metrics->count; i++) {
        struct metric *metric = &metrics->metrics[i];
        const char *value = device_get(&metrics->second->at, "gpm.%u", metric->id);
        metric->result = error_of(value);
        metric->value = metric->result ? 0 : strtod(value, NULL);
    }
    return SUCCESS;
}
