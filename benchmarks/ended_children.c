/* Children that end one after the other, and are waited for, ignored or double-forked.

   ended_children HOW NUMBER MILLISECONDS MEGABYTES

   HOW begins with w, i or d for these. Each child has MEGABYTES of memory, and ends when it has used so many
   MILLISECONDS of CPU time. Prints the CPU seconds that they know of themselves, together, when all have ended. */

#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double used(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

int main(int count, char **words) {
    char how = words[1][0];
    int number = atoi(words[2]);
    double seconds = atof(words[3]) / 1e3;
    size_t size = (size_t)atoi(words[4]) << 20;
    double *times = mmap(NULL, 8 * (size_t)atoi(words[2]), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double sum = 0;
    int alive[2]; /* whose writing end is closed when the last one has ended, and been reported */
    char byte;
    if (pipe(alive)) return 1;
    if (how == 'i') signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i < number; i++) {
        pid_t child = fork();
        if (child == 0) {
            if (how == 'd' && fork()) _exit(0);
            if (size) {
                char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                memset(memory, 1, size);
            }
            while (used() < seconds);
            times[i] = used();
            _exit(0);
        }
        waitpid(child, NULL, 0);
        while (how != 'w' && ((volatile double *)times)[i] == 0) usleep(100);
        sum += times[i];
    }
    close(alive[1]);
    while (read(alive[0], &byte, 1) > 0);
    printf("%f\n", sum);
    return 0;
}
