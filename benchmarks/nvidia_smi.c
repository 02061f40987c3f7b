/* A stand-in for nvidia-smi, for what nvgpu 0.9.0 reads of it: the list of the GPUs (nvidia-smi -L), and of the table
 * (nvidia-smi) the version of CUDA in the third line and the memory of each GPU.
 *
 * It asks NVML for what it prints and for nothing else, so it costs less than nvidia-smi, which also asks for all that
 * is N/A here and for the processes.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 96, MEBIBYTE = 1 << 20 };

typedef void *Device;
typedef struct { unsigned long long total, free, used; } Memory; /* nvmlMemory_t */

static void *library;

static void *function(const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "nvidia-smi: the library has no %s\n", name);
        exit(2);
    }
    return found;
}

static void check(int result, const char *name)
{
    if (result != 0) {
        fprintf(stderr, "nvidia-smi: %s has failed with %d\n", name, result);
        exit(2);
    }
}

/* Calls a function of the library by its name and its parameters' types. */
#define ASK(name, types, ...) check(((int(*) types)function(#name))(__VA_ARGS__), #name)

static Device device_of(unsigned index)
{
    Device device;
    ASK(nvmlDeviceGetHandleByIndex_v2, (unsigned, Device *), index, &device);
    return device;
}

static void print_list(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char name[TEXT], uuid[TEXT];
        Device device = device_of(i);
        ASK(nvmlDeviceGetName, (Device, char *, unsigned), device, name, TEXT);
        ASK(nvmlDeviceGetUUID, (Device, char *, unsigned), device, uuid, TEXT);
        printf("GPU %u: %s (UUID: %s)\n", i, name, uuid);
    }
}

static void print_table(unsigned count)
{
    static const char RULE[] = "+-----------------------------------------+------------------------+-----------------"
                               "-----+\n";
    char driver[TEXT];
    int cuda;
    ASK(nvmlSystemGetDriverVersion, (char *, unsigned), driver, TEXT);
    ASK(nvmlSystemGetCudaDriverVersion_v2, (int *), &cuda);
    printf("\n%s", RULE);
    printf("| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %d.%-5d |\n", driver, driver, cuda / 1000,
           cuda % 1000 / 10);
    printf("|-----------------------------------------+------------------------+----------------------+\n");
    printf("| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n");
    printf("| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n");
    printf("|                                         |                        |               MIG M. |\n");
    printf("|=========================================+========================+======================|\n");
    for (unsigned i = 0; i < count; i++) {
        char name[TEXT];
        Memory memory;
        Device device = device_of(i);
        ASK(nvmlDeviceGetName, (Device, char *, unsigned), device, name, TEXT);
        ASK(nvmlDeviceGetMemoryInfo, (Device, Memory *), device, &memory);
        printf("| %3u  %-34.34s |                    N/A |                  N/A |\n", i, name);
        printf("| N/A   N/A  N/A               N/A /  N/A | %6lluMiB / %7lluMiB |     N/A          N/A |\n",
               memory.used / MEBIBYTE, memory.total / MEBIBYTE);
        printf("|                                         |                        |                  N/A |\n%s", RULE);
    }
}

int main(int argc, char **argv)
{
    unsigned count;
    if ((library = dlopen("libnvidia-ml.so.1", RTLD_NOW)) == NULL) {
        fprintf(stderr, "nvidia-smi: %s\n", dlerror());
        return 12; /* as nvidia-smi */
    }
    ASK(nvmlInit_v2, (void), );
    ASK(nvmlDeviceGetCount_v2, (unsigned *), &count);
    if (argc == 2 && strcmp(argv[1], "-L") == 0)
        print_list(count);
    else
        print_table(count);
    ASK(nvmlShutdown, (void), );
    return 0;
}
