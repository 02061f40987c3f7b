// Which device a thread has chosen.
#pragma once

#include "telling.h"

ALWAYS_INLINE void choose(struct thread *thread, s32 device)
{
    thread->device = device;
    thread->has_chosen = 1;
}

ALWAYS_INLINE s32 device_of_context(struct thread *thread)
{
    struct handle key = {.address = thread->address, .process = thread->process};
    s32 *device = bpf_map_lookup_elem(&contexts, &key);
    return device ? *device : UNKNOWN_DEVICE;
}

// (context, device), or (context, flags, device), which makes it the thread's own.
ALWAYS_INLINE void got_context(struct thread *thread)
{
    struct handle key = {.process = thread->process};
    s32 device = thread->value;
    if (bpf_probe_read_user(&key.address, sizeof(key.address), (void *)thread->address))
        return;
    if (bpf_map_update_elem(&contexts, &key, &device, BPF_ANY) != 0)
        count(NO_DEVICE);
    if (WHAT(thread->cookie) == CREATE_CONTEXT)
        choose(thread, device);
}
