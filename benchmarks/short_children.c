/* Processes that grow steadily until the end of a short life, and the process that starts them.

   short_children run DELAY LIFE KILOBYTES COUNT SECONDS FILE

   After DELAY seconds COUNT processes are started together, each of which grows by KILOBYTES within LIFE seconds. When
   all of them are as large as they get they end, and so on with the next ones until SECONDS are over: with 0 seconds
   there is one batch. Without processes (COUNT 0) it sleeps for SECONDS.

   short_children grow LIFE KILOBYTES FILE

   Is one such process.

   Into FILE goes a line for each: "child" with its high-water mark (kB) and how long it has lived (s), and "starter"
   with what is resident in the process that has started them (kB). With "-" nothing is written. Where the variable
   SHORT_CHILDREN_HOLD is set the processes, when they are as large as they get, hold still until a line comes from the
   standard input; a line of their pids goes to the standard output, those of the starter, if any, and its parent first
   and last. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CHILDREN = 64, MOST_STEPS = 300, NUMBER = 32, STATUS = 8192 };

static const double SHORTEST_STEP = 0.001;
static const long PAGE = 4096;
static const double LONGER = 60; /* seconds after which a process ends, whatever becomes of the others */

extern char **environ;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void sleep_until(double moment)
{
    struct timespec time = {(time_t)moment, (long)((moment - (double)(time_t)moment) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
        ;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* Return a size in kilobytes from the status of this process, without any allocation. */
static long own_size(const char *field)
{
    static char text[STATUS];
    int status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t size = status < 0 ? -1 : read(status, text, sizeof text - 1);
    if (size < 0)
        fail("/proc/self/status");
    close(status);
    text[size] = 0;
    const char *found = strstr(text, field);
    return found == NULL ? 0 : atol(found + strlen(field));
}

static void note(const char *file, const char *line)
{
    if (strcmp(file, "-") == 0)
        return;
    int notes = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (notes < 0 || write(notes, line, strlen(line)) < 0)
        fail(file);
    close(notes);
}

/* Name the processes that have grown and those above them, and wait. */
static void hold(const pid_t *pids, int count)
{
    char line;
    if (getenv("SHORT_CHILDREN_HOLD") == NULL)
        return;
    for (int i = 0; i < count; i++)
        printf("%d ", pids[i]);
    printf("%d\n", getppid());
    fflush(stdout);
    if (read(0, &line, 1) < 0)
        fail("standard input");
}

static int grow(double life, long kilobytes, const char *file, int arrived, int go)
{
    char line[96];
    double start = now();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm((unsigned)(life + LONGER));
    long pages = kilobytes * 1024 / PAGE, touched = 0;
    char *memory = mmap(NULL, (size_t)(pages + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("mmap");
    madvise(memory, (size_t)(pages + 1) * PAGE, MADV_NOHUGEPAGE);
    long steps = (long)(life / SHORTEST_STEP);
    steps = steps < 1 ? 1 : steps > MOST_STEPS ? MOST_STEPS : steps;
    for (long step = 1; step <= steps; step++) {
        for (; touched < pages * step / steps; touched++)
            memory[touched * PAGE] = 1;
        sleep_until(start + life * (double)step / (double)steps);
    }
    snprintf(line, sizeof line, "child %ld %.6f\n", own_size("\nVmHWM:"), now() - start);
    note(file, line);
    if (arrived < 0) {
        pid_t own = getpid();
        hold(&own, 1);
    } else if (write(arrived, "", 1) != 1 || read(go, line, 1) < 0)
        fail("the starter's pipes");
    return 0;
}

static void keep_open(int descriptor, char text[NUMBER])
{
    fcntl(descriptor, F_SETFD, 0);
    snprintf(text, NUMBER, "%d", descriptor);
}

/* Start processes together, let them end when all have grown, and wait for them. */
static void batch(char *program, char *life, char *kilobytes, int count, char *file)
{
    int arrived[2], go[2];
    char arrived_text[NUMBER], go_text[NUMBER], byte;
    pid_t pids[MOST_CHILDREN + 1];
    if (pipe2(arrived, O_CLOEXEC) != 0 || pipe2(go, O_CLOEXEC) != 0)
        fail("pipe2");
    keep_open(arrived[1], arrived_text);
    keep_open(go[0], go_text);
    char *words[] = {program, "grow", life, kilobytes, file, arrived_text, go_text, NULL};
    for (int i = 0; i < count; i++)
        if ((errno = posix_spawn(&pids[i], program, NULL, NULL, words, environ)) != 0)
            fail(program);
    close(arrived[1]);
    close(go[0]);
    for (int i = 0; i < count; i++)
        if (read(arrived[0], &byte, 1) != 1)
            fail("a process has not grown");
    pids[count] = getpid();
    hold(pids, count + 1);
    close(arrived[0]);
    close(go[1]);
    for (int i = 0; i < count; i++)
        waitpid(pids[i], NULL, 0);
}

static int run(char *program, double delay, char *life, char *kilobytes, int count, double seconds, char *file)
{
    char line[64];
    double begin = now() + delay;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm((unsigned)(delay + seconds + atof(life) + LONGER));
    sleep_until(begin);
    if (count == 0)
        sleep_until(begin + seconds);
    else
        do
            batch(program, life, kilobytes, count, file);
        while (now() < begin + seconds);
    snprintf(line, sizeof line, "starter %ld\n", own_size("\nVmRSS:"));
    note(file, line);
    return 0;
}

int main(int count, char **words)
{
    if (count == 5 && strcmp(words[1], "grow") == 0)
        return grow(atof(words[2]), atol(words[3]), words[4], -1, -1);
    if (count == 7 && strcmp(words[1], "grow") == 0)
        return grow(atof(words[2]), atol(words[3]), words[4], atoi(words[5]), atoi(words[6]));
    if (count == 8 && strcmp(words[1], "run") == 0 && atoi(words[5]) <= MOST_CHILDREN)
        return run(words[0], atof(words[2]), words[3], words[4], atoi(words[5]), atof(words[6]), words[7]);
    fputs("usage: see the top of short_children.c\n", stderr);
    return 2;
}
