/* A fake CUDA driver for tests: what its parts share.
 *
 * Rules: the GPUs, and everything that other processes may see, are the fake NVML's (../nvml/state.h): devices
 * are read from its state; a process that has initialised CUDA is a file in its ".cuda" folder; limits of
 * control groups are in its ".limits"; its ".lock" is held while any of it is read and changed. A process that
 * died is told by its start time: nothing has to clean up after it. Keys that only we read:
 *   gpu0.multiprocessors 132         gpu0.cc 9.0
 *   cuda.context_bytes 67108864      what a context takes
 *   cuda.launch_nanoseconds 2000000  how long the kernel "work" takes on a whole device
 *   cuda.mps 0                       CUDA does not find its daemon
 *   cuda.mps_limits 0                it is a client, but nothing limits it
 */
#ifndef FAKE_H
#define FAKE_H

#include <stdint.h>
#include <sys/types.h>

#include "../nvml/state.h"

enum { MOST_DEVICES = 64, TEXT = 128, PATH_SIZE = 4096 };

/* A GPU or a MIG instance, as the state describes it. */
typedef struct {
    struct device at; /* its place in the state */
    char uuid[TEXT], name[TEXT];
    uint64_t total_bytes, reserved_bytes;
    int multiprocessors, exclusive, prohibited, mig_enabled, major, minor;
} device_t;

/* world.c */
const char *beside_state(const char *what, char *into);    /* path of a file beside the state */
int read_devices(device_t *devices);                       /* GPUs, each before its instances; how many */
uint64_t state_number(const char *key, uint64_t otherwise); /* a number of the state */
uint64_t start_ticks(pid_t pid);                           /* 0 when it is gone or a zombie */
int lock_world(void);                                      /* returns a descriptor for unlock_world */
void unlock_world(int lock);
int write_whole(const char *folder, const char *name, const char *text); /* by rename */

/* ledger.c; call with the world locked */
void write_entry(int via_mps, int count, const char uuids[][TEXT], const uint64_t *bytes);
void forget_entry(void);
uint64_t used_on(const device_t *device);                  /* bytes, of everybody */
int other_processes_on(const device_t *device);
int within_limits(const device_t *device, uint64_t more, uint64_t *limit);

/* mps.c */
int mps_join(void);                  /* 1: client of a live daemon, 0: none there, else a CUDA error */
int mps_check(void);                 /* 0, or the CUDA error that every call answers from now on */
int mps_percentage(void);            /* of the multiprocessors, 1 to 100 */
uint64_t mps_memory_limit(const char *uuid, int ordinal); /* UINT64_MAX for none */
void mps_write_client(int count, const char uuids[][TEXT]);
void mps_leave(void);
void mps_fault(void);

#endif
