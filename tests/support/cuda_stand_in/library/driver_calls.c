/* Finds the driver as the real runtime does: by the name of its library. */
#define _GNU_SOURCE
#include "driver_calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static struct driver_calls calls;

static void *found(void *library, const char *name)
{
    void *address = library ? dlsym(library, name) : NULL;
    if (!address) {
        fprintf(stderr, "no driver: %s\n", dlerror());
        exit(98);
    }
    return address;
}

const struct driver_calls *load_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
#define FIND(name, parameters) calls.name = (CUresult(*) parameters)found(library, #name);
    CUDA_DRIVER(FIND)
    return &calls;
}
