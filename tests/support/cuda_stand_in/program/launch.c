#define _GNU_SOURCE
#include "actor.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Kernels, as their places in a program look: each a function of its own, named as C++ names it. */
#define KERNEL(name, mangled)                                                                                          \
    void name(void) __asm__(mangled);                                                                                  \
    void name(void) { __asm__ volatile("" : : "i"(__COUNTER__)); }

KERNEL(axpy, "_Z4axpyfPfS_")
KERNEL(gemm, "_Z4gemmPKfS0_Pfi")
KERNEL(reduce, "_Z6reduceIfEvPT_i")
KERNEL(plain, "plain")

static const struct {
    const char *name;
    void (*address)(void);
} kernels[] = {{"axpy", axpy}, {"gemm", gemm}, {"reduce", reduce}, {"plain", plain}};

const void *kernel_named(const char *name)
{
    for (size_t number = 0; number < sizeof kernels / sizeof *kernels; number++)
        if (strcmp(kernels[number].name, name) == 0)
            return (const void *)kernels[number].address;
    must(0, "no such kernel", name);
    return NULL;
}

/* stream_key: what the stream is called in counts: a thread's own default stream is none of another thread's. */
static uint64_t stream_key(const struct actor *actor, cudaStream_t stream)
{
    if (stream == cudaStreamPerThread || (!stream && actor->own_stream))
        return 1ULL << 63 | (uint64_t)syscall(SYS_gettid);
    return stream == cudaStreamLegacy ? 0 : (uint64_t)stream;
}

struct launch {
    const char *function, *name;
    int compiled; /* as <<<...>>> does it */
    const void *kernel, *named; /* in the program, and in the call */
    dim3 grid, block;
    cudaStream_t stream;
};

/* KERNEL STREAM GX GY GZ BX BY BZ, from that word on */
static struct launch launch_of(struct actor *actor, const struct command *command, int first, const char *function)
{
    unsigned figures[6];
    for (int place = 0; place < 6; place++)
        figures[place] = (unsigned)number(command, first + 2 + place);
    struct launch launch = {
        .function = function,
        .name = word(command, first),
        .kernel = kernel_named(word(command, first)),
        .named = kernel_named(word(command, first)),
        .grid = {figures[0], figures[1], figures[2]},
        .block = {figures[3], figures[4], figures[5]},
        .stream = the_stream(actor, word(command, first + 1)),
    };
    return launch;
}

static cudaError_t call(const struct actor *actor, const struct launch *l)
{
    if (l->compiled)
        return cuda.__cudaLaunchKernel[actor->own_stream]((void *)l->named, l->grid, l->block, NULL, 0, l->stream);
    if (strcmp(l->function, "cudaLaunchCooperativeKernel") == 0)
        return cuda.cudaLaunchCooperativeKernel[actor->own_stream](l->named, l->grid, l->block, NULL, 0, l->stream);
    if (strcmp(l->function, "cudaLaunchKernelExC") == 0) {
        cudaLaunchConfig_t config = {.gridDim = l->grid, .blockDim = l->block, .stream = l->stream};
        return cuda.cudaLaunchKernelExC[actor->own_stream](&config, l->named, NULL);
    }
    return cuda.cudaLaunchKernel[actor->own_stream](l->named, l->grid, l->block, NULL, 0, l->stream);
}

static void book(struct actor *actor, const struct launch *l, long long count)
{
    long long threads = 1LL * l->grid.x * l->grid.y * l->grid.z * l->block.x * l->block.y * l->block.z;
    if (count && !captured(actor, l->stream, l->name, l->kernel, count, threads))
        book_launches(actor->device, l->name, l->kernel, stream_key(actor, l->stream), count, threads);
}

static void launch_once(struct actor *actor, const struct launch *l)
{
    if (went_well(l->function, call(actor, l)))
        book(actor, l, 1);
}

static void launch_many(struct actor *actor, const struct launch *l, long long count)
{
    struct loop loop = loop_begun(l->function, count);
    long long done = 0;
    for (long long number = 0; number < count; number++) {
        if (actor->pace)
            pause_in_loop(actor, &loop, number);
        done += went_well(l->function, call(actor, l));
    }
    loop_ended(loop);
    book(actor, l, done);
}

static void launch_graph(struct actor *actor, const char *stream)
{
    cudaGraphExec_t graph = (cudaGraphExec_t)0x1000; /* made by nobody */
    if (went_well("cudaGraphLaunch", cuda.cudaGraphLaunch[actor->own_stream](graph, the_stream(actor, stream))))
        book_graph(actor->device);
}

int perform_launch(struct actor *actor, const struct command *command)
{
    const char *verb = command->words[0];
    struct launch launch;
    cudaKernel_t handle = NULL;
    if (strcmp(verb, "launch") == 0)
        launch = launch_of(actor, command, 1, "cudaLaunchKernel");
    else if (strcmp(verb, "launch_ex") == 0)
        launch = launch_of(actor, command, 1, "cudaLaunchKernelExC");
    else if (strcmp(verb, "launch_cooperative") == 0)
        launch = launch_of(actor, command, 1, "cudaLaunchCooperativeKernel");
    else if (strcmp(verb, "launch_compiled") == 0) {
        launch = launch_of(actor, command, 1, "cudaLaunchKernel");
        launch.compiled = went_well("__cudaGetKernel", cuda.__cudaGetKernel(&handle, launch.kernel));
        launch.named = handle;
    } else if (strcmp(verb, "launch_handle") == 0) {
        launch = launch_of(actor, command, 1, "cudaLaunchKernel");
        went_well("cudaGetKernel", cuda.cudaGetKernel(&handle, launch.kernel));
        launch.named = handle;
    } else if (strcmp(verb, "launches") == 0) {
        launch = launch_of(actor, command, 2, "cudaLaunchKernel");
        launch_many(actor, &launch, number(command, 1));
        return 1;
    } else if (strcmp(verb, "fail_launch") == 0) {
        launch = (struct launch){.function = "cudaLaunchKernel", .named = (const void *)axpy};
    } else if (strcmp(verb, "launch_graph") == 0) {
        launch_graph(actor, word(command, 1));
        return 1;
    } else
        return 0;
    launch_once(actor, &launch);
    return 1;
}
