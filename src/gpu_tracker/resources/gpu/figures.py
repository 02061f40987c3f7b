"""The GPU figures of a run, folded from the readings of an opened backend; no thread, no waiting (see ``gpu``).

What cannot be read of one GPU:

- ``capacity`` and ``system`` are sums over all GPUs. They are unknown if one GPU could never be read.
- ``main``, ``descendants`` and ``combined`` are sums over the GPUs that the driver could open. No process can use a GPU
  that is lost or not permitted from the start.
- A maximum stays if a later reading fails, or does not know the memory of one of the processes: it is a lower bound
  then. A maximum of 0 becomes unknown.
- ``max_sum`` and ``mean_sum`` cover the time in which the utilization of all expected GPUs is known. If there is no
  such time they are unknown: one expected GPU that is in MIG mode, or could not be opened, makes them so.

An integrated GPU shares the system's memory, and most report neither memory nor utilization. Beside a graphics card it
would make all sums unknown. So integrated GPUs count in sums only if they were chosen, or once a tracked process has
memory on one of them; then they count from the start.
"""

from __future__ import annotations

import time
from functools import partial

from gpu_tracker.gpus import process_ids
from gpu_tracker.gpus.backend import OF_DRM
from gpu_tracker.resources import GROUPS, DeviceReading
from gpu_tracker.resources.gpu.device import DeviceFigures, sum_of
from gpu_tracker.resources.gpu.folding import AccountedPeaks, Maximum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from gpu_tracker.gpus.backend import RunGpus
    from gpu_tracker.gpus.model import Gpu, GpuProcess, GpuReading
    from gpu_tracker.resources.gpu.counted import CountedGpus

_STALE_US = 2_000_000
"""A GPU without a new sample for this long is asked for its utilization of now instead."""

_MAXIMA_OF_DEVICE = ('max_utilization', 'max_own_utilization')
_LASTING = 20
"""Readings after which a doubt is told: a process that is just opening CUDA is not listed yet."""

UNKNOWN: dict[str, object] = dict.fromkeys(
    ('count', 'expected', 'capacity', 'system', 'main', 'descendants', 'combined', 'max_sum', 'mean_sum', 'devices')
) | {'missed': []}
"""The totals as long as the driver has not answered, or where it does not work."""

NO_GPUS: dict[str, object] = {
    name: 0.0 if name.endswith('_sum') else 0  # percentages are floats
    for name in UNKNOWN
} | {'devices': [], 'missed': []}
"""The totals of a machine without a driver."""


def unknown_uuids(uuids: tuple[str, ...], gpus: tuple[Gpu, ...]) -> str | None:
    """Return what would be accepted where a UUID asked for is no GPU's, None where each is that of a GPU.

    Where a GPU could not be opened its UUID is not known, and may be the one asked for: then nothing is wrong.
    """
    existing = [gpu.uuid for gpu in gpus if gpu.uuid is not None]
    if all(uuid in existing for uuid in uuids) or len(existing) < len(gpus):
        return None
    return f'UUIDs of GPUs of this machine ({", ".join(existing) or "it has none"})'


def without_the_last(totals: Mapping[str, object]) -> dict[str, object]:
    """Return totals whose last readings are missing: maxima are lower bounds, and a maximum of 0 is unknown."""
    found = dict(totals)
    sizes = (*GROUPS, 'system', *(name for name in _MAXIMA_OF_DEVICE if name in totals))
    for name in sizes:
        found[name] = found[name] or None
    found['missed'] = [name for name in sizes if found[name] is not None]
    for name in ('is_used', 'others'):
        if name in found:
            found[name] = found[name] or None
    devices: Any = totals.get('devices')
    if devices:
        found['devices'] = [without_the_last(device) for device in devices]
    return found


