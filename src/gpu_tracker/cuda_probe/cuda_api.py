"""CUDA's interface: the functions that are probed, what each of them does, and the names of errors."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class What(IntEnum):
    """What a function does; the kernel's part has the same numbers, in ``bpf/layout.h``."""

    LAUNCH = 1
    LAUNCH_BY_CONFIGURATION = 2
    LAUNCH_BY_HANDLE = 3
    GRAPH_LAUNCH = 4
    ALLOCATE = 5
    ALLOCATE_PITCHED = 6
    RELEASE = 7
    SYNCHRONISE_STREAM = 8
    QUERY_STREAM = 9
    DESTROY_STREAM = 10
    SYNCHRONISE_DEVICE = 11
    RESET_DEVICE = 12
    SET_DEVICE = 13
    RECORD_EVENT = 14
    SYNCHRONISE_EVENT = 15
    QUERY_EVENT = 16
    DESTROY_EVENT = 17
    COPY = 18
    COPY_ONE_WAY = 19
    NAME_KERNEL = 20
    GET_KERNEL = 21
    RETAIN_CONTEXT = 22
    CREATE_CONTEXT = 23
    SET_CONTEXT = 24
    POP_CONTEXT = 25
    SET_VARIABLE = 26
    UNSET_VARIABLE = 27
    PUT_VARIABLE = 28
    CHANGE_LIBRARIES = 29


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
        return self.number << 16 | self.of_thread << 8 | self.what


