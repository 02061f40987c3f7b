"""How busy the parts of a GPU are, by its own counters: NVML's GPM, which Hopper and newer GPUs have.

Two samples of the counters make the figures of the time between them. Nothing is switched on in the driver, so other
programs may read them at the same time.
"""

from __future__ import annotations

import math
import time

import pynvml

from gpu_tracker.gpus.model import GpuActivity
from gpu_tracker.gpus.nvidia.calls import NO_SUCH_CALL, is_in_mig_mode, mig_devices, quietly
from gpu_tracker.gpus.nvidia.errors import problem_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from ctypes import c_void_p

_SHORTEST = 0.1
"""Seconds that two samples have to be apart, as nvml.h recommends."""
_MEBI = 1 << 20
_METRICS = (
    (pynvml.NVML_GPM_METRIC_SM_UTIL, 1),
    (pynvml.NVML_GPM_METRIC_SM_OCCUPANCY, 1),
    (pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL, 1),
    (pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL, 1),
    (pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC, _MEBI),
    (pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC, _MEBI),
    (pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, _MEBI),
    (pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, _MEBI),
)
"""NVML's number of each metric and the factor to our unit, in the order of the fields of GpuActivity."""
_NO_COUNTERS = 'has no counters of its activity, which Hopper and newer GPUs have'
_OLD_DRIVER = 'the driver is too old to report its activity (NVML code 13)'


class ActivityReader:
    """Reads one GPU, or each GPU instance of a GPU in MIG mode.

    :param monotonic: The clock, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._samples: dict[int | None, tuple[c_void_p, float]] = {}
        """GPU instance, None for the whole GPU -> its last sample, and when that was taken."""
        self._never: str | None = None

    def read(self, open_gpu: Callable[[], c_void_p]) -> list[GpuActivity]:
        """Return the activity since the last reading, of the GPU or of each of its GPU instances.

        :param open_gpu: Returns the handle of the GPU, or raises NVMLError.
        """
        if self._never is None:
            try:
                return self._read(open_gpu())
            except pynvml.NVMLError as error:
                self.close()
                if error.value not in NO_SUCH_CALL:
                    return [GpuActivity(problem=problem_of(error.value))]
                is_unsupported = error.value == pynvml.NVML_ERROR_NOT_SUPPORTED
                self._never = _NO_COUNTERS if is_unsupported else _OLD_DRIVER
        return [GpuActivity(problem=self._never)]

    def close(self) -> None:
        """Free all samples."""
        for instance in list(self._samples):
            self._free(instance)

    def _read(self, handle: c_void_p) -> list[GpuActivity]:
        if not self._samples and not pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        instances: set[int | None] = {None}
        if is_in_mig_mode(handle):
            instances = {pynvml.nvmlDeviceGetGpuInstanceId(part) for _, part in mig_devices(handle)}
        for gone in self._samples.keys() - instances:
            self._free(gone)
        return [self._read_instance(handle, instance) for instance in sorted(instances, key=lambda number: number or 0)]

    def _read_instance(self, handle: c_void_p, instance: int | None) -> GpuActivity:
        before, taken = self._samples.get(instance, (None, 0.0))
        if before is not None and self._monotonic() - taken < _SHORTEST:
            return GpuActivity(instance)
        after = _sample(handle, instance)
        now = self._monotonic()
        try:
            figures = None if before is None else _figures(before, after)
        finally:
            self._free(instance)
            self._samples[instance] = after, now
        return GpuActivity(instance) if figures is None else GpuActivity(instance, None, now - taken, *figures)

    def _free(self, instance: int | None) -> None:
        sample, _ = self._samples.pop(instance, (None, 0.0))
        if sample is not None:
            quietly(lambda: pynvml.nvmlGpmSampleFree(sample))


def _sample(handle: c_void_p, instance: int | None) -> c_void_p:
    """Return a new sample of a GPU or of one of its GPU instances, which the GPU's own handle gives as well.

    :raises pynvml.NVMLError: It cannot be taken.
    """
    sample = pynvml.nvmlGpmSampleAlloc()
    try:
        if instance is None:
            return pynvml.nvmlGpmSampleGet(handle, sample)
        return pynvml.nvmlGpmMigSampleGet(handle, instance, sample)
    except pynvml.NVMLError:
        quietly(lambda: pynvml.nvmlGpmSampleFree(sample))
        raise


def _figures(before: c_void_p, after: c_void_p) -> list[float | None]:
    """Return the figures of the time between two samples.

    :raises pynvml.NVMLError: The driver does not give them.
    """
    asked = pynvml.c_nvmlGpmMetricsGet_t()
    asked.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    asked.sample1, asked.sample2 = before, after
    asked.numMetrics = len(_METRICS)
    for metric, (number, _) in zip(asked.metrics, _METRICS, strict=False):
        metric.metricId = number
    pynvml.nvmlGpmMetricsGet(asked)
    return [
        metric.value * factor if metric.nvmlReturn == pynvml.NVML_SUCCESS and 0 <= metric.value < math.inf else None
        for metric, (_, factor) in zip(asked.metrics, _METRICS, strict=False)
    ]
