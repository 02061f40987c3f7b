// CUDA graphs: which kernels they hold, and which calls a stream only captures.
#pragma once

#include "finding.h"

// Returns the number of a graph that has one handle to come, or that is captured; 0: there is no room for it. It begins
// with what another one has.
SUBPROGRAM u32 new_graph(u32 process, u32 begins_with, u8 is_capturing)
{
    struct settings *known = find_settings();
    struct graph new = {
        .process = process, .begins_with = begins_with, .handles = !is_capturing, .is_capturing = is_capturing};
    struct graph *before = begins_with ? bpf_map_lookup_elem(&graphs, &begins_with) : 0;
    u32 number;

    if (!known)
        return 0;
    if (before) {
        new.kernels = before->kernels;
        new.threads = before->threads;
    }
    number = __sync_fetch_and_add(&known->last_graph, 1) + 1;
    if (bpf_map_update_elem(&graphs, &number, &new, BPF_ANY) == 0)
        return number;
    count(NO_GRAPH);
    return 0;
}

ALWAYS_INLINE u32 graph_of(u64 address, u32 process)
{
    struct handle key = {.address = address, .process = process};
    u32 *number = bpf_map_lookup_elem(&graph_handles, &key);
    return number ? *number : 0;
}

ALWAYS_INLINE void drop_handle(u64 address, u32 process)
{
    struct handle key = {.address = address, .process = process};
    u32 *number = bpf_map_lookup_elem(&graph_handles, &key);
    struct graph *graph;

    if (!number)
        return;
    graph = bpf_map_lookup_elem(&graphs, number);
    if (graph)
        __sync_fetch_and_add(&graph->handles, -1);
    bpf_map_delete_elem(&graph_handles, &key);
}

// `counted` says whether the graph has counted this handle already. A number of 0: of that graph nothing is known.
SUBPROGRAM void give_handle(u64 address, u32 process, u32 number, int counted)
{
    struct handle key = {.address = address, .process = process};
    struct graph *graph = number ? bpf_map_lookup_elem(&graphs, &number) : 0;

    if (graph && !counted)
        __sync_fetch_and_add(&graph->handles, 1);
    drop_handle(address, process); // of another graph, which was destroyed unseen
    if (!graph)
        return;
    if (bpf_map_update_elem(&graph_handles, &key, &number, BPF_ANY) != 0) {
        __sync_fetch_and_add(&graph->handles, -1);
        count(NO_GRAPH);
    }
}

ALWAYS_INLINE int is_anything_captured(void)
{
    struct settings *known = find_settings();
    return known && known->captures > 0;
}

// The graph that calls on a stream are captured into, or that an event was recorded in; 0: none.
ALWAYS_INLINE u32 captured_into(u64 address, u32 process, u32 is_event)
{
    struct handle key = {.address = address, .process = process, .padding = is_event};
    struct graph *graph;
    u32 *number;

    if (!is_anything_captured())
        return 0;
    number = bpf_map_lookup_elem(&capturing, &key);
    if (!number)
        return 0;
    graph = bpf_map_lookup_elem(&graphs, number);
    if (graph && graph->is_capturing)
        return *number;
    bpf_map_delete_elem(&capturing, &key); // that capture has ended
    return 0;
}

ALWAYS_INLINE void capture_into(u64 address, u32 process, u32 is_event, u32 number)
{
    struct handle key = {.address = address, .process = process, .padding = is_event};
    if (bpf_map_update_elem(&capturing, &key, &number, BPF_ANY) != 0)
        count(NO_GRAPH);
}

ALWAYS_INLINE void begin_capture(struct thread *thread)
{
    int to_graph = WHAT(thread->cookie) == BEGIN_CAPTURE_TO_GRAPH;
    u32 known_as = to_graph ? graph_of(thread->value, thread->process) : 0, number = known_as;
    struct graph *graph = known_as ? bpf_map_lookup_elem(&graphs, &known_as) : 0;
    struct settings *known = find_settings();

    if (!graph || graph->is_fixed) {
        number = new_graph(thread->process, known_as, 1);
        if (number && known_as)
            give_handle(thread->value, thread->process, number, 0);
    } else {
        graph->is_capturing = 1;
    }
    if (!number || !known)
        return;
    __sync_fetch_and_add(&known->captures, 1);
    capture_into(thread->stream, thread->process, 0, number);
}

// Where the call fails, the capture has ended too, and there is no graph.
ALWAYS_INLINE void end_capture(struct thread *thread, int has_graph)
{
    struct handle key = {.address = thread->stream, .process = thread->process};
    u32 number = captured_into(thread->stream, thread->process, 0);
    struct settings *known = find_settings();
    struct graph *graph = number ? bpf_map_lookup_elem(&graphs, &number) : 0;
    u64 address = 0;

    if (!graph || !known)
        return;
    if (has_graph && bpf_probe_read_user(&address, sizeof(address), (void *)thread->value) == 0 &&
        graph_of(address, thread->process) != number)
        give_handle(address, thread->process, number, 0);
    graph->is_capturing = 0;
    __sync_fetch_and_add(&known->captures, -1);
    bpf_map_delete_elem(&capturing, &key);
}

