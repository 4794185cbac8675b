/* Every function that answers with one or two numbers. */
#define _GNU_SOURCE
#include "state.h"

#include <stdio.h>
#include <stdlib.h>

typedef unsigned int u32;
typedef unsigned long long u64;

#define ANSWER(type, arguments)                                                                           \
    u64 first = 0;                                                                                        \
    int refused = numbers_of(device, __func__, arguments, &first, NULL);                                  \
    if (!refused)                                                                                         \
        *value = (type)first;                                                                             \
    return refused

#define ONE(type, function)                                                                               \
    int function(struct device *device, type *value) { ANSWER(type, ""); }

#define ONE_OF(type, function)                                                                            \
    int function(struct device *device, u32 which, type *value)                                           \
    {                                                                                                     \
        char arguments[16];                                                                               \
        snprintf(arguments, sizeof arguments, ".%u", which);                                              \
        ANSWER(type, arguments);                                                                          \
    }

#define ONE_OF_TWO(type, function)                                                                        \
    int function(struct device *device, u32 which, u32 kind, type *value)                                 \
    {                                                                                                     \
        char arguments[32];                                                                               \
        snprintf(arguments, sizeof arguments, ".%u.%u", which, kind);                                     \
        ANSWER(type, arguments);                                                                          \
    }

#define TWO(type, function)                                                                               \
    int function(struct device *device, type *one, type *two)                                             \
    {                                                                                                     \
        u64 first = 0, second = 0;                                                                        \
        int refused = numbers_of(device, __func__, "", &first, &second);                                  \
        if (!refused)                                                                                     \
            *one = (type)first, *two = (type)second;                                                      \
        return refused;                                                                                   \
    }

ONE(u32, nvmlDeviceGetArchitecture)
ONE(u32, nvmlDeviceGetBoardId)
ONE(u32, nvmlDeviceGetBrand)
ONE(u32, nvmlDeviceGetBusType)
ONE(u32, nvmlDeviceGetComputeInstanceId)
ONE(u32, nvmlDeviceGetCurrPcieLinkGeneration)
ONE(u32, nvmlDeviceGetCurrPcieLinkWidth)
ONE(u32, nvmlDeviceGetDisplayActive)
ONE(u32, nvmlDeviceGetDisplayMode)
ONE(u32, nvmlDeviceGetEnforcedPowerLimit)
ONE(u32, nvmlDeviceGetFanSpeed)
ONE(u32, nvmlDeviceGetGpuInstanceId)
ONE(u32, nvmlDeviceGetGpuMaxPcieLinkGeneration)
ONE(u32, nvmlDeviceGetIrqNum)
ONE(u32, nvmlDeviceGetMaxMigDeviceCount)
ONE(u32, nvmlDeviceGetMaxPcieLinkGeneration)
ONE(u32, nvmlDeviceGetMaxPcieLinkWidth)
ONE(u32, nvmlDeviceGetMemoryBusWidth)
ONE(u32, nvmlDeviceGetMinorNumber)
ONE(u32, nvmlDeviceGetMultiGpuBoard)
ONE(u32, nvmlDeviceGetNumFans)
ONE(u32, nvmlDeviceGetNumGpuCores)
ONE(u32, nvmlDeviceGetNumaNodeId)
ONE(u32, nvmlDeviceGetPcieLinkMaxSpeed)
ONE(u32, nvmlDeviceGetPcieReplayCounter)
ONE(u32, nvmlDeviceGetPcieSpeed)
ONE(u32, nvmlDeviceGetPerformanceState)
ONE(u32, nvmlDeviceGetPersistenceMode)
ONE(u32, nvmlDeviceGetPowerManagementDefaultLimit)
ONE(u32, nvmlDeviceGetPowerManagementLimit)
ONE(u32, nvmlDeviceGetPowerManagementMode)
ONE(u32, nvmlDeviceGetPowerSource)
ONE(u32, nvmlDeviceGetPowerState)
ONE(u32, nvmlDeviceGetPowerUsage)
ONE(u32, nvmlDeviceGetRetiredPagesPendingStatus)
ONE(u64, nvmlDeviceGetCurrentClocksEventReasons)
ONE(u64, nvmlDeviceGetCurrentClocksThrottleReasons)
ONE(u64, nvmlDeviceGetSupportedClocksEventReasons)
ONE(u64, nvmlDeviceGetSupportedClocksThrottleReasons)
ONE(u64, nvmlDeviceGetSupportedEventTypes)
ONE(u64, nvmlDeviceGetTotalEnergyConsumption)
ONE_OF(u32, nvmlDeviceGetApplicationsClock)
ONE_OF(u32, nvmlDeviceGetClockInfo)
ONE_OF(u32, nvmlDeviceGetDefaultApplicationsClock)
ONE_OF(u32, nvmlDeviceGetFanSpeed_v2)
ONE_OF(u32, nvmlDeviceGetMaxClockInfo)
ONE_OF(u32, nvmlDeviceGetMaxCustomerBoostClock)
ONE_OF(u32, nvmlDeviceGetNvLinkState)
ONE_OF(u32, nvmlDeviceGetNvLinkVersion)
ONE_OF(u32, nvmlDeviceGetPcieThroughput)
ONE_OF(u32, nvmlDeviceGetTargetFanSpeed)
ONE_OF(u32, nvmlDeviceGetTemperature)
ONE_OF(u32, nvmlDeviceGetTemperatureThreshold)
ONE_OF_TWO(u32, nvmlDeviceGetClock)
ONE_OF_TWO(u32, nvmlDeviceGetNvLinkCapability)
ONE_OF_TWO(u64, nvmlDeviceGetNvLinkErrorCounter)
ONE_OF_TWO(u64, nvmlDeviceGetTotalEccErrors)
TWO(int, nvmlDeviceGetCudaComputeCapability)
TWO(u32, nvmlDeviceGetDecoderUtilization)
TWO(u32, nvmlDeviceGetEccMode)
TWO(u32, nvmlDeviceGetEncoderUtilization)
TWO(u32, nvmlDeviceGetJpgUtilization)
TWO(u32, nvmlDeviceGetMigMode)
TWO(u32, nvmlDeviceGetOfaUtilization)
TWO(u32, nvmlDeviceGetPowerManagementLimitConstraints)

/* "compute_mode" by its number or its name, as the fake CUDA reads it too. */
int nvmlDeviceGetComputeMode(struct device *device, u32 *value)
{
    int refused = before(__func__, device);
    const char *mode = refused ? NULL : device_get(device, "compute_mode");
    if (refused || (refused = error_of(mode)))
        return refused;
    *value = *mode == 'e' ? 3 : *mode == 'p' ? 2 : *mode == 'd' ? 0 : (u32)atoi(mode);
    return SUCCESS;
}

struct utilization {
    u32 gpu, memory;
};

int nvmlDeviceGetUtilizationRates(struct device *device, struct utilization *into)
{
    u64 gpu = 0, memory = 0;
    int refused = numbers_of(device, __func__, "", &gpu, &memory);
    if (!refused)
        *into = (struct utilization){(u32)gpu, (u32)memory};
    return refused;
}

int nvmlDeviceGetMemoryErrorCounter(struct device *device, u32 error, u32 counter, u32 place, u64 *value)
{
    char arguments[48];
    snprintf(arguments, sizeof arguments, ".%u.%u.%u", error, counter, place);
    ANSWER(u64, arguments);
}
