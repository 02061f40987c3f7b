"""The GPU figures of a run, folded from the readings of an opened backend; no thread, no waiting (see ``gpu``).

What cannot be read of one GPU:

- ``capacity`` and ``system`` are sums over all GPUs. They are unknown where one GPU could never be read; a maximum seen
  before a GPU was lost stays, and what the others use may still raise it.
- ``main``, ``descendants`` and ``combined`` are sums over the GPUs that the driver could open. No process can use a GPU
  that is lost or not permitted from the start; one that is lost later is treated as above.
- They are unknown from the first reading on at which a DRM driver does not report the memory of one of the processes
  that they are of, or that process may not be looked at: neither passes, and that may have been the most.
- ``max_sum`` and ``mean_sum`` cover the time in which the utilization of all expected GPUs is known. Where there is no
  such time they are unknown: one expected GPU that is in MIG mode, or could not be opened, makes them so.

An integrated GPU shares the system's memory, and most report neither memory nor utilization. Beside a graphics card it
would make all sums unknown. So integrated GPUs count in sums only where they were chosen, or once a tracked process has
memory on one of them; then they count from the start.
"""

from __future__ import annotations

import time
from functools import partial

from gpu_tracker.gpus import process_ids
from gpu_tracker.gpus.backend import OF_DRM
from gpu_tracker.resources import DeviceReading
from gpu_tracker.resources.gpu.folding import AccountedPeaks, Maximum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gpu_tracker.gpus.backend import RunGpus
    from gpu_tracker.gpus.model import Gpu, GpuProcess, GpuReading
    from gpu_tracker.resources.gpu.counted import CountedGpus

_STALE_US = 2_000_000
"""A GPU without a new sample for this long is asked for its utilization of now instead."""

_LASTING = 20
"""Readings after which a doubt is told: a process that is just opening CUDA is not listed yet."""

UNKNOWN: dict[str, object] = dict.fromkeys(
    ('count', 'expected', 'capacity', 'system', 'main', 'descendants', 'combined', 'max_sum', 'mean_sum', 'devices')
)
"""The totals as long as the driver has not answered, or where it does not work."""

NO_GPUS: dict[str, object] = {
    name: 0.0 if name.endswith('_sum') else 0  # percentages are floats
    for name in UNKNOWN
} | {'devices': []}
"""The totals of a machine without a driver."""


def unknown_uuids(uuids: tuple[str, ...], gpus: tuple[Gpu, ...]) -> str | None:
    """Return what would be accepted where a UUID asked for is no GPU's, None where each is that of a GPU.

    Where a GPU could not be opened its UUID is not known, and may be the one asked for: then nothing is wrong.
    """
    existing = [gpu.uuid for gpu in gpus if gpu.uuid is not None]
    if all(uuid in existing for uuid in uuids) or len(existing) < len(gpus):
        return None
    return f'UUIDs of GPUs of this machine ({", ".join(existing) or "it has none"})'


