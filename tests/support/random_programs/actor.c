/* Does what one body of a script says, and logs what the kernel says of it.
 *
 *     actor FOLDER BODY IMAGE
 *
 * FOLDER holds the script; the pipe "log", to which a line is written at each hold, exec and end:
 *
 *     hold|exec|end NUMBER PID BODY IMAGE OWN_NS CHILDREN_US HWM_KB
 *
 * and a pipe "gate.N" for each hold, from which a process reads one byte before it goes on; two processes that hand
 * memory over write to one another through "given.N" and "taken.N". IMAGE counts the execs of the process. The words of a script are described in script.py.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 256, BODIES = 256, LONGEST_LIFE = 100, PIECES = 16, LONGEST_PATH = 4096 };

static const size_t HUGE_PAGE = 1 << 21, STACK = 1 << 18;

struct block {
    char *start;
    size_t size;
    int file;
};

static const char *program, *folder;
static char script[1 << 16];
static int image, log_pipe;
static size_t page;
static struct block blocks[BLOCKS];
static pid_t children[BODIES];
static pid_t owner; /* of this memory, in which twins live too: what follows keeps what it works with on the stack */

static void perform(int body);

static void need(int condition, const char *what)
{
    if (!condition) {
        perror(what);
        _exit(99);
    }
}

static int open_pipe_or_file(const char *name, int number, int flags)
{
    char path[LONGEST_PATH];
    snprintf(path, sizeof path, "%s/%s.%d", folder, name, number);
    int file = open(path, flags | O_CLOEXEC, 0600);
    need(file >= 0, path);
    return file;
}

