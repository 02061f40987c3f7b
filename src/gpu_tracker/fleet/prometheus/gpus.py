"""The GPUs of a fleet, put together from the series of Prometheus."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.fleet.hosts import untrusted
from gpu_tracker.fleet.hosts.history import FleetMoment, Past, Series
from gpu_tracker.fleet.hosts.report import STATUSES, GpuReport, ProcessReport, vendor_of, with_own_keys
from gpu_tracker.fleet.prometheus import queries
from gpu_tracker.fleet.prometheus.agents import Target, target_of
from gpu_tracker.gpus.constraints import SPLIT, UNKNOWN
from gpu_tracker.vendors import numbered, vendor_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpu_tracker.fleet.prometheus.queries import Sample, Track

_INDEX = re.compile(r'(?:([a-z_]{1,20}):)?([0-9]{1,9})(?::([0-9]{1,9}))?')
"""The vendor, if it is not NVIDIA, a GPU's number, and for a MIG device its number on that GPU."""
_MOST_GPUS = 1024
"""Of one host, MIG devices among them."""
_MOST_PROCESSES = 1000
"""On one GPU, which are shown."""
_LONGEST_NAME = 200
_UNSEEN = '?'
"""The user of processes that their agent cannot look up."""


class Place(NamedTuple):
    """A GPU of the fleet, or a MIG device."""

    target: Target
    number: str
    """As the label ``index`` has it."""


class Answers(NamedTuple):
    """What Prometheus has answered to the queries for GPUs."""

    gpus: Sequence[Sample]
    statuses: Sequence[Sample]
    figures: Sequence[Sequence[Sample]]
    """In the order of FIGURES."""
    by_pid: Sequence[Sample] = ()
    by_user: Sequence[Sample] = ()


def key_of(uuid: str, index: str) -> str:
    """Return by what a GPU is known on its host, from two of its labels."""
    return untrusted.text(uuid, _LONGEST_NAME) or f'index:{index}'


def gpus_by_target(answers: Answers) -> Iterator[tuple[Target, tuple[GpuReport, ...]]]:
    """Yield each host that has GPUs with them, in index order, and what is known of them; None is unknown."""
    figures = _Figures(answers)
    hosts: dict[Target, dict[_Key, Sample]] = defaultdict(dict)
    for sample in answers.gpus:
        index = _INDEX.fullmatch(sample.label('index'))
        listed = hosts[target_of(sample)]
        if index is not None and len(listed) < _MOST_GPUS:
            key = _Key(index[1] or '', int(index[2]), None if index[3] is None else int(index[3]))
            # Of two with the same index one is a mistake, and nobody knows which.
            listed.setdefault(key, sample)
    for target, samples in hosts.items():
        yield target, with_own_keys(_host(samples, figures))


class _Key(NamedTuple):
    """A GPU of a host, or a MIG device, in the order in which they are shown."""

    vendor: str
    """Empty for NVIDIA."""
    number: int
    part: int | None = None


def _host(samples: Mapping[_Key, Sample], figures: _Figures) -> Iterator[GpuReport]:
    parts: dict[_Key, list[GpuReport]] = defaultdict(list)
    for key in sorted(key for key in samples if key.part is not None):
        parts[key._replace(part=None)].append(_gpu(samples[key], key.part, figures))
    wholes = {key._replace(part=None) for key in samples}
    for key in sorted(wholes, key=lambda key: (vendor_order(key.vendor), key.number)):
        sample = samples.get(key)
        vendor = key.vendor or None
        if sample is None:  # only its MIG devices are there, so it is split
            index = numbered(key.vendor, str(key.number))
            gpu = GpuReport(key=f'index:{index}', number=key.number, vendor=vendor, status=SPLIT)
        else:
            gpu = _gpu(sample, key.number, figures)
            gpu = gpu._replace(vendor=vendor or gpu.vendor)
        has_parts = gpu.status == SPLIT or key in parts
        yield gpu._replace(mig_devices=tuple(parts[key]) if has_parts else None)


def _gpu(sample: Sample, number: int | None, figures: _Figures) -> GpuReport:
    index, uuid = sample.label('index'), sample.label('uuid')
    place = Place(target_of(sample), index)
    ratio = figures.number(queries.UTILIZATION, place)
    return GpuReport(
        key=key_of(uuid, index),
        number=number,
        vendor=vendor_of(sample.label('vendor')),
        uuid=untrusted.text(uuid, _LONGEST_NAME) or None,
        pci_bus_id=untrusted.text(sample.label('pci_bus_id'), _LONGEST_NAME) or None,
        type=untrusted.text(sample.label('model'), _LONGEST_NAME) or None,
        status=figures.statuses.get(place, UNKNOWN),
        utilization_percent=untrusted.number(None if ratio is None else round(100 * ratio, 4), most=100),
        memory_total_bytes=figures.whole(queries.SIZE, place),
        memory_used_bytes=figures.whole(queries.USED, place),
        memory_free_bytes=figures.whole(queries.FREE, place),
        temperature_celsius=untrusted.number(figures.number(queries.TEMPERATURE, place), -300, 1000),
        sm_clock_hertz=figures.whole(queries.CLOCK, place),
        power_watts=untrusted.number(figures.number(queries.POWER, place)),
        power_limit_watts=untrusted.number(figures.number(queries.POWER_LIMIT, place)),
        processes=figures.processes(place),
    )


