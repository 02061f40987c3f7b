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
    cudaErrorLaunchFailure = 719,
    cudaErrorStreamCaptureInvalidated = 901,
};

typedef struct {
    unsigned x, y, z;
} dim3;

typedef struct stand_in_handle *cudaStream_t, *cudaEvent_t, *cudaGraph_t, *cudaGraphExec_t;
typedef void *cudaGraphNode_t, *cudaArray_t;

typedef struct {
    size_t width, height, depth;
} cudaExtent;

typedef struct {
    void *ptr;
    size_t pitch, xsize, ysize;
} cudaPitchedPtr;

typedef struct {
    int x, y, z, w, f;
} cudaChannelFormatDesc;

typedef struct {
    void *func;
    dim3 gridDim, blockDim;
    unsigned sharedMemBytes;
    void **kernelParams, **extra;
} cudaKernelNodeParams;

enum { cudaGraphNodeTypeKernel = 0, cudaGraphNodeTypeGraph = 4 };

typedef struct {
    int type, reserved0[3];
    union {
        long long reserved1[29];
        cudaKernelNodeParams kernel;
        struct {
            cudaGraph_t graph;
        } graph;
    };
    long long reserved2;
} cudaGraphNodeParams;

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
    EACH(cudaMalloc3D, (cudaPitchedPtr * pointer, cudaExtent extent))                                                  \
    EACH(cudaMallocArray, (cudaArray_t * array, const cudaChannelFormatDesc *channels, size_t width, size_t height,    \
                           unsigned flags))                                                                            \
    EACH(cudaMalloc3DArray,                                                                                            \
         (cudaArray_t * array, const cudaChannelFormatDesc *channels, cudaExtent extent, unsigned flags))              \
    EACH(cudaMallocHost, (void **pointer, size_t size))                                                                \
    EACH(cudaHostAlloc, (void **pointer, size_t size, unsigned flags))                                                 \
    EACH(cudaFree, (void *pointer))                                                                                    \
    EACH(cudaFreeArray, (cudaArray_t array))                                                                           \
    EACH(cudaFreeHost, (void *pointer))                                                                                \
    EACH(cudaGraphCreate, (cudaGraph_t * graph, unsigned flags))                                                       \
    EACH(cudaGraphClone, (cudaGraph_t * clone, cudaGraph_t original))                                                  \
    EACH(cudaGraphAddKernelNode, (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,      \
                                  size_t count, const cudaKernelNodeParams *parameters))                               \
    EACH(cudaGraphAddChildGraphNode, (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,  \
                                      size_t count, cudaGraph_t child))                                                \
    EACH(cudaGraphAddNode, (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,            \
                            size_t count, cudaGraphNodeParams *parameters))                                            \
    EACH(cudaGraphInstantiate, (cudaGraphExec_t * executable, cudaGraph_t graph, unsigned long long flags))            \
    EACH(cudaGraphExecUpdate, (cudaGraphExec_t executable, cudaGraph_t graph, void *result))                           \
    EACH(cudaGraphDestroy, (cudaGraph_t graph))                                                                        \
    EACH(cudaGraphExecDestroy, (cudaGraphExec_t executable))                                                           \
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
    EACH(cudaStreamWaitEvent, _ptsz, (cudaStream_t stream, cudaEvent_t event, unsigned flags))                         \
    EACH(cudaStreamBeginCapture, _ptsz, (cudaStream_t stream, int mode))                                               \
    EACH(cudaStreamBeginCaptureToGraph, _ptsz,                                                                         \
         (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies, const void *edges,              \
          size_t count, int mode))                                                                                     \
    EACH(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t * graph))                                      \
    EACH(cudaGraphLaunch, _ptsz, (cudaGraphExec_t executable, cudaStream_t stream))                                    \
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
typedef void *CUfunction, *CUmodule, *CUarray;

typedef struct {
    size_t Width, Height;
    unsigned Format, NumChannels;
} CUDA_ARRAY_DESCRIPTOR;
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
    EACH(cuMemFree_v2, (CUdeviceptr pointer))                                                                          \
    EACH(cuArrayCreate_v2, (CUarray * array, const CUDA_ARRAY_DESCRIPTOR *description))                                \
    EACH(cuArrayDestroy, (CUarray array))

#define CUDA_DECLARE(name, parameters) cudaError_t name parameters;
#define CUDA_DECLARE_TWICE(name, suffix, parameters)                                                                   \
    cudaError_t name parameters;                                                                                       \
    cudaError_t name##suffix parameters;

/* Not in every version of the runtime. */
cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                                const void *edges, size_t count, cudaGraphNodeParams *parameters)
    __attribute__((weak));

CUDA_RUNTIME(CUDA_DECLARE)
CUDA_RUNTIME_TWICE(CUDA_DECLARE_TWICE)
CUDA_DRIVER(CUDA_DECLARE)
