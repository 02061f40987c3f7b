"""The figures of one GPU: the most memory in use, and how busy it was, with and without other programs."""

from __future__ import annotations

from gpu_tracker.resources import GROUPS
from gpu_tracker.resources.gpu.folding import Maximum, Share
from gpu_tracker.vendors import numbered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpu_tracker.gpus.model import Gpu, GpuProcess, GpuReading
    from gpu_tracker.resources.gpu.folding import Step

_LONGEST_PERIOD_US = 1_000_000
"""nvml.h, nvmlUtilization_t: the sample period is between 1/6 second and 1 second. If samples are further apart, the
driver's buffer has overflowed or the GPU was polled seldom; the time in between is unknown."""
_FULL = 100.0


def sum_of(processes: Iterable[GpuProcess]) -> tuple[int, bool]:
    """Return the bytes of processes, as far as they are known, and whether all are known."""
    sizes = [process.memory for process in processes]
    return sum(size for size in sizes if size is not None), None not in sizes


class DeviceFigures:
    """What the readings of one GPU have shown.

    :param is_visible: The variables or parameters of the run restrict the GPUs that it can use, and leave this one.
    :ivar memory_now: Bytes that the tree had at the last reading; None: unknown.
    :ivar latest: The latest utilization in percent; None: unknown.
    :ivar present: The utilization that the driver reported of the last moment, for a run too short for a sample.
    :ivar last_end: The time stamp of the latest sample; None before the first.
    """

    def __init__(self, gpu: Gpu, *, is_visible: bool) -> None:
        self.gpu = gpu
        self.memory_now: int | None = None
        self.latest: float | None = None
        self.present: float | None = None
        self.last_end: int | None = None
        self.maxima = {name: Maximum() for name in (*GROUPS, 'system')}
        self._utilization = Share()
        self._own = Share()
        self._is_visible = is_visible
        self._was_used = False
        self._has_others = False
        self._may_have_others = False
        self._suspects: frozenset[int] = frozenset()
        self._read_at: int | None = None

    @property
    def is_used(self) -> bool | None:
        """Whether the tracked processes had memory on it or computed on it; None: unknown."""
        return None if not self._was_used and self.maxima['combined'].was_missed else self._was_used

    def note_memory(self, reading: GpuReading, groups: dict[str, Sequence[GpuProcess]]) -> None:
        """Add what is in use of its memory.

        :param groups: The tracked processes on it; not used if its processes are unknown.
        """
        used = reading.memory_used
        self.maxima['system'].note(used or 0, complete=used is not None)
        is_listed = reading.processes is not None
        for name in GROUPS:
            size, is_complete = sum_of(groups[name])
            self.maxima[name].note(size, complete=is_listed and is_complete)
            if name == 'combined':
                self.memory_now = size if is_listed and is_complete else None

    def note_own(self, own: Sequence[GpuProcess] | None, now: int, since: int | None) -> None:
        """Add how busy the tracked processes kept it since the last reading.

        :param own: The tracked processes on it; None: unknown.
        :param now: Microseconds since 1970.
        :param since: See :meth:`steps_of`.
        """
        last = self._read_at
        self._was_used |= any(process.memory != 0 or process.utilization for process in own or ())
        percents = None if own is None else [process.utilization for process in own]
        if percents is None or None in percents:
            self._own.was_missed |= since is not None
            return  # the next percentages are of this time as well
        self._read_at = now
        if last is None or since is None or now <= max(last, since):
            return
        total = sum(percent for percent in percents if percent is not None)
        self._own.add(min(_FULL, float(total)), now - max(last, since))

    def note_others(self, others: frozenset[int] | None, ours: frozenset[int]) -> None:
        """Add whether processes that are not tracked were on it.

        A new child may be on a GPU before it is known as one: a process counts if it is no member at two readings. If
        it was gone at the second one, it is unknown whose it was.

        :param others: The process IDs on it that are not tracked; None: some may not be seen.
        """
        if others is None or self._suspects - others - ours:
            self._may_have_others = True
        self._has_others |= not self._suspects.isdisjoint(others or ())
        self._suspects = others or frozenset()

    def steps_of(self, samples: Iterable[tuple[int, float]], since: int | None) -> list[Step]:
        """Return the steps that samples of its utilization describe.

        A sample is the utilization of the period that ended at its time stamp and began at the sample before.

        :param samples: Time stamps in microseconds and percents; samples that are not later than the last are dropped.
        :param since: Periods that began earlier are dropped, since they are not the run's; None drops all.
        """
        steps: list[Step] = []
        for end, percent in samples:
            last = self.last_end
            if last is not None and end <= last:
                continue
            self.last_end = end
            self.latest = percent
            if since is None or last is None:
                continue
            start = max(last, end - _LONGEST_PERIOD_US)
            if start >= since:
                steps.append((start, end, percent))
                self._utilization.add(percent, end - start)
        return steps

    def miss(self) -> None:
        """Note that a reading is missing."""
        for maximum in self.maxima.values():
            maximum.miss()
        self._own.was_missed = self._utilization.was_missed = True
        self._may_have_others = True

    def miss_utilization(self) -> None:
        """Note that its utilization was unknown at a reading."""
        self._utilization.was_missed = True

    def totals(self, *, is_hidden: bool) -> dict[str, object]:
        """Return the figures so far: bytes and percent.

        :param is_hidden: It is unknown which of its processes are the tracked ones.
        """
        self.maxima['system'].raise_to(self.maxima['combined'].value or 0)  # its memory may not have been read
        known = {name: maximum for name, maximum in self.maxima.items() if name == 'system' or not is_hidden}
        may_have_others = self._may_have_others or bool(self._suspects)
        own = Share() if is_hidden else self._own
        utilization = self._utilization
        shares = {'max_utilization': utilization, 'max_own_utilization': own}
        return {
            'uuid': self.gpu.uuid,
            'name': self.gpu.name,
            'vendor': self.gpu.vendor,
            'index': self.gpu.number,
            'place': numbered(self.gpu.vendor, str(self.gpu.number)),
            'capacity': None if self.gpu.mig_devices is not None else self.gpu.memory_total,
            **dict.fromkeys(self.maxima),
            **{name: maximum.value for name, maximum in known.items()},
            'missed': [
                *(name for name, maximum in known.items() if maximum.is_lower_bound),
                *(name for name, share in shares.items() if share.was_missed and share.largest is not None),
            ],
            'utilization': self.present if utilization.mean is None else utilization.mean,
            'max_utilization': self.present if utilization.mean is None else utilization.largest,
            'own_utilization': own.mean,
            'max_own_utilization': own.largest,
            'others': None if is_hidden else self._has_others or (None if may_have_others else False),
            'is_used': None if is_hidden else self.is_used,
            'is_visible': self._is_visible,
        }
