// The part of the probe that runs in the kernel: at each call of a CUDA function by a followed process it adds to the
// totals in its maps, which never lose anything, and tells an event through a ring, which does where nobody reads it.
//
// `enter` and `leave` are attached to the entry and the return of every function in calls.py; the cookie says which it
// is. Only the outermost call of a thread counts: what a runtime function calls inside is part of it.
#include "kernel.h"

// What a function does; calls.py has the same numbers.
enum what {
    LAUNCH = 1,
    LAUNCH_BY_CONFIGURATION,
    LAUNCH_BY_HANDLE,
    GRAPH_LAUNCH,
    ALLOCATE,
    ALLOCATE_PITCHED,
    RELEASE,
    SYNCHRONISE_STREAM,
    QUERY_STREAM,
    DESTROY_STREAM,
    SYNCHRONISE_DEVICE,
    RESET_DEVICE,
    SET_DEVICE,
    RECORD_EVENT,
    SYNCHRONISE_EVENT,
    QUERY_EVENT,
    DESTROY_EVENT,
    COPY,
    COPY_ONE_WAY,
    NAME_KERNEL,
    GET_KERNEL,
    SET_VARIABLE,
    UNSET_VARIABLE,
    PUT_VARIABLE,
    CHANGE_LIBRARIES,
};
#define WHAT(cookie) ((cookie) & 0xff)
#define OF_THREAD(cookie) ((cookie) >> 8 & 1) // its default stream is the thread's own
#define FUNCTION(cookie) ((u32)((cookie) >> 16))

// events.py has the same numbers and layout.
enum event_kind {
    EVENT_LAUNCH = 1,
    EVENT_STREAM_SYNC,
    EVENT_DEVICE_SYNC,
    EVENT_EVENT_RECORD,
    EVENT_EVENT_DONE,
    EVENT_EVENT_DESTROY,
    EVENT_MEMCPY,
    EVENT_ALLOCATION,
    EVENT_FREE,
    EVENT_STREAM_DESTROY,
    EVENT_DEVICE_RESET,
    EVENT_PROCESS_END,
};
struct event {
    u64 time, stream, address, value, in_use;
    u32 process;
    s32 device;
    u16 kind, flags;
    u32 thread;
};

// engine/notices.py has the same numbers, engine/layout.py the layout.
enum notice_kind {
    NOTICE_FIRST_CALL = 1,
    NOTICE_EXEC,
    NOTICE_LIBRARIES,
    NOTICE_KERNEL_NAME,
    NOTICE_VARIABLE,
    NOTICE_END,
    NOTICE_FORK,
};
// For eight UUIDs, or the mangled names of most kernels.
#define TEXT_BYTES 1024
struct notice {
    u64 time, address, value;
    u32 process, pid;
    u32 kind, has_text;
    char name[32];
    char text[TEXT_BYTES];
};

struct followed {
    u32 process, parent;
};
struct process {
    u64 began, ended, streams, graph_launches;
    u32 pid, parent;
    char name[16];
};
struct device_key {
    u32 process;
    s32 device;
};
struct device {
    u64 launches, threads, allocations, frees, allocated, freed, in_use, peak;
    u64 synchronisations, synchronising, copies, resets;
};
struct handle { // of a kernel, a stream or an allocation
    u64 address;
    u32 process, padding;
};
struct kernel {
    u64 launches, threads;
};
struct allocation {
    u64 size, resets;
    s32 device;
    u32 padding;
};
struct failure_key {
    u32 process, function;
    s32 error;
};
enum counts { NOT_ASKED, COUNTS, LEFT_OUT }; // whether there is room for the program of a thread
struct thread {
    u64 sp; // at the entry of the call that it is in; 0: in none
    u64 cookie, time, address, stream, value;
    struct allocation released; // what the call releases
    u32 process, counts;
    s32 device;
    u32 padding;
};

// limits.py has these bounds.
HASH(followed, u32, struct followed, 16384);
HASH(processes, u32, struct process, 1024);
HASH(devices, struct device_key, struct device, 4096);
HASH(allocations, struct handle, struct allocation, 131072);
HASH(kernels, struct handle, struct kernel, 16384);
HASH(streams, struct handle, u8, 8192);
HASH(threads, u64, struct thread, 16384);
HASH(failures, struct failure_key, u64, 4096);
RING(events, 8388608);
RING(notices, 4194304);

