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
