"""Energy: joules of the GPUs that the tree used, and of the CPU packages; part of the result where it is asked for.

GPUs have a counter of their own, of the whole device; it is read once a second by a thread, since any call of a driver
may hang. An integrated GPU without one is a part of the CPU package, whose counter has its energy. CPU packages have
one under ``/sys/class/powercap``, which root alone may read on most machines. Nothing is estimated, and nothing is
divided among those that have used a device.
"""

from __future__ import annotations

import os
import time

from gpu_tracker.errors import GpuError
from gpu_tracker.gpus.backend import OF_DRM
from gpu_tracker.resources import COUNTER, Column, first_of
from gpu_tracker.resources.threaded import Target, ThreadedReader, ThreadedResource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from gpu_tracker.gpus.backend import RunGpus
    from gpu_tracker.gpus.model import Gpu
    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.resources.context import Context
    from gpu_tracker.result import usage
    from gpu_tracker.totals import Totals
    from gpu_tracker.units import Units

POWERCAP = '/sys/class/powercap'
_NAME = 'energy'
_TITLE = 'the energy of GPUs'
_SHORTEST = 1.0
"""Seconds below which the difference of two readings says little: drivers renew the counter every 20 to 100 ms."""
_LONGEST_GAP = 3.0
"""Seconds of a run that the first and the last reading together may miss: a driver takes up to two to open."""
_PACKAGE = 'package-'
_LONGEST_END = 0.5
"""Seconds that the end of a run waits for the last reading."""
_MICROJOULES = 1e-6


class Energy(ThreadedResource):
    """The figures that the thread has published last.

    :param source: Reads the counters.
    :param tree: Whose root and members are looked for on the GPUs.
    """

    columns = (
        Column('gpu_energy', 'joules', COUNTER, 'energy of the GPUs that the tracked processes were seen on'),
        Column('cpu_package_energy', 'joules', COUNTER, 'energy of all CPU packages'),
    )

    def __init__(self, reader: ThreadedReader, source: EnergySource, tree: ProcessTree) -> None:
        super().__init__(reader, _LONGEST_END)
        self._source = source
        self._tree = tree

    def begin(self, now: float) -> None:
        """Start the thread: what the devices have used before does not count."""
        del now
        root = self._tree.root.pid
        target = Target(root, frozenset(self._tree.members) - {root})
        self._reader.open(lambda _: self._source, target, is_waited_for=False)

    def row(self) -> Sequence[float | None]:
        """Return the joules of the GPUs that the tree was seen on, and of the CPU packages, up to a second ago.

        None where one is unknown. That of the GPUs grows at once by all that a GPU has used since the first sample when
        the tree is first seen on it.
        """
        found: Mapping[str, Any] = self._reader.result()
        gpus = found.get('gpus')
        joules = [joules for _, joules, _ in gpus or ()]
        return (None if gpus is None or None in joules else sum(joules, 0.0), found.get('packages'))


