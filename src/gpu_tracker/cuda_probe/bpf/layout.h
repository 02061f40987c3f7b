// What the probe knows of functions, what it keeps and what it tells: structures, numbers and maps.
#pragma once

#include "kernel.h"

// What a function does; cuda_api.py has the same numbers.
enum what {
    LAUNCH = 1,
    LAUNCH_BY_CONFIGURATION,
    LAUNCH_BY_HANDLE,
    GRAPH_LAUNCH,
    ALLOCATE,
    ALLOCATE_ON_STREAM,
    ALLOCATE_FROM_POOL,
    ALLOCATE_PITCHED,
    ALLOCATE_3D,
    ALLOCATE_ARRAY,
    ALLOCATE_3D_ARRAY,
    ALLOCATE_DRIVER_ARRAY,
    ALLOCATE_DRIVER_3D_ARRAY,
    ALLOCATE_HOST,
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
    RETAIN_CONTEXT,
    CREATE_CONTEXT,
    SET_CONTEXT,
    POP_CONTEXT,
    WAIT_EVENT,
    BEGIN_CAPTURE,
    BEGIN_CAPTURE_TO_GRAPH,
    END_CAPTURE,
    CREATE_GRAPH,
    CLONE_GRAPH,
    ADD_KERNEL_NODE,
    ADD_CHILD_GRAPH,
    ADD_NODE,
    UPDATE_GRAPH,
    DESTROY_GRAPH,
    SET_VARIABLE,
    UNSET_VARIABLE,
    PUT_VARIABLE,
    CHANGE_LIBRARIES,
};
#define WHAT(cookie) ((cookie) & 0xff)
#define OF_THREAD(cookie) ((cookie) >> 8 & 1) // its default stream is the thread's own
#define OF_DRIVER(cookie) ((cookie) >> 9 & 1)
#define FUNCTION(cookie) ((u32)((cookie) >> 16)) // the last 16 bits say which link of the probe it is from

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
    u32 is_late; // it may have called CUDA unseen: which devices its threads have chosen is not known
    s32 suspected; // so many launches are waited for, because a call has failed
};
struct process {
    u64 began, ended, streams, graph_launches, unknown_graph_launches;
    u32 pid, parent;
    char name[16];
};
struct device_key {
    u32 process;
    s32 device;
};
struct device {
    u64 launches, threads; // of graphs, and of kernels that found no room; all others are in `kernels`
    u64 allocations, frees, allocated, freed, in_use, peak;
    u64 synchronisations, synchronising, copies, resets;
};
struct handle { // of a stream or an allocation
    u64 address;
    u32 process, padding;
};
struct kernel_key {
    u64 address;
    u32 process;
    s32 device;
};
enum inside { NOTHING_INSIDE, LAUNCH_INSIDE, OTHERS_INSIDE }; // probed calls that a launch has made itself
struct kernel {
    u64 launches, threads;
    u64 known_threads; // of its last launch that was waited for, and that went well
    u32 inside, padding;
};
struct allocation {
    u64 size, resets;
    s32 device;
    u32 padding;
};
// What a graph runs, as it was captured or built so far. A graph that has been instantiated stays as it is: what is
// added to it later makes another one, whose first part the instantiated one is.
struct graph {
    u64 kernels, threads, launches;
    u32 process, begins_with;
    u32 handles; // graphs and executable graphs that are this one; those with none, which are not captured, are gone
    u8 is_capturing, is_fixed;
};
enum node_kind { KERNEL_NODE, CHILD_GRAPH_NODE }; // the address is a kernel's, or the number of a graph
struct graph_node {
    u64 address;
    u32 graph, kind;
};
struct nodes {
    u64 count, threads;
};
struct failure_key {
    u32 process, function;
    s32 error;
};
enum counts { NOT_ASKED, COUNTS, LEFT_OUT }; // whether there is room for the program of a thread
struct thread {
    u64 sp; // at the entry of the call that it is in; 0: in none
    u64 instruction, cookie, time, address, stream, value;
    struct allocation released; // what the call releases
    u32 process, counts;
    s32 device;
    u32 has_chosen; // its device, by a call that was seen
    u32 launches_inside, others_inside; // probed calls inside the call that it is in
    u64 checked_at;                     // settings.changes when check_thread() had nothing to wait for
    u64 counted_stream;                 // the stream of its last launch
    u32 has_counted, padding;           // that stream, since check_thread()
    u32 id, events;                     // in the kernel's first namespace; events sent
    struct left_behind {
        u64 sp, instruction, cookie, threads, returns_to;
        u64 inside_sp, inside_instruction, inside_cookie; // of the launch inside it, once that was seen
        u64 has_inside;               // whether it makes one
    } launch; // its last one that is not waited for; sp is 0: other calls have come since
};
#define EVENTS_TO_A_LOOK 64 // at how full the ring is: a power of two
#define WAITED_FOR_FIRST 8  // launches of a kernel
#define WAITED_FOR_EACH 64  // and one in so many later on: a power of two
#define WAITED_FOR_AFTER_A_FAILURE 1000

// limits.py has these bounds.
HASH(followed, u32, struct followed, 16384);
HASH(processes, u32, struct process, 1024);
HASH(devices, struct device_key, struct device, 4096);
HASH(allocations, struct handle, struct allocation, 131072);
HASH(kernels, struct kernel_key, struct kernel, 16384);
HASH(streams, struct handle, u8, 8192);
HASH(contexts, struct handle, s32, 4096);
HASH(threads, u64, struct thread, 16384);
HASH(failures, struct failure_key, u64, 4096);
HASH(graphs, u32, struct graph, 4096);
HASH(graph_handles, struct handle, u32, 8192);
HASH(graph_nodes, struct graph_node, struct nodes, 65536);
HASH(capturing, struct handle, u32, 8192); // by stream, and with the padding set by event
RING(events, 8388608);
RING(notices, 4194304);
#define HALF_OF_THE_NOTICES 2097152

// What found no room; engine/layout.py has the same numbers.
enum overflow {
    LOST_EVENT,
    LOST_NOTICE,
    NO_FOLLOWED,
    NO_PROCESS,
    NO_DEVICE,
    NO_ALLOCATION,
    NO_KERNEL,
    NO_STREAM,
    NO_THREAD,
    NO_FAILURE,
    PEAKS,
    NO_GRAPH,
    NO_GRAPH_NODE,
    N_OVERFLOWS,
};
ARRAY(overflows, u64, N_OVERFLOWS);

struct settings {
    u32 last_process; // the highest number of a program run so far
    u32 level;        // of the probe's own PID namespace below the first one
    u64 namespace;    // that namespace
    u64 half_a_ring;  // bytes of events from which on the reader is woken
    u32 last_graph;   // the highest number of a graph so far
    s32 captures;     // those that go on now
    u64 changes;      // from 1: what threads have to be checked for: failed and missed calls, destroyed streams
};
ARRAY(settings, struct settings, 1);

#define ALL_DEVICES -1
#define UNKNOWN_DEVICE -2
#define HOST_MEMORY -3 // the one device of page-locked memory of the host
#define GRAPH_ADDRESS 1 // of the kernels of a graph together, in an event
#define STREAM_OF_THREAD (1ull << 63)
enum { STREAM_LEGACY = 1, STREAM_PER_THREAD = 2 }; // the handles cudaStreamLegacy and cudaStreamPerThread
enum { NOT_READY = 600 };                          // an answer to a query, and no failure
enum { DEVICE_TO_DEVICE = 3 };                     // cudaMemcpyKind: does not wait
