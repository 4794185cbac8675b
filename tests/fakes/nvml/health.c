/* What tells how well a device is, beyond single numbers: rows, pages, fields, fabric, events. */
#define _GNU_SOURCE
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Up to `most` numbers of a key; zeros behind them. */
static int several(const char *function, struct device *device, const char *key, unsigned long long *into,
                   int most)
{
    int refused = before(function, device);
    const char *value = refused ? NULL : device_get(device, "%s", key);
    if (refused || (refused = error_of(value)))
        return refused;
    for (int i = 0; i < most; i++)
        if (!next_number(&value, &into[i]))
            into[i] = 0;
    return SUCCESS;
}

/* "correctable uncorrectable pending failed" */
int nvmlDeviceGetRemappedRows(struct device *device, unsigned *corrected, unsigned *uncorrected,
                              unsigned *pending, unsigned *failed)
{
    unsigned long long rows[4];
    int refused = several(__func__, device, __func__, rows, 4);
    if (!refused) {
        *corrected = (unsigned)rows[0], *uncorrected = (unsigned)rows[1];
        *pending = (unsigned)rows[2], *failed = (unsigned)rows[3];
    }
    return refused;
}

/* "max high partial low none": banks by how many spare rows they have. */
int nvmlDeviceGetRowRemapperHistogram(struct device *device, unsigned *banks)
{
    unsigned long long counts[5];
    int refused = several(__func__, device, __func__, counts, 5);
    for (int i = 0; !refused && i < 5; i++)
        banks[i] = (unsigned)counts[i];
    return refused;
}

static int pages(const char *function, struct device *device, unsigned cause, unsigned *count,
                 unsigned long long *addresses, unsigned long long *times)
{
    char key[64];
    snprintf(key, sizeof key, "nvmlDeviceGetRetiredPages.%u", cause);
    int refused = before(function, device);
    const char *value = refused ? NULL : device_get(device, "%s", key);
    if (refused || (refused = error_of(value)))
        return refused;
    unsigned found = 0;
    for (unsigned long long page; next_number(&value, &page); found++)
        if (addresses && found < *count) {
            addresses[found] = page;
            if (times)
                times[found] = 0;
        }
    int fits = addresses ? found <= *count : !found;
    *count = found;
    return fits ? SUCCESS : INSUFFICIENT_SIZE;
}

/* "gpu0.nvmlDeviceGetRetiredPages.0 0x1000,0x2000"; an empty list for none */
int nvmlDeviceGetRetiredPages(struct device *device, unsigned cause, unsigned *count,
                              unsigned long long *addresses)
{
    return pages(__func__, device, cause, count, addresses, NULL);
}

int nvmlDeviceGetRetiredPages_v2(struct device *device, unsigned cause, unsigned *count,
                                 unsigned long long *addresses, unsigned long long *times)
{
    return pages(__func__, device, cause, count, addresses, times);
}

struct violation {
    unsigned long long reference, violation;
};

/* ".policy reference violation", nanoseconds */
int nvmlDeviceGetViolationStatus(struct device *device, unsigned policy, struct violation *into)
{
    char arguments[16];
    snprintf(arguments, sizeof arguments, ".%u", policy);
    return numbers_of(device, __func__, arguments, &into->reference, &into->violation);
}

struct bar1 {
    unsigned long long total, free, used;
};

/* "total used" */
int nvmlDeviceGetBAR1MemoryInfo(struct device *device, struct bar1 *into)
{
    int refused = numbers_of(device, __func__, "", &into->total, &into->used);
    into->free = into->total - into->used;
    return refused;
}

struct versioned {
    unsigned version;
    int value, more;
};

int nvmlDeviceGetMarginTemperature(struct device *device, struct versioned *into)
{
    unsigned long long value;
    int refused = several(__func__, device, __func__, &value, 1);
    if (!refused)
        into->value = (int)value;
    return refused;
}

