/* Who uses how much of which device, and what the driver allows: files beside the state file. */
#include "fake.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void folder(char *path) {
    snprintf(path, PATH_SIZE, "%s.cuda", state_path());
    mkdir(path, 0777);
    chmod(path, 0777); /* holders of several users write there */
}

static void entry_path(char *path, pid_t pid) {
    char base[PATH_SIZE - 32];
    snprintf(base, sizeof base, "%s.cuda", state_path());
    snprintf(path, PATH_SIZE, "%s/%d", base, (int)pid);
}

void write_entry(int via_mps, int count, const char uuids[][TEXT], const uint64_t *bytes) {
    char path[PATH_SIZE], text[MOST_DEVICES * (TEXT + 64) + 256];
    folder(path);
    int at = snprintf(text, sizeof text, "start %llu\nmps %d\n",
                      (unsigned long long)start_ticks(getpid()), via_mps);
    for (int i = 0; i < count; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "context %s %llu\n", uuids[i],
                       (unsigned long long)bytes[i]);
    entry_path(path, getpid());
    write_whole(path, text);
}

void forget_entry(void) {
    char path[PATH_SIZE];
    entry_path(path, getpid());
    unlink(path);
}

/* Call for each live process; returns its bytes on the device, or UINT64_MAX where it has no context. */
static uint64_t entry_bytes(pid_t pid, const char *uuid) {
    char path[PATH_SIZE], line[512], name[TEXT];
    unsigned long long ticks = 0, bytes = 0, found = UINT64_MAX;
    entry_path(path, pid);
    FILE *file = fopen(path, "r");
    if (!file) return UINT64_MAX;
    while (fgets(line, sizeof line, file)) {
        sscanf(line, "start %llu", &ticks);
        if (sscanf(line, "context %127s %llu", name, &bytes) == 2 && !strcmp(name, uuid)) found = bytes;
    }
    fclose(file);
    if (ticks && ticks == start_ticks(pid)) return found;
    unlink(path); /* its process is gone, or its number belongs to another now */
    return UINT64_MAX;
}

typedef int (*choice_t)(pid_t pid, const void *what);

static uint64_t sum(const char *uuid, choice_t chosen, const void *what, int *processes) {
    char path[PATH_SIZE];
    uint64_t total = 0;
    folder(path);
    DIR *entries = opendir(path);
    struct dirent *each;
    while (entries && (each = readdir(entries))) {
        char *end;
        long pid = strtol(each->d_name, &end, 10);
        if (pid <= 0 || *end) continue;
        if (chosen && !chosen((pid_t)pid, what)) continue;
        uint64_t bytes = entry_bytes((pid_t)pid, uuid);
        if (bytes == UINT64_MAX) continue;
        total += bytes;
        if (processes) ++*processes;
    }
    if (entries) closedir(entries);
    return total;
}

uint64_t used_on(const char *uuid) { return sum(uuid, NULL, NULL, NULL); }

static int another(pid_t pid, const void *what) {
    (void)what;
    return pid != getpid();
}

int other_processes_on(const char *uuid) {
    int processes = 0;
    sum(uuid, another, NULL, &processes);
    return processes;
}

static void group_of(pid_t pid, char *group) {
    char path[64], line[PATH_SIZE];
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    FILE *file = fopen(path, "r");
    *group = 0;
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "0::", 3)) {
            line[strcspn(line, "\n")] = 0;
            snprintf(group, PATH_SIZE, "%s", line + 3);
        }
    if (file) fclose(file);
}

static int below(pid_t pid, const void *what) {
    char group[PATH_SIZE];
    size_t length = strlen(what);
    group_of(pid, group);
    return !strncmp(group, what, length) && (!group[length] || group[length] == '/');
}

static const char *plain(const char *name) { /* a group's path without where it is mounted */
    if (!strncmp(name, "/sys/fs/cgroup/unified/", 23)) return name + 22;
    if (!strncmp(name, "/sys/fs/cgroup/", 15)) return name + 14;
    return name;
}

/* The last line for a device and a group counts; all groups that this process is in hold it. */
int within_limits(const char *uuid, uint64_t more, uint64_t *limit) {
    static struct { char group[PATH_SIZE]; uint64_t hard; } limits[256];
    char path[PATH_SIZE], line[2 * PATH_SIZE], name[TEXT], group[PATH_SIZE];
    unsigned long long soft, hard;
    int count = 0, fits = 1;
    *limit = UINT64_MAX;
    snprintf(path, sizeof path, "%s.limits", state_path());
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%127s %4095s %llu %llu", name, group, &soft, &hard) != 4) continue;
        if (strcmp(name, uuid)) continue;
        int at = 0;
        while (at < count && strcmp(limits[at].group, plain(group))) at++;
        if (at == 256) continue;
        if (at == count) count++;
        snprintf(limits[at].group, PATH_SIZE, "%s", plain(group));
        limits[at].hard = hard ? hard : UINT64_MAX;
    }
    if (file) fclose(file);
    for (int i = 0; i < count; i++) {
        if (limits[i].hard == UINT64_MAX || !below(getpid(), limits[i].group)) continue;
        if (limits[i].hard < *limit) *limit = limits[i].hard;
        if (sum(uuid, below, limits[i].group, NULL) + more > limits[i].hard) fits = 0;
    }
    return fits;
}
