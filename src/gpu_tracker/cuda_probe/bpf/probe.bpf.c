// The part of the probe that runs in the kernel: at each call of a CUDA function by a followed process it adds to the
// totals in its maps, which never lose anything, and tells an event through a ring, which does where nobody reads it.
//
// `either` is attached to both ends of every function in cuda_api.py; the cookie says which it is. Where the kernel has
// no such links, `enter` is attached to the entries and `leave` to the returns. Only the outermost call of a thread counts:
// what a runtime function calls inside is part of it.
#include "contexts.h"
#include "graphs.h"
#include "launches.h"
#include "memory.h"
#include "names.h"
#include "programs.h"

enum { MOST_DEPENDENCIES = 1 << 20 }; // of a node; no address is as small

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
    case ALLOCATE_ON_STREAM:
    case ALLOCATE_FROM_POOL:
    case ALLOCATE_PITCHED:
    case ALLOCATE_3D:
    case ALLOCATE_ARRAY:
    case ALLOCATE_3D_ARRAY:
    case ALLOCATE_DRIVER_ARRAY:
    case ALLOCATE_DRIVER_3D_ARRAY:
        remember_allocation(thread, r, cookie);
        return;
    case WAIT_EVENT:             // (stream, event, ...)
    case BEGIN_CAPTURE:          // (stream, mode)
    case BEGIN_CAPTURE_TO_GRAPH: // (stream, graph, ...)
    case END_CAPTURE:            // (stream, graph)
        thread->stream = stream_of(ARGUMENT_0(r), cookie);
        return;
    case ADD_KERNEL_NODE:
    case ADD_CHILD_GRAPH:
        thread->address = ARGUMENT_1(r);
        thread->value = ARGUMENT_4(r);
        return;
    case ADD_NODE: // from CUDA 13 on (node, graph, dependencies, their data, number of them, parameters)
        thread->address = ARGUMENT_1(r);
        thread->value = ARGUMENT_4(r) < MOST_DEPENDENCIES ? ARGUMENT_5(r) : ARGUMENT_4(r);
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
    case NAME_KERNEL:    // (handle, module, name)
    case CREATE_CONTEXT: // (context, flags, device)
        thread->value = ARGUMENT_2(r);
        return;
    }
}

enum { WAIT_FOR_RETURN, NO_RETURN }; // what a program at the entry answers; of a plain uprobe it means nothing

SUBPROGRAM int entered(struct registers *r, int may_leave)
{
    u64 cookie = bpf_get_attach_cookie(r), id = bpf_get_current_pid_tgid();
    struct thread *thread = bpf_map_lookup_elem(&threads, &id);
    struct settings *known = find_settings();

    if (!thread || !known || thread->checked_at != known->changes || WHAT(cookie) == CHANGE_LIBRARIES) {
        thread = check_thread(cookie);
        if (!thread)
            return NO_RETURN;
    }
    // Stacks grow down. Deeper than the call that the thread is in: inside it. As deep and another function: inside it
    // too, by a jump in place of a call. Anything else: that call was left in another way than by its return.
    if (thread->sp && (r->sp < thread->sp || (r->sp == thread->sp && thread->cookie != cookie))) {
        if (is_same_call(thread->sp, thread->instruction, thread->cookie, r, cookie))
            return NO_RETURN;
        if (is_same_launch(thread->value, thread->process, r, cookie))
            thread->launches_inside++;
        else
            thread->others_inside++;
        return NO_RETURN;
    }
    if (is_of_last_launch(thread, r, cookie))
        return NO_RETURN;
    if (WHAT(cookie) == WAIT_EVENT && !is_anything_captured()) // programs with several streams call it all the time
        return NO_RETURN;
    thread->sp = r->sp;
    thread->instruction = INSTRUCTION(r);
    thread->cookie = cookie;
    thread->time = bpf_ktime_get_ns();
    thread->launches_inside = thread->others_inside = 0;
    remember(thread, r, cookie);
    if (may_leave && is_launch(cookie)) {
        struct kernel *kernel = is_sure(thread);
        if (kernel) {
            launched_for_sure(thread, kernel, r);
            return NO_RETURN;
        }
    }
    if (WHAT(cookie) == RELEASE)
        begin_release(thread);
    else if (WHAT(cookie) == DESTROY_STREAM)
        destroy_stream(thread);
    else if (WHAT(cookie) == DESTROY_GRAPH)
        drop_handle(thread->address, thread->process);
    return WAIT_FOR_RETURN;
}

ALWAYS_INLINE void fail(struct thread *thread, s32 error)
{
    struct failure_key key = {.process = thread->process, .function = FUNCTION(thread->cookie), .error = error};
    u64 zero = 0, *failed = bpf_map_lookup_elem(&failures, &key);
    u32 pid = current_pid();
    struct followed *followed_as = bpf_map_lookup_elem(&followed, &pid);

    if (followed_as)
        followed_as->suspected = WAITED_FOR_AFTER_A_FAILURE;
    changed();
    if (!failed) {
        bpf_map_update_elem(&failures, &key, &zero, BPF_NOEXIST);
        failed = bpf_map_lookup_elem(&failures, &key);
    }
    if (failed)
        __sync_fetch_and_add(failed, 1);
    else
        count(NO_FAILURE);
}

SUBPROGRAM int left(struct registers *r)
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
        else if (WHAT(cookie) == END_CAPTURE)
            end_capture(thread, 0);
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
    case ALLOCATE_ON_STREAM:
    case ALLOCATE_FROM_POOL:
    case ALLOCATE_PITCHED:
    case ALLOCATE_3D:
    case ALLOCATE_ARRAY:
    case ALLOCATE_3D_ARRAY:
    case ALLOCATE_DRIVER_ARRAY:
    case ALLOCATE_DRIVER_3D_ARRAY:
    case ALLOCATE_HOST:
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
        recorded(thread);
        return 0;
    case WAIT_EVENT:
        waits_for_event(thread);
        return 0;
    case BEGIN_CAPTURE:
    case BEGIN_CAPTURE_TO_GRAPH:
        begin_capture(thread);
        return 0;
    case END_CAPTURE:
        end_capture(thread, 1);
        return 0;
    case CREATE_GRAPH:
    case CLONE_GRAPH:
        got_graph(thread);
        return 0;
    case ADD_KERNEL_NODE:
    case ADD_CHILD_GRAPH:
    case ADD_NODE:
        add_node(thread);
        return 0;
    case UPDATE_GRAPH:
        updated_graph(thread);
        return 0;
    case DESTROY_EVENT:
        tell(thread, EVENT_EVENT_DESTROY, bpf_ktime_get_ns(), 0, 0, thread->device);
        return 0;
    case RESET_DEVICE:
        reset(thread);
        return 0;
    case SET_DEVICE:
        choose(thread, thread->address);
        return 0;
    case RETAIN_CONTEXT:
    case CREATE_CONTEXT:
        got_context(thread);
        return 0;
    case SET_CONTEXT:
        choose(thread, device_of_context(thread));
        return 0;
    case POP_CONTEXT: // the one below, which may be none
        choose(thread, UNKNOWN_DEVICE);
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

SEC("uprobe") int either(struct registers *r) { return bpf_session_is_return() ? left(r) : entered(r, 1); }

SEC("uprobe") int enter(struct registers *r)
{
    entered(r, 0);
    return 0;
}

SEC("uretprobe") int leave(struct registers *r) { return left(r); }

char license_of_the_probe[] SEC("license") = "Dual BSD/GPL";
