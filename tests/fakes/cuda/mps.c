/* The client's side of MPS: files in the daemon's pipe directory.
 *
 * $CUDA_MPS_PIPE_DIRECTORY/fake-daemon is written by the fake control program (see there); each client writes
 * clients/PID there. Without a live daemon a process runs without MPS and is told nothing, as with CUDA.
 */
#include "fake.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NOT_READY = 807, TOO_MANY = 808, TERMINATED = 810, LAUNCH_FAILED = 719 };

typedef struct {
    pid_t pid;
    int multiuser, fault, terminated, most_clients, percentage;
    uint64_t limit; /* of the device asked for */
} daemon_t;

static char pipe_directory[PATH_SIZE - 64];
static int joined, own_percentage = 100;
static char own_limits[4096];

/* Reads the daemon's file; 0 when there is no live daemon. */
static int look(daemon_t *daemon, const char *uuid) {
    char path[PATH_SIZE], line[512], name[TEXT];
    unsigned long long number, ticks = 0;
    memset(daemon, 0, sizeof *daemon);
    daemon->percentage = 100;
    daemon->limit = UINT64_MAX;
    snprintf(path, sizeof path, "%s/fake-daemon", pipe_directory);
    FILE *file = *pipe_directory ? fopen(path, "r") : NULL;
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "pid %llu", &number) == 1) daemon->pid = (pid_t)number;
        sscanf(line, "start %llu", &ticks);
        if (sscanf(line, "multiuser %llu", &number) == 1) daemon->multiuser = (int)number;
        if (sscanf(line, "fault %llu", &number) == 1) daemon->fault = (int)number;
        if (sscanf(line, "most_clients %llu", &number) == 1) daemon->most_clients = (int)number;
        if (sscanf(line, "active_thread_percentage %llu", &number) == 1) daemon->percentage = (int)number;
        if (sscanf(line, "terminated %llu", &number) == 1 && (pid_t)number == getpid()) daemon->terminated = 1;
        if (sscanf(line, "pinned %127s %llu", name, &number) == 2 && uuid && !strcmp(name, uuid) && number)
            daemon->limit = number;
    }
    fclose(file);
    return daemon->pid && ticks && start_ticks(daemon->pid) == ticks;
}

/* Counts live clients, and those of other users. */
static void count_clients(int *all, int *foreign) {
    char path[PATH_SIZE], line[256];
    snprintf(path, sizeof path, "%s/clients", pipe_directory);
    DIR *entries = opendir(path);
    struct dirent *each;
    *all = *foreign = 0;
    while (entries && (each = readdir(entries))) {
        char file_path[PATH_SIZE + 300], *end;
        unsigned long long ticks = 0, uid = 0;
        long pid = strtol(each->d_name, &end, 10);
        if (pid <= 0 || *end || pid == getpid()) continue;
        snprintf(file_path, sizeof file_path, "%s/%s", path, each->d_name);
        FILE *file = fopen(file_path, "r");
        while (file && fgets(line, sizeof line, file)) {
            sscanf(line, "start %llu", &ticks);
            sscanf(line, "uid %llu", &uid);
        }
        if (file) fclose(file);
        if (!ticks || ticks != start_ticks((pid_t)pid)) continue;
        ++*all;
        if ((uid_t)uid != getuid()) ++*foreign;
    }
    if (entries) closedir(entries);
}

static void read_environment(void) {
    const char *percentage = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    const char *limits = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    own_percentage = percentage && atoi(percentage) > 0 ? atoi(percentage) : 100;
    snprintf(own_limits, sizeof own_limits, "%s", limits ? limits : "");
}

/* Waits, as CUDA does, while the server belongs to another user. */
int mps_join(void) {
    const char *named = getenv("CUDA_MPS_PIPE_DIRECTORY");
    daemon_t daemon;
    int all, foreign;
    snprintf(pipe_directory, sizeof pipe_directory, "%s", named ? named : "");
    read_environment();
    for (;;) {
        int lock = lock_world();
        int live = look(&daemon, NULL);
        if (live) count_clients(&all, &foreign);
        if (live && daemon.fault) live = NOT_READY;
        else if (live && daemon.most_clients && all >= daemon.most_clients) live = TOO_MANY;
        else if (live && foreign && !daemon.multiuser) live = -1;
        if (live == 1) joined = 1, mps_write_client(0, NULL);
        unlock_world(lock);
        if (live >= 0) return live;
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
}

void mps_write_client(int count, const char uuids[][TEXT]) {
    char path[PATH_SIZE], text[MOST_DEVICES * (TEXT + 16) + 256];
    if (!joined) return;
    snprintf(path, sizeof path, "%s/clients", pipe_directory);
    mkdir(path, 0777);
    chmod(path, 0777);
    int at = snprintf(text, sizeof text, "start %llu\nuid %u\npercentage %d\n",
                      (unsigned long long)start_ticks(getpid()), (unsigned)getuid(), mps_percentage());
    for (int i = 0; i < count; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "device %s\n", uuids[i]);
    snprintf(path, sizeof path, "%s/clients/%d", pipe_directory, (int)getpid());
    write_whole(path, text);
}

void mps_leave(void) {
    char path[PATH_SIZE];
    if (!joined) return;
    snprintf(path, sizeof path, "%s/clients/%d", pipe_directory, (int)getpid());
    unlink(path);
}

int mps_check(void) {
    daemon_t daemon;
    if (!joined) return 0;
    if (!look(&daemon, NULL)) return LAUNCH_FAILED; /* its server is gone, and it with it */
    if (daemon.terminated) return TERMINATED;
    return daemon.fault ? LAUNCH_FAILED : 0;
}

int mps_percentage(void) {
    daemon_t daemon;
    if (!joined || !look(&daemon, NULL)) return 100;
    return own_percentage < daemon.percentage ? own_percentage : daemon.percentage;
}

static uint64_t amount(const char *text) {
    char *end;
    uint64_t number = strtoull(text, &end, 10);
    if (*end == 'G' || *end == 'g') return number << 30;
    if (*end == 'M' || *end == 'm') return number << 20;
    if (*end == 'K' || *end == 'k') return number << 10;
    return number;
}

uint64_t mps_memory_limit(const char *uuid, int ordinal) {
    daemon_t daemon;
    char copy[sizeof own_limits], *rest = copy, *part;
    if (!joined || !look(&daemon, uuid)) return UINT64_MAX;
    uint64_t limit = daemon.limit;
    snprintf(copy, sizeof copy, "%s", own_limits);
    while ((part = strsep(&rest, ","))) {
        char *value = strchr(part, '=');
        if (!value) continue;
        *value++ = 0;
        char *end;
        long number = strtol(part, &end, 10);
        int ours = !strcmp(part, uuid) || (end != part && !*end && number == ordinal);
        if (ours && amount(value) < limit) limit = amount(value);
    }
    return limit;
}

/* A fatal fault of one client: the control program sees the file and reports FAULT. */
void mps_fault(void) {
    char path[PATH_SIZE], text[32];
    if (!joined) return;
    snprintf(path, sizeof path, "%s/fault", pipe_directory);
    snprintf(text, sizeof text, "%d\n", (int)getpid());
    write_whole(path, text);
}
