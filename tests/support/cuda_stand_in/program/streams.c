/* Streams, events, devices and copies. */
#define _GNU_SOURCE
#include "actor.h"

#include <string.h>

cudaStream_t the_stream(struct actor *actor, const char *name)
{
    if (strcmp(name, "default") == 0)
        return NULL;
    if (strcmp(name, "legacy") == 0)
        return cudaStreamLegacy;
    if (strcmp(name, "per_thread") == 0)
        return cudaStreamPerThread;
    if (strcmp(name, "unknown") == 0)
        return (cudaStream_t)0x7fffffff0;
    return thing_named(actor, 's', name)->handle;
}

static void keep(struct actor *actor, char kind, const char *name, void *handle)
{
    new_thing(actor, kind, name)->handle = handle;
}

static void make_stream(struct actor *actor, const struct command *command)
{
    const char *verb = command->words[0], *function;
    cudaStream_t stream = NULL;
    cudaError_t error;
    if (strcmp(verb, "stream_flags") == 0)
        function = "cudaStreamCreateWithFlags", error = cuda.cudaStreamCreateWithFlags(&stream, 1);
    else if (strcmp(verb, "stream_priority") == 0)
        function = "cudaStreamCreateWithPriority", error = cuda.cudaStreamCreateWithPriority(&stream, 1, -1);
    else
        function = "cudaStreamCreate", error = cuda.cudaStreamCreate(&stream);
    if (went_well(function, error))
        keep(actor, 's', word(command, 1), stream);
}

static void destroy_stream(cudaStream_t stream)
{
    if (went_well("cudaStreamDestroy", cuda.cudaStreamDestroy(stream)))
        book_stream_ended((uint64_t)stream);
}

static void synchronise(struct actor *actor, cudaStream_t stream, long long count)
{
    struct loop loop = loop_begun("cudaStreamSynchronize", count);
    long long done = 0;
    for (long long number = 0; number < count; number++) {
        pause_in_loop(actor, &loop, number);
        done += went_well("cudaStreamSynchronize", cuda.cudaStreamSynchronize[actor->own_stream](stream));
    }
    if (count > 1)
        loop_ended(loop);
    book_synchronisations(actor->device, done);
}

static int perform_event(struct actor *actor, const struct command *command)
{
    const char *verb = command->words[0];
    cudaEvent_t event = NULL;
    if (strcmp(verb, "event") == 0) {
        if (went_well("cudaEventCreate", cuda.cudaEventCreate(&event)))
            keep(actor, 'e', word(command, 1), event);
    } else if (strcmp(verb, "record") == 0) {
        event = thing_named(actor, 'e', word(command, 1))->handle;
        went_well("cudaEventRecord",
                  cuda.cudaEventRecord[actor->own_stream](event, the_stream(actor, word(command, 2))));
        thing_named(actor, 'e', word(command, 1))->contents = contents_of(actor, word(command, 2));
    } else if (strcmp(verb, "stream_wait") == 0) {
        struct thing *waited = thing_named(actor, 'e', word(command, 2));
        if (went_well("cudaStreamWaitEvent", cuda.cudaStreamWaitEvent[actor->own_stream](
                                                 the_stream(actor, word(command, 1)), waited->handle, 0)) &&
            waited->contents)
            thing_named(actor, 's', word(command, 1))->contents = waited->contents;
    } else if (strcmp(verb, "record_flags") == 0) {
        event = thing_named(actor, 'e', word(command, 1))->handle;
        went_well("cudaEventRecordWithFlags",
                  cuda.cudaEventRecordWithFlags[actor->own_stream](event, the_stream(actor, word(command, 2)), 0));
    } else if (strcmp(verb, "query") == 0) {
        went_well("cudaEventQuery", cuda.cudaEventQuery(thing_named(actor, 'e', word(command, 1))->handle));
    } else if (strcmp(verb, "wait_event") == 0) {
        event = thing_named(actor, 'e', word(command, 1))->handle;
        if (went_well("cudaEventSynchronize", cuda.cudaEventSynchronize(event)))
            book_synchronisations(actor->device, 1);
    } else if (strcmp(verb, "destroy_event") == 0) {
        went_well("cudaEventDestroy", cuda.cudaEventDestroy(thing_named(actor, 'e', word(command, 1))->handle));
    } else
        return 0;
    return 1;
}

static int perform_device(struct actor *actor, const struct command *command)
{
    const char *verb = command->words[0];
    if (strcmp(verb, "set_device") == 0) {
        int device = (int)number(command, 1);
        if (went_well("cudaSetDevice", cuda.cudaSetDevice(device)))
            actor->device = device;
    } else if (strcmp(verb, "device_sync") == 0) {
        if (went_well("cudaDeviceSynchronize", cuda.cudaDeviceSynchronize()))
            book_synchronisations(actor->device, 1);
    } else if (strcmp(verb, "device_reset") == 0) {
        if (went_well("cudaDeviceReset", cuda.cudaDeviceReset()))
            book_reset_device(actor->device);
    } else
        return 0;
    return 1;
}

static int perform_copy(struct actor *actor, const struct command *command)
{
    const char *verb = command->words[0];
    char source[1], target[1];
    if (strcmp(verb, "memcpy") == 0) {
        if (went_well("cudaMemcpy",
                      cuda.cudaMemcpy[actor->own_stream](target, source, (size_t)number(command, 1), 1)))
            book_copy(actor->device);
    } else if (strcmp(verb, "memcpy_async") == 0) {
        cudaStream_t stream = the_stream(actor, word(command, 2));
        went_well("cudaMemcpyAsync",
                  cuda.cudaMemcpyAsync[actor->own_stream](target, source, (size_t)number(command, 1), 1, stream));
    } else
        return 0;
    return 1;
}

int perform_stream(struct actor *actor, const struct command *command)
{
    const char *verb = command->words[0];
    if (strcmp(verb, "stream") == 0 || strcmp(verb, "stream_flags") == 0 || strcmp(verb, "stream_priority") == 0)
        make_stream(actor, command);
    else if (strcmp(verb, "destroy_stream") == 0)
        destroy_stream(the_stream(actor, word(command, 1)));
    else if (strcmp(verb, "sync") == 0)
        synchronise(actor, the_stream(actor, word(command, 1)), 1);
    else if (strcmp(verb, "syncs") == 0)
        synchronise(actor, the_stream(actor, word(command, 2)), number(command, 1));
    else if (strcmp(verb, "query_stream") == 0)
        went_well("cudaStreamQuery", cuda.cudaStreamQuery[actor->own_stream](the_stream(actor, word(command, 1))));
    else
        return perform_event(actor, command) || perform_device(actor, command) || perform_copy(actor, command);
    return 1;
}
