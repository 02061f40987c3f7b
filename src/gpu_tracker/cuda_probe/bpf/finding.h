// Where the totals of programs, devices and threads stand, made when they are first asked for.
#pragma once

#include "telling.h"

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

ALWAYS_INLINE int is_launch(u64 cookie)
{
    return WHAT(cookie) == LAUNCH || WHAT(cookie) == LAUNCH_BY_HANDLE || WHAT(cookie) == LAUNCH_BY_CONFIGURATION;
}

ALWAYS_INLINE struct thread *find_thread(u64 id)
{
    struct thread new = {.id = id}, *thread = bpf_map_lookup_elem(&threads, &id);
    if (thread)
        return thread;
    bpf_map_update_elem(&threads, &id, &new, BPF_NOEXIST);
    thread = bpf_map_lookup_elem(&threads, &id);
    if (!thread)
        count(NO_THREAD);
    return thread;
}

// Returns the current thread as its process is now, 0 if its call does not count. Without changes, it is not checked
// again: that would take three lookups more at each call.
SUBPROGRAM struct thread *check_thread(u64 cookie)
{
    struct settings *known = find_settings();
    u64 changes = known ? known->changes : 0; // first: what changes from here on is seen at the next call
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
        thread->launch.sp = 0;
        thread->has_chosen = 0;
        thread->process = followed_as->process;
        thread->counts = NOT_ASKED;
    }
    thread->has_counted = 0;
    if (!thread->has_chosen)
        thread->device = followed_as->is_late ? UNKNOWN_DEVICE : 0;
    if (WHAT(cookie) < SET_VARIABLE) {
        if (thread->counts == NOT_ASKED)
            thread->counts = find_process(followed_as->process, pid, followed_as->parent) ? COUNTS : LEFT_OUT;
        if (thread->counts == LEFT_OUT)
            return 0;
    }
    if (followed_as->suspected <= 0)
        thread->checked_at = thread->counts == COUNTS ? changes : 0;
    else if (is_launch(cookie) && !thread->sp)
        __sync_fetch_and_add(&followed_as->suspected, -1);
    return thread;
}