class GpuFigures:
    """Folds the readings of a backend's GPUs.

    :param backend: The opened driver.
    :param uuids: The GPUs whose utilization is summed; None for all.
    :param wall_clock: Seconds since 1970, to which the time stamps of the driver's samples are compared.
    :param in_initial_pid_namespace: Whether the driver's process IDs are certainly ours (see process_ids).
    :param pid_exists: Returns whether there is a process of an ID.
    :param is_complete: Whether these are the GPUs of all drivers that are there.
    :param counts_integrated: Whether integrated GPUs count in any case, since their brand was chosen.
    """

    def __init__(
        self,
        backend: RunGpus,
        uuids: tuple[str, ...] | None,
        *,
        wall_clock: Callable[[], float] = time.time,
        in_initial_pid_namespace: bool = True,
        pid_exists: Callable[[int], bool] = process_ids.pid_exists,
        is_complete: bool = True,
        counts_integrated: bool = False,
    ) -> None:
        from gpu_tracker.resources.gpu.counted import CountedGpus  # noqa: PLC0415 - only where there is a driver

        self._backend = backend
        self._wall_clock = wall_clock
        gpus = backend.gpus()
        self._all = CountedGpus(gpus, uuids, is_complete=is_complete)
        chosen = [gpu for gpu in gpus if counts_integrated or not gpu.is_integrated or gpu.uuid in (uuids or ())]
        if len(chosen) == len(gpus):
            self._counted = self._all
        else:
            self._counted = CountedGpus(chosen, uuids, is_complete=is_complete)
        self._certain = {gpu.uuid for gpu in gpus if gpu.vendor in OF_DRM}
        """GPUs whose processes have certainly our process IDs."""
        self._attribution = process_ids.Attribution(
            pid_exists,
            lambda pid: process_ids.has_open(pid, backend.compute_files),
            is_certain=in_initial_pid_namespace,
        )
        self._messages: list[tuple[str, str]] = []
        self._doubtful_readings = 0
        self._doubt_is_told = False
        self._is_complete = is_complete
        self._maxima = {name: Maximum() for name in ('main', 'descendants', 'combined')}
        self._accounted = AccountedPeaks()
        self._roles: dict[int, str] = {}
        self._present: dict[str, float | None] = {}
        self._devices: dict[str, int | None] = {}
        """Bytes that the tree has of each GPU, at the last reading."""
        self._largest_on: dict[str, int] = {}
        """The most that the tree has had of each GPU."""
        self._readings: dict[str, GpuReading] = {}
        self._unknown: set[str] = set()
        """Groups of processes and UUIDs of GPUs of which memory was not known at some reading, for good."""
        self._now: dict[str, int | None] = {}
        """Bytes in use at the last reading."""
        self._latest: dict[str, float | None] = {}
        """The latest utilization of each expected GPU, in percent."""

    @property
    def are_all_left_out(self) -> bool:
        """Whether there are GPUs and none counts in sums so far, since all are integrated."""
        return bool(self._all.gpus) and not self._counted.gpus

    def read(self, main: int | None, descendants: frozenset[int], since_us: int | None) -> None:
        """Read all GPUs once.

        :param main: The process ID of the tree's root, None where it has ended.
        :param descendants: The process IDs of the rest of the tree.
        :param since_us: Utilization before this time (microseconds since 1970) is not the run's; None: none is as yet.
        """
        self._backend.follow(descendants if main is None else descendants | {main})
        self._readings = readings = {uuid: self._backend.read(uuid) for uuid in self._all.opened}
        self._note_processes(readings, main, descendants)
        for counted in self._sets():
            counted.note_memory(readings)
        for uuid in self._all.expected:
            if uuid in readings:
                self._note_utilization(uuid, readings[uuid].samples, since_us)

    def totals(self) -> dict[str, object]:
        """Return the figures so far; the keys are those of UNKNOWN, sizes are bytes, utilization is percent."""
        is_hidden = self._attribution.is_unknown
        return {
            **self._counted.totals(self._present),
            **{
                group: None if is_hidden or group in self._unknown else largest.value
                for group, largest in self._maxima.items()
            },
            'devices': [
                {
                    'uuid': gpu.uuid,
                    'name': gpu.name,
                    'capacity': gpu.memory_total,
                    'combined': None if is_hidden or gpu.uuid in self._unknown else self._largest_on.get(gpu.uuid),
                    'utilization': self._all.utilization.mean_of(gpu.uuid),
                }
                for gpu in self._counted.gpus
                if gpu.uuid is not None
            ],
        }

    def row(self) -> tuple[float | None, ...]:
        """Return what main, descendants, both and everybody had at the last reading, and the sum of utilization."""
        sizes = [self._now.get(group) for group in ('main', 'descendants', 'combined')]
        if self._attribution.is_unknown:
            sizes = [None] * len(sizes)
        return *sizes, self._counted.memory_used, self._counted.latest_sum(self._latest)

    def devices(self, at: float) -> list[DeviceReading]:
        """Return what each GPU had at the last reading, which was at ``at``; utilization of the expected ones only."""
        is_hidden = self._attribution.is_unknown
        return [
            DeviceReading(
                at,
                gpu.uuid,
                name=gpu.name,
                total_ram=gpu.memory_total,
                ram=self._readings[gpu.uuid].memory_used,
                combined_ram=None if is_hidden else self._devices.get(gpu.uuid),
                utilization=self._latest.get(gpu.uuid),
            )
            for gpu in self._counted.gpus
            if gpu.uuid is not None and gpu.uuid in self._readings
        ]

    def take_messages(self, *, last: bool) -> list[tuple[str, str]]:
        """Return what is to be reported and was not taken yet, at the last reading also what might have passed."""
        messages, self._messages = self._messages, []
        doubt = self.doubt
        if doubt is not None and (last or self._doubtful_readings >= _LASTING):
            self._doubt_is_told = True
            messages.append(('warning', doubt))
        return messages + self._backend.take_messages()

    @property
    def doubt(self) -> str | None:
        """A warning that is due where no other reading follows; None: there is no doubt, or it was told."""
        is_open = self._attribution.is_unknown and not self._doubt_is_told
        return process_ids.UNKNOWN_ATTRIBUTION if is_open else None

    def _sets(self) -> tuple[CountedGpus, ...]:
        """Return the GPUs that count and, where these are not all, those that may count later."""
        return (self._all,) if self._counted is self._all else (self._counted, self._all)

    def _note_processes(self, readings: dict[str, GpuReading], main: int | None, descendants: frozenset[int]) -> None:
        """Note the memory of the tree at this moment, and peaks since the last reading that the driver has kept."""
        ours = descendants if main is None else descendants | {main}
        lists = {uuid: reading.processes for uuid, reading in readings.items() if reading.processes is not None}
        if self._counted is not self._all and self._is_on_integrated(lists, ours):
            self._counted = self._all
        # Where no GPU counts so far, the processes still show whether the 0 of that is certain.
        opened = self._counted.opened or self._all.opened
        lists = {uuid: lists[uuid] for uuid in opened if uuid in lists}
        for uuid, processes in lists.items():
            if uuid not in self._certain:
                again = partial(self._backend.processes, uuid)
                self._attribution.check(processes, readings[uuid].memory_used, ours, again)
        self._accounted.begin_look({(uuid, process.pid) for uuid, found in lists.items() for process in found})
        self._doubtful_readings = self._doubtful_readings + 1 if self._attribution.is_unknown else 0
        own = [(uuid, process) for uuid, processes in lists.items() for process in processes if process.pid in ours]
        sums = {
            'main': _sum_of_memory([process for _, process in own if process.pid == main]),
            'descendants': _sum_of_memory([process for _, process in own if process.pid != main]),
            'combined': _sum_of_memory([process for _, process in own]),
        }
        self._devices = {uuid: _sum_of_memory([process for place, process in own if place == uuid]) for uuid in lists}
        for uuid, size in self._devices.items():
            if size is not None:
                self._largest_on[uuid] = max(size, self._largest_on.get(uuid, 0))
        for uuid, process in own:
            if process.memory is None and uuid in self._certain:
                self._unknown |= {uuid, 'combined', 'main' if process.pid == main else 'descendants'}
        is_complete = self._is_complete and len(lists) == len(opened)
        for role, figure in sums.items():
            self._maxima[role].note(figure, complete=is_complete)
            self._now[role] = figure if is_complete else None
        self._roles.update((process.pid, 'main' if process.pid == main else 'descendants') for _, process in own)
        self._note_accounted(own, sums)

    def _is_on_integrated(self, lists: Mapping[str, Iterable[GpuProcess]], ours: frozenset[int]) -> bool:
        """Return whether a process of the tree has memory on a GPU that has not counted so far."""
        waiting = set(lists).difference(self._counted.opened)
        return any(process.memory and process.pid in ours for uuid in waiting for process in lists[uuid])

    def _note_accounted(self, own: list[tuple[str, GpuProcess]], sums: dict[str, int | None]) -> None:
        """Raise the maxima by peaks between two readings, known where accounting mode is on.

        A living process' peak counts on top of what the others use now; that of one that has ended stands alone, since
        the others may have come after it.
        """
        for uuid, process in own:
            peak = None if process.memory is None else self._backend.peak_memory(uuid, process.pid)
            if peak is None or process.memory is None:
                continue
            excess = self._accounted.excess(uuid, process.pid, peak, process.memory)
            for role in (self._roles[process.pid], 'combined'):
                figure = sums[role]
                if excess and figure is not None:
                    self._maxima[role].note(figure + excess, complete=False)
        present = {(uuid, process.pid) for uuid, process in own}
        for uuid, pid, known_peak in self._accounted.end_look(present):
            peak = self._backend.peak_memory(uuid, pid)
            if peak is not None and peak > known_peak:
                self._maxima[self._roles[pid]].note(peak, complete=False)
                self._maxima['combined'].note(peak, complete=False)
        listed = {process.pid for _, process in own}
        self._roles = {pid: role for pid, role in self._roles.items() if pid in listed}

    def _note_utilization(self, uuid: str, samples: list[tuple[int, float]] | None, since_us: int | None) -> None:
        now_us = int(self._wall_clock() * 1e6)
        last_end = self._all.utilization.last_end(uuid)
        is_stale = samples is None or (not samples and last_end is not None and now_us - last_end > _STALE_US)
        if is_stale or not self._counted.utilization.is_known:
            self._present[uuid] = self._backend.utilization(uuid)
        if is_stale:
            present = self._present[uuid]
            samples = [] if present is None else [(now_us, present)]
        for counted in self._sets():
            if uuid in counted.expected:
                counted.utilization.add(uuid, samples or [], since_us)
        if is_stale or samples:
            self._latest[uuid] = samples[-1][1] if samples else None


def _sum_of_memory(processes: Iterable[GpuProcess]) -> int | None:
    """Return the bytes of all processes, None where the driver does not know those of one."""
    sizes = [process.memory for process in processes]
    return None if None in sizes else sum(size for size in sizes if size is not None)
