/* CUDA graphs: what is captured or put into them, and what their launches run. */
#define _GNU_SOURCE
#include "actor.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 4096 };

struct node {
    const char *kernel;
    const void *address;
    long long threads;
};

struct contents {
    int count;
    struct node nodes[MOST_NODES];
};

static struct contents *empty(void)
{
    struct contents *made = calloc(1, sizeof *made);
    must(made != NULL, "no memory", "for a graph");
    return made;
}

static void add(struct contents *contents, struct node node)
{
    must(contents->count < MOST_NODES, "too many nodes", node.kernel);
    contents->nodes[contents->count++] = node;
}

static void add_all(struct contents *contents, const struct contents *child)
{
    for (int number = 0, count = child->count; number < count; number++)
        add(contents, child->nodes[number]);
}

static struct contents *copy_of(const struct contents *contents)
{
    struct contents *made = empty();
    add_all(made, contents);
    return made;
}

static struct contents *captured_into(struct actor *actor, cudaStream_t stream)
{
    for (; actor; actor = actor->parent)
        for (struct thing *thing = actor->things; thing; thing = thing->next)
            if (thing->kind == 's' && thing->handle == stream)
                return thing->contents;
    return NULL;
}

struct contents *contents_of(struct actor *actor, const char *stream)
{
    return captured_into(actor, the_stream(actor, stream));
}

int captured(struct actor *actor, cudaStream_t stream, const char *kernel, const void *address, long long count,
             long long threads)
{
    struct contents *contents = captured_into(actor, stream);
    while (contents && count-- > 0)
        add(contents, (struct node){kernel, address, threads});
    return contents != NULL;
}

static void keep(struct actor *actor, char kind, const char *name, void *handle, struct contents *contents)
{
    struct thing *made = new_thing(actor, kind, name);
    made->handle = handle;
    made->contents = contents;
}

/* KERNEL GX GY GZ BX BY BZ, from that word on */
static struct node node_of(const struct command *command, int first, cudaKernelNodeParams *parameters)
{
    unsigned f[6];
    for (int place = 0; place < 6; place++)
        f[place] = (unsigned)number(command, first + 1 + place);
    const void *address = kernel_named(word(command, first));
    *parameters = (cudaKernelNodeParams){
        .func = (void *)address, .gridDim = {f[0], f[1], f[2]}, .blockDim = {f[3], f[4], f[5]}};
    return (struct node){word(command, first), address, 1LL * f[0] * f[1] * f[2] * f[3] * f[4] * f[5]};
}

static void add_kernel(struct thing *graph, const struct command *command)
{
    const char *verb = command->words[0];
    cudaKernelNodeParams parameters;
    struct node node = node_of(command, 2, &parameters);
    cudaGraphNodeParams any = {.type = cudaGraphNodeTypeKernel, .kernel = parameters};
    cudaGraphNode_t made;
    cudaError_t error;
    if (strcmp(verb, "node") == 0)
        error = cuda.cudaGraphAddKernelNode(&made, graph->handle, NULL, 0, &parameters);
    else if (strcmp(verb, "node_any") == 0)
        error = cuda.cudaGraphAddNode(&made, graph->handle, NULL, 0, &any);
    else
        error = cudaGraphAddNode_v2(&made, graph->handle, NULL, NULL, 0, &any);
    if (went_well("cudaGraphAddNode", error))
        add(graph->contents, node);
}

static void add_child(struct thing *graph, const struct thing *child, int any_node)
{
    cudaGraphNodeParams any = {.type = cudaGraphNodeTypeGraph, .graph.graph = child->handle};
    cudaGraphNode_t made;
    cudaError_t error = any_node ? cuda.cudaGraphAddNode(&made, graph->handle, NULL, 0, &any)
                                 : cuda.cudaGraphAddChildGraphNode(&made, graph->handle, NULL, 0, child->handle);
    if (went_well("cudaGraphAddChildGraphNode", error))
        add_all(graph->contents, child->contents);
}

static void begin_capture(struct actor *actor, const struct command *command)
{
    struct thing *stream = thing_named(actor, 's', word(command, 1)), *graph = NULL;
    cudaError_t error;
    if (command->count > 2) {
        graph = thing_named(actor, 'g', word(command, 2));
        error = cuda.cudaStreamBeginCaptureToGraph[actor->own_stream](stream->handle, graph->handle, NULL, NULL, 0, 0);
    } else
        error = cuda.cudaStreamBeginCapture[actor->own_stream](stream->handle, 0);
    if (went_well("cudaStreamBeginCapture", error))
        stream->contents = graph ? graph->contents : empty();
}

