/* Events: "events number:code@gpu[:type] …"; a set hears those that come after it was made. */
#define _GNU_SOURCE
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define XID_EVENT 8ull

struct event_set {
    unsigned long long types[MOST_GPUS];
    struct device *devices[MOST_GPUS];
    unsigned long seen;
};

struct event {
    struct device *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

struct written_event {
    unsigned long number;
    unsigned long long code, type;
    unsigned gpu;
};

static int next_event(const char **list, struct written_event *event)
{
    int length = 0;
    if (!*list || sscanf(*list, " %lu:%llu@%u%n", &event->number, &event->code, &event->gpu, &length) < 3)
        return 0;
    *list += length;
    event->type = **list == ':' ? strtoull(*list + 1, (char **)list, 0) : XID_EVENT;
    return event->gpu < MOST_GPUS;
}

static unsigned long newest_event(void)
{
    unsigned long newest = 0;
    struct written_event event;
    for (const char *list = state_get("events"); next_event(&list, &event);)
        newest = event.number > newest ? event.number : newest;
    return newest;
}

int nvmlEventSetCreate(struct event_set **set)
{
    int refused = before(__func__, NULL);
    if (refused)
        return refused;
    *set = calloc(1, sizeof **set);
    (*set)->seen = newest_event();
    return SUCCESS;
}

int nvmlEventSetFree(struct event_set *set)
{
    free(set);
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(struct device *device, unsigned long long types, struct event_set *set)
{
    int refused = before(__func__, device);
    const char *supported = refused ? NULL : device_get(device, "nvmlDeviceGetSupportedEventTypes");
    const char *fault = refused ? NULL : device_get(device, __func__);
    if (refused || (fault && (refused = error_of(fault))) || (refused = error_of(supported)))
        return refused;
    if (types & ~strtoull(supported, NULL, 0))
        return NOT_SUPPORTED;
    set->types[device->gpu] |= types;
    set->devices[device->gpu] = device;
    return SUCCESS;
}

static int take_event(struct event_set *set, struct event *into)
{
    struct written_event event;
    for (const char *list = state_get("events"); next_event(&list, &event);) {
        if (event.number <= set->seen)
            continue;
        set->seen = event.number;
        if (!(set->types[event.gpu] & event.type))
            continue;
        *into = (struct event){set->devices[event.gpu], event.type, event.code, ~0u, ~0u};
        return 1;
    }
    return 0;
}

int nvmlEventSetWait_v2(struct event_set *set, struct event *into, unsigned timeout_ms)
{
    for (unsigned waited = 0;; waited += 5) {
        int refused = before(__func__, NULL);
        if (refused)
            return refused;
        if (take_event(set, into))
            return SUCCESS;
        if (waited >= timeout_ms)
            return TIMEOUT;
        usleep(5000);
    }
}
