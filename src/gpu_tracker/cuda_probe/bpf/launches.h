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
    struct frame frame = {};

    switch (WHAT(cookie)) {
    case LAUNCH: // (function, dim3 grid, dim3 block, arguments, shared memory, stream); a dim3 takes two registers
        read_frame(&frame, r, 8);
        thread->address = ARGUMENT_0(r);
        thread->value = threads_of(ARGUMENT_1(r), ARGUMENT_2(r), ARGUMENT_3(r), ARGUMENT_4(r));
        thread->stream = stream_of(ARGUMENT_7(r, frame), cookie);
        thread->launch.returns_to = frame.returns_to;
        return;
    case LAUNCH_BY_HANDLE: { // (function, grid x, y, z, block x, y, z, shared memory, stream, ...)
        u64 blocks = (u64)(u32)ARGUMENT_1(r) * (u32)ARGUMENT_2(r) * (u32)ARGUMENT_3(r);
        read_frame(&frame, r, 9);
        thread->address = ARGUMENT_0(r);
        thread->value = blocks * (u32)ARGUMENT_4(r) * (u32)ARGUMENT_5(r) * (u32)ARGUMENT_6(r, frame);
        thread->stream = stream_of(ARGUMENT_8(r, frame), cookie);
        thread->launch.returns_to = frame.returns_to;
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

// Whether the thread's last launch went to the same stream.
ALWAYS_INLINE int is_counted(struct thread *thread)
{
    return thread->has_counted && thread->counted_stream == thread->stream;
}

ALWAYS_INLINE void count_stream(struct thread *thread)
{
    struct handle key = {.address = thread->stream, .process = thread->process};
    struct process *process;
    u8 one = 1;

    if (is_counted(thread))
        return;
    thread->counted_stream = thread->stream;
    thread->has_counted = 1;
    if (bpf_map_lookup_elem(&streams, &key))
        return;
    if (bpf_map_update_elem(&streams, &key, &one, BPF_NOEXIST) != 0) {
        if (!bpf_map_lookup_elem(&streams, &key)) {
            thread->has_counted = 0;
            count(NO_STREAM);
        }
        return;
    }
    process = bpf_map_lookup_elem(&processes, &thread->process);
    if (process)
        __sync_fetch_and_add(&process->streams, 1);
}

ALWAYS_INLINE struct kernel *find_kernel(struct thread *thread)
{
    struct kernel_key key = {.address = thread->address, .process = thread->process, .device = thread->device};
    struct kernel new = {.inside = OTHERS_INSIDE}, *kernel = bpf_map_lookup_elem(&kernels, &key);
    if (kernel)
        return kernel;
    bpf_map_update_elem(&kernels, &key, &new, BPF_NOEXIST);
    kernel = bpf_map_lookup_elem(&kernels, &key);
    if (!kernel)
        count(NO_KERNEL);
    return kernel;
}

ALWAYS_INLINE void count_on_device(struct thread *thread, u64 launches, u64 threads)
{
    struct device *device = find_device(thread->process, thread->device);
    if (!device)
        return;
    __sync_fetch_and_add(&device->launches, launches);
    __sync_fetch_and_add(&device->threads, threads);
}

ALWAYS_INLINE void count_launch(struct thread *thread, struct kernel *kernel)
{
    if (kernel) {
        __sync_fetch_and_add(&kernel->launches, 1);
        __sync_fetch_and_add(&kernel->threads, thread->value);
    } else {
        count_on_device(thread, 1, thread->value);
    }
    count_stream(thread);
    tell(thread, EVENT_LAUNCH, thread->time, thread->value, 0, thread->device);
}

// A launch has returned, and went well.
ALWAYS_INLINE void launched(struct thread *thread)
{
    u32 capture = captured_into(thread->stream, thread->process, 0);
    struct kernel *kernel;

    if (capture) { // nothing runs yet
        add_kernel(capture, thread->address, thread->value);
        return;
    }
    kernel = find_kernel(thread);
    count_launch(thread, kernel);
    if (!kernel)
        return;
    kernel->known_threads = thread->value;
    kernel->inside = thread->others_inside || thread->launches_inside > 1 ? OTHERS_INSIDE
                     : thread->launches_inside                            ? LAUNCH_INSIDE
                                                                          : NOTHING_INSIDE;
}

ALWAYS_INLINE u64 returns_to(u64 sp, struct registers *r)
{
#if RETURN_ADDRESS_BYTES
    u64 address = 0;
    bpf_probe_read_user(&address, sizeof(address), (void *)sp);
    return address;
#else
    return sp == r->sp ? r->regs[30] : 0; // it is in a register, and nobody knows where the function keeps it
#endif
}

// The kernel of a launch that is being entered, where that is sure to go well: so many of the same have, and no call has
// failed since. Else 0.
ALWAYS_INLINE struct kernel *is_sure(struct thread *thread)
{
    struct kernel_key key = {.address = thread->address, .process = thread->process, .device = thread->device};
    struct kernel *kernel = bpf_map_lookup_elem(&kernels, &key);

    if (!is_counted(thread))
        return 0;
    if (!kernel || kernel->inside == OTHERS_INSIDE || kernel->launches < WAITED_FOR_FIRST ||
        kernel->launches % WAITED_FOR_EACH == 0 || kernel->known_threads != thread->value)
        return 0;
    if (!RETURN_ADDRESS_BYTES && kernel->inside != NOTHING_INSIDE)
        return 0;
    return captured_into(thread->stream, thread->process, 0) ? 0 : kernel;
}

// Counts a launch at its entry, and lets it go.
ALWAYS_INLINE void launched_for_sure(struct thread *thread, struct kernel *kernel, struct registers *r)
{
    count_launch(thread, kernel);
    thread->launch.sp = r->sp;
    thread->launch.instruction = thread->instruction;
    thread->launch.cookie = thread->cookie;
    thread->launch.threads = thread->value;
    thread->launch.inside_cookie = 0;
    thread->launch.has_inside = kernel->inside == LAUNCH_INSIDE;
    if (thread->launch.has_inside && WHAT(thread->cookie) == LAUNCH_BY_CONFIGURATION)
        thread->launch.returns_to = returns_to(r->sp, r);
    thread->sp = 0;
}

// Whether two entries are of one call: two mounts of one file, as containers of one image have, are two links.
ALWAYS_INLINE int is_same_call(u64 sp, u64 instruction, u64 cookie, struct registers *r, u64 cookie_now)
{
    return r->sp == sp && INSTRUCTION(r) == instruction && cookie != cookie_now;
}

// Whether a call inside another is the driver's part of that launch: so many threads.
ALWAYS_INLINE int is_same_launch(u64 threads, u32 process, struct registers *r, u64 cookie)
{
    struct thread inner = {.process = process};
    if (!is_launch(cookie) || !OF_DRIVER(cookie))
        return 0;
    remember_launch(&inner, r, cookie);
    return inner.value == threads;
}

// Whether this is the last launch, which is not waited for, once more, or the launch that it makes inside.
ALWAYS_INLINE int is_of_last_launch(struct thread *thread, struct registers *r, u64 cookie)
{
    struct left_behind *launch = &thread->launch;

    if (!launch->sp)
        return 0;
    if (is_same_call(launch->sp, launch->instruction, launch->cookie, r, cookie))
        return 1;
    if (launch->inside_cookie &&
        is_same_call(launch->inside_sp, launch->inside_instruction, launch->inside_cookie, r, cookie))
        return 1;
    if (launch->has_inside && !launch->inside_cookie &&
        (r->sp < launch->sp || (r->sp == launch->sp && cookie != launch->cookie)) &&
        is_same_launch(launch->threads, thread->process, r, cookie) &&
        returns_to(launch->sp, r) == launch->returns_to) {
        launch->inside_sp = r->sp;
        launch->inside_instruction = INSTRUCTION(r);
        launch->inside_cookie = cookie;
        return 1;
    }
    launch->sp = 0;
    return 0;
}

ALWAYS_INLINE void launched_graph(struct thread *thread)
{
    struct process *process = bpf_map_lookup_elem(&processes, &thread->process);
    u32 capture = captured_into(thread->stream, thread->process, 0);
    u32 number = graph_of(thread->address, thread->process);
    struct graph *graph = number ? bpf_map_lookup_elem(&graphs, &number) : 0;

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
    count_on_device(thread, graph->kernels, graph->threads);
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
    changed();
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