/* end_capture STREAM NAME: of the graph that it makes, or that it was captured into; fail_capture STREAM */
static void end_capture(struct actor *actor, const struct command *command, int fails)
{
    struct thing *stream = thing_named(actor, 's', word(command, 1));
    struct contents *contents = stream->contents;
    cudaGraph_t made = NULL;
    for (struct thing *thing = actor->things; thing && !fails; thing = thing->next)
        if (thing->kind == 'g' && thing->contents == contents)
            made = thing->handle;
    int was_there = made != NULL;
    if (went_well("cudaStreamEndCapture",
                  cuda.cudaStreamEndCapture[actor->own_stream](stream->handle, fails ? NULL : &made)) &&
        !was_there)
        keep(actor, 'g', word(command, 2), made, contents);
    for (struct thing *thing = actor->things; thing; thing = thing->next)
        if ((thing->kind == 's' || thing->kind == 'e') && thing->contents == contents)
            thing->contents = NULL;
}

static void make_again(struct actor *actor, const struct command *command, int executable)
{
    struct thing *graph = thing_named(actor, 'g', word(command, 2));
    struct stand_in_handle *made = NULL;
    if (went_well(executable ? "cudaGraphInstantiate" : "cudaGraphClone",
                  executable ? cuda.cudaGraphInstantiate(&made, graph->handle, 0)
                             : cuda.cudaGraphClone(&made, graph->handle)))
        keep(actor, executable ? 'x' : 'g', word(command, 1), made, copy_of(graph->contents));
}

static void update(struct thing *executable, const struct thing *graph)
{
    if (went_well("cudaGraphExecUpdate", cuda.cudaGraphExecUpdate(executable->handle, graph->handle, NULL)))
        executable->contents = copy_of(graph->contents);
}

static void run(struct actor *actor, const struct thing *executable, const char *name, long long times)
{
    cudaStream_t stream = the_stream(actor, name);
    struct contents *into = captured_into(actor, stream);
    while (times-- > 0) {
        if (!went_well("cudaGraphLaunch", cuda.cudaGraphLaunch[actor->own_stream](executable->handle, stream)))
            continue;
        if (into) {
            add_all(into, executable->contents);
            continue;
        }
        book_graph(actor->device);
        for (int number = 0; number < executable->contents->count; number++) {
            struct node node = executable->contents->nodes[number];
            book_launches(actor->device, node.kernel, node.address, (uint64_t)stream, 1, node.threads);
        }
    }
}

static void destroy(struct actor *actor, char kind, const char *name)
{
    struct thing *graph = thing_named(actor, kind, name);
    went_well("cudaGraphDestroy",
              kind == 'x' ? cuda.cudaGraphExecDestroy(graph->handle) : cuda.cudaGraphDestroy(graph->handle));
    graph->name[0] = 0; /* the name may be given again */
}

int perform_graph(struct actor *actor, const struct command *command)
{
    const char *verb = command->words[0];
    cudaGraph_t made = NULL;
    if (strcmp(verb, "graph") == 0) {
        if (went_well("cudaGraphCreate", cuda.cudaGraphCreate(&made, 0)))
            keep(actor, 'g', word(command, 1), made, empty());
    } else if (strcmp(verb, "node") == 0 || strcmp(verb, "node_any") == 0 || strcmp(verb, "node_v2") == 0)
        add_kernel(thing_named(actor, 'g', word(command, 1)), command);
    else if (strcmp(verb, "child") == 0 || strcmp(verb, "child_any") == 0)
        add_child(thing_named(actor, 'g', word(command, 1)), thing_named(actor, 'g', word(command, 2)),
                  strcmp(verb, "child_any") == 0);
    else if (strcmp(verb, "capture") == 0)
        begin_capture(actor, command);
    else if (strcmp(verb, "end_capture") == 0 || strcmp(verb, "fail_capture") == 0)
        end_capture(actor, command, strcmp(verb, "fail_capture") == 0);
    else if (strcmp(verb, "instantiate") == 0 || strcmp(verb, "clone") == 0)
        make_again(actor, command, strcmp(verb, "instantiate") == 0);
    else if (strcmp(verb, "update") == 0)
        update(thing_named(actor, 'x', word(command, 1)), thing_named(actor, 'g', word(command, 2)));
    else if (strcmp(verb, "run") == 0)
        run(actor, thing_named(actor, 'x', word(command, 1)), word(command, 2),
            command->count > 3 ? number(command, 3) : 1);
    else if (strcmp(verb, "destroy_graph") == 0 || strcmp(verb, "destroy_executable") == 0)
        destroy(actor, strcmp(verb, "destroy_graph") == 0 ? 'g' : 'x', word(command, 1));
    else
        return 0;
    return 1;
}
