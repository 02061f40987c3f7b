/* Has memory for a moment, and prints its high-water mark in bytes.
 *
 *     flash MEGABYTES
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int count, char **words)
{
    size_t size = count == 2 ? atol(words[1]) * 1000000 : 0;
    char line[256];
    long kilobytes = 0;
    if (size) {
        char *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED)
            return 1;
        memset(block, 1, size);
    }
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "VmHWM: %ld", &kilobytes);
    printf("%ld\n", kilobytes * 1024);
    fflush(stdout);
    _exit(0);
}