static long long nanoseconds(clockid_t clock)
{
    struct timespec now;
    need(clock_gettime(clock, &now) == 0, "clock_gettime");
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static long high_water_mark(void)
{
    char status[8192];
    int file = open("/proc/self/status", O_RDONLY);
    ssize_t length = read(file, status, sizeof status - 1);
    need(length > 0, "status");
    close(file);
    status[length] = 0;
    return atol(strstr(status, "VmHWM:") + 6);
}

static void tell(const char *event, int number, int body, long mark)
{
    struct rusage of_children;
    getrusage(RUSAGE_CHILDREN, &of_children);
    long long reaped = (of_children.ru_utime.tv_sec + of_children.ru_stime.tv_sec) * 1000000LL +
                       of_children.ru_utime.tv_usec + of_children.ru_stime.tv_usec;
    char line[200];
    int length = snprintf(line, sizeof line, "%s %d %d %d %d %lld %lld %ld\n", event, number, getpid(), body, image,
                          nanoseconds(CLOCK_PROCESS_CPUTIME_ID), reaped, mark);
    need(write(log_pipe, line, length) == length, "log");
}

static void burn(int milliseconds)
{
    long long end = nanoseconds(CLOCK_PROCESS_CPUTIME_ID) + milliseconds * 1000000LL;
    while (nanoseconds(CLOCK_PROCESS_CPUTIME_ID) < end) {}
}

static void hold(int number, int body)
{
    char byte;
    int gate = open_pipe_or_file("gate", number, O_RDONLY);
    tell("hold", number, body, high_water_mark());
    need(read(gate, &byte, 1) >= 0, "gate");
    close(gate);
}

static int open_file(const char *kind, int number)
{
    if (strcmp(kind, "memfd") != 0)
        return open_pipe_or_file("file", number, O_RDWR | O_CREAT);
    int file = memfd_create("block", MFD_CLOEXEC);
    need(file >= 0, "memfd");
    return file;
}

/* Maps whole huge pages, and asks for such. */
static char *map_huge(size_t size)
{
    char *start = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(start != MAP_FAILED, "mmap");
    size_t before = -(size_t)start % HUGE_PAGE;
    if (before)
        need(munmap(start, before) == 0, "munmap");
    need(munmap(start + before + size, HUGE_PAGE - before) == 0, "munmap");
    madvise(start + before, size, MADV_HUGEPAGE); /* a kernel without them has small ones */
    return start + before;
}

static void map(int slot, const char *kind, size_t pages, int number)
{
    struct block *block = &blocks[slot];
    int sharing = strcmp(kind, "private") && strcmp(kind, "copied") ? MAP_SHARED : MAP_PRIVATE;
    int named = strcmp(kind, "private") && strcmp(kind, "shared");
    block->size = pages * page;
    block->file = -1;
    if (strcmp(kind, "huge") == 0) {
        block->start = map_huge(block->size);
        return;
    }
    block->file = strcmp(kind, "again") == 0 ? blocks[number].file : named ? open_file(kind, number) : -1;
    if (named)
        need(ftruncate(block->file, block->size) == 0, "ftruncate");
    block->start = mmap(NULL, block->size, PROT_READ | PROT_WRITE, sharing | (named ? 0 : MAP_ANONYMOUS),
                        block->file, 0);
    need(block->start != MAP_FAILED, "mmap");
}

static void touch(const char *verb, char *start, size_t size)
{
    for (volatile char *at = start; at < start + size; at += page) {
        if (*verb == 'w')
            *at = 1;
        else
            (void)*at;
    }
}

static void change(const char *verb, int slot, size_t first, size_t pages)
{
    char *start = blocks[slot].start + first * page;
    if (strcmp(verb, "drop") == 0)
        need(madvise(start, pages * page, MADV_DONTNEED) == 0, "madvise");
    else
        touch(verb, start, pages * page);
}

static void hand_over(const char *verb, int slot, size_t pages, int number)
{
    int gives = strcmp(verb, "give") == 0;
    int given = open_pipe_or_file("given", number, gives ? O_WRONLY : O_RDONLY);
    int taken = open_pipe_or_file("taken", number, gives ? O_RDONLY : O_WRONLY);
    char byte = 0;
    for (size_t piece = 0; piece < PIECES; piece++) {
        size_t first = pages * piece / PIECES, size = pages * (piece + 1) / PIECES - first;
        if (!gives)
            need(read(given, &byte, 1) == 1, "given");
        change(gives ? "drop" : "write", slot, first, size);
        need(write(gives ? given : taken, &byte, 1) == 1, "hand over");
        if (gives)
            need(read(taken, &byte, 1) == 1, "taken");
    }
    close(given);
    close(taken);
}

static void unmap(int slot)
{
    need(munmap(blocks[slot].start, blocks[slot].size) == 0, "munmap");
    blocks[slot].start = NULL;
}

static void live(int body)
{
    alarm(LONGEST_LIFE);
    owner = getpid();
    perform(body);
}

static int live_in_parents_memory(void *body)
{
    alarm(LONGEST_LIFE);
    perform(*(int *)body);
    return 0;
}

static pid_t start_twin(int body)
{
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(stack != MAP_FAILED, "stack");
    *(int *)stack = body; /* at its far end, which is never reached */
    return clone(live_in_parents_memory, stack + STACK, CLONE_VM | SIGCHLD, stack);
}

/* The one in between ends at once, so that the new process has lost its parent. */
static void start_orphan(int body, int own_session)
{
    pid_t between = fork();
    need(between >= 0, "fork");
    if (between == 0) {
        if (own_session)
            setsid();
        if (fork() == 0)
            live(body);
        _exit(0);
    }
    need(waitpid(between, NULL, 0) == between, "waitpid");
}

static void start(const char *verb, int body)
{
    if (strcmp(verb, "orphan") == 0 || strcmp(verb, "daemon") == 0) {
        start_orphan(body, strcmp(verb, "daemon") == 0);
        return;
    }
    pid_t child = strcmp(verb, "twin") == 0 ? start_twin(body) : fork();
    need(child >= 0, verb);
    if (child == 0)
        live(body);
    children[body] = child;
}

static void become(int body, int next)
{
    char number[12], count[12];
    snprintf(number, sizeof number, "%d", next);
    snprintf(count, sizeof count, "%d", image + 1);
    tell("exec", next, body, high_water_mark());
    execl(program, program, folder, number, count, NULL);
    need(0, "exec");
}

/* Gives its memory and its memfds up before it tells its last times: what is left of its end takes microseconds. */
static void end(int body)
{
    long mark = high_water_mark();
    for (int slot = 0; slot < BLOCKS && owner == getpid(); slot++) {
        if (blocks[slot].start)
            unmap(slot);
        if (blocks[slot].file > STDERR_FILENO)
            close(blocks[slot].file);
    }
    tell("end", 0, body, mark);
    _exit(0);
}

static void perform(int body)
{
    char heading[32];
    snprintf(heading, sizeof heading, "body %d\n", body);
    char *line = strstr(script, heading);
    need(line != NULL, heading);
    while ((line = strchr(line, '\n')) != NULL && *++line && strncmp(line, "body", 4) != 0) {
        char verb[16], kind[16];
        unsigned long a = 0, b = 0, c = 0;
        if (sscanf(line, " map %lu %15s %lu %lu", &a, kind, &b, &c) >= 3) {
            map(a, kind, b, c);
            continue;
        }
        need(sscanf(line, " %15s %lu %lu %lu", verb, &a, &b, &c) >= 2, line);
        if (strcmp(verb, "write") == 0 || strcmp(verb, "read") == 0 || strcmp(verb, "drop") == 0)
            change(verb, a, b, c);
        else if (strcmp(verb, "give") == 0 || strcmp(verb, "take") == 0)
            hand_over(verb, a, b, c);
        else if (strcmp(verb, "unmap") == 0)
            unmap(a);
        else if (strcmp(verb, "burn") == 0)
            burn(a);
        else if (strcmp(verb, "nap") == 0)
            usleep(a * 1000);
        else if (strcmp(verb, "hold") == 0)
            hold(a, body);
        else if (strcmp(verb, "exec") == 0)
            become(body, a);
        else if (strcmp(verb, "wait") == 0)
            need(waitpid(children[a], NULL, 0) == children[a], "waitpid");
        else
            start(verb, a);
    }
    end(body);
}

int main(int argc, char **words)
{
    need(argc == 4, "FOLDER BODY IMAGE");
    program = words[0];
    folder = words[1];
    image = atoi(words[3]);
    page = sysconf(_SC_PAGESIZE);
    static char path[LONGEST_PATH];
    snprintf(path, sizeof path, "%s/script", folder);
    int file = open(path, O_RDONLY);
    need(file >= 0 && read(file, script, sizeof script - 1) > 0, path);
    close(file);
    snprintf(path, sizeof path, "%s/log", folder);
    log_pipe = open(path, O_WRONLY | O_CLOEXEC);
    need(log_pipe >= 0, path);
    live(atoi(words[2]));
}
