// Launches, streams, and what waits for them.
#pragma once

#include "graphs.h"

ALWAYS_INLINE u64 stream_of(u64 stream, u64 cookie)
{
    if (stream == STREAM_PER_THREAD || (stream == 0 && OF_THREAD(cookie)))
        return STREAM_OF_THREAD | (u32)bpf_get_current_pid_tgid();
    return stream == STREAM_LEGACY ? 0 : stream;
}

ALWAYS_INLINE u64 threads_of(u64 grid_xy, u32 grid_z, u64 block_xy, u32 block_z)
{
    return (u64)(u32)grid_xy * (u32)(grid_xy >> 32) * grid_z * (u32)block_xy * (u32)(block_xy >> 32) * block_z;
}

struct configuration { // cudaLaunchConfig_t and CUlaunchConfig, as far as both are the same
    u32 grid[3], block[3];
    u64 shared_memory, stream;
};

ALWAYS_INLINE void remember_launch(struct thread *thread, struct registers *r, u64 cookie)
{
    switch (WHAT(cookie)) {
    case LAUNCH: // (function, dim3 grid, dim3 block, arguments, shared memory, stream); a dim3 takes two registers
        thread->address = ARGUMENT_0(r);
        thread->value = threads_of(ARGUMENT_1(r), ARGUMENT_2(r), ARGUMENT_3(r), ARGUMENT_4(r));
        thread->stream = stream_of(ARGUMENT_7(r), cookie);
        return;
    case LAUNCH_BY_HANDLE: { // (function, grid x, y, z, block x, y, z, shared memory, stream, ...)
        u64 blocks = (u64)(u32)ARGUMENT_1(r) * (u32)ARGUMENT_2(r) * (u32)ARGUMENT_3(r);
        thread->address = ARGUMENT_0(r);
        thread->value = blocks * (u32)ARGUMENT_4(r) * (u32)ARGUMENT_5(r) * (u32)ARGUMENT_6(r);
        thread->stream = stream_of(ARGUMENT_8(r), cookie);
        return;
    }
    case LAUNCH_BY_CONFIGURATION: { // (configuration, function, ...)
        struct configuration c = {};
        bpf_probe_read_user(&c, sizeof(c), (void *)ARGUMENT_0(r));
        thread->address = ARGUMENT_1(r);
        thread->value = (u64)c.grid[0] * c.grid[1] * c.grid[2] * c.block[0] * c.block[1] * c.block[2];
        thread->stream = stream_of(c.stream, cookie);
        return;
    }
    case GRAPH_LAUNCH: // (graph, stream)
        thread->stream = stream_of(ARGUMENT_1(r), cookie);
        return;
    }
}

ALWAYS_INLINE void count_stream(struct thread *thread)
{
    struct handle key = {.address = thread->stream, .process = thread->process};
    struct process *process;
    u8 one = 1;

    if (bpf_map_lookup_elem(&streams, &key))
        return;
    if (bpf_map_update_elem(&streams, &key, &one, BPF_NOEXIST) != 0) {
        if (!bpf_map_lookup_elem(&streams, &key))
            count(NO_STREAM);
        return;
    }
    process = bpf_map_lookup_elem(&processes, &thread->process);
    if (process)
        __sync_fetch_and_add(&process->streams, 1);
}

ALWAYS_INLINE void launched(struct thread *thread)
{
    struct handle key = {.address = thread->address, .process = thread->process};
    struct device *device;
    struct kernel new = {}, *kernel;
    u32 capture = captured_into(thread->stream, thread->process, 0);

    if (capture) { // nothing runs yet
        add_kernel(capture, thread->address, thread->value);
        return;
    }
    device = find_device(thread->process, thread->device);
    kernel = bpf_map_lookup_elem(&kernels, &key);
    if (device) {
        __sync_fetch_and_add(&device->launches, 1);
        __sync_fetch_and_add(&device->threads, thread->value);
    }
    if (!kernel) {
        bpf_map_update_elem(&kernels, &key, &new, BPF_NOEXIST);
        kernel = bpf_map_lookup_elem(&kernels, &key);
    }
    if (kernel) {
        __sync_fetch_and_add(&kernel->launches, 1);
        __sync_fetch_and_add(&kernel->threads, thread->value);
    } else {
        count(NO_KERNEL);
    }
    count_stream(thread);
    tell(thread, EVENT_LAUNCH, thread->time, thread->value, 0, thread->device);
}

ALWAYS_INLINE void launched_graph(struct thread *thread)
{
    struct process *process = bpf_map_lookup_elem(&processes, &thread->process);
    u32 capture = captured_into(thread->stream, thread->process, 0);
    u32 number = graph_of(thread->address, thread->process);
    struct graph *graph = number ? bpf_map_lookup_elem(&graphs, &number) : 0;
    struct device *device;

    if (capture) {
        add_child(capture, number);
        return;
    }
    if (process)
        __sync_fetch_and_add(&process->graph_launches, 1);
    if (!graph) {
        if (process)
            __sync_fetch_and_add(&process->unknown_graph_launches, 1);
        return;
    }
    __sync_fetch_and_add(&graph->launches, 1);
    if (!graph->kernels)
        return;
    device = find_device(thread->process, thread->device);
    if (device) {
        __sync_fetch_and_add(&device->launches, graph->kernels);
        __sync_fetch_and_add(&device->threads, graph->threads);
    }
    count_stream(thread);
    thread->address = GRAPH_ADDRESS;
    tell(thread, EVENT_LAUNCH, thread->time, graph->threads / graph->kernels, 0, thread->device);
}

ALWAYS_INLINE void recorded(struct thread *thread)
{
    struct handle key = {.address = thread->address, .process = thread->process, .padding = 1};
    u32 capture = captured_into(thread->stream, thread->process, 0);
    if (capture) {
        capture_into(thread->address, thread->process, 1, capture);
        return;
    }
    if (captured_into(thread->address, thread->process, 1))
        bpf_map_delete_elem(&capturing, &key);
    tell(thread, EVENT_EVENT_RECORD, thread->time, 0, 0, thread->device);
}

// A stream that waits for an event of a capture is captured itself from then on.
ALWAYS_INLINE void waits_for_event(struct thread *thread)
{
    u32 capture = captured_into(thread->value, thread->process, 1);
    if (capture)
        capture_into(thread->stream, thread->process, 0, capture);
}

// At the entry of the call, too: at its return another thread may have got the same handle.
ALWAYS_INLINE void destroy_stream(struct thread *thread)
{
    struct handle key = {.address = thread->stream, .process = thread->process};
    bpf_map_delete_elem(&streams, &key);
    tell(thread, EVENT_STREAM_DESTROY, thread->time, 0, 0, thread->device);
}

ALWAYS_INLINE void synchronised(struct thread *thread, enum event_kind kind)
{
    struct device *device = find_device(thread->process, thread->device);
    u64 now = bpf_ktime_get_ns();
    if (device) {
        __sync_fetch_and_add(&device->synchronisations, 1);
        __sync_fetch_and_add(&device->synchronising, now - thread->time);
    }
    tell(thread, kind, now, 0, 0, thread->device);
}

ALWAYS_INLINE void copied(struct thread *thread)
{
    struct device *device = find_device(thread->process, thread->device);
    if (device)
        __sync_fetch_and_add(&device->copies, 1);
    if (thread->value != DEVICE_TO_DEVICE)
        tell(thread, EVENT_MEMCPY, bpf_ktime_get_ns(), 0, 0, thread->device);
}
