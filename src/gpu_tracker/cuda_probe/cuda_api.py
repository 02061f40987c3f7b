"""CUDA's interface: the functions that are probed, what each of them does, and the names of errors."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import NamedTuple


class What(IntEnum):
    """What a function does; the kernel's part has the same numbers, in ``bpf/layout.h``."""

    LAUNCH = 1
    LAUNCH_BY_CONFIGURATION = 2
    LAUNCH_BY_HANDLE = 3
    GRAPH_LAUNCH = 4
    ALLOCATE = 5
    ALLOCATE_ON_STREAM = 6
    ALLOCATE_FROM_POOL = 7
    ALLOCATE_PITCHED = 8
    ALLOCATE_3D = 9
    ALLOCATE_ARRAY = 10
    ALLOCATE_3D_ARRAY = 11
    ALLOCATE_DRIVER_ARRAY = 12
    ALLOCATE_DRIVER_3D_ARRAY = 13
    ALLOCATE_HOST = 14
    RELEASE = 15
    SYNCHRONISE_STREAM = 16
    QUERY_STREAM = 17
    DESTROY_STREAM = 18
    SYNCHRONISE_DEVICE = 19
    RESET_DEVICE = 20
    SET_DEVICE = 21
    RECORD_EVENT = 22
    SYNCHRONISE_EVENT = 23
    QUERY_EVENT = 24
    DESTROY_EVENT = 25
    COPY = 26
    COPY_ONE_WAY = 27
    NAME_KERNEL = 28
    GET_KERNEL = 29
    RETAIN_CONTEXT = 30
    CREATE_CONTEXT = 31
    SET_CONTEXT = 32
    POP_CONTEXT = 33
    WAIT_EVENT = 34
    BEGIN_CAPTURE = 35
    BEGIN_CAPTURE_TO_GRAPH = 36
    END_CAPTURE = 37
    CREATE_GRAPH = 38
    CLONE_GRAPH = 39
    ADD_KERNEL_NODE = 40
    ADD_CHILD_GRAPH = 41
    ADD_NODE = 42
    UPDATE_GRAPH = 43
    DESTROY_GRAPH = 44
    SET_VARIABLE = 45
    UNSET_VARIABLE = 46
    PUT_VARIABLE = 47
    CHANGE_LIBRARIES = 48


class Library(IntEnum):
    """Where a function stands."""

    RUNTIME = 1
    """libcudart, or a program that has it linked in."""
    DRIVER = 2
    """libcuda."""
    LIBC = 3
    LOADER = 4
    """The dynamic loader, ld.so."""


class Function(NamedTuple):
    """A probed function."""

    number: int
    symbol: str
    library: Library
    what: What
    of_thread: bool
    """Whether stream 0 means the calling thread's own default stream to it."""

    @property
    def name(self) -> str:
        """What programmers call it: without the suffix of another default stream, or of a version."""
        return self.symbol.removesuffix('_ptsz').removesuffix('_ptds').removesuffix('_v2')

    @property
    def cookie(self) -> int:
        """What the kernel's part gets at each of its calls."""
        of_driver = self.library == Library.DRIVER
        return self.number << 16 | of_driver << 9 | self.of_thread << 8 | self.what


