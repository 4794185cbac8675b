/* The state of the fake driver: a text file that tests write, read again whenever it has changed.
 *
 * $FAKE_NVML_STATE (here S) is the file: one "key value" a line, '#' starts a comment. Beside it:
 *   S.cuda/PID  one file for each process that uses CUDA now, written by the fake CUDA: lines "start TICKS",
 *               "mps 0|1", "context UUID BYTES"; an entry whose process is gone counts no more
 *   S.limits    what nvmlDeviceSetMemoryLimits_v1 was told, one line "UUID GROUP SOFT HARD" each time
 *   S.lock      locked (flock) while .limits is written
 * Who writes the state file replaces it (rename), so that a reader sees the old one or the new one.
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

#pragma GCC visibility push(hidden)

/* The path of the state file, or NULL. */
const char *state_path(void);

/* Read the file again if it changed. 0 when there is a state. */
int state_refresh(void);

/* The value of a key (printf), or NULL. Valid until the next refreshes by a good many. */
const char *state_get(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The value of "gpuN.KEY" or "gpuN.migM.KEY", or NULL. */
const char *device_get(const struct device *device, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The error that a value stands for ("!3"), else 0; NOT_SUPPORTED for NULL. "~500 41" is 41 after 500 ms. */
int error_of(const char *value);

/* The next number of a list that is separated by anything else; 0 at its end. */
int next_number(const char **list, unsigned long long *number);

/* Collect the processes on a device, and on a GPU's instances. */
size_t processes_on(const struct device *device, struct process *into);

/* The memory in use: "memory.used", or else the sum over the listed processes; and what the living ones use. */
unsigned long long memory_used_on(const struct device *device);

/* Errors that come before the answer of a function: the library's, the driver's, the device's. */
int before(const char *function, const struct device *device);

/* Return such an error from the function in which this stands. */
#define BEFORE(device)                                                                                    \
    do {                                                                                                  \
        int refused = before(__func__, device);                                                           \
        if (refused)                                                                                      \
            return refused;                                                                               \
    } while (0)

/* Up to two numbers of a getter, looked up with its arguments (".0.1") first, then without. */
int numbers_of(const struct device *device, const char *function, const char *arguments,
               unsigned long long *first, unsigned long long *second);

#pragma GCC visibility pop

#endif
