/* The few calls of the CUDA runtime that our checks make, on top of the fake driver. */
#include <stddef.h>

int cuInit(unsigned flags);
int cuDeviceGetCount(int *count);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes);
int cuMemFree_v2(unsigned long long pointer);
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total);
int cuGetErrorName(int error, const char **name);

static int ready;

static int start(int device) {
    void *context;
    int error = cuInit(0);
    if (!error) error = cuDevicePrimaryCtxRetain(&context, device);
    if (!error) error = cuCtxSetCurrent(context);
    ready = !error;
    return error;
}

int cudaGetDeviceCount(int *count) {
    int error = cuInit(0);
    return error ? error : cuDeviceGetCount(count);
}

int cudaSetDevice(int device) { return start(device); }

int cudaMalloc(void **pointer, size_t bytes) {
    unsigned long long address = 0;
    int error = ready ? 0 : start(0);
    if (!error) error = cuMemAlloc_v2(&address, bytes);
    *pointer = (void *)address;
    return error;
}

int cudaFree(void *pointer) { return pointer ? cuMemFree_v2((unsigned long long)pointer) : ready ? 0 : start(0); }

int cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    int error = ready ? 0 : start(0);
    return error ? error : cuMemGetInfo_v2(free_bytes, total);
}

const char *cudaGetErrorName(int error) {
    const char *name = NULL;
    return error == 2 ? "cudaErrorMemoryAllocation" : cuGetErrorName(error, &name) ? "unknown" : name;
}