_RUNTIME = (
    ('cudaLaunchKernel', What.LAUNCH, 'ptsz'),
    ('cudaLaunchCooperativeKernel', What.LAUNCH, 'ptsz'),
    ('cudaLaunchKernelExC', What.LAUNCH_BY_CONFIGURATION, 'ptsz'),
    ('cudaGraphLaunch', What.GRAPH_LAUNCH, 'ptsz'),
    ('cudaMalloc', What.ALLOCATE, ''),
    ('cudaMallocManaged', What.ALLOCATE, ''),
    ('cudaMallocAsync', What.ALLOCATE_ON_STREAM, 'ptsz'),
    ('cudaMallocFromPoolAsync', What.ALLOCATE_FROM_POOL, 'ptsz'),
    ('cudaMallocPitch', What.ALLOCATE_PITCHED, ''),
    ('cudaMalloc3D', What.ALLOCATE_3D, ''),
    ('cudaMallocArray', What.ALLOCATE_ARRAY, ''),
    ('cudaMalloc3DArray', What.ALLOCATE_3D_ARRAY, ''),
    ('cudaMallocHost', What.ALLOCATE_HOST, ''),
    ('cudaHostAlloc', What.ALLOCATE_HOST, ''),
    ('cudaFree', What.RELEASE, ''),
    ('cudaFreeArray', What.RELEASE, ''),
    ('cudaFreeHost', What.RELEASE, ''),
    ('cudaFreeAsync', What.RELEASE, 'ptsz'),
    ('cudaStreamSynchronize', What.SYNCHRONISE_STREAM, 'ptsz'),
    ('cudaStreamQuery', What.QUERY_STREAM, 'ptsz'),
    ('cudaStreamDestroy', What.DESTROY_STREAM, ''),
    ('cudaDeviceSynchronize', What.SYNCHRONISE_DEVICE, ''),
    ('cudaDeviceReset', What.RESET_DEVICE, ''),
    ('cudaSetDevice', What.SET_DEVICE, ''),
    ('cudaEventRecord', What.RECORD_EVENT, 'ptsz'),
    ('cudaEventRecordWithFlags', What.RECORD_EVENT, 'ptsz'),
    ('cudaStreamWaitEvent', What.WAIT_EVENT, 'ptsz'),
    ('cudaEventSynchronize', What.SYNCHRONISE_EVENT, ''),
    ('cudaEventQuery', What.QUERY_EVENT, ''),
    ('cudaEventDestroy', What.DESTROY_EVENT, ''),
    ('cudaMemcpy', What.COPY, 'ptds'),
    ('cudaGetKernel', What.GET_KERNEL, ''),
    ('cudaStreamBeginCapture', What.BEGIN_CAPTURE, 'ptsz'),
    ('cudaStreamBeginCaptureToGraph', What.BEGIN_CAPTURE_TO_GRAPH, 'ptsz'),
    ('cudaStreamEndCapture', What.END_CAPTURE, 'ptsz'),
    ('cudaGraphCreate', What.CREATE_GRAPH, ''),
    ('cudaGraphClone', What.CLONE_GRAPH, ''),
    ('cudaGraphAddKernelNode', What.ADD_KERNEL_NODE, ''),
    ('cudaGraphAddChildGraphNode', What.ADD_CHILD_GRAPH, ''),
    ('cudaGraphAddNode', What.ADD_NODE, ''),
    ('cudaGraphAddNode_v2', What.ADD_NODE, ''),
    ('cudaGraphInstantiate', What.CLONE_GRAPH, ''),
    ('cudaGraphInstantiateWithFlags', What.CLONE_GRAPH, ''),
    ('cudaGraphInstantiateWithParams', What.CLONE_GRAPH, 'ptsz'),
    ('cudaGraphExecUpdate', What.UPDATE_GRAPH, ''),
    ('cudaGraphDestroy', What.DESTROY_GRAPH, ''),
    ('cudaGraphExecDestroy', What.DESTROY_GRAPH, ''),
    # Before the first <<<...>>> of a kernel, in what nvcc compiles from 12.9 on.
    ('__cudaGetKernel', What.GET_KERNEL, ''),
)
_DRIVER = (
    ('cuLaunchKernel', What.LAUNCH_BY_HANDLE, 'ptsz'),
    ('cuLaunchCooperativeKernel', What.LAUNCH_BY_HANDLE, 'ptsz'),
    ('cuLaunchKernelEx', What.LAUNCH_BY_CONFIGURATION, 'ptsz'),
    ('cuGraphLaunch', What.GRAPH_LAUNCH, 'ptsz'),
    ('cuMemAlloc_v2', What.ALLOCATE, ''),
    ('cuMemAllocManaged', What.ALLOCATE, ''),
    ('cuMemAllocAsync', What.ALLOCATE_ON_STREAM, 'ptsz'),
    ('cuMemAllocFromPoolAsync', What.ALLOCATE_FROM_POOL, 'ptsz'),
    ('cuMemAllocPitch_v2', What.ALLOCATE_PITCHED, ''),
    ('cuMemCreate', What.ALLOCATE, ''),
    ('cuArrayCreate_v2', What.ALLOCATE_DRIVER_ARRAY, ''),
    ('cuArray3DCreate_v2', What.ALLOCATE_DRIVER_3D_ARRAY, ''),
    ('cuMemAllocHost_v2', What.ALLOCATE_HOST, ''),
    ('cuMemHostAlloc', What.ALLOCATE_HOST, ''),
    ('cuMemFree_v2', What.RELEASE, ''),
    ('cuMemFreeAsync', What.RELEASE, 'ptsz'),
    ('cuMemRelease', What.RELEASE, ''),
    ('cuArrayDestroy', What.RELEASE, ''),
    ('cuMemFreeHost', What.RELEASE, ''),
    ('cuStreamSynchronize', What.SYNCHRONISE_STREAM, 'ptsz'),
    ('cuStreamQuery', What.QUERY_STREAM, 'ptsz'),
    ('cuStreamDestroy_v2', What.DESTROY_STREAM, ''),
    ('cuCtxSynchronize', What.SYNCHRONISE_DEVICE, ''),
    ('cuEventRecord', What.RECORD_EVENT, 'ptsz'),
    ('cuStreamWaitEvent', What.WAIT_EVENT, 'ptsz'),
    ('cuEventSynchronize', What.SYNCHRONISE_EVENT, ''),
    ('cuEventQuery', What.QUERY_EVENT, ''),
    ('cuEventDestroy_v2', What.DESTROY_EVENT, ''),
    ('cuMemcpyDtoH_v2', What.COPY_ONE_WAY, 'ptds'),
    ('cuMemcpyHtoD_v2', What.COPY_ONE_WAY, 'ptds'),
    ('cuStreamBeginCapture_v2', What.BEGIN_CAPTURE, 'ptsz'),
    ('cuStreamBeginCaptureToGraph', What.BEGIN_CAPTURE_TO_GRAPH, 'ptsz'),
    ('cuStreamEndCapture', What.END_CAPTURE, 'ptsz'),
    ('cuGraphCreate', What.CREATE_GRAPH, ''),
    ('cuGraphClone', What.CLONE_GRAPH, ''),
    ('cuGraphAddKernelNode', What.ADD_KERNEL_NODE, ''),
    ('cuGraphAddKernelNode_v2', What.ADD_KERNEL_NODE, ''),
    ('cuGraphAddChildGraphNode', What.ADD_CHILD_GRAPH, ''),
    ('cuGraphAddNode', What.ADD_NODE, ''),
    ('cuGraphAddNode_v2', What.ADD_NODE, ''),
    ('cuGraphInstantiate', What.CLONE_GRAPH, ''),
    ('cuGraphInstantiate_v2', What.CLONE_GRAPH, ''),
    ('cuGraphInstantiateWithFlags', What.CLONE_GRAPH, ''),
    ('cuGraphInstantiateWithParams', What.CLONE_GRAPH, 'ptsz'),
    ('cuGraphExecUpdate', What.UPDATE_GRAPH, ''),
    ('cuGraphExecUpdate_v2', What.UPDATE_GRAPH, ''),
    ('cuGraphDestroy', What.DESTROY_GRAPH, ''),
    ('cuGraphExecDestroy', What.DESTROY_GRAPH, ''),
    ('cuModuleGetFunction', What.NAME_KERNEL, ''),
    ('cuLibraryGetKernel', What.NAME_KERNEL, ''),
    ('cuDevicePrimaryCtxRetain', What.RETAIN_CONTEXT, ''),
    ('cuCtxCreate_v2', What.CREATE_CONTEXT, ''),
    ('cuCtxSetCurrent', What.SET_CONTEXT, ''),
    ('cuCtxPushCurrent_v2', What.SET_CONTEXT, ''),
    ('cuCtxPopCurrent_v2', What.POP_CONTEXT, ''),
)
_LIBC = (
    ('setenv', What.SET_VARIABLE, ''),
    ('unsetenv', What.UNSET_VARIABLE, ''),
    ('putenv', What.PUT_VARIABLE, ''),
)
_LOADER = (('_dl_debug_state', What.CHANGE_LIBRARIES, ''),)  # called for debuggers, before and after each change


