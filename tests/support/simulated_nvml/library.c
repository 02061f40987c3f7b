/* Calls about the library and the machine, and those that find a device. */
#define _GNU_SOURCE
#include "call.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

API Result nvmlInitWithFlags(u32 flags)
{
    (void)flags;
    BEGIN_NEEDING(0, NULL);
    count_init();
    END(SUCCESS);
}
API Result nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API Result nvmlInit(void) { return nvmlInitWithFlags(0); }

API Result nvmlShutdown(void)
{
    Call call;
    Result begun = call_begin(&call, __func__, 0, NULL);
    /* Shutting down works without a state file too. */
    END(begun == SUCCESS || begun == DRIVER_NOT_LOADED ? count_shutdown() : begun);
}

API const char *nvmlErrorString(Result result)
{
    switch ((int)result) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NO_PERMISSION: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case 12: return "NVML Shared Library Not Found";
    case 13: return "Function Not Found";
    case GPU_IS_LOST: return "GPU is lost";
    case 16: return "GPU requires reset";
    case 18: return "Driver/library version mismatch";
    case ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
    default: return "Unknown Error";
    }
}

API Result nvmlSystemGetDriverVersion(char *buffer, u32 length)
{
    BEGIN;
    END(give_text(option_text(&call.state, "driver", "570.124.06"), buffer, length));
}
API Result nvmlSystemGetNVMLVersion(char *buffer, u32 length)
{
    BEGIN;
    END(give_text(option_text(&call.state, "nvml", "12.570.124.06"), buffer, length));
}
API Result nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    BEGIN;
    *version = atoi(option_text(&call.state, "cuda", "12080"));
    END(SUCCESS);
}
API Result nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

API Result nvmlSystemGetProcessName(u32 pid, char *buffer, u32 length)
{
    BEGIN;
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || length == 0)
        END(NOT_FOUND);
    ssize_t count = read(file, buffer, length - 1);
    close(file);
    buffer[count < 0 ? 0 : count] = '\0';
    END(SUCCESS);
}

API Result nvmlDeviceGetCount_v2(u32 *count)
{
    BEGIN;
    *count = (u32)gpu_count(&call.state);
    END(SUCCESS);
}
API Result nvmlDeviceGetCount(u32 *count) { return nvmlDeviceGetCount_v2(count); }

API Result nvmlDeviceGetHandleByIndex_v2(u32 index, Device *device)
{
    Call call;
    Result begun = call_begin(&call, __func__, NEEDS_INIT | NEEDS_DEVICE, device_handle((int)index, -1));
    if (begun == GPU_IS_LOST && (int)index >= gpu_count(&call.state))
        END(INVALID_ARGUMENT);
    if (begun == SUCCESS)
        *device = device_handle((int)index, -1);
    END(begun);
}
API Result nvmlDeviceGetHandleByIndex(u32 index, Device *device) { return nvmlDeviceGetHandleByIndex_v2(index, device); }

/* Finds the GPU, or among `mig` entries the MIG device, whose field has a value. */
static Result find_device(const Call *call, const char *key, const char *wanted, Device *device)
{
    for (int i = 0; i < call->state.count; i++) {
        const Entry *entry = &call->state.entries[i];
        const char *value = entry_text(entry, key);
        int is_gpu = strcmp(entry->kind, "gpu") == 0, is_mig = strcmp(entry->kind, "mig") == 0;
        if (value == NULL || (!is_gpu && !is_mig) || strcasecmp(value, wanted) != 0)
            continue;
        int index = (int)entry_number(entry, "index", 0, 0);
        *device = is_gpu ? device_handle(index, -1) : device_handle((int)entry_number(entry, "gpu", 0, 0), index);
        return SUCCESS;
    }
    return NOT_FOUND;
}
API Result nvmlDeviceGetHandleByUUID(const char *uuid, Device *device)
{
    BEGIN;
    END(find_device(&call, "uuid", uuid, device));
}
API Result nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, Device *device)
{
    BEGIN;
    END(find_device(&call, "pci", bus_id, device));
}
