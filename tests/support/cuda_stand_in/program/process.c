/* Threads, children, the end, and what the program does beside CUDA. */
#define _GNU_SOURCE
#include "actor.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int is_child;

void continue_as_child(int child) { is_child = child; }

static void wait_for_children(void)
{
    while (wait(NULL) > 0)
        ;
}

void finish(const char *end, int code)
{
    if (strcmp(end, "end") == 0)
        wait_for_children();
    book_tell(end, code, !is_child);
    exit(code);
}

struct thread {
    pthread_t id;
    struct actor actor;
    const char *script;
};

static void *run_thread(void *argument)
{
    struct thread *thread = argument;
    perform(&thread->actor, thread->script);
    return NULL;
}

static void run_threads(struct actor *actor, long long count, const char *script)
{
    struct thread *threads = calloc((size_t)count, sizeof *threads);
    must(threads != NULL, "no memory for threads", script);
    for (long long number = 0; number < count; number++) {
        threads[number].script = script;
        threads[number].actor = (struct actor){
            .parent = actor,
            .own_stream = actor->own_stream,
            .pace = actor->pace,
        };
        must(!pthread_create(&threads[number].id, NULL, run_thread, &threads[number]), "no more threads", script);
    }
    for (long long number = 0; number < count; number++)
        pthread_join(threads[number].id, NULL);
}

static void fork_and_perform(struct actor *actor, const char *script)
{
    fflush(stdout);
    pid_t child = fork();
    must(child >= 0, "cannot fork", script);
    if (child)
        return;
    is_child = 1;
    book_fork();
    perform(actor, script);
    finish("end", 0);
}

/* exec_again: this process becomes a fresh one of the same program, which performs the script. */
static void exec_again(char *script)
{
    char image[16];
    book_tell("exec", 0, 0);
    snprintf(image, sizeof image, "%d", atoi(getenv("CUDA_STAND_IN_IMAGE") ?: "0") + 1);
    setenv("CUDA_STAND_IN_IMAGE", image, 1);
    char *words[] = {"program", script, is_child ? "child" : NULL, NULL};
    execv("/proc/self/exe", words);
    must(0, "cannot exec", script);
}

/* wait_for_a_line: tells that all before is done, and goes on when a line has come; ends where none does. */
static void wait_for_a_line(void)
{
    char line[256];
    book_tell("waiting", 0, 0);
    puts("waiting");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        finish("abandoned", 0);
}

/* obey: performs each line of standard input, and answers "done" to it, until a line "go_on" or the end of input. */
static void obey(struct actor *actor)
{
    char line[4096];
    puts("waiting");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) && strcmp(line, "go_on\n") != 0) {
        perform(actor, line);
        book_tell("waiting", 0, 0);
        puts("done");
        fflush(stdout);
    }
}

static void pause_for(long long milliseconds)
{
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

static void crash(void)
{
    book_tell("crash", SIGSEGV, 0);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

static void put_environment(const struct command *command)
{
    char *assignment = NULL;
    must(asprintf(&assignment, "%s=%s", word(command, 1), command->count > 2 ? word(command, 2) : "") > 0, "no memory",
         word(command, 1));
    putenv(assignment); /* keeps what it is given */
}

int perform_process(struct actor *actor, const struct command *command)
{
    const char *verb = command->words[0];
    if (strcmp(verb, "threads") == 0)
        run_threads(actor, number(command, 1), command->block);
    else if (strcmp(verb, "fork") == 0)
        fork_and_perform(actor, command->block);
    else if (strcmp(verb, "reap") == 0)
        wait_for_children();
    else if (strcmp(verb, "exec") == 0)
        exec_again(command->block);
    else if (strcmp(verb, "exit") == 0)
        finish("exit", (int)number(command, 1));
    else if (strcmp(verb, "crash") == 0)
        crash();
    else if (strcmp(verb, "wait") == 0)
        wait_for_a_line();
    else if (strcmp(verb, "obey") == 0)
        obey(actor);
    else if (strcmp(verb, "pause") == 0)
        pause_for(number(command, 1));
    else if (strcmp(verb, "setenv") == 0)
        setenv(word(command, 1), command->count > 2 ? word(command, 2) : "", 1);
    else if (strcmp(verb, "unsetenv") == 0)
        unsetenv(word(command, 1));
    else if (strcmp(verb, "putenv") == 0)
        put_environment(command);
    else if (strcmp(verb, "load") == 0)
        load_runtime(command->count > 1 ? word(command, 1) : "libcudart.so.12");
    else
        return 0;
    return 1;
}
