#define _GNU_SOURCE
#include "state.h"

#include <dirent.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUCKETS 4096
#define KEPT_TABLES 64

struct entry {
    struct entry *next;
    const char *key, *value;
};

struct table {
    char *text;
    struct entry *buckets[BUCKETS];
    struct entry *entries;
};

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct table *kept[KEPT_TABLES]; /* older ones stay a while: others may still read their values */
static unsigned generation;
static struct table *volatile current;
static char current_path[4096];
static struct stat seen;

const char *state_path(void)
{
    const char *path = getenv("FAKE_NVML_STATE");
    return path && *path ? path : NULL;
}

static unsigned bucket_of(const char *key)
{
    unsigned hash = 2166136261u;
    for (; *key; key++)
        hash = (hash ^ (unsigned char)*key) * 16777619u;
    return hash % BUCKETS;
}

static char *slurp(const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return NULL;
    char *text = NULL;
    size_t length = 0, got;
    char block[65536];
    while ((got = fread(block, 1, sizeof block, file)) > 0) {
        text = realloc(text, length + got + 1);
        memcpy(text + length, block, got);
        length += got;
    }
    fclose(file);
    if (!text)
        text = calloc(1, 1);
    else
        text[length] = 0;
    return text;
}

/* Later lines win, so they are put in front. */
static void read_lines(struct table *table)
{
    char *rest = table->text, *line;
    size_t used = 0;
    while (rest && (line = strsep(&rest, "\n"))) {
        line += strspn(line, " \t");
        if (!*line || *line == '#')
            continue;
        char *value = line + strcspn(line, " \t");
        if (*value)
            *value++ = 0;
        value += strspn(value, " \t");
        if (!strcmp(line, "missing")) /* the one key that may be there often: "missing FUNCTION" */
            value[-1] = ' ', value = (char *)"1";
        struct entry *entry = &table->entries[used++];
        unsigned at = bucket_of(line);
        *entry = (struct entry){table->buckets[at], line, value};
        table->buckets[at] = entry;
    }
}

static size_t count_lines(const char *text)
{
    size_t count = 1;
    for (; text && *text; text++)
        count += *text == '\n';
    return count;
}

static void load(const char *path)
{
    struct table *table = calloc(1, sizeof *table);
    table->text = slurp(path);
    table->entries = calloc(count_lines(table->text), sizeof(struct entry));
    read_lines(table);
    struct table **slot = &kept[generation++ % KEPT_TABLES];
    if (*slot) {
        free((*slot)->text);
        free((*slot)->entries);
        free(*slot);
    }
    *slot = table;
    current = table;
}

static int same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

int state_refresh(void)
{
    const char *path = state_path();
    struct stat now;
    if (!path || stat(path, &now))
        return -1;
    pthread_mutex_lock(&guard);
    if (!current || strcmp(path, current_path) || !same_file(&now, &seen)) {
        load(path);
        snprintf(current_path, sizeof current_path, "%s", path);
        seen = now;
    }
    pthread_mutex_unlock(&guard);
    return 0;
}

static const char *find(const char *key)
{
    struct table *table = current;
    for (struct entry *entry = table ? table->buckets[bucket_of(key)] : NULL; entry; entry = entry->next)
        if (!strcmp(entry->key, key))
            return entry->value;
    return NULL;
}

