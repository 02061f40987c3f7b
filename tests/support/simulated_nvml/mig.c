/* Calls about MIG devices, the parts that a GPU can be split into. */
#define _GNU_SOURCE
#include "call.h"

#include <string.h>

API Result nvmlDeviceGetMigMode(Device device, u32 *current, u32 *pending)
{
    BEGIN_DEVICE(device);
    u64 mode;
    if (call.mig >= 0 || !device_number(&call, "mig", &mode))
        END(NOT_SUPPORTED);
    *current = *pending = (u32)mode;
    END(SUCCESS);
}
API Result nvmlDeviceGetMaxMigDeviceCount(Device device, u32 *count)
{
    BEGIN_DEVICE(device);
    *count = call.mig < 0 && mig_mode_is_on(&call) ? 7 : 0;
    END(SUCCESS);
}
API Result nvmlDeviceGetMigDeviceHandleByIndex(Device device, u32 index, Device *found)
{
    BEGIN_DEVICE(device);
    if (call.mig >= 0)
        END(INVALID_ARGUMENT);
    if (!mig_mode_is_on(&call))
        END(NOT_SUPPORTED);
    if (find_mig(&call.state, call.gpu, (int)index) == NULL)
        END(NOT_FOUND);
    *found = device_handle(call.gpu, (int)index);
    END(SUCCESS);
}
API Result nvmlDeviceIsMigDeviceHandle(Device device, u32 *is_mig)
{
    BEGIN_DEVICE(device);
    *is_mig = call.mig >= 0;
    END(SUCCESS);
}
API Result nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device device, Device *parent)
{
    BEGIN_DEVICE(device);
    if (call.mig < 0)
        END(INVALID_ARGUMENT);
    *parent = device_handle(call.gpu, -1);
    END(SUCCESS);
}
API Result nvmlDeviceGetGpuInstanceId(Device device, u32 *id)
{
    BEGIN_DEVICE(device);
    *id = (u32)device_number_or(&call, "gi", 0);
    END(call.mig < 0 ? NOT_SUPPORTED : SUCCESS);
}
API Result nvmlDeviceGetComputeInstanceId(Device device, u32 *id)
{
    BEGIN_DEVICE(device);
    *id = (u32)device_number_or(&call, "ci", 0);
    END(call.mig < 0 ? NOT_SUPPORTED : SUCCESS);
}
API Result nvmlDeviceGetAttributes_v2(Device device, DeviceAttributes *attributes)
{
    BEGIN_DEVICE(device);
    if (call.mig < 0)
        END(NOT_SUPPORTED);
    memset(attributes, 0, sizeof *attributes);
    attributes->multiprocessors = (u32)device_number_or(&call, "multiprocessors", 0);
    attributes->memory_mib = device_number_or(&call, "total", 0) >> 20;
    END(SUCCESS);
}