// What found no room; engine/layout.py has the same numbers.
enum overflow { LOST_EVENT, LOST_NOTICE, NO_FOLLOWED, NO_PROCESS, NO_DEVICE, NO_ALLOCATION, NO_KERNEL, NO_STREAM, NO_THREAD, NO_FAILURE, PEAKS, N_OVERFLOWS };
ARRAY(overflows, u64, N_OVERFLOWS);

struct settings {
    u32 last_process; // the highest number of a program run so far
    u32 level;        // of the probe's own PID namespace below the first one
    u64 half_a_ring;  // bytes of events from which on the reader is woken
};
ARRAY(settings, struct settings, 1);

#define ALL_DEVICES -1
#define STREAM_OF_THREAD (1ull << 63)
enum { STREAM_LEGACY = 1, STREAM_PER_THREAD = 2 }; // the handles cudaStreamLegacy and cudaStreamPerThread
enum { NOT_READY = 600 };                          // an answer to a query, and no failure
enum { DEVICE_TO_DEVICE = 3 };                     // cudaMemcpyKind: does not wait

ALWAYS_INLINE void count(enum overflow what)
{
    u32 key = what;
    u64 *counted = bpf_map_lookup_elem(&overflows, &key);
    if (counted)
        __sync_fetch_and_add(counted, 1);
}

ALWAYS_INLINE struct settings *find_settings(void)
{
    u32 zero = 0;
    return bpf_map_lookup_elem(&settings, &zero);
}

// The ID that a task's process has in the probe's PID namespace; 0: none.
ALWAYS_INLINE u32 pid_of(struct task_struct *task, u32 level)
{
    struct pid *pid = task->group_leader->thread_pid;
    u32 number = 0;
    if (level > pid->level || level > 32)
        return 0;
    bpf_probe_read_kernel(&number, sizeof(number),
                          (void *)pid + OFFSET_OF(pid->numbers) + level * SIZE_OF_TYPE(struct upid) +
                              OFFSET_OF(((struct upid *)0)->nr));
    return number;
}

ALWAYS_INLINE u32 current_pid(void)
{
    struct settings *known = find_settings();
    if (!known || !known->level)
        return bpf_get_current_pid_tgid() >> 32;
    return pid_of(bpf_get_current_task_btf(), known->level);
}

ALWAYS_INLINE struct notice *new_notice(enum notice_kind kind, u32 process, u32 pid)
{
    struct notice *notice = bpf_ringbuf_reserve(&notices, sizeof(*notice), 0);
    if (!notice) {
        count(LOST_NOTICE);
        return 0;
    }
    notice->time = bpf_ktime_get_ns();
    notice->address = 0;
    notice->value = 0;
    notice->process = process;
    notice->pid = pid;
    notice->kind = kind;
    notice->has_text = 0;
    notice->name[0] = 0;
    notice->text[0] = 0;
    return notice;
}

ALWAYS_INLINE void tell_notice(enum notice_kind kind, u32 process, u32 pid, u64 address)
{
    struct notice *notice = new_notice(kind, process, pid);
    if (!notice)
        return;
    notice->address = address;
    bpf_ringbuf_submit(notice, kind == NOTICE_FORK ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP);
}

ALWAYS_INLINE void tell(struct thread *thread, enum event_kind kind, u64 time, u64 value, u64 in_use, s32 device)
{
    struct settings *known = find_settings();
    struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
    u64 waiting, flags = BPF_RB_NO_WAKEUP;

    if (!event || !known) {
        if (event)
            bpf_ringbuf_discard(event, BPF_RB_NO_WAKEUP);
        count(LOST_EVENT);
        return;
    }
    event->time = time;
    event->stream = thread->stream;
    event->address = thread->address;
    event->value = value;
    event->in_use = in_use;
    event->process = thread->process;
    event->device = device;
    event->kind = kind;
    event->flags = 0;
    event->thread = bpf_get_current_pid_tgid();
    // The reader looks by itself every now and then: waking it costs the program, and is done once, at half of the ring.
    waiting = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);
    if (waiting >= known->half_a_ring && waiting < known->half_a_ring + 4096)
        flags = BPF_RB_FORCE_WAKEUP;
    bpf_ringbuf_submit(event, flags);
}

ALWAYS_INLINE struct process *find_process(u32 number, u32 pid, u32 parent)
{
    struct process new = {}, *process = bpf_map_lookup_elem(&processes, &number);
    if (process)
        return process;
    new.began = bpf_ktime_get_ns();
    new.pid = pid;
    new.parent = parent;
    bpf_get_current_comm(new.name, sizeof(new.name));
    if (bpf_map_update_elem(&processes, &number, &new, BPF_NOEXIST) == 0)
        tell_notice(NOTICE_FIRST_CALL, number, pid, 0);
    process = bpf_map_lookup_elem(&processes, &number);
    if (!process)
        count(NO_PROCESS);
    return process;
}

