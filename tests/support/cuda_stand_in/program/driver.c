/* Calls of the driver itself, without the runtime. */
#define _GNU_SOURCE
#include "../library/driver_calls.h"
#include "actor.h"

#include <string.h>

static const struct driver_calls *driver(void)
{
    static const struct driver_calls *loaded;
    return loaded ? loaded : (loaded = load_driver());
}

/* [ex] NAME STREAM GX GY GZ BX BY BZ */
static void launch(struct actor *actor, const struct command *command, int extended)
{
    unsigned f[6];
    CUfunction function = NULL;
    for (int place = 0; place < 6; place++)
        f[place] = (unsigned)number(command, 3 + place);
    CUstream stream = the_stream(actor, word(command, 2));
    if (!went_well("cuModuleGetFunction", driver()->cuModuleGetFunction(&function, NULL, word(command, 1))))
        return;
    CUlaunchConfig config = {f[0], f[1], f[2], f[3], f[4], f[5], 0, stream, NULL, 0};
    CUresult error = extended ? driver()->cuLaunchKernelEx(&config, function, NULL, NULL)
                              : driver()->cuLaunchKernel(function, f[0], f[1], f[2], f[3], f[4], f[5], 0, stream, NULL,
                                                         NULL);
    if (went_well(extended ? "cuLaunchKernelEx" : "cuLaunchKernel", error))
        book_launches(0, word(command, 1), function, (uint64_t)stream, 1,
                      1LL * f[0] * f[1] * f[2] * f[3] * f[4] * f[5]);
}

static void allocate(struct actor *actor, const struct command *command)
{
    CUdeviceptr address = 0;
    long long bytes = number(command, 2);
    if (!went_well("cuMemAlloc_v2", driver()->cuMemAlloc_v2(&address, (size_t)bytes)))
        return;
    struct thing *memory = new_thing(actor, 'm', word(command, 1));
    memory->handle = (void *)address;
    memory->bytes = bytes;
    book_memory(0, bytes);
}

/* NAME CHANNELS WIDTH HEIGHT, each channel a float */
static void allocate_array(struct actor *actor, const struct command *command)
{
    CUDA_ARRAY_DESCRIPTOR description = {.Width = (size_t)number(command, 3), .Height = (size_t)number(command, 4),
                                         .Format = 0x20, .NumChannels = (unsigned)number(command, 2)};
    CUarray array = NULL;
    if (!went_well("cuArrayCreate_v2", driver()->cuArrayCreate_v2(&array, &description)))
        return;
    struct thing *memory = new_thing(actor, 'm', word(command, 1));
    memory->handle = array;
    memory->bytes = (long long)(4 * description.NumChannels * description.Width * description.Height);
    book_memory(0, memory->bytes);
}

static void release_array(struct thing *memory)
{
    if (went_well("cuArrayDestroy", driver()->cuArrayDestroy(memory->handle)))
        book_release(memory);
}

static void release(struct thing *memory)
{
    if (went_well("cuMemFree_v2", driver()->cuMemFree_v2((CUdeviceptr)memory->handle)))
        book_release(memory);
}

int perform_driver(struct actor *actor, const struct command *command)
{
    const char *verb = command->words[0];
    if (strcmp(verb, "cu_init") == 0)
        went_well("cuInit", driver()->cuInit(0));
    else if (strcmp(verb, "cu_launch") == 0)
        launch(actor, command, 0);
    else if (strcmp(verb, "cu_launch_ex") == 0)
        launch(actor, command, 1);
    else if (strcmp(verb, "cu_alloc") == 0)
        allocate(actor, command);
    else if (strcmp(verb, "cu_free") == 0)
        release(thing_named(actor, 'm', word(command, 1)));
    else if (strcmp(verb, "cu_alloc_array") == 0)
        allocate_array(actor, command);
    else if (strcmp(verb, "cu_free_array") == 0)
        release_array(thing_named(actor, 'm', word(command, 1)));
    else if (strcmp(verb, "cu_sync") == 0) {
        if (went_well("cuStreamSynchronize", driver()->cuStreamSynchronize(the_stream(actor, word(command, 1)))))
            book_synchronisations(0, 1);
    } else if (strcmp(verb, "cu_device_sync") == 0) {
        if (went_well("cuCtxSynchronize", driver()->cuCtxSynchronize()))
            book_synchronisations(0, 1);
    } else
        return 0;
    return 1;
}
