"""Groups of runs compared: what one version of a program uses, in several runs, and what another one does."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_tracker.bindings import make
from gpu_tracker.errors import ParameterError
from gpu_tracker.figures import place_of
from gpu_tracker.recording.comparing.compared import (
    LARGER,
    SMALLER,
    UNCHANGED,
    UNCLEAR,
    ComparedFigure,
    ComparedRun,
    Difference,
    Finding,
    Group,
    GroupValues,
    UnpairedRegion,
)
from gpu_tracker.recording.comparing.conditions import check
from gpu_tracker.recording.comparing.run_values import REGIONS, region_values, values_by_gpu, values_of, written
from gpu_tracker.recording.comparing.statistics import geometric_mean, ratio_of
from gpu_tracker.recording.reading.plain import plain
from gpu_tracker.recording.reading.recording import Recording, load

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpu_tracker.recording.comparing.run_values import Name, RunValue
    from gpu_tracker.result.usage import GPUUse, ResourceUsage

    Run = str | os.PathLike[str] | Recording


@dataclass(frozen=True, slots=True)
class Comparison:
    """Groups of runs, each compared with the first group.

    :ivar groups: One :class:`.Group` for each compared group.
    :ivar figures: One :class:`.ComparedFigure` for each figure of each group after the first.
    :ivar differences: Differences in machine, command or settings (:class:`.Difference`).
    :ivar unpaired_regions: Regions that some groups lack (:class:`.UnpairedRegion`).
    :ivar figures_by_gpu: One :class:`.ComparedFigure` for each figure and each GPU.
    """

    groups: tuple[Group, ...]
    figures: tuple[ComparedFigure, ...]
    differences: tuple[Difference, ...]
    unpaired_regions: tuple[UnpairedRegion, ...]
    figures_by_gpu: tuple[ComparedFigure, ...] = ()

    @property
    def incomplete(self) -> tuple[str, ...]:
        """The recordings that do not have all of their run: their figures are those up to where they end."""
        return tuple(run.path for group in self.groups for run in group.runs if not run.is_complete)

    def check(self, expression: str) -> Finding:
        """Check a condition as ``gpu-tracker compare --fail-if`` does. The check fails if the condition applies.

        The condition ``compute_time > +5 %`` applies if the time grew by more than 5 % compared with the first group.
        For more conditions, see “:doc:`ci`”.

        :raises ValueError: if the condition is invalid.
        """
        return check(expression, [*self.figures, *self.figures_by_gpu], self.incomplete)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as a dictionary for :func:`json.dumps`."""
        found: dict[str, Any] = plain(self)
        found['incomplete'] = list(self.incomplete)
        for difference in found['differences']:
            difference['values'] = dict(difference['values'])
        return found

    def _repr_html_(self) -> str:
        """Return what differs as tables, for notebooks."""
        html: str = make('comparison as HTML', self)
        return html


def compare(groups: Mapping[str, Run | Sequence[Run]], *, salvage: bool = False) -> Comparison:
    """Compare groups of runs.

    :param groups: A dictionary of two or more groups. Each key is a name. Each value is a list of paths of recordings
        or results of :func:`gpu_tracker.load`.
    :param salvage: Read damaged recordings as far as possible.
    :raises ValueError: if there are fewer than two groups, or a group is empty or has a recording twice.
    :raises RecordingError: if a recording cannot be read.
    """
    if len(groups) < 2:  # noqa: PLR2004 - to compare
        raise ParameterError('groups', list(groups), 'two or more groups of recordings')
    checked = {name: _without_doubles(name, runs) for name, runs in groups.items()}
    read = {name: [_read(run, salvage=salvage) for run in runs] for name, runs in checked.items()}
    places = sorted({place_of(gpu) for runs in read.values() for run in runs for gpu in run.gpus})
    by_gpu = {name: [run.by_gpu(places) for run in runs] for name, runs in read.items()}
    return Comparison(
        groups=tuple(Group(name, tuple(run.shown for run in runs)) for name, runs in read.items()),
        figures=tuple(_compared({name: [run.figures for run in runs] for name, runs in read.items()})),
        differences=tuple(_differences(read)),
        unpaired_regions=tuple(_unpaired(read)),
        figures_by_gpu=tuple(_compared(by_gpu)),
    )


class _Read(NamedTuple):
    """A run that was read."""

    shown: ComparedRun
    figures: dict[Name, RunValue]
    facts: dict[str, str]
    result: ResourceUsage | None
    """None: a run that was killed in its first seconds."""

    @property
    def gpus(self) -> tuple[GPUUse, ...]:
        """The GPUs that it has used, as far as they are known."""
        return () if self.result is None else self.result.gpus or ()

    def by_gpu(self, places: Iterable[str]) -> dict[Name, RunValue]:
        """Return the figures of each GPU by itself."""
        return {} if self.result is None else values_by_gpu(self.result, places)


def _without_doubles(group: str, runs: Run | Sequence[Run]) -> list[Run]:
    given = [runs] if isinstance(runs, (str, os.PathLike, Recording)) else list(runs)
    if not given:
        raise ParameterError('groups', {group: []}, 'groups that each have at least one recording')
    found: dict[object, str] = {}
    for run in given:
        path = _path_of(run)
        try:
            status = os.stat(path)
        except OSError:
            continue  # whoever opens it says what is wrong
        identity = (status.st_dev, status.st_ino)
        if identity in found:
            raise ParameterError('groups', {group: [found[identity], path]}, 'groups without duplicate recordings')
        found[identity] = path
    return given


