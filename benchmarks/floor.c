/* The floor: what a sample of a process tree costs a C program that does nothing but read.
 *
 *     floor INTERVAL SECONDS PID
 *
 * Every INTERVAL seconds, for SECONDS seconds, it reads what a sample of gpu-tracker reads: the CPU clocks of PID and
 * its descendants, stat and statm of those that have run since (once a second of all), loadavg, of which the last pid
 * tells whether /proc has to be listed for new processes, and meminfo and stat of the machine. It parses what tells how
 * a tree goes on, adds up resident pages and CPU seconds, and prints one line: the samples and its own CPU seconds.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MOST_MEMBERS = 8192, MOST_PIDS = 1 << 22, MOST_BYTES = 2048 };

struct member {
    int pid;
    int stat;
    int statm;
    long long cpu;   /* nanoseconds */
    long resident;   /* pages */
};

static struct member members[MOST_MEMBERS];
static int n_members;
static unsigned char in_tree[MOST_PIDS];
static unsigned char known[MOST_PIDS];
static char text[MOST_BYTES];
static long long total_cpu;
static long total_resident;

static long long nanoseconds(clockid_t clock)
{
    struct timespec now;
    if (clock_gettime(clock, &now) != 0)
        return -1;
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* The number of another process' CPU clock, see clock_getres(2). */
static clockid_t clock_of(int pid)
{
    return (clockid_t)(~(unsigned)pid << 3 | 2);
}

static int open_of(const char *pid, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "/proc/%s/%s", pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static int read_text(int file)
{
    ssize_t length = pread(file, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = 0;
    return length > 0;
}

/* Returns a field of the stat file in text; the name, which may hold anything, is field 2 and ends with the last ')'. */
static long field(int number)
{
    const char *at = strrchr(text, ')') + 2;
    for (int skipped = 3; skipped < number; skipped++)
        at = strchr(at, ' ') + 1;
    return strtol(at, NULL, 10);
}

static int read_member(struct member *member)
{
    if (!read_text(member->stat))
        return 0;
    volatile long threads = field(20), faults = field(10), reaped = field(16) + field(17);
    (void)threads, (void)faults, (void)reaped;
    member->resident = 0;
    if (read_text(member->statm))
        member->resident = strtol(strchr(text, ' '), NULL, 10);
    return 1;
}

static void admit(const char *name)
{
    int pid = atoi(name), stat = open_of(name, "stat");
    known[pid] = 1;
    if (stat < 0)
        return;
    if (!read_text(stat) || (!in_tree[pid] && !in_tree[field(4)]) || n_members == MOST_MEMBERS) {
        close(stat);
        return;
    }
    in_tree[pid] = 1;
    members[n_members] = (struct member){pid, stat, open_of(name, "statm"), nanoseconds(clock_of(pid)), 0};
    read_member(&members[n_members++]);
}

/* Parents have smaller pids than their children, mostly; what this misses on a wrap-around is the floor's own affair. */
static void list_new(DIR *proc)
{
    rewinddir(proc);
    for (struct dirent *entry; (entry = readdir(proc));)
        if (isdigit(entry->d_name[0]) && !known[atoi(entry->d_name)])
            admit(entry->d_name);
}

static void sample(DIR *proc, int loadavg, int meminfo, int stat, int everything)
{
    static char newest[32];
    total_resident = 0;
    for (int i = 0; i < n_members; i++) {
        struct member *member = &members[i];
        long long cpu = nanoseconds(clock_of(member->pid));
        if ((cpu != member->cpu || everything) && !read_member(member)) {
            close(member->stat);
            close(member->statm);
            in_tree[member->pid] = known[member->pid] = 0;
            members[i--] = members[--n_members];
            continue;
        }
        total_cpu += cpu - member->cpu;
        total_resident += member->resident;
        member->cpu = cpu;
    }
    read_text(loadavg);
    const char *last = strrchr(text, ' ');
    if (strncmp(last, newest, sizeof newest - 1) != 0) {
        strncpy(newest, last, sizeof newest - 1);
        list_new(proc);
    }
    read_text(meminfo);
    volatile long available = strtol(strstr(text, "MemAvailable:") + 13, NULL, 10);
    read_text(stat);
    volatile long busy = strtol(text + 4, NULL, 10);
    (void)available, (void)busy;
}

int main(int count, char **words)
{
    if (count != 4) {
        fputs("usage: floor INTERVAL SECONDS PID\n", stderr);
        return 2;
    }
    double interval = atof(words[1]);
    long samples = (long)(atof(words[2]) / interval);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    DIR *proc = opendir("/proc");
    int loadavg = open("/proc/loadavg", O_RDONLY), meminfo = open("/proc/meminfo", O_RDONLY);
    int stat = open("/proc/stat", O_RDONLY);
    in_tree[atoi(words[3])] = 1;
    sample(proc, loadavg, meminfo, stat, 1);
    long long start = nanoseconds(CLOCK_MONOTONIC), before = nanoseconds(CLOCK_PROCESS_CPUTIME_ID), read_all = start;
    for (long i = 1; i <= samples; i++) {
        long long due = start + (long long)(i * interval * 1e9);
        struct timespec until = {due / 1000000000LL, due % 1000000000LL};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        int everything = due - read_all >= 1000000000LL;
        if (everything)
            read_all = due;
        sample(proc, loadavg, meminfo, stat, everything);
    }
    printf("samples %ld cpu_seconds %.6f processes %d pages %ld\n", samples,
           (nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - before) / 1e9, n_members, total_resident);
    return 0;
}
