/* A fake CUDA driver for tests: what its parts share.
 *
 * Rules: everything that other processes may see lies in files beside the state file of the fake NVML
 * ($FAKE_NVML_STATE, here S): S.cuda/PID for each process that has initialised CUDA, S.limits with the
 * driver's memory limits, S.lock that is held while any of it is read and changed. A process that died is
 * told by its start time; nothing has to clean up after it.
 */
#ifndef FAKE_H
#define FAKE_H

#include <stdint.h>
#include <sys/types.h>

enum { MOST_DEVICES = 64, TEXT = 128, PATH_SIZE = 4096 };

/* A GPU or a MIG instance, as the state file describes it. */
typedef struct {
    char uuid[TEXT], name[TEXT];
    uint64_t total_bytes, used_bytes; /* used: what the state file says, beside our processes */
    int multiprocessors, exclusive, prohibited, mig_enabled, major, minor;
    int parent;       /* of a MIG instance: index of its GPU; -1 for a GPU */
    int pci_order;
} device_t;

/* world.c */
const char *state_path(void);
int read_devices(device_t *devices);                       /* GPUs and instances; returns how many */
uint64_t state_number(const char *key, uint64_t otherwise); /* a number of the state file */
uint64_t start_ticks(pid_t pid);                           /* 0 when it is gone or a zombie */
int lock_world(void);                                      /* returns a descriptor for unlock_world */
void unlock_world(int lock);
int write_whole(const char *path, const char *text);       /* by rename */

/* ledger.c; call with the world locked */
void write_entry(int via_mps, int count, const char uuids[][TEXT], const uint64_t *bytes);
void forget_entry(void);
uint64_t used_on(const char *uuid);                        /* bytes of all live processes */
int other_processes_on(const char *uuid);
int within_limits(const char *uuid, uint64_t more, uint64_t *limit);

/* mps.c */
int mps_join(void);                  /* 1: client of a live daemon, 0: none there, else a CUDA error */
int mps_check(void);                 /* 0, or the CUDA error that every call answers from now on */
int mps_percentage(void);            /* of the multiprocessors, 1 to 100 */
uint64_t mps_memory_limit(const char *uuid, int ordinal); /* UINT64_MAX for none */
void mps_write_client(int count, const char uuids[][TEXT]);
void mps_leave(void);
void mps_fault(void);

#endif
