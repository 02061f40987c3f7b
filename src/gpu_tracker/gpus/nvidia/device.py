"""One GPU, read through NVML by everybody: runs, tables, agents and the daemon for atop."""

from __future__ import annotations

from functools import partial

import pynvml

from gpu_tracker.gpus.model import Gpu, GpuReading
from gpu_tracker.gpus.nvidia.calls import (
    COMPUTE,
    GRAPHICS,
    NO_SUCH_CALL,
    NOT_AVAILABLE,
    is_in_mig_mode,
    merge,
    mig_devices,
    name_instance,
    percent,
    quietly,
    without_doubles,
)
from gpu_tracker.gpus.nvidia.errors import problem_of, why_no_accounts
from gpu_tracker.gpus.nvidia.utilization import ProcessUtilization, UtilizationSamples, accounts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from ctypes import c_void_p
    from typing import TypeVar

    from gpu_tracker.gpus.model import GpuProcess
    from gpu_tracker.gpus.nvidia.calls import Calls

    T = TypeVar('T')

OUT_OF_REACH = {pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED}
_HOTTEST = 1000
"""Degrees Celsius; more is garbage."""
_MEGA = 1_000_000
_MILLI = 1000
_CORES_OF_MULTIPROCESSOR = {(8, 0): 64, (9, 0): 128, (10, 0): 128, (10, 3): 128, (12, 0): 128}
"""Compute capability -> CUDA cores of a multiprocessor, of the GPUs that can be divided: _ConvertSMVer2Cores in
helper_cuda.h of NVIDIA's samples."""


