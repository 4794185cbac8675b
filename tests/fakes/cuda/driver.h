/* What the parts of the driver API share: this process's devices and what it did with them. */
#ifndef DRIVER_H
#define DRIVER_H

#include "fake.h"

enum {
    OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, UNAVAILABLE = 46, NO_DEVICE = 100,
    INVALID_DEVICE = 101, INVALID_CONTEXT = 201, NO_SUCH_FUNCTION = 500, ILLEGAL_ADDRESS = 700, ANY_ERROR = 999
};

typedef unsigned long long pointer_t;

/* A device that this process sees, and what it has there. */
typedef struct { device_t device; int contexts; uint64_t allocated_bytes; } seat_t;

extern seat_t seats[MOST_DEVICES];
extern int seat_count, via_mps;
extern int current;  /* device of the current context; -1 for none */
extern int broken;   /* the error that every call answers from now on; 0 for none */

int usable(void);                     /* 0, or why no call works in this process */
void publish(void);                   /* writes down what this process has; the world is locked */
uint64_t overhead(void);              /* bytes that a context takes */
int multiprocessors(int device);      /* those that this process may use */
int fits(int seat, uint64_t more, uint64_t *limit); /* the world is locked; limit: the tightest one */
void free_blocks_of(int device);

#endif
