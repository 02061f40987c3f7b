"""One GPU under observation for months, through NVML: ``gpu_tracker.gpus.model.GpuMonitor``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pynvml

from gpu_tracker.gpus.model import Account, Gpu, GpuProcess, GpuReading
from gpu_tracker.gpus.nvidia.calls import COMPUTE, GRAPHICS, is_in_mig_mode, merge, mig_devices, name_instance
from gpu_tracker.gpus.nvidia.devices import described, in_bus_order
from gpu_tracker.gpus.nvidia.errors import problem_of, why_no_accounts
from gpu_tracker.gpus.nvidia.process_utilization import UNKNOWN, ProcessUtilization, percent

if TYPE_CHECKING:
    from collections.abc import Callable
    from ctypes import c_void_p
    from typing import TypeVar

    from gpu_tracker.gpus.nvidia.calls import Calls

    T = TypeVar('T')


def open_monitors(calls: Calls, wall_clock: Callable[[], float]) -> tuple[NvidiaMonitor, ...]:
    """Return a monitor of each GPU that the driver counts, in PCI bus order.

    :raises pynvml.NVMLError: The driver does not count its GPUs.
    """
    count = pynvml.nvmlDeviceGetCount()
    found = [NvidiaMonitor(calls, index, wall_clock) for index in range(count)]
    for monitor in found:
        monitor.open()
    monitors = in_bus_order(found, lambda monitor: monitor.gpu.pci_bus_id)
    for number, monitor in enumerate(monitors):
        monitor.gpu = monitor.gpu._replace(number=number)
    return tuple(monitors)


class NvidiaMonitor:
    """A GPU that is read again and again; what it does not support is found out once.

    After a reading that has failed it is opened anew: a GPU that comes back may have another MIG mode and other rights.
    Monitors share nothing but ``calls``, so each may have a thread of its own.

    :ivar gpu: Replaced whole, so that other threads may read it at any time.
    """

    def __init__(self, calls: Calls, index: int, wall_clock: Callable[[], float]) -> None:
        self.gpu = Gpu(index)
        self._calls = calls
        self._index = index
        self._handle: c_void_p | None = None
        self._is_divided: bool | None = None
        self._lists = ProcessLists(calls)
        self._utilization = ProcessUtilization(wall_clock)
        self._pids: set[int] = set()

    def open(self) -> None:
        """Find out what the GPU is; where that fails, each reading tries again."""
        try:
            self._opened()
        except pynvml.NVMLError:
            self._handle = None

    def read(self) -> GpuReading:
        """Read the GPU; of one that fails nothing is known, so that sums over readings stay true."""
        try:
            handle = self._opened()
            rates = None if self._is_divided else _supported(partial(pynvml.nvmlDeviceGetUtilizationRates, handle))
            memory = self._memory(handle)
        except pynvml.NVMLError as error:
            self._handle = None
            return GpuReading(self.gpu, problem_of(error.value))
        if memory is not None and max(memory.used, 1) > memory.total:  # 0: the GPU has no memory of its own
            memory = None
        processes, ended, gap = self._processes(handle)
        return GpuReading(
            self.gpu._replace(memory_total=None if memory is None else memory.total),
            gap=gap,
            memory_used=None if memory is None else memory.used,
            utilization=None if rates is None else percent(rates.gpu),
            memory_utilization=None if rates is None else percent(rates.memory),
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
        self.gpu = self.gpu._replace(keeps_accounts=self._utilization.keeps_accounts)
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
            self.gpu = self.gpu._replace(keeps_accounts=self._utilization.ask_mode(self._handle))
        return self._handle

    def _open(self) -> c_void_p:
        """Return a handle of the GPU, of the same one each time: without a lost GPU others may move to its index.

        The index comes first: for a UUID the driver searches all GPUs, and gives up where any of them is lost.
        """
        known = self.gpu.uuid
        uuid = None
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(self._index)
            uuid = pynvml.nvmlDeviceGetUUID(handle)
        except pynvml.NVMLError as error:
            if known is None or error.value != pynvml.NVML_ERROR_INVALID_ARGUMENT:  # then no GPU has the index now
                raise
        if known is None:
            self.gpu = self.gpu._replace(uuid=uuid)
        elif uuid != known:
            handle = pynvml.nvmlDeviceGetHandleByUUID(known)
        if None in {self.gpu.pci_bus_id, self.gpu.name}:
            self.gpu = described(handle, self.gpu)
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

    def _processes(self, handle: c_void_p) -> tuple[tuple[GpuProcess, ...] | None, tuple[Account, ...], str | None]:
        """Return the processes, the accounts of those that have ended, and what of it is not known for a failure."""
        try:
            listing = self._read_lists(handle)
        except pynvml.NVMLError as error:
            return None, (), f'its processes cannot be listed (NVML code {error.value})'
        if listing.memory is None:
            return None, (), None
        pids = listing.memory.keys()
        percents = self._utilization.of(handle, pids)
        accounts = self._utilization.so_far(handle, pids)
        processes = tuple(
            _process(pid, memory, listing, percents.get(pid, UNKNOWN), accounts.get(pid))
            for pid, memory in listing.memory.items()
        )
        ended = self._utilization.ended(handle, self._pids - pids)
        self._pids = set(pids)
        if self._utilization.keeps_accounts != self.gpu.keeps_accounts:  # somebody has switched it off
            self.gpu = self.gpu._replace(keeps_accounts=self._utilization.keeps_accounts)
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
        self.gpu = self.gpu._replace(lists_compute=COMPUTE in listing.kinds, lists_graphics=GRAPHICS in listing.kinds)
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


def _process(
    pid: int,
    memory: int | None,
    listing: Listing,
    percents: tuple[int | None, int | None],
    account: tuple[int | None, int | None] | None,
) -> GpuProcess:
    return GpuProcess(
        pid,
        memory,
        computes=pid in listing.computing,
        draws=pid in listing.drawing,
        utilization=percents[0],
        memory_utilization=percents[1],
        account=account,
    )


_NO_SUCH_LIST = {pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
"""How GPUs answer that do not have one of the lists, and drivers that are older than its second version."""


class Listing(NamedTuple):
    """What the lists that a GPU supports say."""

    memory: dict[int, int | None] | None
    """The ID of each process -> its bytes, None where unknown. None: there is no list."""
    computing: set[int]
    """The processes that compute."""
    drawing: set[int]
    """The processes that draw."""
    kinds: set[int]
    """Which lists there are: COMPUTE, GRAPHICS."""


class ProcessLists:
    """The lists of one GPU. One that it does not support is not asked for again until ``forget``."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._unsupported: set[tuple[bool, int]] = set()

    def forget(self) -> None:
        """Ask for all lists again: the GPU has been opened anew, or its MIG mode has changed."""
        self._unsupported.clear()

    def read(self, handle: c_void_p, *, is_divided: bool) -> Listing:
        """Return the processes of a GPU, each once.

        :param is_divided: Whether it is in MIG mode. Then its MIG devices list its processes, where the GPU does not
            tell them to this user too.
        :raises pynvml.NVMLError: The processes are not known.
        """
        listed: tuple[set[int], set[int]] = (set(), set())
        kinds: set[int] = set()
        parts = []
        for _, part in mig_devices(handle) if is_divided else ():
            in_part = self._of(part, listed, kinds, is_part=True)
            if in_part:
                in_part = name_instance(part, in_part)
            parts.append(in_part)
        try:
            whole = self._of(handle, listed, kinds, is_part=False)
        except pynvml.NVMLError:
            if not any(in_part is not None for in_part in parts):
                raise
            whole = None
        entries = merge(whole, parts)
        return Listing(None if entries is None else _sums(entries), listed[COMPUTE], listed[GRAPHICS], kinds)

    def _of(
        self, handle: c_void_p, listed: tuple[set[int], set[int]], kinds: set[int], *, is_part: bool
    ) -> list[GpuProcess] | None:
        """Return what both lists of a GPU or a MIG device say, None where it has neither; add to what is known of all.

        :raises pynvml.NVMLError: A list that there is cannot be had.
        """
        entries: list[GpuProcess] | None = None
        for kind in (COMPUTE, GRAPHICS):
            if (is_part, kind) in self._unsupported:
                continue
            try:
                found = self._calls.listed(kind, handle)
            except pynvml.NVMLError as error:
                if error.value not in _NO_SUCH_LIST:
                    raise
                self._unsupported.add((is_part, kind))
                continue
            kinds.add(kind)
            listed[kind].update([entry.pid for entry in found])
            entries = found if entries is None else entries + found
        return entries


def _sums(entries: list[GpuProcess]) -> dict[int, int | None]:
    """Return what each process has in all MIG instances together, as far as that is known."""
    sums: dict[int, int | None] = {}
    for entry in entries:
        known = sums.get(entry.pid)
        sums[entry.pid] = entry.memory if known is None else known + (entry.memory or 0)
    return sums
