/* Events: a GPU's XID errors, each an entry "xid gpu=0 code=79 at=2.5", once that moment of the script has come. */
#define _GNU_SOURCE
#include "call.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_EVENTS = 1024 };

typedef struct {
    u64 registered; /* a bit for each GPU */
    char taken[MOST_EVENTS];
} EventSet;

API Result nvmlEventSetCreate(EventSet **set)
{
    BEGIN;
    *set = calloc(1, sizeof **set);
    END(*set ? SUCCESS : INSUFFICIENT_SIZE);
}

API Result nvmlEventSetFree(EventSet *set)
{
    BEGIN;
    free(set);
    END(SUCCESS);
}

API Result nvmlDeviceRegisterEvents(Device device, u64 types, EventSet *set)
{
    BEGIN_DEVICE(device);
    if (call.mig >= 0 || !(types & EVENT_XID) || !option_is_on(&call.state, "events"))
        END(NOT_SUPPORTED);
    set->registered |= 1ull << call.gpu;
    END(SUCCESS);
}

/* The next error of a registered GPU that has come and was not taken. */
static const Entry *next_event(const Call *call, EventSet *set)
{
    int number = 0;
    for (int i = 0; i < call->state.count; i++) {
        const Entry *entry = &call->state.entries[i];
        if (strcmp(entry->kind, "xid") != 0 || number >= MOST_EVENTS)
            continue;
        const char *at = entry_text(entry, "at");
        int is_ours = set->registered >> entry_number(entry, "gpu", 0, 0) & 1;
        if (is_ours && !set->taken[number] && (at ? atof(at) : 0) <= call->state.now) {
            set->taken[number] = 1;
            return entry;
        }
        number++;
    }
    return NULL;
}

static Result take(EventSet *set, EventData *data)
{
    BEGIN;
    const Entry *event = next_event(&call, set);
    if (event == NULL)
        END(TIMEOUT);
    memset(data, 0, sizeof *data);
    data->device = device_handle((int)entry_number(event, "gpu", 0, 0), -1);
    data->type = EVENT_XID;
    data->data = entry_number(event, "code", 0, 0);
    END(SUCCESS);
}

API Result nvmlEventSetWait_v2(EventSet *set, EventData *data, u32 timeout_ms)
{
    for (u32 waited = 0;; waited += 10) {
        Result result = take(set, data);
        if (result != TIMEOUT || waited >= timeout_ms)
            return result;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}
API Result nvmlEventSetWait(EventSet *set, EventData *data, u32 timeout_ms)
{
    return nvmlEventSetWait_v2(set, data, timeout_ms);
}
