/* The state of the fake driver: a text file that tests write, read again whenever it has changed.
 *
 * $FAKE_NVML_STATE is the file: one "key value" a line, '#' starts a comment. Beside it, all optional:
 *   $FAKE_NVML_STATE.set    what functions that change something wrote, in the same form; it wins
 *   $FAKE_NVML_STATE.live/  one file for each process that uses a GPU now, of lines
 *                           "uuid pid start_ticks bytes mps"; an entry whose process is gone counts no more
 *   $FAKE_NVML_STATE.lock   locked (flock) while .set is rewritten
 * Every writer replaces the file (rename), so that a reader sees the old one or the new one.
 */
#ifndef FAKE_STATE_H
#define FAKE_STATE_H

#include <stddef.h>

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4,
    NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, LIBRARY_NOT_FOUND = 12,
    FUNCTION_NOT_FOUND = 13, GPU_IS_LOST = 15, VERSION_MISMATCH = 25, UNKNOWN = 999
};

#define MOST_GPUS 64
#define MOST_INSTANCES 16
#define MOST_PROCESSES 512

/* A handle points to one of these. */
struct device {
    int gpu;
    int instance; /* of MIG; -1 for the GPU itself */
};

/* A process on a device. */
struct process {
    unsigned pid;
    unsigned long long bytes; /* ~0 when the driver does not tell */
    int mps;
    int graphics;
    unsigned gpu_instance, compute_instance;
};

/* Read the files again if they changed. 0 when there is a state. */
int state_refresh(void);

/* The value of a key (printf), or NULL. Valid until the next refreshes by a good many. */
const char *state_get(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The value of "gpuN.KEY" or "gpuN.migM.KEY", or NULL. */
const char *device_get(const struct device *device, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The error that a value stands for ("!3"), else 0; NOT_SUPPORTED for NULL. */
int error_of(const char *value);

/* The next number of a list that is separated by anything else; 0 at its end. */
int next_number(const char **list, unsigned long long *number);

/* Write "key value" into .set, or take the key out of it (value NULL). 0 when written. */
int state_put(const char *key, const char *value);

/* Collect the processes on a device, and on a GPU's instances. */
size_t processes_on(const struct device *device, struct process *into);

/* The sum of their memory that comes from live processes only, or also from the listed ones. */
unsigned long long memory_used_on(const struct device *device);

#endif
