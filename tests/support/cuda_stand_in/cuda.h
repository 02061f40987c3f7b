/* What the CUDA runtime and driver declare, as far as the stand-ins go: true names, true signatures, true numbers. */
#pragma once
#include <stddef.h>

typedef int cudaError_t;
typedef int CUresult;

enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidDevice = 101,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorSymbolNotFound = 500,
    cudaErrorNotReady = 600,
};

typedef struct {
    unsigned x, y, z;
} dim3;

typedef struct stand_in_handle *cudaStream_t, *cudaEvent_t;

#define cudaStreamLegacy ((cudaStream_t)1)
#define cudaStreamPerThread ((cudaStream_t)2)

/* What a launch may name in place of the address of the kernel in the program. */
typedef void *cudaKernel_t;

typedef struct {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    void *attrs;
    unsigned numAttrs;
} cudaLaunchConfig_t;

/* EACH(name, parameters): the functions of the runtime that have no form for the thread's own default stream. */
#define CUDA_RUNTIME(EACH)                                                                                             \
    EACH(cudaMalloc, (void **pointer, size_t size))                                                                    \
    EACH(cudaMallocManaged, (void **pointer, size_t size, unsigned flags))                                             \
    EACH(cudaMallocPitch, (void **pointer, size_t *pitch, size_t width, size_t height))                                \
    EACH(cudaFree, (void *pointer))                                                                                    \
    EACH(cudaSetDevice, (int device))                                                                                  \
    EACH(cudaGetDevice, (int *device))                                                                                 \
    EACH(cudaDeviceSynchronize, (void))                                                                                \
    EACH(cudaDeviceReset, (void))                                                                                      \
    EACH(cudaGetKernel, (cudaKernel_t *kernel, const void *function))                                                  \
    EACH(__cudaGetKernel, (cudaKernel_t *kernel, const void *function))                                                \
    EACH(cudaStreamCreate, (cudaStream_t *stream))                                                                     \
    EACH(cudaStreamCreateWithFlags, (cudaStream_t *stream, unsigned flags))                                            \
    EACH(cudaStreamCreateWithPriority, (cudaStream_t *stream, unsigned flags, int priority))                           \
    EACH(cudaStreamDestroy, (cudaStream_t stream))                                                                     \
    EACH(cudaEventCreate, (cudaEvent_t *event))                                                                        \
    EACH(cudaEventCreateWithFlags, (cudaEvent_t *event, unsigned flags))                                               \
    EACH(cudaEventQuery, (cudaEvent_t event))                                                                          \
    EACH(cudaEventSynchronize, (cudaEvent_t event))                                                                    \
    EACH(cudaEventDestroy, (cudaEvent_t event))

/* EACH(name, suffix, parameters): those that exist twice, with the suffix for the thread's own default stream. */
#define CUDA_RUNTIME_TWICE(EACH)                                                                                       \
    EACH(cudaLaunchKernel, _ptsz,                                                                                      \
         (const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream))          \
    EACH(cudaLaunchCooperativeKernel, _ptsz,                                                                           \
         (const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream))          \
    EACH(cudaGraphLaunch, _ptsz, (void *graph, cudaStream_t stream))                                                   \
    EACH(__cudaLaunchKernel, _ptsz,                                                                                    \
         (cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream))           \
    EACH(cudaLaunchKernelExC, _ptsz, (const cudaLaunchConfig_t *config, const void *function, void **arguments))       \
    EACH(cudaMallocAsync, _ptsz, (void **pointer, size_t size, cudaStream_t stream))                                   \
    EACH(cudaFreeAsync, _ptsz, (void *pointer, cudaStream_t stream))                                                   \
    EACH(cudaStreamSynchronize, _ptsz, (cudaStream_t stream))                                                          \
    EACH(cudaStreamQuery, _ptsz, (cudaStream_t stream))                                                                \
    EACH(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream))                                             \
    EACH(cudaEventRecordWithFlags, _ptsz, (cudaEvent_t event, cudaStream_t stream, unsigned flags))                    \
    EACH(cudaMemcpy, _ptds, (void *to, const void *from, size_t size, int kind))                                       \
    EACH(cudaMemcpyAsync, _ptsz, (void *to, const void *from, size_t size, int kind, cudaStream_t stream))

typedef unsigned long long CUdeviceptr;
typedef void *CUfunction, *CUmodule;
typedef cudaStream_t CUstream;

typedef struct {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    void *attrs;
    unsigned numAttrs;
} CUlaunchConfig;

#define CUDA_DRIVER(EACH)                                                                                              \
    EACH(cuInit, (unsigned flags))                                                                                     \
    EACH(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))                              \
    EACH(cuLaunchKernel,                                                                                               \
         (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,  \
          unsigned block_z, unsigned shared, CUstream stream, void **parameters, void **extra))                        \
    EACH(cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra))       \
    EACH(cuStreamSynchronize, (CUstream stream))                                                                       \
    EACH(cuCtxSynchronize, (void))                                                                                     \
    EACH(cuMemAlloc_v2, (CUdeviceptr * pointer, size_t size))                                                          \
    EACH(cuMemFree_v2, (CUdeviceptr pointer))

#define CUDA_DECLARE(name, parameters) cudaError_t name parameters;
#define CUDA_DECLARE_TWICE(name, suffix, parameters)                                                                   \
    cudaError_t name parameters;                                                                                       \
    cudaError_t name##suffix parameters;

CUDA_RUNTIME(CUDA_DECLARE)
CUDA_RUNTIME_TWICE(CUDA_DECLARE_TWICE)
CUDA_DRIVER(CUDA_DECLARE)
