#define _GNU_SOURCE
#include "actor.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that no GPU has. */
static const size_t too_much = 1ULL << 60;

/* A call and its place in the book, together: so the booked maximum is the true one, whatever other threads do. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

#define BOOKED_TOGETHER(...)                                                                                           \
    do {                                                                                                               \
        pthread_mutex_lock(&one_at_a_time);                                                                            \
        __VA_ARGS__                                                                                                    \
        pthread_mutex_unlock(&one_at_a_time);                                                                          \
    } while (0)

static void book_memory_of(struct actor *actor, const char *name, void *address, long long bytes)
{
    struct thing *memory = new_thing(actor, 'm', name);
    memory->handle = address;
    memory->bytes = bytes;
    memory->device = actor->device;
    book_memory(actor->device, bytes);
}

void book_release(struct thing *memory)
{
    if (!memory->handle)
        return;
    book_memory(memory->device, -memory->bytes);
    memory->handle = NULL;
}

static void allocate(struct actor *actor, const struct command *command, const char *function)
{
    const char *name = word(command, 1);
    size_t bytes = (size_t)number(command, 2), pitch = 0;
    void *address = NULL;
    cudaError_t error;
    BOOKED_TOGETHER({
        if (strcmp(function, "cudaMalloc") == 0)
            error = cuda.cudaMalloc(&address, bytes);
        else if (strcmp(function, "cudaMallocManaged") == 0)
            error = cuda.cudaMallocManaged(&address, bytes, 1);
        else if (strcmp(function, "cudaMallocAsync") == 0)
            error = cuda.cudaMallocAsync[actor->own_stream](&address, bytes, the_stream(actor, word(command, 3)));
        else {
            size_t height = (size_t)number(command, 3);
            error = cuda.cudaMallocPitch(&address, &pitch, bytes, height);
            bytes = pitch * height;
        }
        if (went_well(function, error) && address)
            book_memory_of(actor, name, address, (long long)bytes);
    });
}

static void release(struct actor *actor, const struct command *command, int in_order)
{
    struct thing *memory = thing_named(actor, 'm', word(command, 1));
    BOOKED_TOGETHER({
        if (in_order ? went_well("cudaFreeAsync", cuda.cudaFreeAsync[actor->own_stream](
                                                      memory->handle, the_stream(actor, word(command, 2))))
                     : went_well("cudaFree", cuda.cudaFree(memory->handle)))
            book_release(memory);
    });
}

/* NAME and three or four figures: bytes or bits of a channel, then width, height and depth. */
static void allocate_array(struct actor *actor, const struct command *command, int dimensions)
{
    const char *name = word(command, 1);
    cudaChannelFormatDesc channels = {.x = (int)number(command, 2), .y = (int)number(command, 2)};
    size_t width = (size_t)number(command, 3), height = (size_t)number(command, 4);
    size_t depth = dimensions == 3 ? (size_t)number(command, 5) : 0;
    size_t bytes = (size_t)(channels.x + channels.y) / 8 * width * (height ? height : 1) * (depth ? depth : 1);
    cudaArray_t array = NULL;
    BOOKED_TOGETHER({
        cudaError_t error =
            dimensions == 3 ? cuda.cudaMalloc3DArray(&array, &channels, (cudaExtent){width, height, depth}, 0)
                            : cuda.cudaMallocArray(&array, &channels, width, height, 0);
        if (went_well(dimensions == 3 ? "cudaMalloc3DArray" : "cudaMallocArray", error))
            book_memory_of(actor, name, array, (long long)bytes);
    });
}

static void allocate_3d(struct actor *actor, const struct command *command)
{
    cudaExtent extent = {(size_t)number(command, 2), (size_t)number(command, 3), (size_t)number(command, 4)};
    cudaPitchedPtr made = {0};
    BOOKED_TOGETHER({
        if (went_well("cudaMalloc3D", cuda.cudaMalloc3D(&made, extent)))
            book_memory_of(actor, word(command, 1), made.ptr,
                           (long long)(made.pitch * extent.height * (extent.depth ? extent.depth : 1)));
    });
}

static void allocate_of_host(struct actor *actor, const struct command *command, int with_flags)
{
    long long bytes = number(command, 2);
    void *address = NULL;
    BOOKED_TOGETHER({
        if (went_well(with_flags ? "cudaHostAlloc" : "cudaMallocHost",
                      with_flags ? cuda.cudaHostAlloc(&address, (size_t)bytes, 0)
                                 : cuda.cudaMallocHost(&address, (size_t)bytes))) {
            struct thing *memory = new_thing(actor, 'h', word(command, 1));
            memory->handle = address;
            memory->bytes = bytes;
            book_host_memory(bytes);
        }
    });
}