int nvmlDeviceGetUnrepairableMemoryFlag_v1(struct device *device, struct versioned *into)
{
    unsigned long long value;
    int refused = several(__func__, device, __func__, &value, 1);
    if (!refused)
        into->value = (int)value;
    return refused;
}

int nvmlDeviceGetRepairStatus(struct device *device, struct versioned *into)
{
    unsigned long long values[2];
    int refused = several(__func__, device, __func__, values, 2);
    if (!refused)
        into->value = (int)values[0], into->more = (int)values[1];
    return refused;
}

/* The sensor is in the structure: version, sensor, temperature. */
int nvmlDeviceGetTemperatureV(struct device *device, struct versioned *into)
{
    char arguments[16];
    unsigned long long value = 0;
    snprintf(arguments, sizeof arguments, ".%d", into->value);
    int refused = numbers_of(device, "nvmlDeviceGetTemperature", arguments, &value, NULL);
    if (!refused)
        into->more = (int)value;
    return refused;
}

struct fabric {
    unsigned version;
    unsigned char cluster[16];
    unsigned status, clique, state, health;
    unsigned char summary; /* from version 3 on */
};

/* "fabric state status health-mask [summary]" */
int nvmlDeviceGetGpuFabricInfoV(struct device *device, struct fabric *into)
{
    unsigned long long values[4];
    int refused = several(__func__, device, "fabric", values, 4);
    if (refused)
        return refused;
    memset(into->cluster, 0x11, sizeof into->cluster);
    into->state = (unsigned)values[0], into->status = (unsigned)values[1], into->clique = 1;
    into->health = (unsigned)values[2];
    if (into->version >> 24 >= 3)
        into->summary = (unsigned char)values[3];
    return SUCCESS;
}

struct fabric_v1 {
    unsigned char cluster[16];
    unsigned status, clique, state;
};

int nvmlDeviceGetGpuFabricInfo(struct device *device, struct fabric_v1 *into)
{
    unsigned long long values[2];
    int refused = several(__func__, device, "fabric", values, 2);
    if (!refused)
        *into = (struct fabric_v1){{0x11}, (unsigned)values[1], 1, (unsigned)values[0]};
    return refused;
}

struct field {
    unsigned id, scope;
    long long timestamp, latency;
    unsigned type;
    int result;
    union {
        double real;
        unsigned whole;
        unsigned long long large;
        long long negative;
    } value;
};

enum { DOUBLE = 0, UNSIGNED = 1, UNSIGNED_LONG_LONG = 3, SIGNED_LONG_LONG = 4 };

static void fill(struct field *field, const char *value)
{
    field->result = error_of(value);
    if (field->result)
        return;
    if (strchr(value, '.')) {
        field->type = DOUBLE, field->value.real = strtod(value, NULL);
    } else if (*value == '-') {
        field->type = SIGNED_LONG_LONG, field->value.negative = strtoll(value, NULL, 10);
    } else if (strtoull(value, NULL, 0) > 0xFFFFFFFFull) {
        field->type = UNSIGNED_LONG_LONG, field->value.large = strtoull(value, NULL, 0);
    } else {
        field->type = UNSIGNED, field->value.whole = (unsigned)strtoull(value, NULL, 0);
    }
}

int nvmlDeviceGetFieldValues(struct device *device, int count, struct field *fields)
{
    int refused = before(__func__, device);
    for (int i = 0; !refused && i < count; i++) {
        char scoped[48];
        snprintf(scoped, sizeof scoped, "field.%u.%u", fields[i].id, fields[i].scope);
        const char *value = device_get(device, "%s", scoped);
        fill(&fields[i], value ? value : device_get(device, "field.%u", fields[i].id));
    }
    return refused;
}

struct hostname {
    char value[64];
};

int nvmlDeviceGetHostname_v1(struct device *device, struct hostname *into)
{
    int refused = before(__func__, device);
    const char *value = refused ? NULL : device_get(device, "hostname");
    if (!refused && !(refused = error_of(value)))
        snprintf(into->value, sizeof into->value, "%s", value);
    return refused;
}
