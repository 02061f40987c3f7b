/* Calls that the simulated driver of the tests does not have, because nothing there makes them.
 *
 * nvitop makes them for each GPU that it looks at. Where one is missing it logs a traceback, which would be counted
 * against it. The values are those of a server's GPU that moves no data.
 */
#define _GNU_SOURCE
#include "call.h"

#define ZERO_CALL(function)                   \
    API Result function(Device device, u32 *value) \
    {                                         \
        BEGIN_DEVICE(device);                 \
        *value = 0;                           \
        END(SUCCESS);                         \
    }
ZERO_CALL(nvmlDeviceGetDisplayMode)
ZERO_CALL(nvmlDeviceGetDisplayActive)

API Result nvmlDeviceGetPcieThroughput(Device device, u32 counter, u32 *kilobytes_a_second)
{
    (void)counter;
    BEGIN_DEVICE(device);
    *kilobytes_a_second = 0;
    END(SUCCESS);
}

API Result nvmlDeviceGetTotalEccErrors(Device device, u32 error_type, u32 counter_type, u64 *count)
{
    (void)error_type, (void)counter_type;
    BEGIN_DEVICE(device);
    *count = 0;
    END(SUCCESS);
}

/* nvml.h: for Windows only. */
API Result nvmlDeviceGetDriverModel(Device device, u32 *current, u32 *pending)
{
    (void)current, (void)pending;
    BEGIN_DEVICE(device);
    END(NOT_SUPPORTED);
}
