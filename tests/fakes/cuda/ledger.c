/* Who uses how much of which device, and what the driver allows to a control group. */
#define _GNU_SOURCE
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *own_name(void)
{
    static char name[16];
    snprintf(name, sizeof name, "%d", (int)getpid());
    return name;
}

void write_entry(int via_mps, int count, const char uuids[][TEXT], const uint64_t *bytes)
{
    static char text[MOST_DEVICES * (TEXT + 64) + 64];
    char folder[PATH_SIZE];
    int at = snprintf(text, sizeof text, "start %llu\nmps %d\n", (unsigned long long)start_ticks(getpid()), via_mps);
    for (int i = 0; i < count; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "context %s %llu\n", uuids[i],
                       (unsigned long long)bytes[i]);
    if (beside_state("cuda", folder))
        write_whole(folder, own_name(), text);
}

void forget_entry(void)
{
    char folder[PATH_SIZE], path[PATH_SIZE + 32];
    if (!beside_state("cuda", folder))
        return;
    snprintf(path, sizeof path, "%s/%s", folder, own_name());
    unlink(path);
}

uint64_t used_on(const device_t *device)
{
    state_refresh();
    return memory_used_on(&device->at) + device->reserved_bytes;
}

int other_processes_on(const device_t *device)
{
    static struct process found[MOST_PROCESSES];
    int others = 0;
    state_refresh();
    size_t count = processes_on(&device->at, found);
    for (size_t i = 0; i < count; i++)
        others += found[i].pid != (unsigned)getpid() && start_ticks((pid_t)found[i].pid);
    return others;
}

/* --- limits of control groups ---------------------------------------------------------------------- */

static int is_below(pid_t pid, const char *group)
{
    char path[64], line[PATH_SIZE];
    size_t length = strlen(group);
    int below = 0;
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "0::", 3))
            continue;
        const char *own = line + 3;
        below = !strncmp(own, group, length) && (!own[length] || own[length] == '/');
    }
    if (file)
        fclose(file);
    return below;
}

static const char *plain(const char *group) /* its path without where control groups are mounted */
{
    const char *roots[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
    for (int i = 0; i < 2; i++)
        if (!strncmp(group, roots[i], strlen(roots[i])))
            group += strlen(roots[i]);
    return strcmp(group, "/") ? group : ""; /* everything is below the root */
}

static uint64_t used_below(const device_t *device, const char *group)
{
    static struct process found[MOST_PROCESSES];
    uint64_t sum = 0;
    size_t count = processes_on(&device->at, found);
    for (size_t i = 0; i < count; i++)
        if (found[i].bytes != ~0ull && is_below((pid_t)found[i].pid, group))
            sum += found[i].bytes;
    return sum;
}

/* All limits of groups that this process is in hold it; `limit` is the tightest. Of a group's lines the last
 * counts. */
int within_limits(const device_t *device, uint64_t more, uint64_t *limit)
{
    static struct {
        char group[PATH_SIZE];
        uint64_t hard;
    } limits[256];
    char path[PATH_SIZE], line[2 * PATH_SIZE], uuid[TEXT], group[PATH_SIZE];
    unsigned long long hard;
    int count = 0, fits = 1;
    *limit = UINT64_MAX;
    FILE *file = beside_state("limits", path) ? fopen(path, "re") : NULL;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%127s %4095s %*u %llu", uuid, group, &hard) != 3 || strcmp(uuid, device->uuid))
            continue;
        int at = 0;
        while (at < count && strcmp(limits[at].group, plain(group)))
            at++;
        if (at == 256)
            continue;
        count += at == count;
        snprintf(limits[at].group, PATH_SIZE, "%s", plain(group));
        limits[at].hard = hard ? hard : UINT64_MAX;
    }
    if (file)
        fclose(file);
    for (int i = 0; i < count; i++) {
        if (limits[i].hard == UINT64_MAX || !is_below(getpid(), limits[i].group))
            continue;
        if (limits[i].hard < *limit)
            *limit = limits[i].hard;
        if (used_below(device, limits[i].group) + more > limits[i].hard)
            fits = 0;
    }
    return fits;
}
