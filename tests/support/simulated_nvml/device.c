/* Calls about one device: its name, memory, utilization and sensors. */
#define _GNU_SOURCE
#include "call.h"

#include <stdio.h>
#include <string.h>

API Result nvmlDeviceGetName(Device device, char *buffer, u32 length)
{
    BEGIN_DEVICE(device);
    const char *name = entry_text(call.device, "name");
    END(give_text(name ? name : "NVIDIA Simulated GPU", buffer, length));
}
API Result nvmlDeviceGetUUID(Device device, char *buffer, u32 length)
{
    BEGIN_DEVICE(device);
    const char *uuid = entry_text(call.device, "uuid");
    END(uuid ? give_text(uuid, buffer, length) : NOT_SUPPORTED);
}
API Result nvmlDeviceGetIndex(Device device, u32 *index)
{
    BEGIN_DEVICE(device);
    *index = (u32)(call.mig < 0 ? call.gpu : call.mig);
    END(SUCCESS);
}
API Result nvmlDeviceGetMinorNumber(Device device, u32 *minor)
{
    BEGIN_DEVICE(device);
    *minor = (u32)device_number_or(&call, "minor", (u64)call.gpu);
    END(call.mig < 0 ? SUCCESS : NOT_SUPPORTED);
}
API Result nvmlDeviceGetPciInfo_v3(Device device, PciInfo *info)
{
    BEGIN_DEVICE(device);
    const char *id = entry_text(find_gpu(&call.state, call.gpu), "pci");
    if (id == NULL)
        END(NOT_SUPPORTED);
    memset(info, 0, sizeof *info);
    snprintf(info->id, sizeof info->id, "%s", id);
    sscanf(id, "%x:%x:%x", &info->domain, &info->bus, &info->device);
    info->device_id = 0x20b010de; /* an A100 of NVIDIA's */
    snprintf(info->legacy_id, sizeof info->legacy_id, "%04X:%02X:%02X.0", info->domain & 0xffff, info->bus & 0xff,
             info->device & 0x1f);
    END(SUCCESS);
}
API Result nvmlDeviceGetCudaComputeCapability(Device device, int *major, int *minor)
{
    BEGIN_DEVICE(device);
    u64 capability;
    if (call.mig >= 0 || !device_number(&call, "capability", &capability))
        END(NOT_SUPPORTED);
    *major = (int)(capability / 10);
    *minor = (int)(capability % 10);
    END(SUCCESS);
}
API Result nvmlDeviceGetPciInfo(Device device, PciInfo *info) { return nvmlDeviceGetPciInfo_v3(device, info); }

/* Memory as version 2 reports it: `used` leaves out what the driver reserves. */
static int memory_of(const Call *call, MemoryV2 *memory)
{
    if (!device_number(call, "total", &memory->total) || !device_number(call, "used", &memory->used))
        return 0;
    memory->reserved = device_number_or(call, "reserved", 0);
    u64 taken = memory->used + memory->reserved;
    memory->free = memory->total > taken ? memory->total - taken : 0;
    return 1;
}
API Result nvmlDeviceGetMemoryInfo(Device device, Memory *memory)
{
    BEGIN_DEVICE(device);
    MemoryV2 known;
    if (!memory_of(&call, &known))
        END(NOT_SUPPORTED);
    *memory = (Memory){.total = known.total, .free = known.free, .used = known.used + known.reserved};
    END(SUCCESS);
}
#if OLD_DRIVER < 2
API Result nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2 *memory)
{
    BEGIN_DEVICE(device);
    if (memory->version != STRUCT_VERSION(MemoryV2, 2))
        END(ARGUMENT_VERSION_MISMATCH);
    END(memory_of(&call, memory) ? SUCCESS : NOT_SUPPORTED);
}
#endif
API Result nvmlDeviceGetBAR1MemoryInfo(Device device, Memory *memory)
{
    BEGIN_DEVICE(device);
    if (!device_number(&call, "bar1_total", &memory->total))
        END(NOT_SUPPORTED);
    memory->used = device_number_or(&call, "bar1_used", 0);
    memory->free = memory->total - memory->used;
    END(SUCCESS);
}

