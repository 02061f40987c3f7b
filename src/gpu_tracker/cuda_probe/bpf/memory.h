// Memory of devices: what is in use, and the most of it at once.
#pragma once

#include "finding.h"

// Adds to what is in use, and returns what is then; the peak is raised also where threads do this at the same time.
ALWAYS_INLINE u64 use_memory(struct device *device, u64 size)
{
    u64 in_use = __sync_fetch_and_add(&device->in_use, size) + size;
    u64 peak = device->peak;
    for (int i = 0; i < 64 && peak < in_use; i++) {
        u64 seen = __sync_val_compare_and_swap(&device->peak, peak, in_use);
        if (seen == peak)
            return in_use;
        peak = seen;
    }
    if (peak < in_use)
        count(PEAKS);
    return in_use;
}

// Takes an allocation out of what is in use, and returns what is then.
ALWAYS_INLINE u64 no_longer_used(u32 process, const struct allocation *gone)
{
    struct device *device = find_device(process, gone->device), *all = find_device(process, ALL_DEVICES);
    u64 size = gone->size;
    if (!device || !all || device->resets != gone->resets)
        return 0;
    __sync_fetch_and_add(&all->in_use, -size);
    return __sync_fetch_and_add(&device->in_use, -size) - size;
}

ALWAYS_INLINE void allocated(struct thread *thread)
{
    struct handle key = {.process = thread->process};
    struct allocation new = {.size = thread->value, .device = thread->device};
    struct device *device = find_device(thread->process, thread->device);
    struct device *all = find_device(thread->process, ALL_DEVICES);
    struct allocation *old;
    u64 in_use;

    if (bpf_probe_read_user(&key.address, sizeof(key.address), (void *)thread->address) || !key.address)
        return;
    if (WHAT(thread->cookie) == ALLOCATE_PITCHED) {
        if (bpf_probe_read_user(&new.size, sizeof(new.size), (void *)thread->value))
            return;
        new.size *= thread->stream;
        thread->stream = 0;
    }
    if (!device || !all)
        return;
    old = bpf_map_lookup_elem(&allocations, &key);
    if (old) // it was released by a function that the probe does not know
        no_longer_used(thread->process, old);
    new.resets = device->resets;
    if (bpf_map_update_elem(&allocations, &key, &new, BPF_ANY) != 0)
        count(NO_ALLOCATION);
    __sync_fetch_and_add(&device->allocations, 1);
    __sync_fetch_and_add(&device->allocated, new.size);
    use_memory(all, new.size);
    in_use = use_memory(device, new.size);
    thread->address = key.address;
    tell(thread, EVENT_ALLOCATION, bpf_ktime_get_ns(), new.size, in_use, thread->device);
}

// At the entry of a call that releases memory: at its return another thread may have got the same address already.
ALWAYS_INLINE void begin_release(struct thread *thread)
{
    struct handle key = {.address = thread->address, .process = thread->process};
    struct allocation *allocation = bpf_map_lookup_elem(&allocations, &key);

    thread->released.size = 0;
    if (!allocation) // allocated before the probe came, or by a function that it does not know
        return;
    thread->released = *allocation;
    bpf_map_delete_elem(&allocations, &key);
}

ALWAYS_INLINE void undo_release(struct thread *thread)
{
    struct handle key = {.address = thread->address, .process = thread->process};
    struct allocation still = thread->released;
    if (still.size && bpf_map_update_elem(&allocations, &key, &still, BPF_NOEXIST) != 0)
        count(NO_ALLOCATION);
}

ALWAYS_INLINE void released(struct thread *thread)
{
    struct allocation gone = thread->released;
    struct device *device = gone.size ? find_device(thread->process, gone.device) : 0;

    if (!device || device->resets != gone.resets)
        return;
    __sync_fetch_and_add(&device->frees, 1);
    __sync_fetch_and_add(&device->freed, gone.size);
    tell(thread, EVENT_FREE, bpf_ktime_get_ns(), gone.size, no_longer_used(thread->process, &gone), gone.device);
}

ALWAYS_INLINE void reset(struct thread *thread)
{
    struct device *device = find_device(thread->process, thread->device);
    struct device *all = find_device(thread->process, ALL_DEVICES);
    if (device && all) {
        __sync_fetch_and_add(&device->resets, 1);
        __sync_fetch_and_add(&all->in_use, -__sync_lock_test_and_set(&device->in_use, 0));
    }
    tell(thread, EVENT_DEVICE_RESET, bpf_ktime_get_ns(), 0, 0, thread->device);
}
