// What the kernel's part tells: what it could not keep, notices and events; and which process it is in.
#pragma once

#include "layout.h"

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

// Has each thread checked at its next call.
ALWAYS_INLINE void changed(void)
{
    struct settings *known = find_settings();
    if (known)
        __sync_fetch_and_add(&known->changes, 1);
}

// Where a process' ID in a namespace of that level stands.
ALWAYS_INLINE void *upid_of(struct pid *pid, u32 level)
{
    // A constant, which all 64-bit kernels have: Linux 6.1 knows no bound of other products, and refuses them.
    return (void *)pid + OFFSET_OF(pid->numbers) + (level & 31) * sizeof(struct upid);
}

// The ID that a task's process has in the probe's PID namespace; 0: none, it is in another one.
ALWAYS_INLINE u32 pid_of(struct task_struct *task, struct settings *known)
{
    struct pid *pid = task->group_leader->thread_pid;
    u64 namespace = 0;
    u32 number = 0;
    if (known->level > pid->level || known->level > 31)
        return 0;
    bpf_probe_read_kernel(&namespace, sizeof(namespace), upid_of(pid, known->level) + OFFSET_OF(((struct upid *)0)->ns));
    if (namespace != known->namespace)
        return 0;
    bpf_probe_read_kernel(&number, sizeof(number), upid_of(pid, known->level) + OFFSET_OF(((struct upid *)0)->nr));
    return number;
}

ALWAYS_INLINE u32 current_pid(void)
{
    struct settings *known = find_settings();
    if (!known || !known->level)
        return bpf_get_current_pid_tgid() >> 32;
    return pid_of(bpf_get_current_task_btf(), known);
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

// Of notices that come by the thousand and can wait: the reader is woken at half of their ring.
ALWAYS_INLINE void submit_many(struct notice *notice)
{
    u64 waiting = bpf_ringbuf_query(&notices, BPF_RB_AVAIL_DATA);
    bpf_ringbuf_submit(notice, waiting < HALF_OF_THE_NOTICES ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP);
}

SUBPROGRAM void tell_notice(enum notice_kind kind, u32 process, u32 pid, u64 address)
{
    struct notice *notice = new_notice(kind, process, pid);
    if (!notice)
        return;
    notice->address = address;
    bpf_get_current_comm(notice->name, 16);
    if (kind == NOTICE_FORK)
        submit_many(notice);
    else
        bpf_ringbuf_submit(notice, BPF_RB_FORCE_WAKEUP);
}

// Whether the reader has to be woken: it polls by itself. Each thread looks once in so many events.
ALWAYS_INLINE int is_half_full(struct thread *thread)
{
    struct settings *known;
    if (thread->events++ % EVENTS_TO_A_LOOK)
        return 0;
    known = find_settings();
    return known && bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) >= known->half_a_ring;
}

ALWAYS_INLINE void tell(struct thread *thread, enum event_kind kind, u64 time, u64 value, u64 in_use, s32 device)
{
    struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

    if (!event) {
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
    event->thread = thread->id;
    bpf_ringbuf_submit(event, is_half_full(thread) ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}
