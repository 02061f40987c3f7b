/* What the program itself knows of its CUDA calls, by what they return: the truth that a probe is compared with. */
#pragma once
#include "../cuda.h"

#include <stdint.h>

enum { BOOK_DEVICES = 16 };

/* A loop of one call: how long it took in this thread, in nanoseconds. */
struct loop {
    const char *call;
    long long count, real, cpu;
};

void book_launches(int device, const char *kernel, const void *address, uint64_t stream, long long count,
                   long long threads);
void book_stream_ended(uint64_t stream); /* another one may get its handle */
void book_memory(int device, long long bytes); /* negative: freed */
void book_host_memory(long long bytes); /* page-locked */
void book_many(int device, long long count, long long bytes); /* so many allocations, each of them freed again */
void book_reset_device(int device);
void book_synchronisations(int device, long long count);
void book_copy(int device);
void book_graph(int device);
void book_failure(const char *function, int error);
void book_not_ready(const char *function);
void book_loop(struct loop loop);

/* book_fork: a child begins its own. */
void book_fork(void);

/* book_tell: writes the truth so far into the folder CUDA_STAND_IN_TRUTH, and to standard output where that is said. */
void book_tell(const char *end, int code, int print);