const char *state_get(const char *format, ...)
{
    char key[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(key, sizeof key, format, arguments);
    va_end(arguments);
    return find(key);
}

const char *device_get(const struct device *device, const char *format, ...)
{
    char key[512];
    int length = device->instance < 0
                     ? snprintf(key, sizeof key, "gpu%d.", device->gpu)
                     : snprintf(key, sizeof key, "gpu%d.mig%d.", device->gpu, device->instance);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(key + length, sizeof key - (size_t)length, format, arguments);
    va_end(arguments);
    return find(key);
}

int error_of(const char *value)
{
    if (value && *value == '~')
        usleep((useconds_t)atoi(value + 1) * 1000);
    return !value ? NOT_SUPPORTED : *value == '!' ? atoi(value + 1) : SUCCESS;
}

int next_number(const char **list, unsigned long long *number)
{
    const char *at = *list;
    if (*at == '~')
        at += 1 + strspn(at + 1, "0123456789");
    at += strcspn(at, "-0123456789");
    if (!*at)
        return 0;
    char *end;
    *number = *at == '-' ? (unsigned long long)strtoll(at, &end, 0) : strtoull(at, &end, 0);
    *list = end;
    return 1;
}

/* Field 22 of /proc/PID/stat, the start of a process; 0 when it is gone or a zombie. */
static unsigned long long start_of(unsigned pid)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t got = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[got] = 0;
    char *at = strrchr(line, ')'); /* the name before it may hold anything */
    if (!at || at[2] == 'Z' || at[2] == 'X')
        return 0;
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

/* "pid:bytes[:mps|:graphics],…"; bytes "-" when the driver does not tell. */
static size_t listed(const struct device *device, struct process *into)
{
    const char *value = device_get(device, "processes");
    size_t count = 0;
    while (value && *value && *value != '!' && count < MOST_PROCESSES) {
        struct process one = {0};
        one.pid = (unsigned)strtoul(value, (char **)&value, 10);
        if (*value == ':' && value[1] == '-')
            one.bytes = ~0ull, value += 2;
        else if (*value == ':')
            one.bytes = strtoull(value + 1, (char **)&value, 10);
        one.mps = !strncmp(value, ":mps", 4);
        one.graphics = !strncmp(value, ":graphics", 9);
        into[count++] = one;
        value += strcspn(value, ",");
        value += *value == ',';
    }
    return count;
}

/* What one process has on a device. */
static int has(const char *path, unsigned pid, const char *uuid, struct process *into)
{
    char *text = slurp(path), *rest = text, *line;
    unsigned long long start = 0, bytes;
    int found = 0;
    *into = (struct process){.pid = pid};
    while (rest && (line = strsep(&rest, "\n"))) {
        char of[128];
        sscanf(line, "start %llu", &start);
        sscanf(line, "mps %d", &into->mps);
        if (sscanf(line, "context %127s %llu", of, &bytes) == 2 && !strcmp(of, uuid))
            found = 1, into->bytes = bytes;
    }
    free(text);
    return found && start && start_of(pid) == start;
}

static size_t living(const struct device *device, struct process *into, size_t room)
{
    const char *path = state_path(), *uuid = device_get(device, "uuid");
    char folder[4200];
    snprintf(folder, sizeof folder, "%s.cuda", path ? path : "");
    DIR *directory = path && uuid ? opendir(folder) : NULL;
    size_t count = 0;
    for (struct dirent *file; directory && count < room && (file = readdir(directory));) {
        char full[4600], *end;
        unsigned long pid = strtoul(file->d_name, &end, 10);
        if (!pid || *end)
            continue;
        snprintf(full, sizeof full, "%s/%s", folder, file->d_name);
        count += (size_t)has(full, (unsigned)pid, uuid, into + count);
    }
    if (directory)
        closedir(directory);
    return count;
}

size_t processes_on(const struct device *device, struct process *into)
{
    size_t count = listed(device, into);
    count += living(device, into + count, MOST_PROCESSES - count);
    const char *gi = device_get(device, "nvmlDeviceGetGpuInstanceId");
    const char *ci = device_get(device, "nvmlDeviceGetComputeInstanceId");
    for (size_t i = 0; i < count; i++) {
        into[i].gpu_instance = gi && device->instance >= 0 ? (unsigned)atoi(gi) : ~0u;
        into[i].compute_instance = ci && device->instance >= 0 ? (unsigned)atoi(ci) : ~0u;
    }
    return count;
}

unsigned long long memory_used_on(const struct device *device)
{
    struct process found[MOST_PROCESSES];
    const char *fixed = device_get(device, "memory.used");
    unsigned long long sum = fixed ? strtoull(fixed, NULL, 10) : 0;
    size_t count = fixed ? living(device, found, MOST_PROCESSES) : processes_on(device, found);
    for (size_t i = 0; i < count; i++)
        sum += found[i].bytes == ~0ull ? 0 : found[i].bytes;
    for (int i = 0; device->instance < 0 && i < MOST_INSTANCES; i++) {
        struct device part = {device->gpu, i};
        if (device_get(&part, "uuid"))
            sum += memory_used_on(&part);
    }
    return sum;
}
