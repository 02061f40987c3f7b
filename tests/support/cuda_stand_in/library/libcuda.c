/* A stand-in for the CUDA driver's library, with one GPU. Every stream is known to it: the runtime makes them. */
#define _GNU_SOURCE
#include "state.h"

/* Called so that each function has a frame, and begins with "push" as in the real library. */
static __attribute__((noinline)) CUresult answer(CUresult error)
{
    __asm__ volatile("");
    return error;
}

API CUresult cuInit(unsigned flags) { return answer(flags ? cudaErrorInvalidValue : cudaSuccess); }

API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    static char functions[256]; /* a function is a place in here */
    (void)module;
    unsigned number = 0;
    if (!function || !name || !*name)
        return answer(cudaErrorSymbolNotFound);
    while (*name)
        number = number * 31 + (unsigned char)*name++;
    *function = &functions[number % sizeof functions];
    return answer(cudaSuccess);
}

static __attribute__((noinline)) CUresult launch(CUfunction function, const dim3 *grid, const dim3 *block)
{
    return function && stand_in_can_launch(grid, block) ? cudaSuccess : cudaErrorInvalidValue;
}

API CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                            unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **parameters,
                            void **extra)
{
    (void)shared, (void)stream, (void)parameters, (void)extra;
    return launch(function, &(dim3){grid_x, grid_y, grid_z}, &(dim3){block_x, block_y, block_z});
}

API CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
    (void)parameters, (void)extra;
    if (!config)
        return cudaErrorInvalidValue;
    return launch(function, &(dim3){config->gridDimX, config->gridDimY, config->gridDimZ},
                  &(dim3){config->blockDimX, config->blockDimY, config->blockDimZ});
}

API CUresult cuStreamSynchronize(CUstream stream)
{
    (void)stream;
    return answer(cudaSuccess);
}

API CUresult cuCtxSynchronize(void) { return answer(cudaSuccess); }

API CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t size)
{
    void *address = NULL;
    CUresult error = pointer ? stand_in_take(&address, size, 0) : cudaErrorInvalidValue;
    if (pointer)
        *pointer = (CUdeviceptr)address;
    return error;
}

API CUresult cuMemFree_v2(CUdeviceptr pointer) { return stand_in_give_back((void *)pointer); }

API CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *description)
{
    if (!array || !description)
        return answer(cudaErrorInvalidValue);
    size_t rows = description->Height ? description->Height : 1;
    return stand_in_take(array, 4 * description->NumChannels * description->Width * rows, 0); /* of floats */
}

API CUresult cuArrayDestroy(CUarray array) { return stand_in_give_back(array); }