def _path_of(run: Run) -> str:
    return run.path if isinstance(run, Recording) else os.fsdecode(run)


def _read(run: Run, *, salvage: bool) -> _Read:
    if isinstance(run, Recording):
        return _figures_and_facts(run)
    with load(run, salvage=salvage) as recording:
        return _figures_and_facts(recording)


def _figures_and_facts(recording: Recording) -> _Read:
    meta = recording.meta
    # A run without a result is named as incomplete.
    result = None if meta.totals is None or meta.units is None else recording.summary()
    figures = {} if result is None else values_of(result)
    gpus = sorted(gpu.name or 'unknown' for gpu in recording.gpus)
    facts = {
        'host': meta.host,
        'machine': meta.machine,
        'system': meta.system,
        'cores': meta.cores,
        'RAM capacity': meta.ram_capacity,
        'GPUs': ', '.join(gpus) or 'none',
        'program': meta.program,
        'python': meta.python,
        'interval': meta.interval,
        'sections': ', '.join(meta.sections) or 'none',
        'expected cores': None if meta.units is None else meta.units[3] or 'all',
        'command': None if meta.command is None else shlex.join(meta.command),
    }
    return _Read(
        ComparedRun(recording.path, meta.started, meta.is_complete, meta.exit_code),
        figures | region_values(recording.regions),
        {name: 'unknown' if value is None else str(value) for name, value in facts.items()},
        result,
    )


def _compared(read: Mapping[str, Sequence[Mapping[Name, RunValue]]]) -> Iterable[ComparedFigure]:
    first, *others = read
    for other in others:
        units: dict[Name, str] = {}
        for run in (*read[first], *read[other]):
            units |= {name: figure.unit for name, figure in run.items()}
        for name in sorted(units, key=lambda name: name[0] == REGIONS):  # the others as they are
            yield _figure(name, units[name], _values(first, name, read[first]), _values(other, name, read[other]))


def _values(group: str, name: Name, runs: Iterable[Mapping[Name, RunValue]]) -> GroupValues:
    found = [run.get(name) for run in runs]
    values = tuple([None if figure is None else _number(figure.value) for figure in found])
    positive = [value for value in values if value is not None and value > 0]
    mean = geometric_mean(positive) if len(positive) == len(values) else None
    return GroupValues(group, values, mean, any(figure is not None and figure.is_lower_bound for figure in found))


def _number(value: object) -> float | None:
    """Return a value from a file, or None if the value is not a finite number."""
    is_usable = type(value) in {int, float} and -sys.float_info.max <= value <= sys.float_info.max  # type: ignore[operator]
    return value if is_usable else None  # type: ignore[return-value]


def _figure(name: Name, unit: str, first: GroupValues, other: GroupValues) -> ComparedFigure:
    if first.mean is None or other.mean is None:
        return ComparedFigure(written(name), unit, first, other, None, None, None, None, _problem(first, other))
    ratio = ratio_of(*([value for value in group.values if value is not None] for group in (first, other)))
    return ComparedFigure(
        written(name), unit, first, other, ratio.value, ratio.low, ratio.high, _verdict(ratio.low, ratio.high), None
    )


def _verdict(low: float | None, high: float | None) -> str | None:
    if low is None or high is None:
        return None
    if low == high == 1:
        return UNCHANGED
    if low > 1:
        return LARGER
    return SMALLER if high < 1 else UNCLEAR


def _problem(*groups: GroupValues) -> str:
    """Return why there is no ratio of the groups' means."""
    unknown = [(group, group.values.count(None)) for group in groups]
    if any(count for _, count in unknown):
        return f'unknown in {_parts(unknown)}'
    if all(value == 0 for group in groups for value in group.values):
        return '0 in all runs'
    zero = [(group, sum(value is not None and value <= 0 for value in group.values)) for group in groups]
    return f'not above 0 in {_parts(zero)}'


def _parts(counts: Iterable[tuple[GroupValues, int]]) -> str:
    """Name the groups with the number of their runs; leave out groups with 0."""
    return ' and '.join(_part(group.group, count, len(group.values)) for group, count in counts if count)


def _part(group: str, count: int, runs: int) -> str:
    if count == runs:
        return group if runs == 1 else f'all runs of {group}'
    return f'{count} of {runs} runs of {group}'


def _differences(read: Mapping[str, Sequence[_Read]]) -> Iterable[Difference]:
    runs = [run for group in read.values() for run in group]
    for name in runs[0].facts:
        if len({run.facts[name] for run in runs}) > 1:
            found = {group: tuple(dict.fromkeys(run.facts[name] for run in members)) for group, members in read.items()}
            yield Difference(name, tuple(found.items()))


def _unpaired(read: Mapping[str, Sequence[_Read]]) -> Iterable[UnpairedRegion]:
    by_group = {
        group: dict.fromkeys(name[1] for run in runs for name in run.figures if name[0] == REGIONS)
        for group, runs in read.items()
    }
    for region in dict.fromkeys(region for regions in by_group.values() for region in regions):
        present = tuple(group for group, regions in by_group.items() if region in regions)
        if len(present) < len(read):
            yield UnpairedRegion(region, present, tuple(group for group in read if group not in present))
