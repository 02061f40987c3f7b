"""One GPU under observation for months, through NVML: ``gpu_tracker.gpus.state.GpuMonitor``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pynvml

from gpu_tracker.gpus.nvidia.calls import COMPUTE, GRAPHICS, is_in_mig_mode, quietly
from gpu_tracker.gpus.nvidia.errors import problem_of, why_no_accounts
from gpu_tracker.gpus.nvidia.process_lists import ProcessLists
from gpu_tracker.gpus.nvidia.process_utilization import UNKNOWN, ProcessUtilization, percent
from gpu_tracker.gpus.nvidia.survey import in_bus_order
from gpu_tracker.gpus.state import GpuActivity, GpuIdentity, ProcessActivity

if TYPE_CHECKING:
    from collections.abc import Callable
    from ctypes import c_void_p
    from typing import TypeVar

    from gpu_tracker.gpus.nvidia.calls import Calls
    from gpu_tracker.gpus.nvidia.process_lists import Listing
    from gpu_tracker.gpus.state import Account

    T = TypeVar('T')


def open_monitors(calls: Calls, interval: float, wall_clock: Callable[[], float]) -> tuple[NvidiaMonitor, ...]:
    """Return a monitor of each GPU that the driver counts, in PCI bus order.

    :raises pynvml.NVMLError: The driver does not count its GPUs.
    """
    count = pynvml.nvmlDeviceGetCount()
    found = [NvidiaMonitor(calls, index, interval, wall_clock) for index in range(count)]
    for monitor in found:
        monitor.open()
    monitors = in_bus_order(found, lambda monitor: monitor.identity.pci_bus_id)
    for number, monitor in enumerate(monitors):
        monitor.identity = monitor.identity._replace(number=number)
    return tuple(monitors)


class NvidiaMonitor:
    """A GPU that is looked at again and again; what it does not support is found out once.

    After a look that has failed it is opened anew: a GPU that comes back may have another MIG mode and other rights.
    Monitors share nothing but ``calls``, so each may have a thread of its own.

    :ivar identity: Replaced whole, so that other threads may read it at any time.
    """

    def __init__(self, calls: Calls, index: int, interval: float, wall_clock: Callable[[], float]) -> None:
        self.identity = GpuIdentity(index)
        self._calls = calls
        self._index = index
        self._handle: c_void_p | None = None
        self._is_divided: bool | None = None
        self._lists = ProcessLists(calls)
        self._utilization = ProcessUtilization(interval, wall_clock)
        self._pids: set[int] = set()

    def open(self) -> None:
        """Find out what the GPU is; where that fails, each look tries again."""
        try:
            self._opened()
        except pynvml.NVMLError:
            self._handle = None

    def look(self) -> GpuActivity:
        """Look at the GPU; of one that fails nothing is known, so that sums over looks stay true."""
        try:
            handle = self._opened()
            rates = None if self._is_divided else _supported(partial(pynvml.nvmlDeviceGetUtilizationRates, handle))
            memory = self._memory(handle)
        except pynvml.NVMLError as error:
            self._handle = None
            return GpuActivity(problem=problem_of(error.value))
        if memory is not None and max(memory.used, 1) > memory.total:  # 0: the GPU has no memory of its own
            memory = None
        processes, ended, gap = self._processes(handle)
        return GpuActivity(
            gap=gap,
            utilization=None if rates is None else percent(rates.gpu),
            memory_utilization=None if rates is None else percent(rates.memory),
            memory_total=None if memory is None else memory.total,
            memory_used=None if memory is None else memory.used,
            processes=processes,
            ended=ended,
        )

    def keep_accounts(self) -> str | None:
        """Switch accounting mode on, which stays on after this process; return why it is not on, None where it is."""
        try:
            handle = self._opened()
        except pynvml.NVMLError as error:
            self._handle = None
            return problem_of(error.value)
        try:
            if not self._utilization.ask_mode(handle):
                pynvml.nvmlDeviceSetAccountingMode(handle, pynvml.NVML_FEATURE_ENABLED)
                self._utilization.ask_mode(handle)
        except pynvml.NVMLError as error:
            return why_no_accounts(error.value)
        self.identity = self.identity._replace(keeps_accounts=self._utilization.keeps_accounts)
        return None if self._utilization.keeps_accounts else 'the driver has not done it'

    def _opened(self) -> c_void_p:
        """Return the GPU's handle, having found out what depends on its MIG mode.

        :raises pynvml.NVMLError: It cannot be opened.
        """
        if self._handle is None:
            self._is_divided = None
            self._handle = self._open()
        is_divided = is_in_mig_mode(self._handle)
        if is_divided != self._is_divided:
            self._is_divided = is_divided
            self._lists.forget()
            self._utilization.forget()
            self.identity = self.identity._replace(keeps_accounts=self._utilization.ask_mode(self._handle))
        return self._handle

    def _open(self) -> c_void_p:
        """Return a handle of the GPU, of the same one each time: without a lost GPU others may move to its index.

        The index comes first: for a UUID the driver searches all GPUs, and gives up where any of them is lost.
        """
        known = self.identity.uuid
        uuid = None
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(self._index)
            uuid = pynvml.nvmlDeviceGetUUID(handle)
        except pynvml.NVMLError as error:
            if known is None or error.value != pynvml.NVML_ERROR_INVALID_ARGUMENT:  # then no GPU has the index now
                raise
        if known is None:
            self.identity = self.identity._replace(uuid=uuid)
        elif uuid != known:
            handle = pynvml.nvmlDeviceGetHandleByUUID(known)
        if None in self.identity:
            pci = quietly(lambda: pynvml.nvmlDeviceGetPciInfo(handle))
            name = quietly(lambda: pynvml.nvmlDeviceGetName(handle))
            self.identity = self.identity._replace(pci_bus_id=None if pci is None else pci.busId, name=name)
        return handle

    def _memory(self, handle: c_void_p) -> pynvml._Memory | None:
        """Return the memory; None where it is not told, which in MIG mode may be so for users who can use the parts.

        :raises pynvml.NVMLError: The GPU cannot be read.
        """
        try:
            return self._calls.memory(handle)
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_NOT_SUPPORTED:
                return None
            if self._is_divided and error.value == pynvml.NVML_ERROR_NO_PERMISSION:
                return None
            raise

    def _processes(
        self, handle: c_void_p
    ) -> tuple[tuple[ProcessActivity, ...] | None, tuple[Account, ...], str | None]:
        """Return the processes, the accounts of those that have ended, and what of it is not known for a failure."""
        try:
            listing = self._read_lists(handle)
        except pynvml.NVMLError as error:
            return None, (), f'its processes cannot be listed (NVML code {error.value})'
        if listing.memory is None:
            return None, (), None
        pids = listing.memory.keys()
        percents = self._utilization.of(handle, pids)
        processes = tuple(
            ProcessActivity(pid, memory, pid in listing.computing, pid in listing.drawing, *percents.get(pid, UNKNOWN))
            for pid, memory in listing.memory.items()
        )
        ended = self._utilization.ended(handle, self._pids - pids)
        self._pids = set(pids)
        if self._utilization.keeps_accounts != self.identity.keeps_accounts:  # somebody has switched it off
            self.identity = self.identity._replace(keeps_accounts=self._utilization.keeps_accounts)
        failure = self._utilization.failure
        return (
            processes,
            ended,
            None if failure is None else f'how busy processes are is not told (NVML code {failure})',
        )

    def _read_lists(self, handle: c_void_p) -> Listing:
        """Return what the lists say.

        :raises pynvml.NVMLError: One that there is cannot be had.
        """
        listing = self._lists.read(handle, is_divided=bool(self._is_divided))
        self.identity = self.identity._replace(
            lists_compute=COMPUTE in listing.kinds, lists_graphics=GRAPHICS in listing.kinds
        )
        return listing


def _supported(question: Callable[[], T]) -> T | None:
    """Return the answer, None where the GPU does not support the question.

    :raises pynvml.NVMLError: Any other failure.
    """
    try:
        return question()
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_NOT_SUPPORTED:
            return None
        raise
