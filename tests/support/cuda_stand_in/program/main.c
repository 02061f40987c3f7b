/* Performs a script of CUDA calls, and tells at its end, as JSON, what it has really done.
 *
 *     program SCRIPT
 *
 * The commands are described in __init__.py.
 */
#define _GNU_SOURCE
#include "actor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct thing *new_thing(struct actor *actor, char kind, const char *name)
{
    struct thing *thing = calloc(1, sizeof *thing);
    must(thing && strlen(name) < LONGEST_NAME, "no memory, or a name too long", name);
    strcpy(thing->name, name);
    thing->kind = kind;
    thing->next = actor->things;
    actor->things = thing;
    return thing;
}

struct thing *thing_named(struct actor *actor, char kind, const char *name)
{
    for (struct actor *owner = actor; owner; owner = owner->parent)
        for (struct thing *thing = owner->things; thing; thing = thing->next)
            if (thing->kind == kind && strcmp(thing->name, name) == 0)
                return thing;
    must(0, "nothing has this name", name);
    return NULL;
}

int went_well(const char *function, cudaError_t answer)
{
    if (answer == cudaSuccess)
        return 1;
    if (answer == cudaErrorNotReady)
        book_not_ready(function);
    else
        book_failure(function, answer);
    return 0;
}

static long long clock_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

struct loop loop_begun(const char *call, long long count)
{
    return (struct loop){call, count, -clock_of(CLOCK_MONOTONIC), -clock_of(CLOCK_THREAD_CPUTIME_ID)};
}

void loop_ended(struct loop loop)
{
    loop.cpu += clock_of(CLOCK_THREAD_CPUTIME_ID);
    loop.real += clock_of(CLOCK_MONOTONIC);
    book_loop(loop);
}

void pause_in_loop(const struct actor *actor, const struct loop *loop, long long number)
{
    if (!actor->pace)
        return;
    long long begun = -loop->real, due = number * 1000000000LL / actor->pace;
    while (clock_of(CLOCK_MONOTONIC) - begun < due)
        ;
}

static void repeat(struct actor *actor, long long times, const char *script)
{
    while (times-- > 0)
        perform(actor, script);
}

static void choose_stream(struct actor *actor, const char *which)
{
    must(strcmp(which, "own") == 0 || strcmp(which, "shared") == 0, "default_stream is own or shared, not", which);
    actor->own_stream = strcmp(which, "own") == 0;
}

void perform_command(struct actor *actor, const struct command *command)
{
    const char *verb = command->words[0];
    if (strcmp(verb, "repeat") == 0)
        repeat(actor, number(command, 1), command->block);
    else if (strcmp(verb, "pace") == 0)
        actor->pace = number(command, 1);
    else if (strcmp(verb, "default_stream") == 0)
        choose_stream(actor, word(command, 1));
    else
        must(perform_memory(actor, command) || perform_launch(actor, command) || perform_stream(actor, command) ||
                 perform_graph(actor, command) || perform_driver(actor, command) || perform_process(actor, command),
             "no such command", verb);
}

void perform(struct actor *actor, const char *script)
{
    struct command command;
    must(script != NULL, "a block is missing", "{ ... }");
    while (next_command(&script, &command))
        perform_command(actor, &command);
}

int main(int count, char **words)
{
    struct actor first = {0};
    must(count >= 2, "usage", "program SCRIPT");
    continue_as_child(count > 2);
    perform(&first, words[1]);
    finish("end", 0);
}