class _Figures:
    """All values by the GPU that they belong to."""

    def __init__(self, answers: Answers) -> None:
        self._values = {
            name: {_place(sample): sample.value for sample in samples}
            for name, samples in zip(queries.FIGURES, answers.figures, strict=True)
        }
        self._by_pid = _gathered(answers.by_pid)
        self._by_user = _gathered(answers.by_user)
        self.statuses = {
            _place(sample): status for sample in answers.statuses if (status := sample.label('status')) in STATUSES
        }

    def number(self, name: str, place: Place) -> float | None:
        return self._values[name].get(place)

    def whole(self, name: str, place: Place) -> int | None:
        value = self._values[name].get(place)
        return None if value is None else untrusted.whole(int(value))

    def processes(self, place: Place) -> tuple[ProcessReport, ...] | None:
        """Return the processes as far as agents export them; () where it is known that there is none."""
        if place in self._by_pid:
            return tuple(process for sample in self._by_pid[place] if (process := _process(sample)) is not None)
        if place in self._by_user:
            return tuple(_processes_of_users(self._by_user[place]))
        return () if self.number(queries.PROCESSES, place) == 0 else None


def _place(sample: Sample) -> Place:
    return Place(target_of(sample), sample.label('index'))


def _gathered(samples: Iterable[Sample]) -> dict[Place, list[Sample]]:
    gathered: dict[Place, list[Sample]] = defaultdict(list)
    for sample in samples:
        here = gathered[_place(sample)]
        if len(here) < _MOST_PROCESSES:
            here.append(sample)
    return dict(gathered)


def _process(sample: Sample) -> ProcessReport | None:
    pid = sample.label('pid')
    if not (pid.isascii() and pid.isdecimal() and len(pid) <= len(str(2**63))):
        return None
    return ProcessReport(
        pid=int(pid),
        user=_name(sample, 'user'),
        program=_name(sample, 'program'),
        memory_bytes=None if sample.value is None else untrusted.whole(int(sample.value)),
    )


def _processes_of_users(samples: Iterable[Sample]) -> Iterator[ProcessReport]:
    """Yield as many processes as users have; which these are is not exported."""
    left = _MOST_PROCESSES
    for sample in samples:
        count = min(left, int(sample.value or 0))
        left -= max(0, count)
        for _ in range(count):
            yield ProcessReport(pid=None, user=_name(sample, 'user'))


def _name(sample: Sample, label: str) -> str | None:
    text = untrusted.text(sample.label(label), _LONGEST_NAME)
    return None if text in {'', _UNSEEN} else text


_LEAST_STEP = 10
_MOST_STEPS = 360
_LONGEST = 366 * 86400.0


class Span(NamedTuple):
    """The moments of which values are wanted, in seconds since 1970 by Prometheus's clock."""

    start: float
    end: float
    step: float
    steps: int


def span_of(seconds: float, now: float) -> Span:
    """Return the last ``seconds`` in steps of 10 s, or of so many times that as leave few enough of them.

    The last is the step that goes on. All begin at whole steps, so that who looks again sees the same values.
    """
    seconds = min(max(seconds, _LEAST_STEP), _LONGEST)
    step = _LEAST_STEP * math.ceil(seconds / _LEAST_STEP / _MOST_STEPS)
    count = math.ceil(seconds / step)
    end = math.ceil(now / step) * step
    return Span(end - (count - 1) * step, end, step, count)


def past_of(span: Span, utilization: Iterable[Track], memory: Iterable[Track]) -> Past:
    """Return the values by GPU; None where there is none."""
    busy, used = _by_key(span, utilization), _by_key(span, memory)
    unknown: list[float | None] = [None] * span.steps
    return Past(
        step=span.step,
        end=span.end,
        gpus={key: Series(busy.get(key, unknown), used.get(key, unknown)) for key in {**busy, **used}},
    )


def fleet_moments(span: Span, utilization: Iterable[Track], memory: Iterable[Track]) -> list[FleetMoment]:
    """Return the values of a whole fleet, of which there is one series each; None where there is none."""
    key = key_of('', '')
    unknown: list[float | None] = [None] * span.steps
    busy, used = (_by_key(span, tracks).get(key, unknown) for tracks in (utilization, memory))
    return [
        FleetMoment(span.start + step * span.step, *values) for step, values in enumerate(zip(busy, used, strict=True))
    ]


def _by_key(span: Span, tracks: Iterable[Track]) -> dict[str, Sequence[float | None]]:
    found: dict[str, Sequence[float | None]] = {}
    for track in tracks:
        values: list[float | None] = [None] * span.steps
        for moment, value in track.points:
            step = round((moment - span.start) / span.step)
            if 0 <= step < span.steps:
                percent = untrusted.number(value)
                values[step] = None if percent is None else min(100.0, round(percent, 1))
        found[key_of(track.labels.get('uuid', ''), track.labels.get('index', ''))] = values
    return found
