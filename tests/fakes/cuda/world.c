/* The state file and /proc: what is there. */
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

const char *state_path(void) { return getenv("FAKE_NVML_STATE"); }

static device_t *find(device_t *devices, int *count, int gpu, int mig) {
    int key = gpu * 100 + mig + 1;
    for (int i = 0; i < *count; i++)
        if (devices[i].pci_order == key) return &devices[i];
    if (*count == MOST_DEVICES) return NULL;
    device_t *made = &devices[(*count)++];
    memset(made, 0, sizeof *made);
    made->pci_order = key;
    made->parent = mig < 0 ? -1 : gpu;
    made->multiprocessors = 108;
    made->major = 8;
    snprintf(made->name, TEXT, "Fake GPU");
    return made;
}

static void take(device_t *device, const char *field, const char *value) {
    if (!strcmp(field, "uuid")) snprintf(device->uuid, TEXT, "%s", value);
    else if (!strcmp(field, "name")) snprintf(device->name, TEXT, "%s", value);
    else if (!strcmp(field, "memory.total")) device->total_bytes = strtoull(value, NULL, 10);
    else if (!strcmp(field, "memory.used")) device->used_bytes = strtoull(value, NULL, 10);
    else if (!strcmp(field, "multiprocessors")) device->multiprocessors = atoi(value);
    else if (!strcmp(field, "cc")) sscanf(value, "%d.%d", &device->major, &device->minor);
    else if (!strcmp(field, "mig_mode")) device->mig_enabled = atoi(value);
    else if (!strcmp(field, "compute_mode")) {
        device->exclusive = !strcmp(value, "3") || !strcmp(value, "exclusive_process");
        device->prohibited = !strcmp(value, "2") || !strcmp(value, "prohibited");
    }
}

static int by_order(const void *one, const void *other) {
    return ((const device_t *)one)->pci_order - ((const device_t *)other)->pci_order;
}

int read_devices(device_t *devices) {
    const char *path = state_path();
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[8192];
    int count = 0;
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) {
        int gpu, mig = -1, at = 0;
        line[strcspn(line, "\r\n")] = 0;
        char *value = strchr(line, ' ');
        if (!value) continue;
        *value++ = 0;
        if (sscanf(line, "gpu%d.mig%d.%n", &gpu, &mig, &at) != 2 || !at) {
            mig = -1, at = 0;
            if (sscanf(line, "gpu%d.%n", &gpu, &at) != 1 || !at) continue;
        }
        device_t *device = find(devices, &count, gpu, mig);
        if (device) take(device, line + at, value);
    }
    fclose(file);
    qsort(devices, (size_t)count, sizeof *devices, by_order);
    return count;
}

uint64_t state_number(const char *key, uint64_t otherwise) {
    const char *path = state_path();
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[8192];
    size_t length = strlen(key);
    if (!file) return otherwise;
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, key, length) && line[length] == ' ') otherwise = strtoull(line + length, NULL, 10);
    fclose(file);
    return otherwise;
}

uint64_t start_ticks(pid_t pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    if (got <= 0) return 0;
    text[got] = 0;
    char *field = strrchr(text, ')'); /* the name before it may hold anything */
    if (!field || field[2] == 'Z' || field[2] == 'X') return 0;
    field += 2;
    for (int number = 3; number < 22; number++) {
        field = strchr(field, ' ');
        if (!field) return 0;
        field++;
    }
    return strtoull(field, NULL, 10);
}

int lock_world(void) {
    char path[PATH_SIZE];
    if (!state_path()) return -1;
    snprintf(path, sizeof path, "%s.lock", state_path());
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    while (lock >= 0 && flock(lock, LOCK_EX) && errno == EINTR) continue;
    return lock;
}

void unlock_world(int lock) {
    if (lock >= 0) close(lock);
}

int write_whole(const char *path, const char *text) {
    char draft[PATH_SIZE + 32];
    snprintf(draft, sizeof draft, "%s.%d.new", path, (int)getpid());
    FILE *file = fopen(draft, "w");
    if (!file) return -1;
    fputs(text, file);
    fclose(file);
    return rename(draft, path);
}