class EnergySource:
    """Reads the counters of all GPUs and CPU packages.

    :param open_backend: Opens the driver; None where the machine has none.
    :param are_ours: Whether the driver's process IDs are certainly ours.
    :param powercap: The folder of the CPU packages' counters.
    :param monotonic: The clock, in seconds.
    """

    def __init__(
        self,
        open_backend: Callable[[], RunGpus | None],
        *,
        are_ours: bool,
        powercap: str = POWERCAP,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_backend = open_backend
        self._backend: RunGpus | None = None
        self._is_broken = False
        self._are_ours = are_ours
        self._monotonic = monotonic
        self._start: float | None = None
        self._gpus: dict[str, _Counter] = {}
        self._used: set[str] = set()
        self._used_by_others: set[str] = set()
        self._divided: set[str] = set()
        self._listing: set[str] = set()
        """Vendors on whose GPUs the tree was seen."""
        self._unlisted: set[str] = set()
        """Vendors with GPUs on which the tree may be without being seen."""
        self._used_unseen: set[str] = set()
        """GPUs on which others may have been without being listed."""
        self._hides_members = False
        """Some process of the tree could not be looked at: it may have used any GPU of its drivers."""
        self._packages = [_Package(path) for path in _packages_in(powercap)]

    def read(self, members: frozenset[int]) -> dict[str, object]:
        """Return the ``seconds`` since the first reading, ``gpus`` and ``packages``.

        ``gpus`` has each GPU that one of ``members`` was seen on: its UUID, its joules and whether others used it too,
        None where some may have been that cannot be seen. ``gpus`` is None where it is not known which these are.
        ``packages`` are the joules of all CPU packages; None: unreadable.
        """
        if self._start is None:
            self._open()
        now = self._monotonic()
        self._start = now if self._start is None else self._start
        backend = self._backend
        for gpu in () if backend is None else backend.gpus():
            if gpu.uuid is not None and backend is not None:
                self._read_gpu(backend, gpu, gpu.uuid, members)
        packages = [package.read() for package in self._packages]
        known = [joules for joules in packages if joules is not None]
        gpus = [
            [uuid, None if uuid in self._divided else self._gpus[uuid].used, self._is_used_by_others(uuid)]
            for uuid in sorted(self._used)
        ]
        return {
            'seconds': now - self._start,
            'gpus': gpus if self._are_known() else None,
            'packages': sum(known) if known and len(known) == len(packages) else None,
        }

    def leave_out(self, problem: str) -> None:
        """Note, while the drivers are opened, that the GPUs of one are not known: the tree may have used them."""
        del problem  # which the figures of GPUs say
        self._is_broken = True

    def _open(self) -> None:
        try:
            self._backend = self._open_backend()
        except GpuError:
            self._is_broken = True  # which the figures of GPUs say

    def _are_known(self) -> bool:
        """Return whether it is known which GPUs were used: in a container processes may have other IDs."""
        return not (self._is_broken or self._hides_members) and self._unlisted <= self._listing

    def _is_used_by_others(self, uuid: str) -> bool | None:
        if uuid in self._used_by_others:
            return True
        return None if uuid in self._used_unseen else False

    def close(self) -> None:
        """Let go of the driver."""
        if self._backend is not None:
            self._backend.close()

    def _read_gpu(self, backend: RunGpus, gpu: Gpu, uuid: str, members: frozenset[int]) -> None:
        joules = backend.energy(uuid)
        if gpu.is_integrated and joules is None:
            return
        self._gpus.setdefault(uuid, _Counter()).add(joules)
        processes = backend.processes(uuid)
        unseen = backend.unseen(uuid)
        has_our_numbers = self._are_ours or gpu.vendor in OF_DRM
        if processes is None or not has_our_numbers:
            self._unlisted.add(gpu.vendor)
        if processes is None or not has_our_numbers or unseen.has_others or unseen.pids - members:
            self._used_unseen.add(uuid)
        self._hides_members |= not unseen.pids.isdisjoint(members)
        for process in processes or ():
            (self._used if process.pid in members else self._used_by_others).add(uuid)
            if process.pid in members:
                self._listing.add(gpu.vendor)
            if process.gpu_instance is not None:  # the counter is that of the whole device, with all other instances
                self._divided.add(uuid)


class _Counter:
    """What a counter has grown by since it was first read.

    :param size: Where it begins again at 0; None: it does not.
    """

    def __init__(self, size: float | None = None) -> None:
        self._size = size
        self._last: float | None = None
        self._is_broken = False
        self._sum = 0.0

    @property
    def used(self) -> float | None:
        """By how much it has grown; None where that is not known."""
        return None if self._is_broken or self._last is None else self._sum

    def add(self, value: float | None) -> None:
        """Take in what it says now; None: it cannot be read."""
        if value is None:
            self._is_broken = True
            return
        if self._last is not None:
            grown = value - self._last
            if grown < 0 and self._size is None:
                self._is_broken = True  # the driver was loaded anew
            self._sum += grown if grown >= 0 else grown + (self._size or 0.0)
        self._last = value


class _Package:
    """The counter of one CPU package."""

    def __init__(self, path: str) -> None:
        self._path = path
        size = _number(f'{path}/max_energy_range_uj')
        self._counter = _Counter(None if size is None else size * _MICROJOULES)

    def read(self) -> float | None:
        """Return the joules since the first reading."""
        value = _number(f'{self._path}/energy_uj')
        self._counter.add(None if value is None else value * _MICROJOULES)
        return self._counter.used


def _packages_in(folder: str) -> list[str]:
    """Return the folders of the CPU packages; the parts of a package, and other zones, are left out.

    Some laptops have each package a second time, as intel-rapl-mmio. Some processors show one counter for each die of a
    package, all of them with the figure of the whole: then none is taken.
    """
    try:
        zones = sorted(name for name in os.listdir(folder) if 'mmio' not in name)
    except OSError:
        return []
    found = {
        name: f'{folder}/{zone}' for zone in zones if (name := _text(f'{folder}/{zone}/name')).startswith(_PACKAGE)
    }
    are_whole = all(name.removeprefix(_PACKAGE).isdecimal() for name in found)
    return list(found.values()) if are_whole else []


def _text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ''


def _number(path: str) -> int | None:
    text = _text(path)
    return int(text) if text.isdecimal() else None


def open_resource(context: Context) -> Energy:
    """Return the energy of the machine's GPUs and CPU packages."""
    from gpu_tracker.gpus.opening import open_gpus  # noqa: PLC0415 - most runs do not ask for this
    from gpu_tracker.gpus.process_ids import in_initial_pid_namespace  # noqa: PLC0415 - as above

    source = EnergySource(
        lambda: open_gpus(context.config['brands'], source.leave_out), are_ours=in_initial_pid_namespace()
    )
    return Energy(ThreadedReader(_NAME, _TITLE, dict, has_extra=False), source, context.tree)


def usage_of(totals: Totals, wanted: Units) -> dict[str, usage.EnergyUsage]:
    """Return the section ``energy`` of the result."""
    from gpu_tracker.result import usage  # noqa: PLC0415 - the sampler needs none of it

    del wanted  # joules are joules
    found = totals['energy']
    seconds = found.get('seconds', 0.0)
    # What has not answered any more knows a part of the run only.
    is_long_enough = seconds >= _SHORTEST and totals['seconds'] - seconds <= _LONGEST_GAP
    gpus = found.get('gpus')
    of_gpus = tuple(
        usage.GPUEnergy(uuid, joules if is_long_enough else None, others)
        for uuid, joules, others in (first_of(gpu, 3) for gpu in gpus or ())
    )
    known = [gpu.joules for gpu in of_gpus if gpu.joules is not None]
    return {
        'energy': usage.EnergyUsage(
            unit='joules',
            gpu=None if gpus is None or len(known) < len(of_gpus) or not is_long_enough else sum(known, 0.0),
            gpus=of_gpus,
            cpu_packages=found.get('packages') if is_long_enough else None,
        )
    }