def _functions() -> tuple[Function, ...]:
    found: list[Function] = []
    for library, rows in zip(Library, (_RUNTIME, _DRIVER, _LIBC, _LOADER), strict=True):
        for symbol, what, suffix in rows:
            found.append(Function(len(found), symbol, library, what, of_thread=False))
            if suffix:
                found.append(Function(len(found), f'{symbol}_{suffix}', library, what, of_thread=True))
    return tuple(found)


FUNCTIONS = _functions()
"""All probed functions, each at the index that is its number. Those with a suffix are what programs get that were
compiled with ``--default-stream per-thread``."""


_ERRORS = """
1 InvalidValue 2 MemoryAllocation 3 InitializationError 4 CudartUnloading 5 ProfilerDisabled 6 ProfilerNotInitialized
7 ProfilerAlreadyStarted 8 ProfilerAlreadyStopped 9 InvalidConfiguration 12 InvalidPitchValue 13 InvalidSymbol
16 InvalidHostPointer 17 InvalidDevicePointer 18 InvalidTexture 19 InvalidTextureBinding 20 InvalidChannelDescriptor
21 InvalidMemcpyDirection 22 AddressOfConstant 23 TextureFetchFailed 24 TextureNotBound 25 SynchronizationError
26 InvalidFilterSetting 27 InvalidNormSetting 28 MixedDeviceExecution 31 NotYetImplemented 32 MemoryValueTooLarge
34 StubLibrary 35 InsufficientDriver 36 CallRequiresNewerDriver 37 InvalidSurface 43 DuplicateVariableName
44 DuplicateTextureName 45 DuplicateSurfaceName 46 DevicesUnavailable 49 IncompatibleDriverContext
52 MissingConfiguration 53 PriorLaunchFailure 65 LaunchMaxDepthExceeded 66 LaunchFileScopedTex 67 LaunchFileScopedSurf
68 SyncDepthExceeded 69 LaunchPendingCountExceeded 98 InvalidDeviceFunction 100 NoDevice 101 InvalidDevice
102 DeviceNotLicensed 103 SoftwareValidityNotEstablished 127 StartupFailure 200 InvalidKernelImage
201 DeviceUninitialized 205 MapBufferObjectFailed 206 UnmapBufferObjectFailed 207 ArrayIsMapped 208 AlreadyMapped
209 NoKernelImageForDevice 210 AlreadyAcquired 211 NotMapped 212 NotMappedAsArray 213 NotMappedAsPointer
214 ECCUncorrectable 215 UnsupportedLimit 216 DeviceAlreadyInUse 217 PeerAccessUnsupported 218 InvalidPtx
219 InvalidGraphicsContext 220 NvlinkUncorrectable 221 JitCompilerNotFound 222 UnsupportedPtxVersion
223 JitCompilationDisabled 224 UnsupportedExecAffinity 225 UnsupportedDevSideSync 226 Contained 300 InvalidSource
301 FileNotFound 302 SharedObjectSymbolNotFound 303 SharedObjectInitFailed 304 OperatingSystem
400 InvalidResourceHandle 401 IllegalState 402 LossyQuery 500 SymbolNotFound 600 NotReady 700 IllegalAddress
701 LaunchOutOfResources 702 LaunchTimeout 703 LaunchIncompatibleTexturing 704 PeerAccessAlreadyEnabled
705 PeerAccessNotEnabled 708 SetOnActiveProcess 709 ContextIsDestroyed 710 Assert 711 TooManyPeers
712 HostMemoryAlreadyRegistered 713 HostMemoryNotRegistered 714 HardwareStackError 715 IllegalInstruction
716 MisalignedAddress 717 InvalidAddressSpace 718 InvalidPc 719 LaunchFailure 720 CooperativeLaunchTooLarge
721 TensorMemoryLeak 800 NotPermitted 801 NotSupported 802 SystemNotReady 803 SystemDriverMismatch
804 CompatNotSupportedOnDevice 805 MpsConnectionFailed 806 MpsRpcFailure 807 MpsServerNotReady
808 MpsMaxClientsReached 809 MpsMaxConnectionsReached 810 MpsClientTerminated 811 CdpNotSupported
812 CdpVersionMismatch 900 StreamCaptureUnsupported 901 StreamCaptureInvalidated 902 StreamCaptureMerge
903 StreamCaptureUnmatched 904 StreamCaptureUnjoined 905 StreamCaptureIsolation 906 StreamCaptureImplicit
907 CapturedEvent 908 StreamCaptureWrongThread 909 Timeout 910 GraphExecUpdateFailure 911 ExternalDevice
912 InvalidClusterSize 913 FunctionNotLoaded 914 InvalidResourceType 915 InvalidResourceConfiguration 999 Unknown
10000 ApiFailureBase
"""
"""From driver_types.h of CUDA 13.0: each number, and the name without ``cudaError``."""
_ERROR_NAMES = {int(number): f'cudaError{name}' for number, name in re.findall(r'(\d+) (\w+)', _ERRORS)}


def error_name(error: int) -> str:
    """Return the name of an error."""
    return _ERROR_NAMES.get(error, f'CUDA error {error}')
