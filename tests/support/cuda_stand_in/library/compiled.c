/* What programs need that nvcc has compiled: their kernels register themselves, <<<...>>> leaves its figures here. */
#define _GNU_SOURCE
#include "state.h"

static __thread struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} configuration;

static void *registered;

API void **__cudaRegisterFatBinary(void *binary)
{
    (void)binary;
    return &registered;
}

API void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
API void __cudaUnregisterFatBinary(void **handle) { (void)handle; }

API void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit,
                                void *thread, void *block, dim3 *block_size, dim3 *grid_size, int *warp)
{
    (void)handle, (void)host, (void)device, (void)name, (void)limit;
    (void)thread, (void)block, (void)block_size, (void)grid_size, (void)warp;
}

API void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t size,
                           int constant, int global)
{
    (void)handle, (void)host, (void)device, (void)name, (void)external, (void)size, (void)constant, (void)global;
}

API char __cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}

API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    configuration.grid = grid;
    configuration.block = block;
    configuration.shared = shared;
    configuration.stream = stream;
    return cudaSuccess;
}

API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, cudaStream_t *stream)
{
    *grid = configuration.grid;
    *block = configuration.block;
    *shared = configuration.shared;
    *stream = configuration.stream;
    return cudaSuccess;
}

API cudaError_t cudaGetLastError(void) { return cudaSuccess; }
API cudaError_t cudaPeekAtLastError(void) { return cudaSuccess; }
