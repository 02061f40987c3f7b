/* A stand-in for the CUDA runtime: it computes nothing, but every call answers as on a machine with GPUs. */
#define _GNU_SOURCE
#include "driver_calls.h"
#include "state.h"

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum { PITCH = 512 };

/* Kept apart so that the function that calls it has a frame, and begins with "push" as in the real library. */
#define APART static __attribute__((noinline))

static __thread int device;

APART cudaError_t set(void **answer, void *value)
{
    if (!answer || !value)
        return cudaErrorInvalidValue;
    *answer = value;
    return cudaSuccess;
}

/* The driver's answer where it is called as well, the stand-in's own otherwise. */
#define NESTED(driver_call, own) (stand_in_driver ? stand_in_driver->driver_call : (own))

static cudaError_t take(void **pointer, size_t size)
{
    if (!stand_in_driver)
        return stand_in_take(pointer, size, device);
    CUdeviceptr address = 0;
    cudaError_t error = pointer ? stand_in_driver->cuMemAlloc_v2(&address, size) : cudaErrorInvalidValue;
    if (pointer)
        *pointer = (void *)address;
    return error;
}

static cudaError_t give_back(void *pointer)
{
    cudaError_t error = NESTED(cuMemFree_v2((CUdeviceptr)pointer), stand_in_give_back(pointer));
    if (stand_in_settings.linger)
        usleep((useconds_t)stand_in_settings.linger);
    return error;
}

API cudaError_t cudaMalloc(void **pointer, size_t size) { return take(pointer, size); }

API cudaError_t cudaMallocManaged(void **pointer, size_t size, unsigned flags)
{
    (void)flags;
    return size ? take(pointer, size) : cudaErrorInvalidValue;
}

API cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
    if (!pitch)
        return cudaErrorInvalidValue;
    size_t wide = (width + PITCH - 1) / PITCH * PITCH;
    cudaError_t error = take(pointer, wide * height);
    if (!error)
        *pitch = wide;
    return error;
}

static size_t rows(size_t height, size_t depth) { return (height ? height : 1) * (depth ? depth : 1); }

API cudaError_t cudaMalloc3D(cudaPitchedPtr *pointer, cudaExtent extent)
{
    if (!pointer)
        return cudaErrorInvalidValue;
    size_t wide = (extent.width + PITCH - 1) / PITCH * PITCH;
    cudaError_t error = take(&pointer->ptr, wide * rows(extent.height, extent.depth));
    if (!error) {
        pointer->pitch = wide;
        pointer->xsize = extent.width;
        pointer->ysize = extent.height;
    }
    return error;
}

static size_t bytes_of(const cudaChannelFormatDesc *channels)
{
    return (size_t)(channels->x + channels->y + channels->z + channels->w) / 8;
}

API cudaError_t cudaMallocArray(cudaArray_t *array, const cudaChannelFormatDesc *channels, size_t width, size_t height,
                                unsigned flags)
{
    (void)flags;
    return channels ? take(array, bytes_of(channels) * width * rows(height, 0)) : cudaErrorInvalidValue;
}

API cudaError_t cudaMalloc3DArray(cudaArray_t *array, const cudaChannelFormatDesc *channels, cudaExtent extent,
                                  unsigned flags)
{
    (void)flags;
    if (!channels)
        return cudaErrorInvalidValue;
    return take(array, bytes_of(channels) * extent.width * rows(extent.height, extent.depth));
}

static cudaError_t take_of_host(void **pointer, size_t size)
{
    if (!pointer)
        return cudaErrorInvalidValue;
    *pointer = malloc(size);
    return *pointer ? cudaSuccess : cudaErrorMemoryAllocation;
}

API cudaError_t cudaMallocHost(void **pointer, size_t size) { return take_of_host(pointer, size); }

API cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned flags)
{
    (void)flags;
    return take_of_host(pointer, size);
}

APART cudaError_t give_back_to_host(void *pointer)
{
    free(pointer);
    return cudaSuccess;
}

API cudaError_t cudaFreeHost(void *pointer) { return give_back_to_host(pointer); }

API cudaError_t cudaFreeArray(cudaArray_t array) { return give_back(array); }

API cudaError_t cudaFree(void *pointer) { return give_back(pointer); }

API cudaError_t cudaSetDevice(int wanted)
{
    if (wanted < 0 || wanted >= stand_in_settings.devices)
        return cudaErrorInvalidDevice;
    device = wanted;
    return cudaSuccess;
}

API cudaError_t cudaGetDevice(int *answer)
{
    if (!answer)
        return cudaErrorInvalidValue;
    *answer = device;
    return cudaSuccess;
}

API cudaError_t cudaDeviceSynchronize(void) { return NESTED(cuCtxSynchronize(), cudaSuccess); }

API cudaError_t cudaDeviceReset(void)
{
    stand_in_give_back_all(device);
    return cudaSuccess;
}

API cudaError_t cudaStreamCreate(cudaStream_t *stream) { return stand_in_open(stand_in_streams, stream); }