class NvidiaGpu:
    """A GPU that stays open. What it does not support is found out once.

    It is opened anew after a reading that has failed: it may come back with another MIG mode and other rights. GPUs
    share nothing but ``calls``, so each may be read in a thread of its own.

    :ivar gpu: Replaced whole, so that other threads may read it at any time.
    :ivar failures: NVML's codes of the last reading; that something is not supported is no failure.
    :ivar list_failure: The code with which the driver has refused a list of processes; None: it has not.
    """

    def __init__(self, calls: Calls, index: int, wall_clock: Callable[[], float]) -> None:
        self.gpu = Gpu(index)
        self.failures: set[int] = set()
        self._calls = calls
        self._index = index
        self._handle: c_void_p | None = None
        self._is_divided: bool | None = None
        self._unsupported: set[object] = set()
        self._lists: set[int] = set()
        self.list_failure: int | None = None
        self._samples = UtilizationSamples(wall_clock)
        self._processes = ProcessUtilization(wall_clock)
        self._pids: set[int] = set()

    @property
    def has_samples(self) -> bool:
        """Whether the driver keeps samples of its processes' utilization, as far as is known."""
        return self._processes.has_samples

    @property
    def samples_failure(self) -> int | None:
        """The code with which the driver has refused these samples; None: it has not."""
        return self._processes.failure

    def open(self) -> c_void_p:
        """Return the handle.

        :raises pynvml.NVMLError: The GPU cannot be opened.
        """
        if self._handle is None:
            self._is_divided = None
            handle = self._find()
            self._note_mode(handle)
            self._handle = handle
        return self._handle

    def read(
        self,
        *,
        processes: bool = True,
        load: bool = True,
        sensors: bool = False,
        samples: bool = False,
        accounts: bool = False,
        followed: frozenset[int] = frozenset(),
    ) -> GpuReading:
        """Read the GPU and its MIG devices; never raises because of it, see ``GpuReading.problem``.

        Whether the GPU can be read does not depend on what is wanted.

        :param processes: Read the processes even if the memory is known. Without it only they show whether the GPU is
            in use.
        :param load: Read how busy the GPU is, and each process keeps it.
        :param sensors: Read temperature, clock, power and health.
        :param samples: Read the utilization samples since the last reading instead of the utilization of now. If the
            memory cannot be read, read the rest.
        :param accounts: Read what accounting mode has kept, if it is on.
        :param followed: See ``ProcessUtilization.added_to``.
        """
        self.failures = set()
        self.list_failure = None
        try:
            if self._handle is not None:
                self._note_mode(self._handle)
            handle = self.open()
            reading = self._with_memory(
                GpuReading(self.gpu), handle, lists=processes, is_lenient=samples or bool(self._is_divided)
            )
        except pynvml.NVMLError as error:
            self._handle = None
            self.failures.add(error.value)
            return GpuReading(self.gpu, problem_of(error.value))
        if self._is_divided:
            parts = tuple(self._part(number, part, lists=processes) for number, part in mig_devices(handle))
            merged = merge(reading.processes, [part.processes for part in parts])
            reading = reading._replace(mig_devices=parts, processes=merged)
        if self.list_failure is None and self._lists:
            self.gpu = self.gpu._replace(lists_compute=COMPUTE in self._lists, lists_graphics=GRAPHICS in self._lists)
        if load:
            reading = self._with_load(reading, handle, followed)
            if samples:
                reading = reading._replace(samples=self._samples.read(handle))
            else:
                reading = self._with_rates(reading, handle)
        if accounts and reading.processes is not None:
            reading = self._with_accounts(reading, handle)
        return self._with_sensors(reading, handle) if sensors else reading

    def keep_accounts(self) -> str | None:
        """Switch accounting mode on, which stays on after this process; return why it is not on, None if it is."""
        try:
            handle = self.open()
        except pynvml.NVMLError as error:
            return problem_of(error.value)
        try:
            if not self._note_accounting(handle):
                pynvml.nvmlDeviceSetAccountingMode(handle, pynvml.NVML_FEATURE_ENABLED)
        except pynvml.NVMLError as error:
            return why_no_accounts(error.value)
        return None if self._note_accounting(handle) else 'the driver has not done it'

    def details(self, driver: str | None) -> Gpu:
        """Return what the GPU and its MIG devices are."""
        gpu = self.gpu._replace(driver=driver)
        handle = quietly(self.open)
        if handle is None:
            return gpu
        gpu = gpu._replace(
            memory_total=self._total(handle), cores=quietly(lambda: pynvml.nvmlDeviceGetNumGpuCores(handle)) or None
        )
        if not quietly(lambda: is_in_mig_mode(handle)):
            return gpu
        capability = quietly(lambda: pynvml.nvmlDeviceGetCudaComputeCapability(handle))
        cores = 0 if capability is None else _CORES_OF_MULTIPROCESSOR.get((capability[0], capability[1]), 0)
        parts = [self._part_details(number, part, driver, cores) for number, part in mig_devices(handle)]
        return gpu._replace(mig_devices=tuple(parts))

    def _part_details(self, number: int, handle: c_void_p, driver: str | None, cores_of_multiprocessor: int) -> Gpu:
        attributes = quietly(lambda: pynvml.nvmlDeviceGetAttributes_v2(handle))
        multiprocessors = 0 if attributes is None else attributes.multiprocessorCount
        return Gpu(
            number,
            quietly(partial(pynvml.nvmlDeviceGetUUID, handle)),
            quietly(partial(pynvml.nvmlDeviceGetName, handle)),
            driver=driver,
            memory_total=self._total(handle),
            cores=multiprocessors * cores_of_multiprocessor or None,
            gpu_instance=quietly(lambda: pynvml.nvmlDeviceGetGpuInstanceId(handle)),
            compute_instance=quietly(lambda: pynvml.nvmlDeviceGetComputeInstanceId(handle)),
        )

    def _total(self, handle: c_void_p) -> int | None:
        memory = quietly(lambda: self._calls.memory(handle))
        return None if memory is None else memory.total or None  # 0: unified memory, the GPU has none of its own

    def _find(self) -> c_void_p:
        """Return a handle of the GPU, of the same one each time: without a lost GPU others may move to its index.

        The index comes first: for a UUID the driver searches all GPUs, and gives up if any of them is lost.
        """
        known = self.gpu.uuid
        uuid = None
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(self._index)
            uuid = pynvml.nvmlDeviceGetUUID(handle)
        except pynvml.NVMLError as error:
            if known is None or error.value != pynvml.NVML_ERROR_INVALID_ARGUMENT:  # then no GPU has the index now
                raise
        if known not in {None, uuid}:
            handle = pynvml.nvmlDeviceGetHandleByUUID(known)
        if known is None or None in {self.gpu.pci_bus_id, self.gpu.name}:
            pci = quietly(lambda: pynvml.nvmlDeviceGetPciInfo(handle))
            self.gpu = self.gpu._replace(
                uuid=known or uuid,
                name=self.gpu.name or quietly(lambda: pynvml.nvmlDeviceGetName(handle)),
                pci_bus_id=self.gpu.pci_bus_id or (None if pci is None else pci.busId),
                minor=quietly(lambda: pynvml.nvmlDeviceGetMinorNumber(handle)),
            )
        return handle

    def _note_mode(self, handle: c_void_p) -> None:
        """Find out the MIG mode, and what depends on it.

        :raises pynvml.NVMLError: The GPU cannot be read.
        """
        is_divided = is_in_mig_mode(handle)
        if is_divided != self._is_divided:
            self._is_divided = is_divided
            self._unsupported.clear()
            self._lists.clear()
            self._processes.has_samples = True
            self._note_accounting(handle)

    def _note_accounting(self, handle: c_void_p) -> bool:
        mode = quietly(lambda: pynvml.nvmlDeviceGetAccountingMode(handle))
        self.gpu = self.gpu._replace(keeps_accounts=mode == pynvml.NVML_FEATURE_ENABLED)
        return self.gpu.keeps_accounts

    def _with_memory(
        self, reading: GpuReading, handle: c_void_p, *, lists: bool, is_lenient: bool = False, is_part: bool = False
    ) -> GpuReading:
        """Add the memory of a GPU or of a MIG device, and its processes if wanted or needed.

        :param lists: Whether processes are wanted.
        :param is_lenient: Whether memory that cannot be read is only unknown: that of a GPU in MIG mode may be kept
            from users of its MIG devices.
        :raises pynvml.NVMLError: The device cannot be read.
        """
        try:
            memory = self._calls.memory(handle)
        except pynvml.NVMLError as error:
            is_unsupported = error.value == pynvml.NVML_ERROR_NOT_SUPPORTED
            if error.value in OUT_OF_REACH or not (is_lenient or is_unsupported):
                raise
            if not is_unsupported:
                self.failures.add(error.value)
            memory = None
        if memory is not None and max(memory.used, memory.free, 1) <= memory.total:  # 0: it has no memory of its own
            gpu = reading.gpu._replace(memory_total=memory.total)
            reading = reading._replace(gpu=gpu, memory_used=memory.used, memory_free=memory.free)
        if not lists and reading.memory_total is not None:
            return reading
        try:
            return reading._replace(processes=self._listed(handle, is_part=is_part))
        except pynvml.NVMLError as error:
            if error.value in OUT_OF_REACH and reading.memory_total is None:
                raise
            if reading.memory_total is None:
                self.failures.add(error.value)
            self.list_failure = error.value
            return reading

    def _listed(self, handle: c_void_p, *, is_part: bool) -> tuple[GpuProcess, ...] | None:
        """Return the processes of both lists, None if the GPU or a driver older than R450 has neither.

        :raises pynvml.NVMLError: A list that there is cannot be read.
        """
        entries: tuple[GpuProcess, ...] | None = None
        for kind in (COMPUTE, GRAPHICS):
            if (is_part, kind) in self._unsupported:
                continue
            try:
                found = self._calls.listed(kind, handle)
            except pynvml.NVMLError as error:
                if error.value not in NO_SUCH_CALL:
                    raise
                if error.value == pynvml.NVML_ERROR_NOT_SUPPORTED:
                    self._unsupported.add((is_part, kind))
                else:
                    self.failures.add(error.value)
                continue
            self._lists.add(kind)
            entries = (*(entries or ()), *found)
        return None if entries is None else without_doubles(entries)

    def _part(self, number: int, handle: c_void_p, *, lists: bool) -> GpuReading:
        """Read a MIG device, which has no sensors of its own."""
        try:
            gpu = Gpu(
                number,
                pynvml.nvmlDeviceGetUUID(handle),
                quietly(partial(pynvml.nvmlDeviceGetName, handle)),
                gpu_instance=quietly(partial(pynvml.nvmlDeviceGetGpuInstanceId, handle)),
            )
            reading = self._with_memory(GpuReading(gpu), handle, lists=lists, is_part=True)
        except pynvml.NVMLError as error:
            self.failures.add(error.value)
            return GpuReading(Gpu(number), problem_of(error.value))
        if reading.processes is None:
            return reading
        return reading._replace(processes=name_instance(handle, reading.processes))

    def _with_load(self, reading: GpuReading, handle: c_void_p, followed: frozenset[int]) -> GpuReading:
        """Add how busy each process keeps the GPU, and what of the processes is not known."""
        if reading.processes is None:
            if self.list_failure is None:
                return reading
            return reading._replace(
                gap=f'its processes cannot be listed (NVML code {self.list_failure})', lists_failed=True
            )
        if self._is_divided:
            return reading
        processes = self._processes.added_to(reading.processes, handle, followed)
        failure = self._processes.failure
        gap = None if failure is None else f'how busy processes are is not reported (NVML code {failure})'
        return reading._replace(processes=processes, gap=gap)

    def _with_rates(self, reading: GpuReading, handle: c_void_p) -> GpuReading:
        if self._is_divided:
            return reading
        try:
            rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
        except pynvml.NVMLError as error:
            if error.value in NO_SUCH_CALL or reading.gap is not None:
                return reading
            return reading._replace(gap=f'how busy it is is not reported (NVML code {error.value})')
        busy = percent(rates.gpu)
        return reading._replace(
            utilization=None if busy is None else float(busy), memory_utilization=percent(rates.memory)
        )

    def _with_accounts(self, reading: GpuReading, handle: c_void_p) -> GpuReading:
        listed = reading.processes or ()
        pids = {process.pid for process in listed}
        before, self._pids = self._pids, pids
        if not self.gpu.keeps_accounts:
            return reading
        accounts = accounts_of(handle, pids | before)
        if accounts is None:  # somebody has switched accounting mode off
            self.gpu = self.gpu._replace(keeps_accounts=False)
            return reading
        # One that is not running is that of an earlier process with the same ID.
        own = {pid: account for pid, (account, is_running) in accounts.items() if is_running}
        return reading._replace(
            processes=tuple(
                process._replace(account=own[process.pid][1:3] if process.pid in own else (None, None))
                for process in listed
            ),
            ended=tuple(accounts[pid][0] for pid in before - pids if pid in accounts),
        )

    def _with_sensors(self, reading: GpuReading, handle: c_void_p) -> GpuReading:
        from gpu_tracker.gpus.nvidia.health import read_health  # noqa: PLC0415 - a run's sampler needs none of it

        clock = _available(self._ask('clock', lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)))
        temperature = self._ask(
            'temperature', lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)
        )
        limit = self._ask('power limit', lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle))
        return reading._replace(
            temperature=None if temperature is None or temperature > _HOTTEST else float(temperature),
            sm_clock=None if clock is None else clock * _MEGA,
            power=_watts(self._ask('power', lambda: pynvml.nvmlDeviceGetPowerUsage(handle))),
            power_limit=_watts(limit),
            health=read_health(handle),
        )

    def _ask(self, what: str, question: Callable[[], T]) -> T | None:
        """Return the answer, None if there is none; what the GPU does not support is not asked again."""
        if what in self._unsupported:
            return None
        try:
            return question()
        except pynvml.NVMLError as error:
            if error.value in NO_SUCH_CALL:
                self._unsupported.add(what)
            return None


def _watts(milliwatts: int | None) -> float | None:
    known = _available(milliwatts)
    return None if known is None else known / _MILLI


def _available(number: int | None) -> int | None:
    return None if number == NOT_AVAILABLE else number
