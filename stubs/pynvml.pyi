# The calls of nvidia-ml-py (import name pynvml) that gpu_tracker makes; the package itself has no annotations.
from collections.abc import Sequence
from ctypes import c_void_p

class NVMLError(Exception):
    value: int
    def __init__(self, value: int) -> None: ...

class NVMLLibraryMismatchError(Exception): ...

class _Memory:
    total: int
    free: int
    used: int

class _Utilization:
    gpu: int
    memory: int

class _DeviceAttributes:
    multiprocessorCount: int

class _PciInfo:
    busId: str

class _Process:
    pid: int
    usedGpuMemory: int | None
    gpuInstanceId: int
    computeInstanceId: int

class _Value:
    dVal: float
    uiVal: int
    ulVal: int
    ullVal: int
    sllVal: int
    siVal: int
    usVal: int

class _Sample:
    timeStamp: int
    sampleValue: _Value

class _FieldValue:
    nvmlReturn: int
    valueType: int
    value: _Value

class c_nvmlEventData_t:
    device: c_void_p
    eventData: int

class _ProcessUtilizationSample:
    pid: int
    timeStamp: int
    smUtil: int
    memUtil: int

class _AccountingStats:
    gpuUtilization: int
    memoryUtilization: int
    maxMemoryUsage: int | None
    time: int
    startTime: int
    isRunning: int

NVML_SUCCESS: int
NVML_ERROR_INVALID_ARGUMENT: int
NVML_ERROR_NOT_SUPPORTED: int
NVML_ERROR_NO_PERMISSION: int
NVML_ERROR_NOT_FOUND: int
NVML_ERROR_TIMEOUT: int
NVML_ERROR_INSUFFICIENT_SIZE: int
NVML_ERROR_DRIVER_NOT_LOADED: int
NVML_ERROR_LIBRARY_NOT_FOUND: int
NVML_ERROR_FUNCTION_NOT_FOUND: int
NVML_ERROR_GPU_IS_LOST: int
NVML_ERROR_RESET_REQUIRED: int
NVML_ERROR_LIB_RM_VERSION_MISMATCH: int
NVML_ERROR_ARGUMENT_VERSION_MISMATCH: int
NVML_ERROR_UNKNOWN: int
NVML_FEATURE_ENABLED: int
NVML_GPU_UTILIZATION_SAMPLES: int
NVML_CLOCK_SM: int
NVML_TEMPERATURE_GPU: int
nvmlMemory_v2: int
NVML_FI_DEV_ECC_SBE_VOL_TOTAL: int
NVML_FI_DEV_ECC_DBE_VOL_TOTAL: int
NVML_FI_DEV_ECC_SBE_AGG_TOTAL: int
NVML_FI_DEV_ECC_DBE_AGG_TOTAL: int
NVML_FI_DEV_REMAPPED_COR: int
NVML_FI_DEV_REMAPPED_UNC: int
NVML_FI_DEV_REMAPPED_PENDING: int
NVML_FI_DEV_REMAPPED_FAILURE: int
NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION: int
NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX: int
NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX: int
nvmlEventTypeXidCriticalError: int