API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    return stand_in_open(stand_in_streams, stream);
}

API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    (void)flags, (void)priority;
    return stand_in_open(stand_in_streams, stream);
}

API cudaError_t cudaStreamDestroy(cudaStream_t stream) { return stand_in_close(stand_in_streams, stream); }

API cudaError_t cudaEventCreate(cudaEvent_t *event) { return stand_in_open(stand_in_events, event); }

API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    return stand_in_open(stand_in_events, event);
}

API cudaError_t cudaEventQuery(cudaEvent_t event)
{
    event = stand_in_known(stand_in_events, event);
    return event ? stand_in_query(event) : cudaErrorInvalidResourceHandle;
}

API cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    if (!(event = stand_in_known(stand_in_events, event)))
        return cudaErrorInvalidResourceHandle;
    __atomic_store_n(&event->not_ready, 0, __ATOMIC_RELAXED);
    return cudaSuccess;
}

API cudaError_t cudaEventDestroy(cudaEvent_t event) { return stand_in_close(stand_in_events, event); }

/* Each body stands in both forms of its function, as in the real library: neither calls the other. */
#define TWICE(name, suffix, parameters, ...)                                                                           \
    API cudaError_t name parameters __VA_ARGS__ API cudaError_t name##suffix parameters __VA_ARGS__

/* What a launch names and what the driver gets: never the address of the kernel in the program. */
static inline cudaKernel_t handle_of(const void *function) { return (cudaKernel_t)((uintptr_t)function | 1ULL << 62); }

API cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *function)
{
    return set(kernel, function ? handle_of(function) : NULL);
}

/* What <<<...>>> asks for at the first launch of a kernel: the real one of CUDA 12 gives the address back. */
API cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) { return set(kernel, (void *)function); }

static size_t launches_done;

static inline cudaError_t launch(const void *kernel, const dim3 *grid, const dim3 *block, void **arguments,
                                 size_t shared, cudaStream_t stream)
{
    struct stand_in_handle *known = stand_in_known(stand_in_streams, stream);
    if (!kernel || !known)
        return known ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle;
    if (!stand_in_can_launch(grid, block))
        return cudaErrorInvalidConfiguration;
    if (stand_in_settings.launches != (size_t)-1 && launches_done++ >= stand_in_settings.launches)
        return cudaErrorLaunchFailure;
    if (stand_in_settings.not_ready)
        __atomic_store_n(&known->not_ready, stand_in_settings.not_ready, __ATOMIC_RELAXED);
    if (!stand_in_driver)
        return cudaSuccess;
    return stand_in_driver->cuLaunchKernel(handle_of(kernel), grid->x, grid->y, grid->z, block->x, block->y, block->z,
                                           (unsigned)shared, stream, arguments, NULL);
}

TWICE(cudaLaunchKernel, _ptsz,
      (const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream),
      { return launch(function, &grid, &block, arguments, shared, stream); })

TWICE(cudaLaunchCooperativeKernel, _ptsz,
      (const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream),
      { return launch(function, &grid, &block, arguments, shared, stream); })

/* What <<<...>>> calls: in the real library too it only goes on to the public function. */
#define FOR_COMPILED(name, goes_on_to)                                                                                 \
    API cudaError_t name(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,                  \
                         cudaStream_t stream)                                                                          \
    {                                                                                                                  \
        return goes_on_to(kernel, grid, block, arguments, shared, stream);                                             \
    }
FOR_COMPILED(__cudaLaunchKernel, cudaLaunchKernel)
FOR_COMPILED(__cudaLaunchKernel_ptsz, cudaLaunchKernel_ptsz)

TWICE(cudaLaunchKernelExC, _ptsz, (const cudaLaunchConfig_t *config, const void *function, void **arguments), {
    return config ? launch(function, &config->gridDim, &config->blockDim, arguments, config->dynamicSmemBytes,
                           config->stream)
                  : cudaErrorInvalidValue;
})

/* A graph holds nothing here: what is in it, the program that has made it knows. */
static cudaError_t change(cudaGraph_t graph, const void *parameters)
{
    if (!parameters)
        return cudaErrorInvalidValue;
    return stand_in_known(stand_in_graphs, graph) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

API cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned flags)
{
    (void)flags;
    return stand_in_open(stand_in_graphs, graph);
}

APART cudaError_t make_again(cudaGraph_t *made, cudaGraph_t graph)
{
    return stand_in_known(stand_in_graphs, graph) ? stand_in_open(stand_in_graphs, made) : cudaErrorInvalidValue;
}

API cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t original) { return make_again(clone, original); }

API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags)
{
    (void)flags;
    return make_again(executable, graph);
}

API cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph, void *result)
{
    (void)result;
    return change(executable, stand_in_known(stand_in_graphs, graph));
}

API cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                                       size_t count, const cudaKernelNodeParams *parameters)
{
    (void)node, (void)dependencies, (void)count;
    return change(graph, parameters);
}

API cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                           const cudaGraphNode_t *dependencies, size_t count, cudaGraph_t child)
{
    (void)node, (void)dependencies, (void)count;
    return change(graph, child);
}

API cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                                 size_t count, cudaGraphNodeParams *parameters)
{
    (void)node, (void)dependencies, (void)count;
    return change(graph, parameters);
}

API cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                                    const void *edges, size_t count, cudaGraphNodeParams *parameters)
{
    (void)node, (void)dependencies, (void)edges, (void)count;
    return change(graph, parameters);
}

API cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return stand_in_close(stand_in_graphs, graph); }
API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return stand_in_close(stand_in_graphs, graph); }

static cudaError_t begin_capture(cudaStream_t stream)
{
    stream = stand_in_known(stand_in_streams, stream);
    if (!stream || stream->captured)
        return cudaErrorInvalidResourceHandle;
    stream->captured = 1;
    return cudaSuccess;
}

/* Without room for the graph the capture ends all the same, as one that was broken does. */
static cudaError_t end_capture(cudaStream_t stream, cudaGraph_t *graph)
{
    stream = stand_in_known(stand_in_streams, stream);
    if (!stream || !stream->captured)
        return cudaErrorInvalidResourceHandle;
    stream->captured = 0;
    if (!graph)
        return cudaErrorStreamCaptureInvalidated;
    return *graph ? cudaSuccess : stand_in_open(stand_in_graphs, graph);
}

TWICE(cudaStreamBeginCapture, _ptsz, (cudaStream_t stream, int mode), {
    (void)mode;
    return begin_capture(stream);
})

TWICE(cudaStreamBeginCaptureToGraph, _ptsz,
      (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies, const void *edges, size_t count,
       int mode),
      {
          (void)dependencies, (void)edges, (void)count, (void)mode;
          return stand_in_known(stand_in_graphs, graph) ? begin_capture(stream) : cudaErrorInvalidValue;
      })

TWICE(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t *graph), { return end_capture(stream, graph); })

TWICE(cudaStreamWaitEvent, _ptsz, (cudaStream_t stream, cudaEvent_t event, unsigned flags), {
    (void)flags;
    if (!stand_in_known(stand_in_events, event))
        return cudaErrorInvalidResourceHandle;
    return stand_in_known(stand_in_streams, stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
})

TWICE(cudaGraphLaunch, _ptsz, (cudaGraphExec_t executable, cudaStream_t stream), {
    if (!executable)
        return cudaErrorInvalidValue;
    return stand_in_known(stand_in_streams, stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
})

TWICE(cudaMallocAsync, _ptsz, (void **pointer, size_t size, cudaStream_t stream), {
    return stand_in_known(stand_in_streams, stream) ? take(pointer, size) : cudaErrorInvalidResourceHandle;
})

TWICE(cudaFreeAsync, _ptsz, (void *pointer, cudaStream_t stream), {
    return stand_in_known(stand_in_streams, stream) ? give_back(pointer) : cudaErrorInvalidResourceHandle;
})

static inline cudaError_t synchronise(cudaStream_t stream)
{
    struct stand_in_handle *known = stand_in_known(stand_in_streams, stream);
    if (!known)
        return cudaErrorInvalidResourceHandle;
    if (stand_in_settings.not_ready)
        __atomic_store_n(&known->not_ready, 0, __ATOMIC_RELAXED);
    stand_in_wait_at_gate();
    return NESTED(cuStreamSynchronize(stream), cudaSuccess);
}

TWICE(cudaStreamSynchronize, _ptsz, (cudaStream_t stream), { return synchronise(stream); })

TWICE(cudaStreamQuery, _ptsz, (cudaStream_t stream), {
    stream = stand_in_known(stand_in_streams, stream);
    return stream ? stand_in_query(stream) : cudaErrorInvalidResourceHandle;
})

static inline cudaError_t record(cudaEvent_t event, cudaStream_t stream)
{
    event = stand_in_known(stand_in_events, event);
    if (!event || !stand_in_known(stand_in_streams, stream))
        return cudaErrorInvalidResourceHandle;
    __atomic_store_n(&event->not_ready, stand_in_settings.not_ready, __ATOMIC_RELAXED);
    return cudaSuccess;
}

TWICE(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream), { return record(event, stream); })

TWICE(cudaEventRecordWithFlags, _ptsz, (cudaEvent_t event, cudaStream_t stream, unsigned flags), {
    (void)flags;
    return record(event, stream);
})

APART cudaError_t copy(const void *to, const void *from) { return to && from ? cudaSuccess : cudaErrorInvalidValue; }

TWICE(cudaMemcpy, _ptds, (void *to, const void *from, size_t size, int kind), {
    (void)size, (void)kind;
    return copy(to, from);
})

TWICE(cudaMemcpyAsync, _ptsz, (void *to, const void *from, size_t size, int kind, cudaStream_t stream), {
    (void)size, (void)kind;
    if (!to || !from)
        return cudaErrorInvalidValue;
    return stand_in_known(stand_in_streams, stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
})
