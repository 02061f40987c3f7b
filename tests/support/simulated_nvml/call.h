/* What each NVML call does before and after its own work: reads the state, hangs, fails, is logged.
 *
 * A call looks like this:
 *
 *     API Result nvmlDeviceGetIndex(Device device, u32 *index)
 *     {
 *         BEGIN_DEVICE(device);
 *         *index = call.gpu;
 *         END(SUCCESS);
 *     }
 */
#ifndef SIMULATED_NVML_CALL_H
#define SIMULATED_NVML_CALL_H

#include "state.h"

typedef struct {
    State state;
    const char *function;
    int gpu;             /* index of the GPU asked for, or -1 */
    int mig;             /* index of the MIG device asked for, or -1 */
    const Entry *device; /* its `gpu` or `mig` entry */
} Call;

enum { NEEDS_INIT = 1, NEEDS_DEVICE = 2 };

/* Starts a call; anything but SUCCESS is what it must return. */
Result call_begin(Call *call, const char *function, int needs, Device device);
Result call_end(Call *call, Result result);

/* Reference count of nvmlInit and nvmlShutdown. */
void count_init(void);
Result count_shutdown(void);

Device device_handle(int gpu, int mig);

/* The number that a field of the device has now. Returns 0 where the state does not give it. */
int device_number(const Call *call, const char *key, u64 *value);
u64 device_number_or(const Call *call, const char *key, u64 fallback);
int mig_mode_is_on(const Call *call);

/* Copies a text into the caller's buffer. */
Result give_text(const char *text, char *buffer, u32 length);
/* The script's present moment in microseconds since 1970. */
u64 now_us(const Call *call);

#define BEGIN_NEEDING(needs, handle)                                       \
    Call call;                                                             \
    Result begun = call_begin(&call, __func__, needs, handle);             \
    if (begun != SUCCESS)                                                  \
    return call_end(&call, begun)
#define BEGIN BEGIN_NEEDING(NEEDS_INIT, NULL)
#define BEGIN_DEVICE(handle) BEGIN_NEEDING(NEEDS_INIT | NEEDS_DEVICE, handle)
#define END(result) return call_end(&call, result)

#endif