API Result nvmlDeviceGetUtilizationRates(Device device, UtilizationRates *rates)
{
    BEGIN_DEVICE(device);
    u64 utilization;
    /* nvml.h: unsupported on MIG devices and on a GPU in MIG mode. */
    if (call.mig >= 0 || mig_mode_is_on(&call) || !device_number(&call, "util", &utilization))
        END(NOT_SUPPORTED);
    rates->gpu = (u32)utilization;
    rates->memory = (u32)device_number_or(&call, "memory_util", 0);
    END(SUCCESS);
}

/* Calls that answer one 32-bit number of a whole GPU. */
static Result give_number(const Call *call, const char *key, u32 *number)
{
    u64 value;
    if (call->mig >= 0 || !device_number(call, key, &value))
        return NOT_SUPPORTED;
    *number = (u32)value;
    return SUCCESS;
}
#define NUMBER_CALL(function, key)            \
    API Result function(Device device, u32 *number) \
    {                                         \
        BEGIN_DEVICE(device);                 \
        END(give_number(&call, key, number)); \
    }
NUMBER_CALL(nvmlDeviceGetPowerUsage, "power")                   /* milliwatts */
NUMBER_CALL(nvmlDeviceGetEnforcedPowerLimit, "power_limit")     /* milliwatts */
NUMBER_CALL(nvmlDeviceGetPowerManagementLimit, "power_limit")   /* milliwatts */
NUMBER_CALL(nvmlDeviceGetFanSpeed, "fan")                       /* percent */
NUMBER_CALL(nvmlDeviceGetPersistenceMode, "persistence")
NUMBER_CALL(nvmlDeviceGetPerformanceState, "performance_state")
NUMBER_CALL(nvmlDeviceGetNumGpuCores, "cores")
NUMBER_CALL(nvmlDeviceGetComputeMode, "compute_mode")

/* Calls whose second argument selects among sensors or clocks. */
#define SELECTED_NUMBER_CALL(function, key)                 \
    API Result function(Device device, u32 selector, u32 *number) \
    {                                                       \
        (void)selector;                                     \
        BEGIN_DEVICE(device);                               \
        END(give_number(&call, key, number));               \
    }
SELECTED_NUMBER_CALL(nvmlDeviceGetTemperature, "temperature")                    /* degrees Celsius */
SELECTED_NUMBER_CALL(nvmlDeviceGetTemperatureThreshold, "temperature_limit")     /* degrees Celsius */

static const char *const CLOCK_KEYS[] = {"graphics_clock", "sm_clock", "memory_clock", "video_clock"}; /* MHz */
static const char *const MAX_CLOCK_KEYS[] = {"max_graphics_clock", "max_sm_clock", "max_memory_clock", "max_video_clock"};
API Result nvmlDeviceGetClockInfo(Device device, u32 type, u32 *number)
{
    BEGIN_DEVICE(device);
    END(type < 4 ? give_number(&call, CLOCK_KEYS[type], number) : INVALID_ARGUMENT);
}
API Result nvmlDeviceGetMaxClockInfo(Device device, u32 type, u32 *number)
{
    BEGIN_DEVICE(device);
    END(type < 4 ? give_number(&call, MAX_CLOCK_KEYS[type], number) : INVALID_ARGUMENT);
}

/* The versioned call that nvidia-ml-py 13 prefers: {version, sensor type, temperature}. */
API Result nvmlDeviceGetTemperatureV(Device device, u32 *temperature)
{
    BEGIN_DEVICE(device);
    if (temperature[0] != (12 | 1u << 24))
        END(ARGUMENT_VERSION_MISMATCH);
    END(give_number(&call, "temperature", &temperature[2]));
}

API Result nvmlDeviceGetEncoderUtilization(Device device, u32 *percent, u32 *period_us)
{
    BEGIN_DEVICE(device);
    *period_us = 167000;
    END(give_number(&call, "encoder", percent));
}
API Result nvmlDeviceGetDecoderUtilization(Device device, u32 *percent, u32 *period_us)
{
    BEGIN_DEVICE(device);
    *period_us = 167000;
    END(give_number(&call, "decoder", percent));
}

API Result nvmlDeviceGetTotalEnergyConsumption(Device device, u64 *millijoules)
{
    BEGIN_DEVICE(device);
    END(call.mig < 0 && device_number(&call, "energy", millijoules) ? SUCCESS : NOT_SUPPORTED);
}

