/* The driver API: memory, kernels, errors. */
#define _GNU_SOURCE
#include "driver.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { MOST_BLOCKS = 4096, SMALL_BYTES = 4 << 20 /* up to this, memory has content */ };

typedef struct { pointer_t pointer; uint64_t bytes; int seat; void *host; } block_t;

static block_t blocks[MOST_BLOCKS];
static pointer_t next_pointer = 0x7f0000000000ULL;
static const char *functions[] = {"work", "multiprocessors", "fault"};

void free_blocks_of(int device) {
    for (int i = 0; i < MOST_BLOCKS; i++)
        if (blocks[i].pointer && blocks[i].seat == device) free(blocks[i].host), blocks[i] = (block_t){0};
}

/* --- memory ---------------------------------------------------------------------------------------- */

int cuMemAlloc_v2(pointer_t *pointer, size_t bytes) {
    uint64_t limit;
    int error = usable(), at = 0;
    if (error) return error;
    if (current < 0) return INVALID_CONTEXT;
    if (!bytes) return INVALID_VALUE;
    while (at < MOST_BLOCKS && blocks[at].pointer) at++;
    if (at == MOST_BLOCKS) return ANY_ERROR;
    int lock = lock_world();
    if (fits(current, bytes, &limit)) {
        void *host = bytes <= SMALL_BYTES ? calloc(1, bytes) : NULL;
        blocks[at] = (block_t){next_pointer, bytes, current, host};
        next_pointer += (bytes + 0x1fffff) & ~0x1fffffULL;
        *pointer = blocks[at].pointer;
        seats[current].allocated_bytes += bytes;
        publish();
    } else error = OUT_OF_MEMORY;
    unlock_world(lock);
    return error;
}

static block_t *block_of(pointer_t pointer) {
    for (int i = 0; i < MOST_BLOCKS; i++)
        if (blocks[i].pointer && pointer >= blocks[i].pointer && pointer < blocks[i].pointer + blocks[i].bytes)
            return &blocks[i];
    return NULL;
}

int cuMemFree_v2(pointer_t pointer) {
    int error = usable();
    block_t *block = block_of(pointer);
    if (error) return error;
    if (!block || block->pointer != pointer) return INVALID_VALUE;
    int lock = lock_world();
    seats[block->seat].allocated_bytes -= block->bytes;
    free(block->host);
    *block = (block_t){0};
    publish();
    unlock_world(lock);
    return OK;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    uint64_t limit = UINT64_MAX;
    int error = usable();
    if (error) return error;
    if (current < 0) return INVALID_CONTEXT;
    int lock = lock_world();
    const device_t *device = &seats[current].device;
    uint64_t used = used_on(device), own = seats[current].allocated_bytes + overhead();
    fits(current, 0, &limit);
    unlock_world(lock);
    *total = device->total_bytes; /* under MPS the total stays, and only what is free follows the limit */
    *free_bytes = used < *total ? *total - used : 0;
    if (limit != UINT64_MAX && (own < limit ? limit - own : 0) < *free_bytes) *free_bytes = own < limit ? limit - own : 0;
    return OK;
}

int cuMemsetD8_v2(pointer_t pointer, unsigned char value, size_t count) {
    block_t *block = block_of(pointer);
    if (!block || pointer + count > block->pointer + block->bytes) return ILLEGAL_ADDRESS;
    if (block->host) memset((char *)block->host + (pointer - block->pointer), value, count);
    return usable();
}

int cuMemcpyDtoH_v2(void *to, pointer_t from, size_t count) {
    block_t *block = block_of(from);
    if (!block || from + count > block->pointer + block->bytes) return ILLEGAL_ADDRESS;
    if (block->host) memcpy(to, (char *)block->host + (from - block->pointer), count);
    return usable();
}

/* --- kernels: three that the self-test knows ----------------------------------------------------------- */

int cuModuleLoadData(void **module, const void *image) {
    if (current < 0) return INVALID_CONTEXT;
    *module = (void *)image;
    return usable();
}

int cuModuleUnload(void *module) { return module ? usable() : INVALID_VALUE; }

int cuModuleGetFunction(void **function, void *module, const char *name) {
    (void)module;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(name, functions[i])) return *function = (void *)functions[i], usable();
    return NO_SUCH_FUNCTION;
}

static void compute(void) { /* 2 ms of the whole device; without MPS one process at a time */
    char path[PATH_SIZE];
    const device_t *device = &seats[current].device;
    long nanoseconds = (long)state_number("cuda.launch_nanoseconds", 2000000);
    char name[TEXT + 8];
    snprintf(name, sizeof name, "busy-%s", device->uuid);
    if (!beside_state(name, path)) return;
    int turn = via_mps ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (turn >= 0) flock(turn, LOCK_EX);
    nanoseconds = nanoseconds * device->multiprocessors / multiprocessors(current);
    nanosleep(&(struct timespec){.tv_sec = nanoseconds / 1000000000, .tv_nsec = nanoseconds % 1000000000}, NULL);
    if (turn >= 0) close(turn);
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
    int error = usable();
    (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream, (void)extra;
    if (error) return error;
    if (current < 0) return INVALID_CONTEXT;
    if (function == (void *)functions[2]) return mps_fault(), broken = ILLEGAL_ADDRESS;
    if (function == (void *)functions[1]) {
        block_t *block = block_of(*(pointer_t *)parameters[0]);
        if (!block || !block->host) return ILLEGAL_ADDRESS;
        for (int i = 0; i < multiprocessors(current) && (size_t)(i + 1) * 4 <= block->bytes; i++)
            ((int *)block->host)[i] = 1;
    } else compute();
    return OK;
}

/* --- errors ------------------------------------------------------------------------------------------ */

int cuGetErrorName(int error, const char **name) {
    static const struct { int error; const char *name; } names[] = {
        {OK, "CUDA_SUCCESS"}, {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
        {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"}, {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
        {UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE"}, {NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
        {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"}, {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
        {NO_SUCH_FUNCTION, "CUDA_ERROR_NOT_FOUND"}, {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {719, "CUDA_ERROR_LAUNCH_FAILED"}, {807, "CUDA_ERROR_MPS_SERVER_NOT_READY"},
        {808, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED"}, {810, "CUDA_ERROR_MPS_CLIENT_TERMINATED"},
        {ANY_ERROR, "CUDA_ERROR_UNKNOWN"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].error == error) return *name = names[i].name, OK;
    *name = NULL;
    return INVALID_VALUE;
}

int cuGetErrorString(int error, const char **text) { return cuGetErrorName(error, text); }