SUBPROGRAM void add_nodes(u32 number, enum node_kind kind, u64 address, u64 threads)
{
    struct graph_node key = {.graph = number, .kind = kind, .address = address};
    struct nodes new = {}, *nodes = bpf_map_lookup_elem(&graph_nodes, &key);

    if (!nodes) {
        bpf_map_update_elem(&graph_nodes, &key, &new, BPF_NOEXIST);
        nodes = bpf_map_lookup_elem(&graph_nodes, &key);
    }
    if (!nodes) {
        count(NO_GRAPH_NODE);
        return;
    }
    __sync_fetch_and_add(&nodes->count, 1);
    __sync_fetch_and_add(&nodes->threads, threads);
}

ALWAYS_INLINE void add_kernel(u32 number, u64 address, u64 threads)
{
    struct graph *graph = bpf_map_lookup_elem(&graphs, &number);
    if (!graph)
        return;
    __sync_fetch_and_add(&graph->kernels, 1);
    __sync_fetch_and_add(&graph->threads, threads);
    add_nodes(number, KERNEL_NODE, address, threads);
}

ALWAYS_INLINE void add_child(u32 number, u32 child_number)
{
    struct graph *graph = bpf_map_lookup_elem(&graphs, &number);
    struct graph *child = child_number ? bpf_map_lookup_elem(&graphs, &child_number) : 0;
    if (!graph || !child)
        return;
    child->is_fixed = 1;
    __sync_fetch_and_add(&graph->kernels, child->kernels);
    __sync_fetch_and_add(&graph->threads, child->threads);
    add_nodes(number, CHILD_GRAPH_NODE, child_number, 0);
}

// The graph that something is added to.
ALWAYS_INLINE u32 graph_to_change(u64 address, u32 process)
{
    u32 number = graph_of(address, process), changed;
    struct graph *graph = number ? bpf_map_lookup_elem(&graphs, &number) : 0;
    if (!graph || !graph->is_fixed)
        return number;
    changed = new_graph(process, number, 0);
    give_handle(address, process, changed, 1);
    return changed;
}

struct kernel_node { // cudaKernelNodeParams and CUDA_KERNEL_NODE_PARAMS, as far as both are the same
    u64 function;
    u32 grid[3], block[3];
};
#define KERNEL_OF_NODE 56 // in CUDA_KERNEL_NODE_PARAMS_v2, where the function is 0
enum { NODE_PARAMETERS = 16, TYPE_OF_KERNELS = 0, TYPE_OF_GRAPHS = 4 }; // of cudaGraphNodeParams

ALWAYS_INLINE void add_kernel_node(u32 number, u64 parameters)
{
    struct kernel_node node = {};
    if (bpf_probe_read_user(&node, sizeof(node), (void *)parameters))
        return;
    if (!node.function)
        bpf_probe_read_user(&node.function, sizeof(node.function), (void *)parameters + KERNEL_OF_NODE);
    add_kernel(number, node.function,
               (u64)node.grid[0] * node.grid[1] * node.grid[2] * node.block[0] * node.block[1] * node.block[2]);
}

// (node, graph, dependencies, number of them, parameters): the graph is the thread's address, the last its value.
ALWAYS_INLINE void add_node(struct thread *thread)
{
    u32 number = graph_to_change(thread->address, thread->process), type = 0;
    u64 child = 0;

    if (!number)
        return;
    switch (WHAT(thread->cookie)) {
    case ADD_KERNEL_NODE:
        add_kernel_node(number, thread->value);
        return;
    case ADD_CHILD_GRAPH:
        add_child(number, graph_of(thread->value, thread->process));
        return;
    }
    if (bpf_probe_read_user(&type, sizeof(type), (void *)thread->value))
        return;
    if (type == TYPE_OF_KERNELS) {
        add_kernel_node(number, thread->value + NODE_PARAMETERS);
    } else if (type == TYPE_OF_GRAPHS) {
        bpf_probe_read_user(&child, sizeof(child), (void *)thread->value + NODE_PARAMETERS);
        add_child(number, graph_of(child, thread->process));
    }
}

// A new handle, which the call has written: of an empty graph, or of one that is as another is now.
ALWAYS_INLINE void got_graph(struct thread *thread)
{
    struct graph *graph;
    u64 address = 0;
    u32 number;

    if (bpf_probe_read_user(&address, sizeof(address), (void *)thread->address) || !address)
        return;
    if (WHAT(thread->cookie) == CREATE_GRAPH) {
        give_handle(address, thread->process, new_graph(thread->process, 0, 0), 1);
        return;
    }
    number = graph_of(thread->value, thread->process); // which is instantiated or cloned
    graph = number ? bpf_map_lookup_elem(&graphs, &number) : 0;
    if (graph)
        graph->is_fixed = 1;
    give_handle(address, thread->process, number, 0);
}

// (executable graph, graph, ...)
ALWAYS_INLINE void updated_graph(struct thread *thread)
{
    u32 number = graph_of(thread->value, thread->process);
    struct graph *graph = number ? bpf_map_lookup_elem(&graphs, &number) : 0;
    if (graph)
        graph->is_fixed = 1;
    give_handle(thread->address, thread->process, number, 0);
}
