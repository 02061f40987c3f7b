"""The health of a GPU through NVML: memory errors, throttling, energy, traffic, and XID errors."""

from __future__ import annotations

import ctypes
import threading
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import pynvml

from gpu_tracker.gpus.model import THROTTLE_REASONS, GpuHealth
from gpu_tracker.gpus.nvidia.calls import VALUE_FIELDS, quietly

if TYPE_CHECKING:
    from collections.abc import Iterable
    from ctypes import c_void_p

_ALL_LINKS = 0xFFFFFFFF
_FIELDS: dict[str, int | tuple[int, int]] = {
    'ecc_volatile_corrected': pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL,
    'ecc_volatile_uncorrected': pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL,
    'ecc_aggregate_corrected': pynvml.NVML_FI_DEV_ECC_SBE_AGG_TOTAL,
    'ecc_aggregate_uncorrected': pynvml.NVML_FI_DEV_ECC_DBE_AGG_TOTAL,
    'remapped_rows_corrected': pynvml.NVML_FI_DEV_REMAPPED_COR,
    'remapped_rows_uncorrected': pynvml.NVML_FI_DEV_REMAPPED_UNC,
    'row_remap_pending': pynvml.NVML_FI_DEV_REMAPPED_PENDING,
    'row_remap_failed': pynvml.NVML_FI_DEV_REMAPPED_FAILURE,
    'energy_joules': pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION,
    'pcie_sent_bytes': 197,  # NVML_FI_DEV_PCIE_COUNT_TX_BYTES: older versions of nvidia-ml-py do not name it
    'pcie_received_bytes': 198,
    'nvlink_sent_bytes': (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, _ALL_LINKS),
    'nvlink_received_bytes': (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, _ALL_LINKS),
}
_UNITS = {'energy_joules': 0.001, 'nvlink_sent_bytes': 1024, 'nvlink_received_bytes': 1024}
"""What one is of the driver's unit, millijoules and KiB."""
_FLAGS = {'row_remap_pending', 'row_remap_failed'}
_REASONS = dict(zip((4, 8, 16, 32, 64, 128, 512, 1024), THROTTLE_REASONS, strict=True))
"""nvmlClocksThrottleReason*, without those of a GPU that is idle or set to a clock."""


def read_health(handle: c_void_p) -> GpuHealth:
    """Return what a whole GPU reports, by two calls; XID errors are not among it."""
    known: dict[str, float | bool] = {}
    values = quietly(lambda: pynvml.nvmlDeviceGetFieldValues(handle, list(_FIELDS.values())))
    for name, value in zip(_FIELDS, values or (), strict=False):
        if value.nvmlReturn != pynvml.NVML_SUCCESS or value.valueType >= len(VALUE_FIELDS):
            continue
        number = getattr(value.value, VALUE_FIELDS[value.valueType])
        known[name] = bool(number) if name in _FLAGS else number * _UNITS.get(name, 1)
    mask = quietly(partial(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle))
    throttled = None if mask is None else tuple(name for bit, name in _REASONS.items() if mask & bit)
    return GpuHealth(throttle_reasons=throttled, **known)  # type: ignore[arg-type] # each has the type of its field


_WAIT_MS = 500
_PAUSE = 0.5
"""Seconds between two questions where one GPU is lost: the driver answers that at once, whatever the others do."""


class XidErrors:
    """Counts the XID errors that the driver reports, in a thread of its own, from when it is made.

    A GPU of which the driver reports none, as under some virtual machines, has no counts.

    :param gpus: The UUIDs of GPUs, each with its handle.
    """

    def __init__(self, gpus: Iterable[tuple[str, c_void_p]]) -> None:
        self._counts: dict[str, Counter[int]] = {}
        self._uuids: dict[int | None, str] = {}
        """By the address of the handle: a GPU that has fallen off the bus does not say its UUID any more."""
        self._stopped = threading.Event()
        events = quietly(pynvml.nvmlEventSetCreate)
        if events is None:
            return
        for uuid, handle in gpus:
            try:
                pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
            except pynvml.NVMLError:
                continue
            self._counts[uuid] = Counter()
            self._uuids[_address(handle)] = uuid
        if self._counts:
            threading.Thread(target=self._watch, args=(events,), daemon=True, name='xid-errors').start()

    def of(self, uuid: str | None) -> tuple[tuple[int, int], ...] | None:
        """Return (code, how many) of a GPU; None where they are not known."""
        counts = self._counts.get(uuid or '')
        return None if counts is None else tuple(sorted(counts.items()))

    def stop(self) -> None:
        """Count no more; the thread ends by itself."""
        self._stopped.set()

    def _watch(self, events: c_void_p) -> None:
        while not self._stopped.is_set():
            try:
                self._take(pynvml.nvmlEventSetWait_v2(events, _WAIT_MS))
            except pynvml.NVMLError as error:
                if error.value == pynvml.NVML_ERROR_TIMEOUT:
                    continue
                if error.value != pynvml.NVML_ERROR_GPU_IS_LOST:
                    self._counts = {}  # the driver has gone or fails: nobody knows what came since
                    return
                self._stopped.wait(_PAUSE)

    def _take(self, event: pynvml.c_nvmlEventData_t) -> None:
        uuid = self._uuids.get(_address(event.device)) or quietly(lambda: pynvml.nvmlDeviceGetUUID(event.device))
        if uuid in self._counts:
            self._counts[uuid][int(event.eventData)] += 1


def _address(handle: c_void_p) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
