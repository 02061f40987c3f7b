/* A thread that performs commands: what it has made, by name, and what it has chosen. */
#pragma once
#include "../cuda.h"
#include "book.h"
#include "script.h"

#define RUNTIME_POINTER(name, parameters) cudaError_t(*name) parameters;
#define RUNTIME_POINTERS(name, suffix, parameters) cudaError_t(*name[2]) parameters;

/* The runtime's functions; of those that exist twice the second is the one for the thread's own default stream. */
struct runtime {
    CUDA_RUNTIME(RUNTIME_POINTER)
    CUDA_RUNTIME_TWICE(RUNTIME_POINTERS)
};

extern struct runtime cuda;

enum { LONGEST_NAME = 32 };

struct thing {
    char name[LONGEST_NAME];
    char kind; /* 'm'emory, page-locked memory of the 'h'ost, 's'tream, 'e'vent, 'g'raph, e'x'ecutable graph */
    void *handle;
    long long bytes;
    int device;
    struct contents *contents; /* of a graph; of a stream or an event: what it is captured into */
    struct thing *next;
};

struct actor {
    struct actor *parent;
    struct thing *things;
    int device, own_stream;
    long long pace; /* calls a second in loops; 0: as fast as it goes */
};

void perform(struct actor *actor, const char *script);
void perform_command(struct actor *actor, const struct command *command);

struct thing *new_thing(struct actor *actor, char kind, const char *name);
struct thing *thing_named(struct actor *actor, char kind, const char *name);

/* the_stream: that of the name; "default", "legacy" and "per_thread" are those that are there from the start. */
cudaStream_t the_stream(struct actor *actor, const char *name);

/* went_well: whether the call succeeded; what it answered otherwise is booked. */
int went_well(const char *function, cudaError_t answer);

/* book_release: memory is free again, so far as it is known. */
void book_release(struct thing *memory);

struct loop loop_begun(const char *call, long long count);
void loop_ended(struct loop loop);

/* pause_in_loop: what the actor's pace asks for before the call of this number. */
void pause_in_loop(const struct actor *actor, const struct loop *loop, long long number);

/* captured: whether so many launches on the stream only went into a graph, where their truth is kept. */
int captured(struct actor *actor, cudaStream_t stream, const char *kernel, const void *address, long long count,
             long long threads);

/* contents_of: what the stream of that name is captured into; NULL: it is not. */
struct contents *contents_of(struct actor *actor, const char *stream);

const void *kernel_named(const char *name);

/* Each does its part of the commands, and tells whether the command was one of them. */
int perform_memory(struct actor *actor, const struct command *command);
int perform_launch(struct actor *actor, const struct command *command);
int perform_stream(struct actor *actor, const struct command *command);
int perform_graph(struct actor *actor, const struct command *command);
int perform_driver(struct actor *actor, const struct command *command);
int perform_process(struct actor *actor, const struct command *command);

void load_runtime(const char *path);
void finish(const char *end, int code);

/* continue_as_child: whether this is a child that has called exec; only the first process prints its truth. */
void continue_as_child(int child);
