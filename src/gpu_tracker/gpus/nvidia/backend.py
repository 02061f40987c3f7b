"""The opened driver of NVIDIA GPUs. Handles are pointers that never compare equal: GPUs are known by UUID."""

from __future__ import annotations

import time
from collections import defaultdict
from functools import partial

import pynvml

from gpu_tracker.background import Reported
from gpu_tracker.errors import GpuError
from gpu_tracker.gpus.model import Gpu, GpuHealth, GpuProcess, GpuReading, Unseen
from gpu_tracker.gpus.nvidia.calls import (
    CLOCK_TOLERANCE_US,
    FULL,
    Calls,
    is_in_mig_mode,
    merge,
    mig_devices,
    name_instance,
    quietly,
    utilization,
)
from gpu_tracker.gpus.nvidia.devices import details, open_gpus
from gpu_tracker.gpus.nvidia.errors import describe, explain_failed_init
from gpu_tracker.gpus.nvidia.process_utilization import ProcessUtilization

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from ctypes import c_void_p
    from typing import TypeVar

    from gpu_tracker.gpus.nvidia.health import XidErrors
    from gpu_tracker.gpus.nvidia.monitor import NvidiaMonitor

    T = TypeVar('T')

_VALUE_FIELDS = ('dVal', 'uiVal', 'ulVal', 'ullVal', 'sllVal', 'siVal', 'usVal')
"""nvmlValueType_t -> the member of the union that holds a sample's value."""


