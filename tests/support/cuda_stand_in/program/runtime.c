/* The runtime's functions: linked, or with -DLATE loaded when the script says so. */
#define _GNU_SOURCE
#include "actor.h"

#ifdef LATE
#include <dlfcn.h>

struct runtime cuda;

static void *found(void *library, const char *name)
{
    void *address = dlsym(library, name);
    must(address != NULL, "not in the library", name);
    return address;
}

void load_runtime(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    must(library != NULL, "cannot load", dlerror());
#define LOAD(name, parameters) cuda.name = (cudaError_t(*) parameters)found(library, #name);
#define LOAD_TWICE(name, suffix, parameters)                                                                           \
    cuda.name[0] = (cudaError_t(*) parameters)found(library, #name);                                                   \
    cuda.name[1] = (cudaError_t(*) parameters)found(library, #name #suffix);
    CUDA_RUNTIME(LOAD)
    CUDA_RUNTIME_TWICE(LOAD_TWICE)
}
#else
#define LINKED(name, parameters) .name = name,
#define LINKED_TWICE(name, suffix, parameters) .name = {name, name##suffix},
struct runtime cuda = {CUDA_RUNTIME(LINKED) CUDA_RUNTIME_TWICE(LINKED_TWICE)};

void load_runtime(const char *path) { must(0, "is linked and cannot be loaded", path); }
#endif