static const struct {
    u32 id, type;
    const char *key;
} FIELDS[] = {
    {FIELD_ENERGY, VALUE_U64, "energy"},
    {FIELD_POWER_AVERAGE, VALUE_U32, "power"},
    {FIELD_POWER_INSTANT, VALUE_U32, "power"},
    {3, VALUE_U64, "ecc_volatile_corrected"},
    {4, VALUE_U64, "ecc_volatile_uncorrected"},
    {5, VALUE_U64, "ecc_aggregate_corrected"},
    {6, VALUE_U64, "ecc_aggregate_uncorrected"},
    {138, VALUE_U64, "nvlink_sent"},     /* KiB, of all links */
    {139, VALUE_U64, "nvlink_received"}, /* KiB */
    {142, VALUE_U32, "remapped_corrected"},
    {143, VALUE_U32, "remapped_uncorrected"},
    {144, VALUE_U32, "remap_pending"},
    {145, VALUE_U32, "remap_failed"},
    {197, VALUE_U32, "pcie_sent"},
    {198, VALUE_U32, "pcie_received"},
};

API Result nvmlDeviceGetFieldValues(Device device, int count, FieldValue *fields)
{
    BEGIN_DEVICE(device);
    for (int i = 0; i < count; i++) {
        FieldValue *field = &fields[i];
        u64 value = 0;
        int known = 0;
        field->value_type = VALUE_U32;
        for (size_t n = 0; n < sizeof FIELDS / sizeof *FIELDS; n++)
            if (FIELDS[n].id == field->id) {
                known = call.mig < 0 && device_number(&call, FIELDS[n].key, &value);
                field->value_type = FIELDS[n].type;
            }
        if ((field->id == 138 || field->id == 139) && field->scope != ~0u)
            known = 0; /* of one link alone */
        field->time_us = (long long)now_us(&call);
        field->latency_us = 0;
        field->result = known ? SUCCESS : NOT_SUPPORTED;
        field->value.as_u64 = value;
    }
    END(SUCCESS);
}

API Result nvmlDeviceGetCurrentClocksThrottleReasons(Device device, u64 *reasons)
{
    BEGIN_DEVICE(device);
    END(call.mig < 0 && device_number(&call, "throttle_reasons", reasons) ? SUCCESS : NOT_SUPPORTED);
}
API Result nvmlDeviceGetCurrentClocksEventReasons(Device device, u64 *reasons)
{
    return nvmlDeviceGetCurrentClocksThrottleReasons(device, reasons);
}

enum { BUFFERED_SAMPLES = 100 };

/* The driver's buffer: the last 100 samples, at whole multiples of the sample period. Asked without a buffer it answers
 * SUCCESS and how many samples fit. */
API Result nvmlDeviceGetSamples(Device device, u32 type, u64 last_seen_us, u32 *value_type, u32 *count, Sample *samples)
{
    BEGIN_DEVICE(device);
    const char *key = type == SAMPLES_POWER                ? "power"
                      : type == SAMPLES_GPU_UTILIZATION    ? "util"
                      : type == SAMPLES_MEMORY_UTILIZATION ? "memory_util"
                                                           : NULL;
    const char *script = key ? entry_text(call.device, key) : NULL;
    if (script == NULL || call.mig >= 0 || mig_mode_is_on(&call) || device_number_or(&call, "samples", 1) == 0)
        END(NOT_SUPPORTED);
    *value_type = VALUE_U32;
    if (samples == NULL) {
        *count = BUFFERED_SAMPLES;
        END(SUCCESS);
    }
    u64 period = device_number_or(&call, "sample_period", 100) * 1000;
    u64 newest = now_us(&call) / period * period;
    u32 room = *count;
    *count = 0;
    for (u64 age = BUFFERED_SAMPLES; age-- > 0 && *count < room;) {
        u64 time = newest - age * period;
        if (time <= last_seen_us)
            continue;
        Sample *sample = &samples[(*count)++];
        sample->time_us = time;
        /* The value describes the period that ends at the time stamp, so it is taken in that period's middle. */
        sample->value.as_u64 = script_value(script, (double)(time - period / 2) / 1e6 - call.state.start);
    }
    if (option_is_on(&call.state, "garbage") && *count >= 2) {
        samples[0] = (Sample){7, {.as_u64 = 77}};
        samples[1].value.as_u64 = 3000000000u;
    }
    END(*count ? SUCCESS : NOT_FOUND);
}
