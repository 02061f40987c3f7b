/* Memory that a stand-in library has given out, its streams and its events. */
#define _GNU_SOURCE
#include "state.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef FIRST_ADDRESS
#define FIRST_ADDRESS 0x7e0000000000
#endif

enum { BUCKETS = 1 << 14, GRAIN = 512, SPARES_LOOKED_AT = 16, FIRST_HANDLE = 8 };

struct block {
    uintptr_t address;
    size_t size, room;
    int device;
    struct block *next;
};

struct stand_in_settings stand_in_settings;
struct stand_in_handle stand_in_streams[MOST_HANDLES], stand_in_events[MOST_HANDLES], stand_in_graphs[MOST_HANDLES];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *given[BUCKETS], *spare;
static uintptr_t next_address = FIRST_ADDRESS;
static size_t in_use[MOST_DEVICES];

static struct block **bucket(uintptr_t address) { return &given[address / GRAIN % BUCKETS]; }

/* reused: a block that was given back and is as large, newest first: the real allocator too gives an address again. */
static struct block *reused(size_t room)
{
    struct block **place = &spare, *found;
    for (int looked = 0; (found = *place) && looked < SPARES_LOOKED_AT; place = &found->next, looked++)
        if (found->room == room) {
            *place = found->next;
            return found;
        }
    return NULL;
}

static struct block *fresh(size_t room)
{
    struct block *made = calloc(1, sizeof *made);
    if (!made)
        abort();
    made->address = next_address;
    made->room = room;
    next_address += room;
    return made;
}

int stand_in_take(void **pointer, size_t size, int device)
{
    if (!pointer)
        return cudaErrorInvalidValue;
    *pointer = NULL;
    if (!size)
        return cudaSuccess;
    pthread_mutex_lock(&lock);
    int error = size > stand_in_settings.memory - in_use[device] ? cudaErrorMemoryAllocation : cudaSuccess;
    if (!error) {
        size_t room = (size + GRAIN - 1) / GRAIN * GRAIN;
        struct block *block = reused(room);
        if (!block)
            block = fresh(room);
        block->size = size;
        block->device = device;
        block->next = *bucket(block->address);
        *bucket(block->address) = block;
        in_use[device] += size;
        *pointer = (void *)block->address;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

static void take_back(struct block **place)
{
    struct block *block = *place;
    *place = block->next;
    block->next = spare;
    spare = block;
    in_use[block->device] -= block->size;
}

int stand_in_give_back(void *pointer)
{
    if (!pointer)
        return cudaSuccess;
    int error = cudaErrorInvalidValue;
    pthread_mutex_lock(&lock);
    for (struct block **place = bucket((uintptr_t)pointer); *place; place = &(*place)->next)
        if ((*place)->address == (uintptr_t)pointer) {
            take_back(place);
            error = cudaSuccess;
            break;
        }
    pthread_mutex_unlock(&lock);
    return error;
}

static void take_all_back(int device)
{
    for (int number = 0; number < BUCKETS; number++)
        for (struct block **place = &given[number]; *place;)
            if (device < 0 || (*place)->device == device)
                take_back(place);
            else
                place = &(*place)->next;
}

void stand_in_give_back_all(int device)
{
    pthread_mutex_lock(&lock);
    take_all_back(device);
    pthread_mutex_unlock(&lock);
}

int stand_in_open(struct stand_in_handle *handles, struct stand_in_handle **handle)
{
    if (!handle)
        return cudaErrorInvalidValue;
    for (int number = FIRST_HANDLE; number < MOST_HANDLES; number++)
        if (!handles[number].used && !__atomic_exchange_n(&handles[number].used, 1, __ATOMIC_RELAXED)) {
            handles[number].not_ready = 0;
            handles[number].captured = 0;
            *handle = &handles[number];
            return cudaSuccess;
        }
    return cudaErrorMemoryAllocation;
}

struct stand_in_handle *stand_in_known(struct stand_in_handle *handles, struct stand_in_handle *handle)
{
    if ((uintptr_t)handle < FIRST_HANDLE)
        return handles == stand_in_streams ? &handles[(uintptr_t)handle] : NULL;
    return handle > handles && handle < handles + MOST_HANDLES && handle->used ? handle : NULL;
}

int stand_in_close(struct stand_in_handle *handles, struct stand_in_handle *handle)
{
    if (!(handle = stand_in_known(handles, handle)) || handle < handles + FIRST_HANDLE)
        return cudaErrorInvalidResourceHandle;
    __atomic_store_n(&handle->used, 0, __ATOMIC_RELAXED);
    return cudaSuccess;
}

int stand_in_query(struct stand_in_handle *handle)
{
    int left = __atomic_load_n(&handle->not_ready, __ATOMIC_RELAXED);
    while (left > 0)
        if (__atomic_compare_exchange_n(&handle->not_ready, &left, left - 1, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return cudaErrorNotReady;
    return cudaSuccess;
}

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void in_parent(void) { pthread_mutex_unlock(&lock); }

static void in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    take_all_back(-1);
    memset(stand_in_streams, 0, sizeof stand_in_streams);
    memset(stand_in_events, 0, sizeof stand_in_events);
    memset(stand_in_graphs, 0, sizeof stand_in_graphs);
}

static size_t setting(const char *name, size_t usual)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : usual;
}

__attribute__((constructor)) static void begin(void)
{
    size_t devices = setting("CUDA_STAND_IN_DEVICES", 4);
    stand_in_settings.devices = devices < MOST_DEVICES ? (int)devices : MOST_DEVICES;
    stand_in_settings.memory = setting("CUDA_STAND_IN_MEMORY", 16ULL << 30);
    stand_in_settings.not_ready = (int)setting("CUDA_STAND_IN_NOT_READY", 0);
    stand_in_settings.nested = (int)setting("CUDA_STAND_IN_NESTED", 0);
    stand_in_settings.launches = setting("CUDA_STAND_IN_LAUNCHES", (size_t)-1);
    stand_in_settings.linger = (int)setting("CUDA_STAND_IN_LINGER", 0);
    pthread_atfork(before_fork, in_parent, in_child);
}