ALWAYS_INLINE struct device *find_device(u32 process, s32 number)
{
    struct device_key key = {.process = process, .device = number};
    struct device new = {}, *device = bpf_map_lookup_elem(&devices, &key);
    if (device)
        return device;
    bpf_map_update_elem(&devices, &key, &new, BPF_NOEXIST);
    device = bpf_map_lookup_elem(&devices, &key);
    if (!device)
        count(NO_DEVICE);
    return device;
}

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

ALWAYS_INLINE void remember(struct thread *thread, struct registers *r, u64 cookie)
{
    thread->address = ARGUMENT_0(r);
    thread->value = ARGUMENT_1(r);
    thread->stream = 0;
    switch (WHAT(cookie)) {
    case LAUNCH:
    case LAUNCH_BY_HANDLE:
    case LAUNCH_BY_CONFIGURATION:
    case GRAPH_LAUNCH:
        remember_launch(thread, r, cookie);
        return;
    case ALLOCATE_PITCHED: // (pointer, pitch, width, height): the pitch is known at the return
        thread->stream = ARGUMENT_3(r);
        return;
    case SYNCHRONISE_STREAM:
    case QUERY_STREAM:
    case DESTROY_STREAM:
        thread->stream = stream_of(ARGUMENT_0(r), cookie);
        return;
    case RECORD_EVENT:
        thread->stream = stream_of(ARGUMENT_1(r), cookie);
        return;
    case COPY: // (to, from, size, kind)
        thread->value = ARGUMENT_3(r);
        thread->stream = stream_of(0, cookie);
        return;
    case COPY_ONE_WAY:
        thread->value = 0;
        thread->stream = stream_of(0, cookie);
        return;
    case SET_VARIABLE: // (name, value, overwrite)
        thread->stream = ARGUMENT_2(r);
        return;
    case NAME_KERNEL: // (handle, module, name)
        thread->value = ARGUMENT_2(r);
        return;
    }
}

ALWAYS_INLINE int is_wanted(const char *name)
{
    // CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER
    return name[0] == 'C' && name[1] == 'U' && name[2] == 'D' && name[3] == 'A' && name[4] == '_' &&
           ((name[5] == 'V' && name[6] == 'I' && name[7] == 'S') || (name[5] == 'D' && name[6] == 'E' && name[7] == 'V'));
}

// (name, value), (name), or ("name=value"). Told at the return: before it the texts may not have been in memory.
ALWAYS_INLINE void tell_variable(struct thread *thread, u32 pid)
{
    const void *name = (void *)thread->address, *value = (void *)thread->value;
    char start[16] = {};
    struct notice *notice;

    bpf_probe_read_user_str(start, sizeof(start), name);
    if (!is_wanted(start))
        return;
    notice = new_notice(NOTICE_VARIABLE, thread->process, pid);
    if (!notice)
        return;
    notice->address = WHAT(thread->cookie) == SET_VARIABLE && (u32)thread->stream == 0;
    if (WHAT(thread->cookie) == PUT_VARIABLE) {
        bpf_probe_read_user_str(notice->text, sizeof(notice->text), name);
        notice->has_text = 1;
    } else {
        bpf_probe_read_user_str(notice->name, sizeof(notice->name), name);
        if (WHAT(thread->cookie) == SET_VARIABLE) {
            bpf_probe_read_user_str(notice->text, sizeof(notice->text), value);
            notice->has_text = 1;
        }
    }
    bpf_ringbuf_submit(notice, BPF_RB_FORCE_WAKEUP);
}

