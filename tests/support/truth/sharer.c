/* Has memory together with another process, clone(CLONE_VM), which is neither its thread nor about to call execve(2).
 *
 *     sharer MEGABYTES
 *
 * Writes the pid of the other process when all memory is there; both end at the end of the standard input.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK = 1 << 16 };

static int live_on(void *nothing)
{
    (void)nothing;
    pause();
    return 0;
}

int main(int argc, char **words)
{
    if (argc != 2)
        return 2;
    size_t size = atol(words[1]) * 1000000;
    char *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static char stack[STACK] __attribute__((aligned(16)));
    if (block == MAP_FAILED)
        return 1;
    memset(block, 1, size);
    pid_t other = clone(live_on, stack + STACK, CLONE_VM | SIGCHLD, NULL);
    if (other < 0)
        return 1;
    printf("%d\n", other);
    fflush(stdout);
    while (getchar() != EOF) {}
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    return 0;
}
