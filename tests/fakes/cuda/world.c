/* The state and /proc: what is there. */
#define _GNU_SOURCE
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

const char *beside_state(const char *what, char *into)
{
    const char *path = getenv("FAKE_NVML_STATE");
    if (!path || !*path)
        return NULL;
    snprintf(into, PATH_SIZE, "%s.%s", path, what);
    return into;
}

static uint64_t number_of(const struct device *at, const char *key, uint64_t otherwise)
{
    const char *value = device_get(at, "%s", key);
    unsigned long long number;
    return value && *value != '!' && next_number(&value, &number) ? number : otherwise;
}

static int read_device(struct device at, const device_t *whole, device_t *into)
{
    const char *uuid = device_get(&at, "uuid"), *name = device_get(&at, "name");
    const char *capability = device_get(&whole->at, "cc"), *all = device_get(&whole->at, "all");
    const char *mode = device_get(&whole->at, "compute_mode");
    if (!uuid || (all && error_of(all)))
        return 0;
    *into = (device_t){.at = at, .major = 8};
    snprintf(into->uuid, TEXT, "%s", uuid);
    snprintf(into->name, TEXT, "%s", name ? name : "Fake GPU");
    sscanf(capability ? capability : "8.0", "%d.%d", &into->major, &into->minor);
    into->total_bytes = number_of(&at, "memory.total", 120ULL << 30);
    into->reserved_bytes = number_of(&at, "memory.reserved", 0);
    into->multiprocessors = (int)number_of(&at, "multiprocessors", 108);
    into->exclusive = mode && (*mode == '3' || *mode == 'e');
    into->prohibited = mode && (*mode == '2' || *mode == 'p');
    into->mig_enabled = at.instance < 0 && number_of(&at, "mig_mode", 0) == 1;
    return 1;
}

int read_devices(device_t *devices)
{
    int count = 0;
    if (state_refresh())
        return 0;
    for (int gpu = 0; gpu < MOST_GPUS && count < MOST_DEVICES; gpu++) {
        device_t whole = {.at = {gpu, -1}};
        if (!read_device(whole.at, &whole, &devices[count]))
            continue;
        count++;
        for (int instance = 0; instance < MOST_INSTANCES && count < MOST_DEVICES; instance++)
            count += read_device((struct device){gpu, instance}, &whole, &devices[count]);
    }
    return count;
}

uint64_t state_number(const char *key, uint64_t otherwise)
{
    if (state_refresh())
        return otherwise;
    const char *value = state_get("%s", key);
    return value ? strtoull(value, NULL, 10) : otherwise;
}

uint64_t start_ticks(pid_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (got <= 0)
        return 0;
    text[got] = 0;
    char *field = strrchr(text, ')'); /* the name before it may hold anything */
    if (!field || field[2] == 'Z' || field[2] == 'X')
        return 0;
    field += 2;
    for (int number = 3; field && number < 22; number++)
        field = strchr(field + 1, ' ');
    return field ? strtoull(field + 1, NULL, 10) : 0;
}

int lock_world(void)
{
    char path[PATH_SIZE];
    if (!beside_state("lock", path))
        return -1;
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    while (lock >= 0 && flock(lock, LOCK_EX) && errno == EINTR)
        continue;
    return lock;
}

void unlock_world(int lock)
{
    if (lock >= 0)
        close(lock);
}

int write_whole(const char *folder, const char *name, const char *text)
{
    char draft[PATH_SIZE + 64], path[PATH_SIZE + 64];
    if (!mkdir(folder, 0777))
        chmod(folder, 0777); /* holders of several users write there */
    snprintf(draft, sizeof draft, "%s/.%s.%d", folder, name, (int)getpid());
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(draft, "we");
    if (!file)
        return -1;
    fputs(text, file);
    fclose(file);
    return rename(draft, path);
}