static void release_of_host(struct thing *memory)
{
    BOOKED_TOGETHER({
        if (went_well("cudaFreeHost", cuda.cudaFreeHost(memory->handle)))
            book_host_memory(-memory->bytes);
    });
}

static void release_array(struct thing *memory)
{
    BOOKED_TOGETHER({
        if (went_well("cudaFreeArray", cuda.cudaFreeArray(memory->handle)))
            book_release(memory);
    });
}

/* allocs N BYTES: so many allocations that are kept. */
static void allocate_many(struct actor *actor, long long count, long long bytes)
{
    struct loop loop = loop_begun("cudaMalloc", count);
    for (long long done = 0; done < count; done++) {
        void *address = NULL;
        pause_in_loop(actor, &loop, done);
        BOOKED_TOGETHER({
            if (went_well("cudaMalloc", cuda.cudaMalloc(&address, (size_t)bytes)))
                book_memory_of(actor, "", address, bytes);
        });
    }
    loop_ended(loop);
}

static void release_all(struct actor *actor)
{
    struct loop loop = loop_begun("cudaFree", 0);
    for (struct thing *thing = actor->things; thing; thing = thing->next)
        if (thing->kind == 'm' && thing->handle) {
            loop.count++;
            BOOKED_TOGETHER({
                if (went_well("cudaFree", cuda.cudaFree(thing->handle)))
                    book_release(thing);
            });
        }
    loop_ended(loop);
}

/* churn N BYTES: so often memory is allocated and freed, as fast as the calls go: they are not booked one by one. */
static void churn(struct actor *actor, long long count, long long bytes)
{
    struct loop loop = loop_begun("cudaMalloc+cudaFree", count);
    long long done = 0;
    for (; done < count; done++) {
        void *address = NULL;
        pause_in_loop(actor, &loop, done);
        if (!went_well("cudaMalloc", cuda.cudaMalloc(&address, (size_t)bytes)) ||
            !went_well("cudaFree", cuda.cudaFree(address)))
            break;
    }
    loop_ended(loop);
    book_many(actor->device, done, bytes);
}

int perform_memory(struct actor *actor, const struct command *command)
{
    const char *verb = command->words[0];
    if (strcmp(verb, "alloc") == 0)
        allocate(actor, command, "cudaMalloc");
    else if (strcmp(verb, "alloc_managed") == 0)
        allocate(actor, command, "cudaMallocManaged");
    else if (strcmp(verb, "alloc_pitch") == 0)
        allocate(actor, command, "cudaMallocPitch");
    else if (strcmp(verb, "alloc_async") == 0)
        allocate(actor, command, "cudaMallocAsync");
    else if (strcmp(verb, "alloc_3d") == 0)
        allocate_3d(actor, command);
    else if (strcmp(verb, "alloc_array") == 0)
        allocate_array(actor, command, 2);
    else if (strcmp(verb, "alloc_3d_array") == 0)
        allocate_array(actor, command, 3);
    else if (strcmp(verb, "alloc_host") == 0 || strcmp(verb, "host_alloc") == 0)
        allocate_of_host(actor, command, strcmp(verb, "host_alloc") == 0);
    else if (strcmp(verb, "free_host") == 0)
        release_of_host(thing_named(actor, 'h', word(command, 1)));
    else if (strcmp(verb, "free_array") == 0)
        release_array(thing_named(actor, 'm', word(command, 1)));
    else if (strcmp(verb, "allocs") == 0)
        allocate_many(actor, number(command, 1), number(command, 2));
    else if (strcmp(verb, "churn") == 0)
        churn(actor, number(command, 1), number(command, 2));
    else if (strcmp(verb, "free") == 0)
        release(actor, command, 0);
    else if (strcmp(verb, "free_async") == 0)
        release(actor, command, 1);
    else if (strcmp(verb, "free_all") == 0)
        release_all(actor);
    else if (strcmp(verb, "free_null") == 0)
        went_well("cudaFree", cuda.cudaFree(NULL));
    else if (strcmp(verb, "fail_free") == 0)
        went_well("cudaFree", cuda.cudaFree((void *)0x100));
    else if (strcmp(verb, "fail_alloc") == 0)
        went_well("cudaMalloc", cuda.cudaMalloc(&(void *){NULL}, too_much));
    else
        return 0;
    return 1;
}
