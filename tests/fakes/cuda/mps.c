/* The client's side of MPS: files in the daemon's pipe directory, as ../mps/nvidia-cuda-mps-control has them.
 * Without a live daemon a process runs without MPS and is told nothing, as with CUDA. */
#define _GNU_SOURCE
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { NOT_READY = 807, TOO_MANY = 808, TERMINATED = 810, LAUNCH_FAILED = 719 };

typedef struct {
    pid_t pid, server;
    int fault, accepted, refused, terminated;
    double percentage;
    uint64_t limit; /* of the device asked for */
} daemon_t;

static char pipe_directory[PATH_SIZE - 64];
static int joined;
static double own_percentage = 100;
static char own_limits[4096];

static int is_mine(const char *line, const char *word)
{
    size_t length = strlen(word);
    return !strncmp(line, word, length) && line[length] == ' ' && atoi(line + length) == (int)getpid();
}

/* Reads the daemon's file; 0 when there is no live daemon. */
static int look(daemon_t *daemon, const char *uuid, int ordinal)
{
    char path[PATH_SIZE], line[512], name[TEXT], number_name[16];
    unsigned long long number, ticks = 0;
    *daemon = (daemon_t){.percentage = 100, .limit = UINT64_MAX};
    snprintf(number_name, sizeof number_name, "%d", ordinal);
    snprintf(path, sizeof path, "%s/fake-daemon", pipe_directory);
    FILE *file = *pipe_directory ? fopen(path, "re") : NULL;
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "pid %llu", &number) == 1)
            daemon->pid = (pid_t)number;
        if (sscanf(line, "server %llu", &number) == 1)
            daemon->server = (pid_t)number;
        sscanf(line, "start %llu", &ticks);
        sscanf(line, "fault %d", &daemon->fault);
        sscanf(line, "active_thread_percentage %lf", &daemon->percentage);
        daemon->accepted |= is_mine(line, "accepted");
        daemon->refused |= is_mine(line, "refused");
        daemon->terminated |= is_mine(line, "terminated");
        if (sscanf(line, "pinned %127s %llu", name, &number) == 2 && uuid && number)
            if (!strcmp(name, uuid) || !strcmp(name, number_name))
                daemon->limit = number;
    }
    fclose(file);
    return daemon->pid && ticks && start_ticks(daemon->pid) == ticks;
}

static void read_environment(void)
{
    const char *named = getenv("CUDA_MPS_PIPE_DIRECTORY");
    const char *percentage = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    const char *limits = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    snprintf(pipe_directory, sizeof pipe_directory, "%s", named ? named : "");
    own_percentage = percentage && atof(percentage) > 0 ? atof(percentage) : 100;
    snprintf(own_limits, sizeof own_limits, "%s", limits ? limits : "");
}

void mps_write_client(int count, const char uuids[][TEXT])
{
    static char text[MOST_DEVICES * (TEXT + 16) + 128];
    char folder[PATH_SIZE], name[16];
    if (!*pipe_directory)
        return;
    int at = snprintf(text, sizeof text, "start %llu\nuid %u\n", (unsigned long long)start_ticks(getpid()),
                      (unsigned)geteuid());
    for (int i = 0; i < count; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "device %s\n", uuids[i]);
    snprintf(folder, sizeof folder, "%s/clients", pipe_directory);
    snprintf(name, sizeof name, "%d", (int)getpid());
    write_whole(folder, name, text);
}

void mps_leave(void)
{
    char path[PATH_SIZE];
    if (!joined)
        return;
    snprintf(path, sizeof path, "%s/clients/%d", pipe_directory, (int)getpid());
    unlink(path);
}

/* Waits, as CUDA does, until the server takes it: while it serves another user, for as long as that lasts. */
int mps_join(void)
{
    daemon_t daemon;
    read_environment();
    if (!look(&daemon, NULL, -1)) {
        *pipe_directory = 0;
        return 0;
    }
    if (daemon.fault)
        return NOT_READY;
    joined = 1;
    mps_write_client(0, NULL);
    while (look(&daemon, NULL, -1)) {
        if (daemon.accepted)
            return 1;
        if (daemon.refused || daemon.terminated) {
            mps_leave();
            joined = 0;
            return daemon.refused ? TOO_MANY : TERMINATED;
        }
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    joined = 0;
    return NOT_READY; /* the daemon ended meanwhile */
}

int mps_check(void)
{
    daemon_t daemon;
    if (!joined)
        return 0;
    int live = look(&daemon, NULL, -1);
    if (daemon.terminated)
        return TERMINATED;
    if (live && !daemon.accepted)
        return LAUNCH_FAILED; /* its server is gone */
    return live && daemon.fault ? LAUNCH_FAILED : 0;
}

int mps_percentage(void)
{
    daemon_t daemon;
    if (!joined || !look(&daemon, NULL, -1) || !state_number("cuda.mps_limits", 1))
        return 100;
    return (int)(own_percentage < daemon.percentage ? own_percentage : daemon.percentage);
}

static uint64_t amount(const char *text)
{
    char *end;
    uint64_t number = strtoull(text, &end, 10);
    return number << (*end == 'G' || *end == 'g' ? 30 : *end == 'M' || *end == 'm' ? 20 : 0);
}

uint64_t mps_memory_limit(const char *uuid, int ordinal)
{
    daemon_t daemon;
    char copy[sizeof own_limits], *rest = copy, *part;
    if (!joined || !look(&daemon, uuid, ordinal) || !state_number("cuda.mps_limits", 1))
        return UINT64_MAX;
    uint64_t limit = daemon.limit;
    snprintf(copy, sizeof copy, "%s", own_limits);
    while ((part = strsep(&rest, ","))) {
        char *value = strchr(part, '='), *end;
        if (!value)
            continue;
        *value++ = 0;
        long number = strtol(part, &end, 10);
        int ours = !strcmp(part, uuid) || (end != part && !*end && number == ordinal);
        if (ours && amount(value) < limit)
            limit = amount(value);
    }
    return limit;
}

/* A fatal fault of this client: the server reports it, and all its clients end. */
void mps_fault(void)
{
    daemon_t daemon;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char command[64];
    if (!joined || !look(&daemon, NULL, -1))
        return;
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/control", pipe_directory);
    int length = snprintf(command, sizeof command, "fake_fault %d %d\n", (int)daemon.server, (int)getpid());
    if (!connect(connection, (struct sockaddr *)&address, sizeof address) &&
        send(connection, command, (size_t)length, MSG_NOSIGNAL) == length)
        while (recv(connection, command, sizeof command, 0) > 0)
            continue;
    close(connection);
    for (int looks = 0; looks < 200 && look(&daemon, NULL, -1) && !daemon.fault; looks++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}