def nvmlInit() -> None: ...
def nvmlShutdown() -> None: ...
def nvmlSystemGetDriverVersion() -> str: ...
def nvmlDeviceGetCount() -> int: ...
def nvmlDeviceGetHandleByIndex(index: int) -> c_void_p: ...
def nvmlDeviceGetHandleByUUID(uuid: str) -> c_void_p: ...
def nvmlDeviceGetUUID(handle: c_void_p) -> str: ...
def nvmlDeviceGetName(handle: c_void_p) -> str: ...
def nvmlDeviceGetPciInfo(handle: c_void_p) -> _PciInfo: ...
def nvmlDeviceGetMinorNumber(handle: c_void_p) -> int: ...
def nvmlDeviceGetNumGpuCores(device: c_void_p) -> int: ...
def nvmlDeviceGetCudaComputeCapability(handle: c_void_p) -> list[int]: ...
def nvmlDeviceGetAttributes_v2(device: c_void_p) -> _DeviceAttributes: ...
def nvmlDeviceGetClockInfo(handle: c_void_p, type: int) -> int: ...
def nvmlDeviceGetTemperature(handle: c_void_p, sensor: int) -> int: ...
def nvmlDeviceGetPowerUsage(handle: c_void_p) -> int: ...
def nvmlDeviceGetEnforcedPowerLimit(handle: c_void_p) -> int: ...
def nvmlDeviceGetMemoryInfo(handle: c_void_p, version: int | None = None) -> _Memory: ...
def nvmlDeviceGetTotalEnergyConsumption(handle: c_void_p) -> int: ...
def nvmlDeviceGetUtilizationRates(handle: c_void_p) -> _Utilization: ...
def nvmlDeviceGetSamples(device: c_void_p, sampling_type: int, timeStamp: int) -> tuple[int, list[_Sample]]: ...
def nvmlDeviceGetComputeRunningProcesses(handle: c_void_p) -> list[_Process]: ...
def nvmlDeviceGetComputeRunningProcesses_v2(handle: c_void_p) -> list[_Process]: ...
def nvmlDeviceGetGraphicsRunningProcesses(handle: c_void_p) -> list[_Process]: ...
def nvmlDeviceGetGraphicsRunningProcesses_v2(handle: c_void_p) -> list[_Process]: ...
def nvmlDeviceGetProcessUtilization(handle: c_void_p, timeStamp: int) -> list[_ProcessUtilizationSample]: ...
def nvmlDeviceGetMigMode(device: c_void_p) -> list[int]: ...
def nvmlDeviceGetMaxMigDeviceCount(device: c_void_p) -> int: ...
def nvmlDeviceGetMigDeviceHandleByIndex(device: c_void_p, index: int) -> c_void_p: ...
def nvmlDeviceGetGpuInstanceId(device: c_void_p) -> int: ...
def nvmlDeviceGetComputeInstanceId(device: c_void_p) -> int: ...
def nvmlDeviceGetFieldValues(handle: c_void_p, fieldIds: Sequence[int | tuple[int, int]]) -> Sequence[_FieldValue]: ...
def nvmlDeviceGetCurrentClocksThrottleReasons(handle: c_void_p) -> int: ...
def nvmlEventSetCreate() -> c_void_p: ...
def nvmlDeviceRegisterEvents(handle: c_void_p, eventTypes: int, eventSet: c_void_p) -> None: ...
def nvmlEventSetWait_v2(eventSet: c_void_p, timeoutms: int) -> c_nvmlEventData_t: ...
def nvmlDeviceGetAccountingMode(handle: c_void_p) -> int: ...
def nvmlDeviceSetAccountingMode(handle: c_void_p, mode: int) -> None: ...
def nvmlDeviceGetAccountingStats(handle: c_void_p, pid: int) -> _AccountingStats: ...

class _GpmMetric:
    metricId: int
    nvmlReturn: int
    value: float

class c_nvmlGpmMetricsGet_t:
    version: int
    numMetrics: int
    sample1: c_void_p
    sample2: c_void_p
    metrics: Sequence[_GpmMetric]

class _GpmSupport:
    isSupportedDevice: int

NVML_GPM_METRICS_GET_VERSION: int
NVML_GPM_METRIC_SM_UTIL: int
NVML_GPM_METRIC_SM_OCCUPANCY: int
NVML_GPM_METRIC_ANY_TENSOR_UTIL: int
NVML_GPM_METRIC_DRAM_BW_UTIL: int
NVML_GPM_METRIC_PCIE_TX_PER_SEC: int
NVML_GPM_METRIC_PCIE_RX_PER_SEC: int
NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC: int
NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC: int

def nvmlGpmQueryDeviceSupport(device: c_void_p) -> _GpmSupport: ...
def nvmlGpmSampleAlloc() -> c_void_p: ...
def nvmlGpmSampleGet(device: c_void_p, gpmSample: c_void_p) -> c_void_p: ...
def nvmlGpmMigSampleGet(device: c_void_p, gpuInstanceId: int, gpmSample: c_void_p) -> c_void_p: ...
def nvmlGpmSampleFree(gpmSample: c_void_p) -> None: ...
def nvmlGpmMetricsGet(metricsGet: c_nvmlGpmMetricsGet_t) -> c_nvmlGpmMetricsGet_t: ...
