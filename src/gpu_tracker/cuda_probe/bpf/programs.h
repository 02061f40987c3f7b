// Which processes are followed: each fork and each exec begins a program with a number of its own.
#pragma once

#include "finding.h"

ALWAYS_INLINE u32 new_number(void)
{
    struct settings *known = find_settings();
    return known ? __sync_fetch_and_add(&known->last_process, 1) + 1 : 0;
}

ALWAYS_INLINE void end_program(u32 number, u32 pid)
{
    struct process *process = bpf_map_lookup_elem(&processes, &number);
    struct thread thread = {.process = number, .id = bpf_get_current_pid_tgid()};

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
    child_pid = known->level ? pid_of(child, known) : child->tgid;
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
    struct pid *pid;
    if (!known)
        return 1;
    pid = bpf_get_current_task_btf()->thread_pid;
    known->level = pid->level;
    return bpf_probe_read_kernel(&known->namespace, sizeof(known->namespace),
                                 upid_of(pid, known->level) + OFFSET_OF(((struct upid *)0)->ns));
}

// Run by the loader when a followed process has called CUDA unseen.
SEC("syscall") int check_again(void *context)
{
    changed();
    return 0;
}
