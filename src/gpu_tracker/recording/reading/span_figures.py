"""What all tracked processes used in a span of time, from the samples of a recording."""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from gpu_tracker.recording.reading import figures
from gpu_tracker.recording.reading.model import Bounded
from gpu_tracker.resources import COUNTER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpu_tracker.recording.reading.model import Column
    from gpu_tracker.recording.reading.samples import Samples

_CPU = 'combined_cpu'
_ENERGY = 'gpu_energy'
_GAUGES = ('main_total_rss', 'combined_total_rss', 'combined_gpu_ram')
_BUSY = 'gpu_busy'
_UTILIZATION = 'gpu_utilization'
"""What recordings without the column before have: the sum of all expected GPUs."""
_IS_ALIVE = 'main_n_threads'
_COMBINED = 'combined_'
_OTHERS = 'combined_cuda_'
"""Counters that are not of I/O."""
_IO = 'io_'


class Found(NamedTuple):
    """What was used in a span of time."""

    cpu: Bounded | None
    io: Mapping[str, Bounded] | None
    energy: float | None
    main_ram: float | None
    combined_ram: float | None
    gpu_ram: float | None
    gpu: figures.Weighted

    def changed(self, change: Any) -> Found:  # noqa: ANN401 - a function from Bounded to Bounded
        """Return the same with what the counters say changed."""
        return self._replace(
            cpu=None if self.cpu is None else change(self.cpu),
            io=None if self.io is None else {name: change(bounded) for name, bounded in self.io.items()},
            energy=None if self.energy is None else change(Bounded(self.energy, None, None)).value,
        )


class SpanFigures:
    """The samples that figures of regions are from, in memory.

    :ivar main_alive_until: When the tracked process was last seen alive.
    """

    def __init__(self, samples: Samples, columns: Sequence[Column]) -> None:
        counters = {
            column.name: column.name.removeprefix(_COMBINED).removeprefix(_IO)
            for column in columns
            if column.kind == COUNTER and column.name.startswith(_COMBINED) and not column.name.startswith(_OTHERS)
        }
        names = {column.name for column in columns}
        wanted = [
            *counters, *(name for name in (_ENERGY, *_GAUGES, _BUSY, _UTILIZATION, _IS_ALIVE) if name in names),
        ]  # fmt: skip
        times, arrays = _arrays(samples, wanted)
        self._times = times
        self._cpu = figures.Counter(times, arrays[_CPU]) if _CPU in arrays else None
        self._io = {
            short: figures.Counter(times, arrays[name]) for name, short in counters.items() if name != _CPU
        }  # fmt: skip
        self._energy = figures.Counter(times, arrays[_ENERGY]) if _ENERGY in arrays else None
        self._gauges = {name: figures.Maxima(arrays[name]) for name in _GAUGES if name in arrays}
        busy = arrays.get(_BUSY, arrays.get(_UTILIZATION))
        self._gpu = None if busy is None else figures.Steps(times, busy)
        threads = arrays.get(_IS_ALIVE, array('d'))
        self.main_alive_until = max((t for t, value in zip(times, threads, strict=False) if value > 0), default=0.0)

    def cpu(self, start: float, stop: float) -> Bounded | None:
        """Return the CPU time that all tracked processes used from ``start`` to ``stop``; None where not sampled."""
        counter = self._cpu
        return None if counter is None else counter.between(start, stop, figures.edges(counter.times, start, stop))

    def between(self, start: float, stop: float) -> Found:
        """Return what all tracked processes used from ``start`` to ``stop``."""
        place = figures.edges(self._times, start, stop)

        def grown(counter: figures.Counter) -> Bounded:
            same = counter.times is self._times
            return counter.between(start, stop, place if same else figures.edges(counter.times, start, stop))

        main_ram, combined_ram, gpu_ram = (self._largest(name, place) for name in _GAUGES)
        return Found(
            cpu=None if self._cpu is None else grown(self._cpu),
            io={name: grown(counter) for name, counter in self._io.items()} if self._io else None,
            energy=None if self._energy is None else grown(self._energy).value,
            main_ram=main_ram,
            combined_ram=combined_ram,
            gpu_ram=gpu_ram,
            gpu=figures.Weighted(None, 0.0, 0) if self._gpu is None else self._gpu.between(start, stop),
        )

    def _largest(self, name: str, place: figures.Edges) -> float | None:
        maxima = self._gauges.get(name)
        return None if maxima is None else maxima.largest(place.first, place.last)


def _arrays(samples: Samples, names: Sequence[str]) -> tuple[array[float], dict[str, array[float]]]:
    """Return the times of all samples, and the columns ``names``, NaN where unknown."""
    arrays = [array('d') for _ in range(len(names) + 1)]
    for columns in samples.batches(names):
        for values, more in zip(arrays, columns, strict=True):
            known = more if None not in more else (math.nan if value is None else value for value in more)
            values.extend(cast('Iterable[float]', known))
    return arrays[0], dict(zip(names, arrays[1:], strict=True))
