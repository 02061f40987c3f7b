#define _GNU_SOURCE
#include "book.h"
#include "script.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KERNELS = 64, FAILURES = 64, STREAMS = 1 << 16, LOOPS = 256, LONGEST_PATH = 4096 };

struct device {
    long long launches, threads, allocations, frees, allocated, freed, current, maximum;
    long long synchronisations, copies, graphs;
};

struct kernel {
    const char *name;
    const void *address;
    long long launches, threads;
};

struct failure {
    const char *function;
    int error; /* 0: not ready */
    long long count;
};

static struct {
    struct device devices[BOOK_DEVICES];
    struct kernel kernels[KERNELS];
    struct failure failures[FAILURES];
    uint64_t streams[STREAMS];
    struct loop loops[LOOPS];
    int kernel_count, failure_count, stream_count, loop_count;
    int streams_ended;
    long long current, maximum; /* of all devices together */
    long long host_allocations, host_current, host_maximum;
} book;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define LOCKED(...)                                                                                                    \
    do {                                                                                                               \
        pthread_mutex_lock(&lock);                                                                                     \
        __VA_ARGS__                                                                                                    \
        pthread_mutex_unlock(&lock);                                                                                   \
    } while (0)

static struct kernel *kernel_of(const char *name, const void *address)
{
    for (int number = 0; number < book.kernel_count; number++)
        if (book.kernels[number].address == address)
            return &book.kernels[number];
    must(book.kernel_count < KERNELS, "too many kernels", name);
    struct kernel *new = &book.kernels[book.kernel_count++];
    new->name = name;
    new->address = address;
    return new;
}

static void note_stream(uint64_t stream)
{
    for (int number = book.stream_count - 1; number >= 0; number--)
        if (book.streams[number] == stream)
            return;
    must(book.stream_count < STREAMS, "too many streams", "");
    book.streams[book.stream_count++] = stream;
}

void book_stream_ended(uint64_t stream)
{
    LOCKED({
        for (int number = 0; number < book.stream_count; number++)
            if (book.streams[number] == stream) {
                book.streams[number] = book.streams[--book.stream_count];
                book.streams_ended++;
            }
    });
}

void book_launches(int device, const char *kernel, const void *address, uint64_t stream, long long count,
                   long long threads)
{
    LOCKED({
        struct kernel *known = kernel_of(kernel, address);
        known->launches += count;
        known->threads += count * threads;
        book.devices[device].launches += count;
        book.devices[device].threads += count * threads;
        note_stream(stream);
    });
}

static void use(struct device *used, long long bytes)
{
    used->current += bytes;
    book.current += bytes;
    if (used->maximum < used->current)
        used->maximum = used->current;
    if (book.maximum < book.current)
        book.maximum = book.current;
}

void book_memory(int device, long long bytes)
{
    LOCKED({
        struct device *used = &book.devices[device];
        if (bytes >= 0) {
            used->allocations++;
            used->allocated += bytes;
        } else {
            used->frees++;
            used->freed -= bytes;
        }
        use(used, bytes);
    });
}

void book_host_memory(long long bytes)
{
    LOCKED({
        book.host_allocations += bytes > 0;
        book.host_current += bytes;
        if (book.host_maximum < book.host_current)
            book.host_maximum = book.host_current;
    });
}

void book_many(int device, long long count, long long bytes)
{
    LOCKED({
        struct device *used = &book.devices[device];
        used->allocations += count;
        used->frees += count;
        used->allocated += count * bytes;
        used->freed += count * bytes;
        if (count) {
            use(used, bytes);
            use(used, -bytes);
        }
    });
}

void book_reset_device(int device)
{
    LOCKED({ use(&book.devices[device], -book.devices[device].current); });
}

void book_synchronisations(int device, long long count)
{
    LOCKED({ book.devices[device].synchronisations += count; });
}

void book_copy(int device)
{
    LOCKED({ book.devices[device].copies++; });
}

void book_graph(int device)
{
    LOCKED({ book.devices[device].graphs++; });
}

static void note_failure(const char *function, int error)
{
    int number = 0;
    while (number < book.failure_count &&
           (book.failures[number].error != error || strcmp(book.failures[number].function, function) != 0))
        number++;
    must(number < FAILURES, "too many kinds of failures", function);
    if (number == book.failure_count)
        book.failures[book.failure_count++] = (struct failure){function, error, 0};
    book.failures[number].count++;
}