_RUNTIME = (
    ('cudaLaunchKernel', What.LAUNCH, 'ptsz'),
    ('cudaLaunchCooperativeKernel', What.LAUNCH, 'ptsz'),
    ('cudaLaunchKernelExC', What.LAUNCH_BY_CONFIGURATION, 'ptsz'),
    ('cudaGraphLaunch', What.GRAPH_LAUNCH, 'ptsz'),
    ('cudaMalloc', What.ALLOCATE, ''),
    ('cudaMallocManaged', What.ALLOCATE, ''),
    ('cudaMallocAsync', What.ALLOCATE, 'ptsz'),
    ('cudaMallocFromPoolAsync', What.ALLOCATE, 'ptsz'),
    ('cudaMallocPitch', What.ALLOCATE_PITCHED, ''),
    ('cudaFree', What.RELEASE, ''),
    ('cudaFreeAsync', What.RELEASE, 'ptsz'),
    ('cudaStreamSynchronize', What.SYNCHRONISE_STREAM, 'ptsz'),
    ('cudaStreamQuery', What.QUERY_STREAM, 'ptsz'),
    ('cudaStreamDestroy', What.DESTROY_STREAM, ''),
    ('cudaDeviceSynchronize', What.SYNCHRONISE_DEVICE, ''),
    ('cudaDeviceReset', What.RESET_DEVICE, ''),
    ('cudaSetDevice', What.SET_DEVICE, ''),
    ('cudaEventRecord', What.RECORD_EVENT, 'ptsz'),
    ('cudaEventRecordWithFlags', What.RECORD_EVENT, 'ptsz'),
    ('cudaEventSynchronize', What.SYNCHRONISE_EVENT, ''),
    ('cudaEventQuery', What.QUERY_EVENT, ''),
    ('cudaEventDestroy', What.DESTROY_EVENT, ''),
    ('cudaMemcpy', What.COPY, 'ptds'),
    ('cudaGetKernel', What.GET_KERNEL, ''),
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
    ('cuMemAllocAsync', What.ALLOCATE, 'ptsz'),
    ('cuMemAllocFromPoolAsync', What.ALLOCATE, 'ptsz'),
    ('cuMemAllocPitch_v2', What.ALLOCATE_PITCHED, ''),
    ('cuMemCreate', What.ALLOCATE, ''),
    ('cuMemFree_v2', What.RELEASE, ''),
    ('cuMemFreeAsync', What.RELEASE, 'ptsz'),
    ('cuMemRelease', What.RELEASE, ''),
    ('cuStreamSynchronize', What.SYNCHRONISE_STREAM, 'ptsz'),
    ('cuStreamQuery', What.QUERY_STREAM, 'ptsz'),
    ('cuStreamDestroy_v2', What.DESTROY_STREAM, ''),
    ('cuCtxSynchronize', What.SYNCHRONISE_DEVICE, ''),
    ('cuEventRecord', What.RECORD_EVENT, 'ptsz'),
    ('cuEventSynchronize', What.SYNCHRONISE_EVENT, ''),
    ('cuEventQuery', What.QUERY_EVENT, ''),
    ('cuEventDestroy_v2', What.DESTROY_EVENT, ''),
    ('cuMemcpyDtoH_v2', What.COPY_ONE_WAY, 'ptds'),
    ('cuMemcpyHtoD_v2', What.COPY_ONE_WAY, 'ptds'),
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
"""All probed functions, each at the place that is its number. Those with a suffix are what programs get that were
compiled with ``--default-stream per-thread``."""


_NAMES = {
    1: 'cudaErrorInvalidValue',
    2: 'cudaErrorMemoryAllocation',
    3: 'cudaErrorInitializationError',
    4: 'cudaErrorCudartUnloading',
    5: 'cudaErrorProfilerDisabled',
    6: 'cudaErrorProfilerNotInitialized',
    7: 'cudaErrorProfilerAlreadyStarted',
    8: 'cudaErrorProfilerAlreadyStopped',
    9: 'cudaErrorInvalidConfiguration',
    12: 'cudaErrorInvalidPitchValue',
    13: 'cudaErrorInvalidSymbol',
    16: 'cudaErrorInvalidHostPointer',
    17: 'cudaErrorInvalidDevicePointer',
    18: 'cudaErrorInvalidTexture',
    19: 'cudaErrorInvalidTextureBinding',
    20: 'cudaErrorInvalidChannelDescriptor',
    21: 'cudaErrorInvalidMemcpyDirection',
    22: 'cudaErrorAddressOfConstant',
    23: 'cudaErrorTextureFetchFailed',
    24: 'cudaErrorTextureNotBound',
    25: 'cudaErrorSynchronizationError',
    26: 'cudaErrorInvalidFilterSetting',
    27: 'cudaErrorInvalidNormSetting',
    28: 'cudaErrorMixedDeviceExecution',
    31: 'cudaErrorNotYetImplemented',
    32: 'cudaErrorMemoryValueTooLarge',
    34: 'cudaErrorStubLibrary',
    35: 'cudaErrorInsufficientDriver',
    36: 'cudaErrorCallRequiresNewerDriver',
    37: 'cudaErrorInvalidSurface',
    43: 'cudaErrorDuplicateVariableName',
    44: 'cudaErrorDuplicateTextureName',
    45: 'cudaErrorDuplicateSurfaceName',
    46: 'cudaErrorDevicesUnavailable',
    49: 'cudaErrorIncompatibleDriverContext',
    52: 'cudaErrorMissingConfiguration',
    53: 'cudaErrorPriorLaunchFailure',
    65: 'cudaErrorLaunchMaxDepthExceeded',
    66: 'cudaErrorLaunchFileScopedTex',
    67: 'cudaErrorLaunchFileScopedSurf',
    68: 'cudaErrorSyncDepthExceeded',
    69: 'cudaErrorLaunchPendingCountExceeded',
    98: 'cudaErrorInvalidDeviceFunction',
    100: 'cudaErrorNoDevice',
    101: 'cudaErrorInvalidDevice',
    102: 'cudaErrorDeviceNotLicensed',
    103: 'cudaErrorSoftwareValidityNotEstablished',
    127: 'cudaErrorStartupFailure',
    200: 'cudaErrorInvalidKernelImage',
    201: 'cudaErrorDeviceUninitialized',
    205: 'cudaErrorMapBufferObjectFailed',
    206: 'cudaErrorUnmapBufferObjectFailed',
    207: 'cudaErrorArrayIsMapped',
    208: 'cudaErrorAlreadyMapped',
    209: 'cudaErrorNoKernelImageForDevice',
    210: 'cudaErrorAlreadyAcquired',
    211: 'cudaErrorNotMapped',
    212: 'cudaErrorNotMappedAsArray',
    213: 'cudaErrorNotMappedAsPointer',
    214: 'cudaErrorECCUncorrectable',
    215: 'cudaErrorUnsupportedLimit',
    216: 'cudaErrorDeviceAlreadyInUse',
    217: 'cudaErrorPeerAccessUnsupported',
    218: 'cudaErrorInvalidPtx',
    219: 'cudaErrorInvalidGraphicsContext',
    220: 'cudaErrorNvlinkUncorrectable',
    221: 'cudaErrorJitCompilerNotFound',
    222: 'cudaErrorUnsupportedPtxVersion',
    223: 'cudaErrorJitCompilationDisabled',
    224: 'cudaErrorUnsupportedExecAffinity',
    225: 'cudaErrorUnsupportedDevSideSync',
    226: 'cudaErrorContained',
    300: 'cudaErrorInvalidSource',
    301: 'cudaErrorFileNotFound',
    302: 'cudaErrorSharedObjectSymbolNotFound',
    303: 'cudaErrorSharedObjectInitFailed',
    304: 'cudaErrorOperatingSystem',
    400: 'cudaErrorInvalidResourceHandle',
    401: 'cudaErrorIllegalState',
    402: 'cudaErrorLossyQuery',
    500: 'cudaErrorSymbolNotFound',
    600: 'cudaErrorNotReady',
    700: 'cudaErrorIllegalAddress',
    701: 'cudaErrorLaunchOutOfResources',
    702: 'cudaErrorLaunchTimeout',
    703: 'cudaErrorLaunchIncompatibleTexturing',
    704: 'cudaErrorPeerAccessAlreadyEnabled',
    705: 'cudaErrorPeerAccessNotEnabled',
    708: 'cudaErrorSetOnActiveProcess',
    709: 'cudaErrorContextIsDestroyed',
    710: 'cudaErrorAssert',
    711: 'cudaErrorTooManyPeers',
    712: 'cudaErrorHostMemoryAlreadyRegistered',
    713: 'cudaErrorHostMemoryNotRegistered',
    714: 'cudaErrorHardwareStackError',
    715: 'cudaErrorIllegalInstruction',
    716: 'cudaErrorMisalignedAddress',
    717: 'cudaErrorInvalidAddressSpace',
    718: 'cudaErrorInvalidPc',
    719: 'cudaErrorLaunchFailure',
    720: 'cudaErrorCooperativeLaunchTooLarge',
    721: 'cudaErrorTensorMemoryLeak',
    800: 'cudaErrorNotPermitted',
    801: 'cudaErrorNotSupported',
    802: 'cudaErrorSystemNotReady',
    803: 'cudaErrorSystemDriverMismatch',
    804: 'cudaErrorCompatNotSupportedOnDevice',
    805: 'cudaErrorMpsConnectionFailed',
    806: 'cudaErrorMpsRpcFailure',
    807: 'cudaErrorMpsServerNotReady',
    808: 'cudaErrorMpsMaxClientsReached',
    809: 'cudaErrorMpsMaxConnectionsReached',
    810: 'cudaErrorMpsClientTerminated',
    811: 'cudaErrorCdpNotSupported',
    812: 'cudaErrorCdpVersionMismatch',
    900: 'cudaErrorStreamCaptureUnsupported',
    901: 'cudaErrorStreamCaptureInvalidated',
    902: 'cudaErrorStreamCaptureMerge',
    903: 'cudaErrorStreamCaptureUnmatched',
    904: 'cudaErrorStreamCaptureUnjoined',
    905: 'cudaErrorStreamCaptureIsolation',
    906: 'cudaErrorStreamCaptureImplicit',
    907: 'cudaErrorCapturedEvent',
    908: 'cudaErrorStreamCaptureWrongThread',
    909: 'cudaErrorTimeout',
    910: 'cudaErrorGraphExecUpdateFailure',
    911: 'cudaErrorExternalDevice',
    912: 'cudaErrorInvalidClusterSize',
    913: 'cudaErrorFunctionNotLoaded',
    914: 'cudaErrorInvalidResourceType',
    915: 'cudaErrorInvalidResourceConfiguration',
    999: 'cudaErrorUnknown',
    10000: 'cudaErrorApiFailureBase',
}
"""From driver_types.h of CUDA 13.0."""


def error_name(error: int) -> str:
    """Return the name of an error."""
    return _NAMES.get(error, f'CUDA error {error}')
