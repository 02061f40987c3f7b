// Memory of devices: what is in use, and the most of it at once.
#pragma once

#include "graphs.h"

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

struct extent { // cudaExtent
    u64 width, height, depth;
};
struct channels { // cudaChannelFormatDesc
    s32 bits[4], kind;
};
struct driver_array { // CUDA_ARRAY_DESCRIPTOR
    u64 width, height;
    u32 format, channels;
};
struct driver_3d_array { // CUDA_ARRAY3D_DESCRIPTOR
    u64 width, height, depth;
    u32 format, channels, flags;
};

ALWAYS_INLINE u64 rows_of(u64 height, u64 depth) { return (height ? height : 1) * (depth ? depth : 1); }

ALWAYS_INLINE u64 bytes_of_channels(u64 description)
{
    struct channels c = {};
    bpf_probe_read_user(&c, sizeof(c), (void *)description);
    return (u64)(u32)(c.bits[0] + c.bits[1] + c.bits[2] + c.bits[3]) / 8;
}

// Of CUarray_format: 8, 16 or 32 bits unsigned (1 to 3) and signed (8 to 10), half (0x10) and float (0x20).
ALWAYS_INLINE u64 bytes_of_format(u32 format)
{
    switch (format) {
    case 0x01:
    case 0x08:
        return 1;
    case 0x02:
    case 0x09:
    case 0x10:
        return 2;
    case 0x03:
    case 0x0a:
    case 0x20:
        return 4;
    }
    return 0; // of images in planes or blocks: not known
}

// What an allocation is asked for, at its entry: its bytes, or in three dimensions its rows.
ALWAYS_INLINE void remember_allocation(struct thread *thread, struct registers *r, u64 cookie)
{
    switch (WHAT(cookie)) {
    case ALLOCATE_ON_STREAM: // (pointer, size, stream)
        thread->stream = stream_of(ARGUMENT_2(r), cookie);
        return;
    case ALLOCATE_FROM_POOL: // (pointer, size, pool, stream)
        thread->stream = stream_of(ARGUMENT_3(r), cookie);
        return;
    case ALLOCATE_PITCHED: // (pointer, pitch, width, height): the pitch is known at the return
        thread->stream = ARGUMENT_3(r);
        return;
    case ALLOCATE_3D: { // (pitched pointer, extent)
        struct extent e = {};
        bpf_probe_read_user(&e, sizeof(e), (void *)LARGE_STRUCT_AT(r, 1));
        thread->value = rows_of(e.height, e.depth);
        return;
    }
    case ALLOCATE_ARRAY: // (array, channels, width, height, flags)
        thread->value = bytes_of_channels(ARGUMENT_1(r)) * ARGUMENT_2(r) * rows_of(ARGUMENT_3(r), 0);
        return;
    case ALLOCATE_3D_ARRAY: { // (array, channels, extent, flags)
        struct extent e = {};
        bpf_probe_read_user(&e, sizeof(e), (void *)LARGE_STRUCT_AT(r, 2));
        thread->value = bytes_of_channels(ARGUMENT_1(r)) * e.width * rows_of(e.height, e.depth);
        return;
    }
    case ALLOCATE_DRIVER_ARRAY: { // (array, description)
        struct driver_array a = {};
        bpf_probe_read_user(&a, sizeof(a), (void *)ARGUMENT_1(r));
        thread->value = bytes_of_format(a.format) * a.channels * a.width * rows_of(a.height, 0);
        return;
    }
    case ALLOCATE_DRIVER_3D_ARRAY: {
        struct driver_3d_array a = {};
        bpf_probe_read_user(&a, sizeof(a), (void *)ARGUMENT_1(r));
        thread->value = bytes_of_format(a.format) * a.channels * a.width * rows_of(a.height, a.depth);
        return;
    }
    }
}

// Takes an allocation out of what is in use, and returns what is then.
SUBPROGRAM u64 no_longer_used(u32 process, const struct allocation *gone)
{
    s32 all_number = gone->device == HOST_MEMORY ? HOST_MEMORY : ALL_DEVICES;
    struct device *device = find_device(process, gone->device), *all = find_device(process, all_number);
    u64 size = gone->size;
    if (!device || !all || device->resets != gone->resets)
        return 0;
    if (device != all)
        __sync_fetch_and_add(&all->in_use, -size);
    return __sync_fetch_and_add(&device->in_use, -size) - size;
}

struct pitched_pointer { // the begin of cudaPitchedPtr
    u64 address, pitch;
};

ALWAYS_INLINE void allocated(struct thread *thread)
{
    struct handle key = {.process = thread->process};
    struct allocation new = {.size = thread->value, .device = thread->device};
    enum what what = WHAT(thread->cookie);
    struct device *device, *all;
    struct allocation *old;
    u64 in_use;

    if (bpf_probe_read_user(&key.address, sizeof(key.address), (void *)thread->address) || !key.address)
        return;
    if (what == ALLOCATE_PITCHED) {
        if (bpf_probe_read_user(&new.size, sizeof(new.size), (void *)thread->value))
            return;
        new.size *= thread->stream;
    } else if (what == ALLOCATE_3D) {
        struct pitched_pointer made = {};
        bpf_probe_read_user(&made, sizeof(made), (void *)thread->address);
        new.size = made.pitch * thread->value;
    } else if (what == ALLOCATE_HOST) {
        new.device = HOST_MEMORY;
    } else if ((what == ALLOCATE_ON_STREAM || what == ALLOCATE_FROM_POOL) &&
               captured_into(thread->stream, thread->process, 0)) {
        return; // a graph has it, where it is launched
    }
    thread->stream = 0;
    device = find_device(thread->process, new.device);
    all = find_device(thread->process, what == ALLOCATE_HOST ? HOST_MEMORY : ALL_DEVICES);
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
    in_use = use_memory(device, new.size);
    if (what == ALLOCATE_HOST)
        return;
    use_memory(all, new.size);
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
    u64 in_use;

    if (!device || device->resets != gone.resets)
        return;
    __sync_fetch_and_add(&device->frees, 1);
    __sync_fetch_and_add(&device->freed, gone.size);
    in_use = no_longer_used(thread->process, &gone);
    if (gone.device != HOST_MEMORY)
        tell(thread, EVENT_FREE, bpf_ktime_get_ns(), gone.size, in_use, gone.device);
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
