/* The part of NVML's binary interface that is simulated: result codes and structs as nvml.h 13 lays them out.
 *
 * The static assertions hold on the 64-bit Linux targets that NVIDIA supports (x86-64, aarch64).
 */
#ifndef SIMULATED_NVML_ABI_H
#define SIMULATED_NVML_ABI_H

#include <stdint.h>

#define API __attribute__((visibility("default")))

typedef uint32_t u32;
typedef unsigned long long u64;
typedef void *Device;

typedef enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    ARGUMENT_VERSION_MISMATCH = 25,
} Result;

/* What NVML writes where it knows no value: memory of a process, instance ids of a GPU that is not in MIG mode. */
#define NOT_AVAILABLE_64 (~0ull)
#define NOT_AVAILABLE_32 (~0u)

/* Versioned structs carry their size in the low bytes and their version in the highest one. */
#define STRUCT_VERSION(type, version) ((u32)(sizeof(type) | ((version) << 24)))

typedef struct { u64 total, free, used; } Memory;
typedef struct { u32 version; u64 total, reserved, free, used; } MemoryV2;
typedef struct { u32 gpu, memory; } UtilizationRates;

typedef struct { u32 pid; u64 used; } ProcessInfoV1;
typedef struct { u32 pid; u64 used; u32 gpu_instance, compute_instance; } ProcessInfo; /* _v2 and _v3 */

typedef union { double as_double; u32 as_u32; u64 as_u64; } Value;
typedef struct { u64 time_us; Value value; } Sample;
typedef struct {
    u32 id, scope;
    long long time_us, latency_us;
    u32 value_type;
    u32 result;
    Value value;
} FieldValue;

typedef struct { u32 pid; u64 time_us; u32 sm, memory, encoder, decoder; } ProcessUtilization;
typedef struct { u64 time_us; u32 pid, sm, memory, encoder, decoder, jpeg, ofa; } ProcessUtilizationInfo;
typedef struct { u32 version, count; u64 last_seen_us; ProcessUtilizationInfo *items; } ProcessUtilizationList;

typedef struct {
    u32 gpu_utilization, memory_utilization;
    u64 max_memory, time_ms, start_us;
    u32 is_running, reserved[5];
} AccountingStats;

typedef struct { char legacy_id[16]; u32 domain, bus, device, device_id, subsystem_id; char id[32]; } PciInfo;

typedef struct {
    u32 multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, gpu_slices, compute_slices;
    u64 memory_mib;
} DeviceAttributes;

typedef struct { u32 version, is_supported; } GpmSupport;
typedef struct { u32 id, result; double value; const char *short_name, *long_name, *unit; } GpmMetric;
typedef struct { u32 version, count; void *first, *second; GpmMetric metrics[]; } GpmMetrics;

/* nvmlSamplingType_t, nvmlValueType_t and the nvmlFieldId values that are simulated. */
enum { SAMPLES_POWER = 0, SAMPLES_GPU_UTILIZATION = 1, SAMPLES_MEMORY_UTILIZATION = 2 };
enum { VALUE_U32 = 1, VALUE_U64 = 3 };
typedef struct { Device device; u64 type, data; u32 gpu_instance, compute_instance; } EventData;
enum { EVENT_XID = 8 };
enum { FIELD_ENERGY = 83, FIELD_POWER_AVERAGE = 185, FIELD_POWER_INSTANT = 186 };

_Static_assert(sizeof(Memory) == 24, "nvmlMemory_t");
_Static_assert(sizeof(MemoryV2) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(ProcessInfoV1) == 16, "nvmlProcessInfo_v1_t");
_Static_assert(sizeof(ProcessInfo) == 24, "nvmlProcessInfo_v2_t");
_Static_assert(sizeof(Sample) == 16, "nvmlSample_t");
_Static_assert(sizeof(FieldValue) == 40, "nvmlFieldValue_t");
_Static_assert(sizeof(ProcessUtilization) == 32, "nvmlProcessUtilizationSample_t");
_Static_assert(sizeof(ProcessUtilizationInfo) == 40, "nvmlProcessUtilizationInfo_v1_t");
_Static_assert(sizeof(ProcessUtilizationList) == 24, "nvmlProcessesUtilizationInfo_v1_t");
_Static_assert(sizeof(AccountingStats) == 56, "nvmlAccountingStats_t");
_Static_assert(sizeof(EventData) == 32, "nvmlEventData_t");
_Static_assert(sizeof(PciInfo) == 68, "nvmlPciInfo_t");
_Static_assert(sizeof(DeviceAttributes) == 40, "nvmlDeviceAttributes_t");
_Static_assert(sizeof(GpmSupport) == 8, "nvmlGpmSupport_t");
_Static_assert(sizeof(GpmMetric) == 40, "nvmlGpmMetric_t");
_Static_assert(sizeof(GpmMetrics) == 24, "nvmlGpmMetricsGet_t without its metrics");

#endif
