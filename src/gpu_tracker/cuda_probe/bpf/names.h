// Names of kernels and environment variables of CUDA.
#pragma once

#include "telling.h"

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

ALWAYS_INLINE void named(struct thread *thread, u32 pid)
{
    struct notice *notice;
    u64 handle = 0;

    bpf_probe_read_user(&handle, sizeof(handle), (void *)thread->address);
    if (WHAT(thread->cookie) == GET_KERNEL && handle == thread->value)
        return; // the host function is its own handle
    notice = new_notice(NOTICE_KERNEL_NAME, thread->process, pid);
    if (!notice)
        return;
    notice->address = handle;
    if (WHAT(thread->cookie) == GET_KERNEL) {
        notice->value = thread->value;
    } else {
        bpf_probe_read_user_str(notice->text, sizeof(notice->text), (void *)thread->value);
        notice->has_text = 1;
    }
    submit_many(notice);
}
