#define _GNU_SOURCE
#include "call.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_HANDLE = 0x10000, MAX_FUNCTIONS = 128 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int init_count;
static int was_initialized;
static struct { const char *function; u64 calls; } call_counts[MAX_FUNCTIONS];

void count_init(void)
{
    pthread_mutex_lock(&lock);
    init_count++;
    was_initialized = 1;
    pthread_mutex_unlock(&lock);
}

Result count_shutdown(void)
{
    /* nvml.h: calling nvmlShutdown more often than nvmlInit is not an error. */
    pthread_mutex_lock(&lock);
    Result result = was_initialized ? SUCCESS : UNINITIALIZED;
    if (init_count > 0)
        init_count--;
    pthread_mutex_unlock(&lock);
    return result;
}

/* How often the function was called before, in this process. */
static u64 count_call(const char *function)
{
    u64 earlier = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_FUNCTIONS; i++) {
        if (call_counts[i].function == NULL)
            call_counts[i].function = function;
        if (strcmp(call_counts[i].function, function) == 0) {
            earlier = call_counts[i].calls++;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return earlier;
}

Device device_handle(int gpu, int mig)
{
    return (Device)(uintptr_t)(FIRST_HANDLE + gpu * 256 + mig + 1);
}

static int entry_concerns(const Entry *entry, const Call *call)
{
    const char *functions = entry_text(entry, "functions"), *gpu = entry_text(entry, "gpu");
    const char *mig = entry_text(entry, "mig");
    return functions && fnmatch(functions, call->function, 0) == 0 && (gpu == NULL || atoi(gpu) == call->gpu) &&
           (mig == NULL || atoi(mig) == call->mig) && entry_is_current(entry, call->state.now);
}

/* Applies the `hang` and `fail` lines. A hang lasts as long as its line is there, so that a test can end it. */
static Result scripted_trouble(const Call *call, u64 earlier_calls)
{
    Result result = SUCCESS;
    for (int i = 0; i < call->state.count; i++) {
        const Entry *entry = &call->state.entries[i];
        if (strcmp(entry->kind, "fail") != 0 || result != SUCCESS || !entry_concerns(entry, call))
            continue;
        u64 after = entry_number(entry, "after", 0, 0), times = entry_number(entry, "times", 0, NOT_AVAILABLE_64);
        if (earlier_calls >= after && (times == NOT_AVAILABLE_64 || earlier_calls < after + times))
            result = (Result)entry_number(entry, "code", 0, 0);
    }
    return result;
}

static double hang_seconds(const Call *call)
{
    double seconds = 0;
    for (int i = 0; i < call->state.count; i++) {
        const Entry *entry = &call->state.entries[i];
        if (strcmp(entry->kind, "hang") == 0 && entry_concerns(entry, call))
            seconds += atof(entry_text(entry, "seconds") ? entry_text(entry, "seconds") : "0");
    }
    return seconds;
}

/* Hangs until the time is over or the state file no longer asks for it; leaves the state read last in `call`. */
static int read_state_and_hang(Call *call)
{
    const struct timespec tick = {0, 10 * 1000 * 1000};
    double begin = unix_time();
    int known = state_read(&call->state);
    while (known && unix_time() - begin < hang_seconds(call)) {
        nanosleep(&tick, NULL);
        state_free(&call->state);
        known = state_read(&call->state);
    }
    return known;
}

Result call_begin(Call *call, const char *function, int needs, Device device)
{
    uintptr_t handle = (uintptr_t)device;
    int has_handle = (needs & NEEDS_DEVICE) && handle >= FIRST_HANDLE;
    call->function = function;
    call->gpu = has_handle ? (int)((handle - FIRST_HANDLE) / 256) : -1;
    call->mig = has_handle ? (int)((handle - FIRST_HANDLE) % 256) - 1 : -1;
    call->device = NULL;
    u64 earlier_calls = count_call(function);
    int machine_is_known = read_state_and_hang(call);
    Result trouble = scripted_trouble(call, earlier_calls);
    if ((needs & NEEDS_INIT) && init_count == 0)
        return UNINITIALIZED;
    if (trouble != SUCCESS)
        return trouble;
    if (!machine_is_known)
        return needs & NEEDS_DEVICE ? GPU_IS_LOST : DRIVER_NOT_LOADED;
    if (!(needs & NEEDS_DEVICE))
        return SUCCESS;
    if (!has_handle)
        return INVALID_ARGUMENT;
    call->device = call->mig < 0 ? find_gpu(&call->state, call->gpu) : find_mig(&call->state, call->gpu, call->mig);
    /* A GPU whose line was taken out of the state file has fallen off the bus. */
    return call->device ? SUCCESS : GPU_IS_LOST;
}

Result call_end(Call *call, Result result)
{
    const char *path = getenv("SIMULATED_NVML_LOG");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (file >= 0) {
        dprintf(file, "%.6f %d %s gpu=%d mig=%d result=%d\n", unix_time(), (int)getpid(), call->function, call->gpu,
                call->mig, (int)result);
        close(file);
    }
    state_free(&call->state);
    return result;
}

int device_number(const Call *call, const char *key, u64 *value)
{
    const char *text = entry_text(call->device, key);
    if (text == NULL || strcmp(text, "na") == 0)
        return 0;
    *value = script_value(text, call->state.now);
    return 1;
}

u64 device_number_or(const Call *call, const char *key, u64 fallback)
{
    u64 value;
    return device_number(call, key, &value) ? value : fallback;
}

int mig_mode_is_on(const Call *call)
{
    return entry_number(find_gpu(&call->state, call->gpu), "mig", 0, 0) == 1;
}

Result give_text(const char *text, char *buffer, u32 length)
{
    if (strlen(text) + 1 > length)
        return INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return SUCCESS;
}

u64 now_us(const Call *call)
{
    return (u64)((call->state.start + call->state.now) * 1e6);
}
