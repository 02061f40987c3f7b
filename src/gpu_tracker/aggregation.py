"""A stream of readings folded into maxima and time-weighted means, in constant memory. Pure.

The totals are plain values in base units, so that they can be handed from the sampler to the tracker as they are:

``seconds``
    Wall time from the first reading to the last.
``ram``
    ``main``, ``descendants`` and ``combined``, each ``[total, private, shared]``; ``system``; all bytes. ``lower`` has
    what of the three is certain, in the same form, ``upper`` what the total of each can have been at most.
    ``beside_descendants`` is what all had together when the descendants had most.
``cpu``
    ``main``, ``descendants``, ``combined`` and ``system``, each ``[CPU seconds, most CPU seconds a second]``, and
    ``threads``, the most for the first three.

What was never known is ``None``.
"""

from __future__ import annotations

from collections import deque

from gpu_tracker.sources.reading import larger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.sources.reading import CpuReading, RamReading, Resident, SystemReading

SHORTEST_WINDOW = 0.5
"""Seconds over which the largest CPU utilization is taken at least: times have noise, and maxima pick it."""

_GROUPS = ('main', 'descendants', 'combined')


class Aggregator:
    """The totals so far."""

    def __init__(self) -> None:
        self._start: float | None = None
        self._seconds = 0.0
        self._last_ram: RamReading | None = None
        self._ram: dict[str, list[int | None]] = {group: [None, None, None] for group in _GROUPS}
        self._firm = self._ram
        """The same, of what is not only estimated."""
        self._lower: dict[str, list[int | None]] = {group: [None, None, None] for group in _GROUPS}
        self._upper: list[int | None] = [None, None, None]
        self._beside_descendants: int | None = None
        self._system_ram: int | None = None
        self._cpu = {group: MaximalRate() for group in (*_GROUPS, 'system')}
        self._threads = [0, 0, 0]
        self._last_threads = (0, 0, 0)
        self.samples = 0

    def add(self, now: float, ram: RamReading, cpu: CpuReading, system: SystemReading) -> None:
        """Take in the readings of one sample, made at ``now`` seconds."""
        if self._start is None:
            self._start = now
        self._seconds = now - self._start
        self.samples += 1
        self.add_ram(ram)
        self._system_ram = larger(self._system_ram, system.ram)
        self._cpu['main'].add(now, cpu.main, cpu.begun)
        self._cpu['descendants'].add(now, cpu.descendants, cpu.begun)
        self._cpu['combined'].add(now, cpu.main + cpu.descendants, cpu.begun)
        if system.cpu is not None:
            self._cpu['system'].add(now, system.cpu)
        threads = (cpu.main_threads, cpu.descendants_threads, cpu.main_threads + cpu.descendants_threads)
        if threads != self._last_threads:
            self._last_threads = threads
            self._threads = list(map(max, self._threads, threads))

    def add_ram(self, ram: RamReading) -> None:
        """Take in the memory of one sample.

        What is only estimated stands until the next time that pages are counted, and after that as far as what has been
        given back in between can explain it.
        """
        if ram is self._last_ram:
            return
        self._last_ram = ram
        before = self._ram['descendants'][0] or 0
        maxima = {group: list(sizes) for group, sizes in (self._firm if ram.is_exact else self._ram).items()}
        for group, resident in zip(_GROUPS, (ram.main, ram.descendants, ram.combined), strict=True):
            if ram.is_exact:
                _fold_estimated(maxima[group], self._ram[group], resident, ram.given_back)
            _fold(maxima[group], resident)
            _fold_certain(self._lower[group], resident, is_exact=ram.is_exact)
        if ram.is_exact:
            self._firm = {group: list(sizes) for group, sizes in maxima.items()}
        for group, resident in zip(_GROUPS, (ram.main, ram.descendants, ram.combined), strict=True):
            _fold_peak(maxima[group], resident)
        self._ram = maxima
        if (maxima['descendants'][0] or 0) > before:
            self._beside_descendants = larger(ram.combined.total, ram.combined.peak)
        self._upper = list(ram.upper)

    def totals(self) -> dict[str, object]:
        """Return the totals so far, see the module's description."""
        return {
            'seconds': self._seconds,
            'samples': self.samples,
            'ram': {
                **{group: list(maxima) for group, maxima in self._ram.items()},
                'system': self._system_ram,
                'lower': {group: list(maxima) for group, maxima in self._lower.items()},
                'upper': dict(zip(_GROUPS, self._upper, strict=True)),
                'beside_descendants': self._beside_descendants,
            },
            'cpu': {
                **{group: [rate.amount, rate.largest()] for group, rate in self._cpu.items()},
                'threads': self._threads,
            },
        }


class MaximalRate:
    """The largest rate at which a counter has grown over any window of at least :data:`SHORTEST_WINDOW`."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float, float]] = deque()
        """For each: when reading it began, when that was done, and the counter."""
        self._first: tuple[float, float] | None = None
        self._last = (0.0, 0.0)
        self._largest = 0.0

    @property
    def amount(self) -> float | None:
        """By how much the counter has grown altogether; None where it was never read."""
        return None if self._first is None else self._last[1] - self._first[1]

    def add(self, now: float, count: float, begun: float | None = None) -> None:
        """Take in the counter that was read between ``begun`` and ``now``.

        Where this took its time, because the machine is busy, it is not known when in between. A window is therefore
        taken from before its first reading to after its last one, so that a largest rate is never more than the truth.
        """
        if self._first is None:
            self._first = (now, count)
        self._last = (now, count)
        samples = self._samples
        samples.append((now if begun is None else begun, now, count))
        latest_start = now - SHORTEST_WINDOW
        while len(samples) > 1 and samples[1][1] <= latest_start:
            samples.popleft()
        since, _, before = samples[0]
        # Where there was no sample for a while, a whole window has grown by what part of it has, at least.
        self._largest = max(self._largest, (count - before) / max(now - since, SHORTEST_WINDOW))

    def largest(self) -> float | None:
        """Return the largest rate a second; that of the whole span where this is shorter than one window."""
        if self._first is None or self._last[0] - self._first[0] < SHORTEST_WINDOW:
            return self.mean()
        return self._largest

    def mean(self) -> float | None:
        """Return the rate over the whole span; None where there is no span."""
        if self._first is None or self._last[0] <= self._first[0]:
            return None
        return (self._last[1] - self._first[1]) / (self._last[0] - self._first[0])


def _fold(maxima: list[int | None], resident: Resident) -> None:
    if not resident.total:
        return  # a group without processes tells nothing of what others that it had were made of
    maxima[0] = larger(maxima[0], resident.total)
    maxima[1] = larger(maxima[1], resident.private)
    maxima[2] = larger(maxima[2], resident.shared)


def _fold_peak(maxima: list[int | None], resident: Resident) -> None:
    if not resident.peak:
        return
    maxima[0] = larger(maxima[0], resident.peak)


def _fold_estimated(
    maxima: list[int | None], estimated: Sequence[int | None], counted: Resident, given_back: int
) -> None:
    """Fold what was estimated since the last counting, as far as it agrees with what is ``counted`` now."""
    for kind, estimate in enumerate(estimated):
        explained = estimate
        if estimate is not None and counted.total is not None:
            explained = min(estimate, counted.total + given_back)
        maxima[kind] = larger(maxima[kind], explained)


def _fold_certain(certain: list[int | None], resident: Resident, *, is_exact: bool) -> None:
    if resident.lower:
        certain[0] = larger(certain[0], resident.lower)
    if is_exact and resident.total:
        certain[1] = larger(certain[1], resident.private)
        certain[2] = larger(certain[2], resident.shared)