void book_failure(const char *function, int error)
{
    LOCKED({ note_failure(function, error); });
}

void book_not_ready(const char *function)
{
    LOCKED({ note_failure(function, 0); });
}

void book_loop(struct loop loop)
{
    LOCKED({
        if (book.loop_count < LOOPS)
            book.loops[book.loop_count++] = loop;
    });
}

void book_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    memset(&book, 0, sizeof book);
}

static void write_devices(FILE *file)
{
    const char *between = "";
    fprintf(file, "\"devices\": {");
    for (int number = 0; number < BOOK_DEVICES; number++) {
        struct device d = book.devices[number];
        if (!d.launches && !d.allocations && !d.synchronisations && !d.copies && !d.graphs)
            continue;
        fprintf(file,
                "%s\"%d\": {\"launches\": %lld, \"threads\": %lld, \"allocations\": %lld, \"frees\": %lld, "
                "\"allocated\": %lld, \"freed\": %lld, \"current\": %lld, \"maximum\": %lld, "
                "\"synchronisations\": %lld, \"copies\": %lld, \"graphs\": %lld}",
                between, number, d.launches, d.threads, d.allocations, d.frees, d.allocated, d.freed, d.current,
                d.maximum, d.synchronisations, d.copies, d.graphs);
        between = ", ";
    }
    fprintf(file, "}, ");
}

static void write_failures(FILE *file, const char *key, int not_ready)
{
    const char *between = "";
    fprintf(file, "\"%s\": [", key);
    for (int number = 0; number < book.failure_count; number++) {
        struct failure f = book.failures[number];
        if ((f.error == 0) != not_ready)
            continue;
        fprintf(file, "%s{\"function\": \"%s\", \"error\": %d, \"count\": %lld}", between, f.function, f.error,
                f.count);
        between = ", ";
    }
    fprintf(file, "], ");
}

static void write_truth(FILE *file, const char *end, int code)
{
    fprintf(file, "{\"pid\": %d, \"parent\": %d, \"end\": \"%s\", \"code\": %d, ", getpid(), getppid(), end, code);
    write_devices(file);
    write_failures(file, "failures", 0);
    write_failures(file, "not_ready", 1);
    fprintf(file, "\"kernels\": [");
    for (int number = 0; number < book.kernel_count; number++) {
        struct kernel k = book.kernels[number];
        fprintf(file, "%s{\"name\": \"%s\", \"address\": %llu, \"launches\": %lld, \"threads\": %lld}",
                number ? ", " : "", k.name, (unsigned long long)k.address, k.launches, k.threads);
    }
    fprintf(file, "], \"loops\": [");
    for (int number = 0; number < book.loop_count; number++) {
        struct loop l = book.loops[number];
        fprintf(file, "%s{\"call\": \"%s\", \"count\": %lld, \"real_ns\": %lld, \"cpu_ns\": %lld}", number ? ", " : "",
                l.call, l.count, l.real, l.cpu);
    }
    fprintf(file, "], \"streams\": %d, \"maximum\": %lld, ", book.stream_count + book.streams_ended, book.maximum);
    fprintf(file, "\"host_allocations\": %lld, \"host_current\": %lld, \"host_maximum\": %lld}\n", book.host_allocations,
            book.host_current, book.host_maximum);
}

void book_tell(const char *end, int code, int print)
{
    const char *folder = getenv("CUDA_STAND_IN_TRUTH");
    LOCKED({
        if (folder) {
            static char path[LONGEST_PATH], unfinished[LONGEST_PATH + 8];
            snprintf(path, sizeof path, "%s/%d.%s.json", folder, getpid(), getenv("CUDA_STAND_IN_IMAGE") ?: "0");
            snprintf(unfinished, sizeof unfinished, "%s.new", path);
            FILE *file = fopen(unfinished, "w");
            must(file != NULL, "cannot write", unfinished);
            write_truth(file, end, code);
            must(fclose(file) == 0 && rename(unfinished, path) == 0, "cannot write", path);
        }
        if (print) {
            write_truth(stdout, end, code);
            fflush(stdout);
        }
    });
}
