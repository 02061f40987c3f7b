/* Has memory in a thread that goes on after the first one has ended, or that the first one waits for.
 *
 *     elder MEGABYTES CHILDREN ends|waits
 *
 * Its children write to a tenth of the memory each. Writes the pids of all, and its high-water mark in bytes, when all
 * of it is there; all end at the end of the standard input.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t size;
static int children;

static long mark(void)
{
    char path[64], line[256];
    long kilobytes = 0;
    snprintf(path, sizeof path, "/proc/thread-self/status");
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "VmHWM: %ld", &kilobytes);
    if (file)
        fclose(file);
    return kilobytes * 1024;
}

static void *work(void *nothing)
{
    char *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), byte;
    int ready[2];
    if (block == MAP_FAILED || pipe(ready))
        exit(1);
    memset(block, 1, size);
    printf("%d", getpid());
    for (int number = 0; number < children; number++) {
        fflush(stdout);
        int pid = fork();
        if (pid == 0) {
            memset(block, 2, size / 10);
            if (write(ready[1], "", 1) != 1)
                _exit(1);
            while (read(0, &byte, 1) > 0)
                ;
            _exit(0);
        }
        if (read(ready[0], &byte, 1) != 1)
            exit(1);
        printf(" %d", pid);
    }
    printf("\n%ld\n", mark());
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    while (wait(NULL) > 0)
        ;
    _exit(0);
    return nothing;
}

int main(int count, char **words)
{
    pthread_t thread;
    if (count != 4)
        return 2;
    size = atol(words[1]) * 1000000;
    children = atoi(words[2]);
    if (pthread_create(&thread, NULL, work, NULL))
        return 1;
    if (!strcmp(words[3], "ends"))
        pthread_exit(NULL);
    pthread_join(thread, NULL);
    return 0;
}