class GpuFigures:
    """Folds the readings of a backend's GPUs.

    :param backend: The opened driver.
    :param uuids: The GPUs whose utilization is summed; None for all.
    :param visible: The UUIDs of the GPUs that the run can use, if its variables or parameters restrict them; else none.
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
        visible: frozenset[str] = frozenset(),
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
        self._devices = {
            gpu.uuid: DeviceFigures(gpu, is_visible=gpu.uuid in visible) for gpu in gpus if gpu.uuid is not None
        }
        self._certain = {gpu.uuid for gpu in gpus if gpu.vendor in OF_DRM}
        """GPUs whose processes have certainly our process IDs."""
        self._are_ours = in_initial_pid_namespace
        self._attribution = process_ids.Attribution(
            pid_exists,
            lambda pid: process_ids.has_open(pid, backend.compute_files),
            is_certain=in_initial_pid_namespace,
        )
        self._messages: list[tuple[str, str]] = []
        self._doubtful_readings = 0
        self._doubt_is_told = False
        self._is_complete = is_complete
        self._maxima: dict[str, Maximum] = {name: Maximum() for name in GROUPS}
        self._accounted = AccountedPeaks()
        self._roles: dict[int, str] = {}
        self._readings: dict[str, GpuReading] = {}
        self._now: dict[str, int | None] = {}
        """Bytes in use at the last reading."""
        self._by_process: dict[int, int | None] | None = None
        self.without_buffer: set[str] = set()
        """GPUs of NVIDIA without utilization samples: between readings only polls show how busy they are."""

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
        ours = descendants if main is None else descendants | {main}
        self._backend.follow(ours)
        self._readings = readings = {uuid: self._backend.read(uuid) for uuid in self._devices}
        self._note_processes(readings, main, ours, since_us)
        for counted in self._sets():
            counted.note_memory(readings)
        for uuid, reading in readings.items():
            self._note_utilization(uuid, reading.samples, since_us)

    def poll_utilization(self, since_us: int | None) -> None:
        """Read how busy the GPUs are whose driver keeps no samples."""
        for uuid in tuple(self.without_buffer):
            self._note_utilization(uuid, None, since_us)

    def miss(self) -> None:
        """Note that the driver has not answered for a while."""
        for maximum in (*self._maxima.values(), *(counted.system for counted in self._sets())):
            maximum.miss()
        for device in self._devices.values():
            device.miss()

    def totals(self) -> dict[str, object]:
        """Return the figures so far; the keys are those of UNKNOWN, sizes are bytes, utilization is percent."""
        is_hidden = self._attribution.is_unknown
        groups: dict[str, Maximum] = {} if is_hidden else self._maxima
        self._counted.system.raise_to(self._maxima['combined'].value or 0)  # its memory may not have been read
        maxima: dict[str, Maximum] = {**groups, 'system': self._counted.system}
        return {
            **self._counted.totals(self._devices),
            **dict.fromkeys(GROUPS),
            **{name: maximum.value for name, maximum in groups.items()},
            'missed': [name for name, maximum in maxima.items() if maximum.is_lower_bound],
            'devices': [
                self._devices[gpu.uuid].totals(is_hidden=is_hidden)
                for gpu in self._counted.gpus
                if gpu.uuid is not None
            ],
        }

    def row(self) -> tuple[float | None, ...]:
        """Return what the columns have: memory of the groups and of everybody, and utilization."""
        sizes = [None if self._attribution.is_unknown else self._now.get(group) for group in GROUPS]
        return *sizes, self._counted.memory_used, self._counted.latest_sum(self._devices), self._busy()

    def by_process(self) -> dict[int, int | None] | None:
        """Return the GPU memory of each tracked process in bytes; None if the driver lists no processes."""
        return None if self._attribution.is_unknown else self._by_process

    def _busy(self) -> float | None:
        """Return the mean utilization of the GPUs that were used so far: 0 if none was."""
        if self._attribution.is_unknown or not self._is_complete:
            return None
        devices = [self._devices[uuid] for uuid in self._counted.opened]
        latest = [device.latest for device in devices if device.is_used]
        known = [percent for percent in latest if percent is not None]
        if len(known) < len(latest) or any(device.is_used is None for device in devices):
            return None
        return sum(known) / len(known) if known else 0.0

    def devices(self, at: float) -> list[DeviceReading]:
        """Return what each GPU had at the last reading, which was at ``at``."""
        is_hidden = self._attribution.is_unknown
        found = ((uuid, self._devices[uuid]) for uuid in self._counted.opened if uuid in self._readings)
        return [
            DeviceReading(
                at,
                uuid,
                name=device.gpu.name,
                total_ram=device.gpu.memory_total,
                ram=self._readings[uuid].memory_used,
                combined_ram=None if is_hidden else device.memory_now,
                utilization=device.latest,
            )
            for uuid, device in found
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

    def _note_processes(
        self, readings: dict[str, GpuReading], main: int | None, ours: frozenset[int], since_us: int | None
    ) -> None:
        """Note the memory of the tree at this moment, and peaks since the last reading that the driver has kept."""
        lists = {uuid: reading.processes for uuid, reading in readings.items() if reading.processes is not None}
        own = {uuid: [process for process in found if process.pid in ours] for uuid, found in lists.items()}
        waiting = set(lists).difference(self._counted.opened)
        if any(process.memory for uuid in waiting for process in own[uuid]):
            self._counted = self._all
        # Where no GPU counts so far, the processes still show whether the 0 of that is certain.
        opened = self._counted.opened or self._all.opened
        for uuid in opened:
            if uuid in lists and uuid not in self._certain:
                again = partial(self._backend.processes, uuid)
                self._attribution.check(lists[uuid], readings[uuid].memory_used, ours, again)
        self._doubtful_readings = self._doubtful_readings + 1 if self._attribution.is_unknown else 0
        now_us = int(self._wall_clock() * 1e6)
        for uuid, device in self._devices.items():
            device.note_memory(readings[uuid], _groups(own.get(uuid, ()), main))
            device.note_own(own.get(uuid), now_us, since_us)
            if ours:  # not before the tree is known
                device.note_others(self._others(uuid, lists.get(uuid), ours), ours)
        on_counted = [process for uuid in opened for process in own.get(uuid, ())]
        is_listed = self._is_complete and all(uuid in lists for uuid in opened)
        for role, processes in _groups(on_counted, main).items():
            size, is_complete = sum_of(processes)
            self._maxima[role].note(size, complete=is_listed and is_complete)
            self._now[role] = size if is_listed and is_complete else None
        self._by_process = _by_process(ours, on_counted) if is_listed else None
        self._roles.update((process.pid, 'main' if process.pid == main else 'descendants') for process in on_counted)
        present = {(uuid, process.pid) for uuid in opened for process in lists.get(uuid, ())}
        self._note_accounted([(uuid, process) for uuid in opened for process in own.get(uuid, ())], present)

    def _others(self, uuid: str, listed: Iterable[GpuProcess] | None, ours: frozenset[int]) -> frozenset[int] | None:
        """Return the process IDs on a GPU that are not tracked; None: some may not be seen."""
        found = frozenset(process.pid for process in listed or ()) - ours
        unseen = self._backend.unseen(uuid)
        are_ours = self._are_ours or uuid in self._certain
        is_known = listed is not None and are_ours and not unseen.has_others and unseen.pids <= ours
        return found if is_known or found else None

    def _note_accounted(self, own: list[tuple[str, GpuProcess]], present: set[tuple[str, int]]) -> None:
        """Raise the maxima by peaks between two readings, known where accounting mode is on.

        A living process' peak counts on top of what the others use now; that of one that has ended stands alone, since
        the others may have come after it.

        :param present: The device and the process ID of all processes.
        """
        self._accounted.begin_look(present)
        for uuid, process in own:
            peak = None if process.memory is None else self._backend.peak_memory(uuid, process.pid)
            if peak is None or process.memory is None:
                continue
            excess = self._accounted.excess(uuid, process.pid, peak, process.memory)
            for role in (self._roles[process.pid], 'combined') if excess else ():
                self._maxima[role].raise_to((self._now[role] or 0) + excess)
                on_device = [other for place, other in own if place == uuid and self._has_role(other, role)]
                self._devices[uuid].maxima[role].raise_to(sum_of(on_device)[0] + excess)
        for uuid, pid, known_peak in self._accounted.end_look({(uuid, process.pid) for uuid, process in own}):
            peak = self._backend.peak_memory(uuid, pid)
            if peak is not None and peak > known_peak:
                for maxima in (self._maxima, self._devices[uuid].maxima):
                    maxima[self._roles[pid]].raise_to(peak)
                    maxima['combined'].raise_to(peak)
        listed = {process.pid for _, process in own}
        self._roles = {pid: role for pid, role in self._roles.items() if pid in listed}

    def _has_role(self, process: GpuProcess, role: str) -> bool:
        return role in {'combined', self._roles[process.pid]}

    def _note_utilization(self, uuid: str, samples: list[tuple[int, float]] | None, since_us: int | None) -> None:
        device = self._devices[uuid]
        now_us = int(self._wall_clock() * 1e6)
        is_stale = samples is None or (
            not samples and device.last_end is not None and now_us - device.last_end > _STALE_US
        )
        if is_stale or self._counted.utilization.mean is None:
            device.present = self._backend.utilization(uuid)
        if is_stale:
            samples = [] if device.present is None else [(now_us, device.present)]
            device.latest = device.present
            if device.present is None and since_us is not None:
                device.miss_utilization()
            if device.present is not None and uuid not in self._certain:
                self.without_buffer.add(uuid)
        else:
            self.without_buffer.discard(uuid)
        steps = device.steps_of(samples or (), since_us)
        for counted in self._sets():
            if uuid in counted.expected:
                counted.utilization.add(uuid, steps)


def _groups(processes: Sequence[GpuProcess], main: int | None) -> dict[str, Sequence[GpuProcess]]:
    """Return the processes of each group."""
    return {
        'main': [process for process in processes if process.pid == main],
        'descendants': [process for process in processes if process.pid != main],
        'combined': processes,
    }


def _by_process(pids: Iterable[int], on_gpus: Iterable[GpuProcess]) -> dict[int, int | None]:
    """Return the bytes that each process has on all GPUs together; None: unknown on one of them."""
    found: dict[int, int | None] = dict.fromkeys(pids, 0)
    for process in on_gpus:
        before = found[process.pid]
        found[process.pid] = None if before is None or process.memory is None else before + process.memory
    return found