def open_backend(compute_files: frozenset[str]) -> NvidiaBackend | None:
    """Open the driver; None where there is a library and no driver (code 9) or no library (code 12).

    :raises GpuError: The driver does not work.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value in {pynvml.NVML_ERROR_DRIVER_NOT_LOADED, pynvml.NVML_ERROR_LIBRARY_NOT_FOUND}:
            return None
        raise GpuError(*explain_failed_init(error.value)) from error
    try:
        return NvidiaBackend(compute_files=compute_files)
    except pynvml.NVMLError as error:
        raise GpuError(*explain_failed_init(error.value)) from error


class NvidiaBackend:
    """The opened driver; see ``gpu_tracker.gpus.backend.GpuBackend``."""

    def __init__(
        self, wall_clock: Callable[[], float] = time.time, compute_files: frozenset[str] = frozenset()
    ) -> None:
        self.compute_files = compute_files
        self._wall_clock = wall_clock
        self._messages: list[tuple[str, str]] = []
        self._reported = Reported(self._messages.append)
        self._handles: dict[str, c_void_p] = {}
        self._labels: dict[str, str] = {}
        self._by_uuid: dict[str, Gpu] = {}
        self._last_seen: dict[str, int] = {}
        self._accounted: set[str] = set()
        self._calls = Calls()
        self._process_utilization = defaultdict[str, ProcessUtilization](partial(ProcessUtilization, wall_clock))
        """By UUID."""
        self._followed: frozenset[int] = frozenset()
        self._gpus: tuple[Gpu, ...] | None = None
        self._xid_errors: XidErrors | None = None
        self._watched: dict[int, str] = {}
        """The UUIDs of the GPUs whose errors are counted, by index."""
        pynvml.nvmlDeviceGetCount()  # fails where the driver does not work

    def gpus(self) -> tuple[Gpu, ...]:
        """Return all GPUs of the machine, those that the driver cannot open included."""
        if self._gpus is None:
            self._gpus = tuple(self._noted(*opened) for opened in open_gpus())
        return self._gpus

    def follow(self, members: frozenset[int]) -> None:
        """Report these processes also if they came and went between two readings."""
        self._followed = members

    def survey(self, *, with_load: bool = True, with_sensors: bool = True) -> list[GpuReading]:
        """Read all GPUs and their MIG devices once.

        :raises GpuError: The driver has stopped working.
        """
        from gpu_tracker.gpus.nvidia.survey import survey  # noqa: PLC0415 - a run's sampler needs none of it

        try:
            readings = survey(self._calls, self._process_utilization, with_load=with_load, with_sensors=with_sensors)
        except pynvml.NVMLError as error:
            raise GpuError(*explain_failed_init(error.value)) from error
        return readings if self._xid_errors is None else [self._with_xid_errors(reading) for reading in readings]

    def watch_errors(self) -> None:
        """Count the XID errors of all GPUs from now on, in a thread."""
        from gpu_tracker.gpus.nvidia.health import XidErrors  # noqa: PLC0415 - a run's sampler needs none of it

        if self._xid_errors is None:
            known = [(gpu.number, gpu.uuid, handle) for gpu, handle, _ in open_gpus() if gpu.uuid and handle]
            self._watched = {number: uuid for number, uuid, _ in known}
            self._xid_errors = XidErrors((uuid, handle) for _, uuid, handle in known)

    def _with_xid_errors(self, reading: GpuReading) -> GpuReading:
        """Add the XID errors, to a GPU that is lost too: they say why."""
        if self._xid_errors is None:
            return reading
        errors = self._xid_errors.of(reading.uuid or self._watched.get(reading.number))
        if errors is None:
            return reading
        return reading._replace(health=(reading.health or GpuHealth())._replace(xid_errors=errors))

    def details(self) -> list[Gpu]:
        """Return what all GPUs and their MIG devices are.

        :raises GpuError: The driver has stopped working.
        """
        try:
            return details(self._calls)
        except pynvml.NVMLError as error:
            raise GpuError(*explain_failed_init(error.value)) from error

    def monitors(self) -> tuple[NvidiaMonitor, ...]:
        """Return what reads each GPU again and again, in PCI bus order; each may have its own thread.

        :raises GpuError: The driver has stopped working.
        """
        from gpu_tracker.gpus.nvidia.monitor import open_monitors  # noqa: PLC0415 - a run's sampler needs none of it

        try:
            return open_monitors(self._calls, self._wall_clock)
        except pynvml.NVMLError as error:
            raise GpuError(*explain_failed_init(error.value)) from error

    def read(self, uuid: str) -> GpuReading:
        """Read one GPU."""
        total, used = self._memory(uuid)
        processes = self.processes(uuid)
        if processes is not None:
            handle = self._handles[uuid]
            processes = self._process_utilization[uuid].added_to(processes, handle, self._followed)
        return GpuReading(
            self._by_uuid[uuid]._replace(memory_total=total),
            memory_used=used,
            samples=self._samples(uuid),
            processes=None if processes is None else tuple(processes),
        )

    def processes(self, uuid: str) -> list[GpuProcess] | None:
        """Return the compute and graphics processes on one GPU, each once for each MIG instance that it uses.

        A process that does both stands in both lists with the same memory. In MIG mode the MIG devices are asked too.
        """
        whole = self._handles[uuid]
        is_divided = quietly(lambda: is_in_mig_mode(whole))  # unknown: it lists its processes all the same
        parts = []
        for _, handle in mig_devices(whole) if is_divided else ():
            in_part = self._listed(uuid, handle)
            parts.append(None if in_part is None else name_instance(handle, in_part))
        return merge(self._listed(uuid, whole), parts)

    def unseen(self, uuid: str) -> Unseen:
        """Return nobody: the driver lists all processes of the machine."""
        del uuid
        return Unseen()

    def utilization(self, uuid: str) -> float | None:
        """Return the percent that the driver reports of now: nvmlDeviceGetUtilizationRates."""
        return self._ask(uuid, 'utilization', lambda: utilization(self._handles[uuid]))

    def peak_memory(self, uuid: str, pid: int) -> int | None:
        """Return a process' peak in accounting mode, where root has switched that on; it is never switched on here."""
        if uuid not in self._accounted:
            return None
        stats = quietly(lambda: pynvml.nvmlDeviceGetAccountingStats(self._handles[uuid], pid))
        return None if stats is None else stats.maxMemoryUsage

    def energy(self, uuid: str) -> float | None:
        """Return the joules that one GPU has used since the driver was loaded; Volta and newer have that counter."""
        handle = self._handles[uuid]
        millijoules = quietly(lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle))
        return None if millijoules is None else millijoules / 1000

    def take_messages(self) -> list[tuple[str, str]]:
        """Return the messages not taken yet."""
        messages = list(self._messages)
        self._messages.clear()
        return messages

    def close(self) -> None:
        """Shut NVML down."""
        if self._xid_errors is not None:
            self._xid_errors.stop()
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError:
            return  # nothing is left to be done about a driver that cannot even be left

    def _noted(self, gpu: Gpu, handle: c_void_p | None, code: int) -> Gpu:
        """Return a GPU with its memory, having noted how to ask for its figures."""
        label = f'GPU {gpu.number}'
        if handle is None or gpu.uuid is None:
            self._report_once('warning', describe(label, code), gpu.number, code)
            return gpu
        self._handles[gpu.uuid] = handle
        self._by_uuid[gpu.uuid] = gpu
        self._labels[gpu.uuid] = f'{label} ({gpu.uuid})'
        if quietly(lambda: pynvml.nvmlDeviceGetAccountingMode(handle)) == pynvml.NVML_FEATURE_ENABLED:
            self._accounted.add(gpu.uuid)
        return gpu._replace(memory_total=self._memory(gpu.uuid)[0])

    def _memory(self, uuid: str) -> tuple[int | None, int | None]:
        """Return the total and the used bytes; version 2 leaves out of `used` what the driver reserves for itself."""
        handle = self._handles[uuid]
        memory = self._ask(uuid, 'memory', lambda: self._calls.memory(handle))
        if memory is None:
            return None, None
        if memory.total == 0:  # unified memory: the GPU has none of its own
            self._report_once('info', f'{self._labels[uuid]} does not report its memory.', uuid, 'memory')
            return None, None
        return memory.total, memory.used

    def _samples(self, uuid: str) -> list[tuple[int, float]] | None:
        """Return what the driver has buffered since the last reading; NOT_FOUND means that there is no new sample.

        Any other failure is no news: ``utilization`` is asked instead, and tells what is wrong with it.
        """
        last_seen = self._last_seen.get(uuid, 0)
        try:
            value_type, samples = pynvml.nvmlDeviceGetSamples(
                self._handles[uuid], pynvml.NVML_GPU_UTILIZATION_SAMPLES, last_seen
            )
        except pynvml.NVMLError as error:
            return [] if error.value == pynvml.NVML_ERROR_NOT_FOUND else None
        field = _VALUE_FIELDS[value_type] if value_type < len(_VALUE_FIELDS) else 'uiVal'
        latest = self._wall_clock() * 1e6 + CLOCK_TOLERANCE_US
        values = {sample.timeStamp: float(getattr(sample.sampleValue, field)) for sample in samples}
        kept = sorted((when, v) for when, v in values.items() if last_seen < when <= latest and 0 <= v <= FULL)
        if kept:
            self._last_seen[uuid] = kept[-1][0]
        return kept

    def _listed(self, uuid: str, handle: c_void_p) -> list[GpuProcess] | None:
        """Return the processes of a GPU or MIG device; None, having reported why, where they are not listed."""
        try:
            entries = self._calls.processes(handle)
        except pynvml.NVMLError as error:
            self._report_failure(uuid, error.value)
            return None
        if entries is None:
            self._report_once('info', f'{self._labels[uuid]} does not list its processes.', uuid, 'processes')
        return entries

    def _ask(self, uuid: str, what: str, question: Callable[[], T]) -> T | None:
        """Return the driver's answer, or None, having reported why."""
        try:
            return question()
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_NOT_SUPPORTED:
                self._report_once('info', f'{self._labels[uuid]} does not report its {what}.', uuid, what)
            else:
                self._report_failure(uuid, error.value)
            return None

    def _report_failure(self, uuid: str, code: int) -> None:
        if code == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:  # a matter of the driver, not of one GPU
            self._report_once('warning', describe('This machine', code), code)
        else:
            self._report_once('warning', describe(self._labels[uuid], code), uuid, code)

    def _report_once(self, level: str, text: str, *cause: object) -> None:
        self._reported.once(cause, (level, text))