ALWAYS_INLINE struct thread *find_thread(u64 id)
{
    struct thread new = {}, *thread = bpf_map_lookup_elem(&threads, &id);
    if (thread)
        return thread;
    bpf_map_update_elem(&threads, &id, &new, BPF_NOEXIST);
    thread = bpf_map_lookup_elem(&threads, &id);
    if (!thread)
        count(NO_THREAD);
    return thread;
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

// At the entry of the call, too: at its return another thread may have got the same handle.
ALWAYS_INLINE void destroy_stream(struct thread *thread)
{
    struct handle key = {.address = thread->stream, .process = thread->process};
    bpf_map_delete_elem(&streams, &key);
    tell(thread, EVENT_STREAM_DESTROY, thread->time, 0, 0, thread->device);
}

SEC("uprobe") int enter(struct registers *r)
{
    u64 cookie = bpf_get_attach_cookie(r);
    u32 pid = current_pid();
    struct followed *followed_as = bpf_map_lookup_elem(&followed, &pid);
    struct thread *thread;

    if (!followed_as)
        return 0;
    if (WHAT(cookie) == CHANGE_LIBRARIES) {
        tell_notice(NOTICE_LIBRARIES, followed_as->process, pid, 0);
        return 0;
    }
    thread = find_thread(bpf_get_current_pid_tgid());
    if (!thread)
        return 0;
    if (thread->process != followed_as->process) { // exec has made another program of it
        thread->sp = 0;
        thread->device = 0;
        thread->process = followed_as->process;
        thread->counts = NOT_ASKED;
    }
    // Stacks grow down. Deeper than the call that the thread is in: inside it. As deep and another function: inside it
    // too, by a jump in place of a call. Anything else: that call was left in another way than by its return.
    if (thread->sp && (r->sp < thread->sp || (r->sp == thread->sp && thread->cookie != cookie)))
        return 0;
    if (WHAT(cookie) < SET_VARIABLE) {
        if (thread->counts == NOT_ASKED)
            thread->counts = find_process(followed_as->process, pid, followed_as->parent) ? COUNTS : LEFT_OUT;
        if (thread->counts == LEFT_OUT)
            return 0;
    }
    thread->sp = r->sp;
    thread->cookie = cookie;
    thread->time = bpf_ktime_get_ns();
    remember(thread, r, cookie);
    if (WHAT(cookie) == RELEASE)
        begin_release(thread);
    else if (WHAT(cookie) == DESTROY_STREAM)
        destroy_stream(thread);
    return 0;
}

ALWAYS_INLINE void fail(struct thread *thread, s32 error)
{
    struct failure_key key = {.process = thread->process, .function = FUNCTION(thread->cookie), .error = error};
    u64 zero = 0, *failed = bpf_map_lookup_elem(&failures, &key);
    if (!failed) {
        bpf_map_update_elem(&failures, &key, &zero, BPF_NOEXIST);
        failed = bpf_map_lookup_elem(&failures, &key);
    }
    if (failed)
        __sync_fetch_and_add(failed, 1);
    else
        count(NO_FAILURE);
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
    struct device *device = find_device(thread->process, thread->device);
    struct kernel new = {}, *kernel = bpf_map_lookup_elem(&kernels, &key);

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
    if (process)
        __sync_fetch_and_add(&process->graph_launches, 1);
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

ALWAYS_INLINE void named(struct thread *thread, u32 pid)
{
    struct notice *notice = new_notice(NOTICE_KERNEL_NAME, thread->process, pid);
    if (!notice)
        return;
    bpf_probe_read_user(&notice->address, sizeof(notice->address), (void *)thread->address);
    if (WHAT(thread->cookie) == GET_KERNEL) {
        notice->value = thread->value;
    } else {
        bpf_probe_read_user_str(notice->text, sizeof(notice->text), (void *)thread->value);
        notice->has_text = 1;
    }
    bpf_ringbuf_submit(notice, BPF_RB_NO_WAKEUP);
}

SEC("uretprobe") int leave(struct registers *r)
{
    u64 id = bpf_get_current_pid_tgid(), cookie = bpf_get_attach_cookie(r);
    struct thread *thread = bpf_map_lookup_elem(&threads, &id);
    s32 error = RETURNED(r);

    if (!thread || !thread->sp || r->sp != thread->sp + RETURN_ADDRESS_BYTES || cookie != thread->cookie)
        return 0;
    thread->sp = 0;
    if (WHAT(cookie) >= SET_VARIABLE) {
        tell_variable(thread, current_pid());
        return 0;
    }
    if (error) {
        if (WHAT(cookie) == RELEASE)
            undo_release(thread);
        if (error != NOT_READY)
            fail(thread, error);
        return 0;
    }
    switch (WHAT(cookie)) {
    case LAUNCH:
    case LAUNCH_BY_HANDLE:
    case LAUNCH_BY_CONFIGURATION:
        launched(thread);
        return 0;
    case GRAPH_LAUNCH:
        launched_graph(thread);
        return 0;
    case ALLOCATE:
    case ALLOCATE_PITCHED:
        allocated(thread);
        return 0;
    case RELEASE:
        released(thread);
        return 0;
    case SYNCHRONISE_STREAM:
        synchronised(thread, EVENT_STREAM_SYNC);
        return 0;
    case SYNCHRONISE_DEVICE:
        synchronised(thread, EVENT_DEVICE_SYNC);
        return 0;
    case SYNCHRONISE_EVENT:
        synchronised(thread, EVENT_EVENT_DONE);
        return 0;
    case QUERY_STREAM:
        tell(thread, EVENT_STREAM_SYNC, bpf_ktime_get_ns(), 0, 0, thread->device);
        return 0;
    case QUERY_EVENT:
        tell(thread, EVENT_EVENT_DONE, bpf_ktime_get_ns(), 0, 0, thread->device);
        return 0;
    case RECORD_EVENT:
        tell(thread, EVENT_EVENT_RECORD, thread->time, 0, 0, thread->device);
        return 0;
    case DESTROY_EVENT:
        tell(thread, EVENT_EVENT_DESTROY, bpf_ktime_get_ns(), 0, 0, thread->device);
        return 0;
    case RESET_DEVICE:
        reset(thread);
        return 0;
    case SET_DEVICE:
        thread->device = thread->address;
        return 0;
    case COPY:
    case COPY_ONE_WAY:
        copied(thread);
        return 0;
    case NAME_KERNEL:
    case GET_KERNEL:
        named(thread, current_pid());
        return 0;
    }
    return 0;
}

ALWAYS_INLINE u32 new_number(void)
{
    struct settings *known = find_settings();
    return known ? __sync_fetch_and_add(&known->last_process, 1) + 1 : 0;
}

ALWAYS_INLINE void end_program(u32 number, u32 pid)
{
    struct process *process = bpf_map_lookup_elem(&processes, &number);
    struct thread thread = {.process = number};

    if (!process)
        return;
    process->ended = bpf_ktime_get_ns();
    tell(&thread, EVENT_PROCESS_END, process->ended, 0, 0, ALL_DEVICES);
    tell_notice(NOTICE_END, number, pid, 0);
}

SEC("tp_btf/sched_process_fork") int forked(u64 *arguments)
{
    struct task_struct *parent = (void *)arguments[0], *child = (void *)arguments[1];
    struct settings *known = find_settings();
    struct followed *followed_as, new = {};
    u32 pid = current_pid(), child_pid;

    if (!known || child->tgid == parent->tgid) // a thread
        return 0;
    followed_as = bpf_map_lookup_elem(&followed, &pid);
    if (!followed_as)
        return 0;
    child_pid = known->level ? pid_of(child, known->level) : child->tgid;
    new.process = new_number();
    new.parent = followed_as->process;
    if (bpf_map_update_elem(&followed, &child_pid, &new, BPF_ANY) != 0)
        count(NO_FOLLOWED);
    tell_notice(NOTICE_FORK, new.process, child_pid, new.parent);
    return 0;
}

SEC("tp_btf/sched_process_exec") int executed(u64 *arguments)
{
    struct followed *followed_as, new = {};
    u32 pid = current_pid();
    u64 thread;

    followed_as = bpf_map_lookup_elem(&followed, &pid);
    if (!followed_as)
        return 0;
    thread = (bpf_get_current_pid_tgid() & ~0xffffffffull) | (u32)arguments[1]; // it has the leader's ID from now on
    bpf_map_delete_elem(&threads, &thread);
    end_program(followed_as->process, pid);
    new.process = new_number();
    new.parent = followed_as->process;
    bpf_map_update_elem(&followed, &pid, &new, BPF_ANY);
    tell_notice(NOTICE_EXEC, new.process, pid, new.parent);
    return 0;
}

SEC("tp_btf/sched_process_exit") int exited(u64 *arguments)
{
    struct task_struct *task = (void *)arguments[0];
    u64 id = bpf_get_current_pid_tgid();
    u32 pid = current_pid();
    struct followed *followed_as = bpf_map_lookup_elem(&followed, &pid);
    u32 number;

    bpf_map_delete_elem(&threads, &id);
    if (!followed_as)
        return 0;
    if (task->signal->live.counter != 0) // other threads of it run on
        return 0;
    number = followed_as->process;
    if (bpf_map_delete_elem(&followed, &pid) == 0)
        end_program(number, pid);
    return 0;
}

// Run once by the loader itself: how deep its PID namespace is.
SEC("syscall") int find_level(void *context)
{
    struct settings *known = find_settings();
    if (!known)
        return 1;
    known->level = bpf_get_current_task_btf()->thread_pid->level;
    return 0;
}

char license_of_the_probe[] SEC("license") = "Dual BSD/GPL";
