/* GPM: how busy the parts of a GPU were between two samples, by the GPU's own counters. */
#define _GNU_SOURCE
#include "call.h"

#include <stdlib.h>

#if OLD_DRIVER < 1

typedef struct { int gpu, mig; double at; } GpmSample; /* opaque to callers */

static const struct {
    u32 id;
    const char *key;
} METRICS[] = {
    {2, "sm_activity"}, /* percent */
    {3, "sm_occupancy"},
    {5, "tensor_activity"},
    {10, "dram_activity"},
    {20, "pcie_sent_rate"}, /* MiB/s */
    {21, "pcie_received_rate"},
    {60, "nvlink_received_rate"},
    {61, "nvlink_sent_rate"},
};

API Result nvmlGpmQueryDeviceSupport(Device device, GpmSupport *support)
{
    BEGIN_DEVICE(device);
    if (support->version != 1)
        END(ARGUMENT_VERSION_MISMATCH);
    support->is_supported = entry_text(call.device, "sm_activity") != NULL;
    END(SUCCESS);
}
API Result nvmlGpmSampleAlloc(GpmSample **sample)
{
    BEGIN;
    *sample = calloc(1, sizeof **sample);
    END(*sample ? SUCCESS : INSUFFICIENT_SIZE);
}
API Result nvmlGpmSampleFree(GpmSample *sample)
{
    BEGIN;
    free(sample);
    END(SUCCESS);
}
API Result nvmlGpmSampleGet(Device device, GpmSample *sample)
{
    BEGIN_DEVICE(device);
    if (call.mig >= 0)
        END(NOT_SUPPORTED);
    *sample = (GpmSample){call.gpu, -1, call.state.now};
    END(SUCCESS);
}
/* Takes the handle of the GPU, not that of a MIG device. */
API Result nvmlGpmMigSampleGet(Device device, u32 gpu_instance, GpmSample *sample)
{
    BEGIN_DEVICE(device);
    if (call.mig >= 0 || !mig_mode_is_on(&call))
        END(INVALID_ARGUMENT);
    for (int i = 0; i < 7; i++) {
        const Entry *part = find_mig(&call.state, call.gpu, i);
        if (part && entry_number(part, "gi", 0, 0) == gpu_instance) {
            *sample = (GpmSample){call.gpu, i, call.state.now};
            END(SUCCESS);
        }
    }
    END(NOT_FOUND);
}
API Result nvmlGpmMetricsGet(GpmMetrics *asked)
{
    BEGIN;
    const GpmSample *first = asked->first, *second = asked->second;
    if (asked->version != 1)
        END(ARGUMENT_VERSION_MISMATCH);
    if (first->gpu != second->gpu || first->mig != second->mig)
        END(INVALID_ARGUMENT);
    const Entry *entry =
        first->mig < 0 ? find_gpu(&call.state, first->gpu) : find_mig(&call.state, first->gpu, first->mig);
    for (u32 i = 0; i < asked->count; i++) {
        GpmMetric *metric = &asked->metrics[i];
        const char *script = NULL;
        for (size_t n = 0; n < sizeof METRICS / sizeof *METRICS; n++)
            if (METRICS[n].id == metric->id)
                script = entry_text(entry, METRICS[n].key);
        metric->result = script ? SUCCESS : NOT_SUPPORTED;
        metric->value = script ? (double)script_value(script, (first->at + second->at) / 2) : 0;
    }
    END(SUCCESS);
}

#endif
