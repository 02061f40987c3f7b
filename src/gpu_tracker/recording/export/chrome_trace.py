"""A recording in Chrome's trace event format, which Perfetto (https://ui.perfetto.dev) and chrome://tracing open.

Samples are counters (``C``). Regions of one thread that lie in each other are complete events (``X``); those that
overlap in any other way, those of asyncio tasks and calls that were folded are pairs (``b``, ``e``) with ids of their
own, since complete events of one thread must not overlap otherwise.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_tracker.recording.reading.plain import plain, text
from gpu_tracker.resources import COUNTER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpu_tracker.recording.reading.model import Column, Region
    from gpu_tracker.recording.reading.recording import Recording

    Event = dict[str, Any]

_MICRO = 1e6
_MEGA = 1e6
_EVENTS_AT_ONCE = 1000
_GROUPS = ('main_', 'descendants_', 'combined_', 'system_')
_GAUGE_UNITS = {'bytes': ('MB', _MEGA), 'percent': ('%', 1.0), 'count': ('', 1.0), 'seconds': ('s', 1.0)}
_RATE_UNITS = {'bytes': ('MB/s', _MEGA), 'seconds': ('cores', 1.0), 'count': ('1/s', 1.0), 'joules': ('W', 1.0)}
_SINCE_BEFORE = ('gpu_utilization',)
"""Gauges that are means since the sample before."""
_CATEGORY = 'region'


def pieces(recording: Recording) -> Iterator[bytes]:
    """Yield the trace, some events at a time."""
    meta = recording.meta
    about = {'program': meta.program, 'host': meta.host, 'command': meta.command, 'started': meta.started}
    yield f'{{"displayTimeUnit":"ms","otherData":{text(about)},"traceEvents":['.encode()
    root = meta.root_pid or 0
    events = chain(
        _names(recording, root),
        _region_events(recording.regions),
        _messages(recording, root),
        _counters(recording, root),
        _gpu_counters(recording, root),
        _process_counters(recording),
    )
    separator = '\n'
    while some := list(islice(events, _EVENTS_AT_ONCE)):
        yield (separator + ',\n'.join(map(text, some))).encode()
        separator = ',\n'
    yield b'\n]}\n'


def _names(recording: Recording, root: int) -> Iterator[Event]:
    """Yield the names of processes and threads."""
    command = recording.meta.command
    names = {region.process_id: f'process {region.process_id}' for region in recording.regions}
    names |= {process.pid: process.name for process in recording.processes}
    names[root] = ' '.join(command) if command else names.get(root, f'process {root}')
    for order, (pid, name) in enumerate(sorted(names.items(), key=lambda item: item[0] != root)):
        yield {'ph': 'M', 'name': 'process_name', 'pid': pid, 'tid': 0, 'args': {'name': name}}
        yield {'ph': 'M', 'name': 'process_sort_index', 'pid': pid, 'tid': 0, 'args': {'sort_index': order}}
    threads = dict.fromkeys((region.process_id, region.thread_id or 0) for region in recording.regions)
    for pid, thread in threads:
        name = 'main thread' if pid == thread else f'thread {thread}'
        yield {'ph': 'M', 'name': 'thread_name', 'pid': pid, 'tid': thread, 'args': {'name': name}}


def _messages(recording: Recording, root: int) -> Iterator[Event]:
    for message in recording.messages:
        yield {
            'ph': 'i', 's': 'p', 'name': message.text, 'cat': message.level, 'ts': message.t * _MICRO, 'pid': root,
            'tid': root,
        }  # fmt: skip


def _region_events(regions: Sequence[Region]) -> Iterator[Event]:
    """Yield the events of all regions: ``X`` as long as one lies in the other, pairs for all else."""
    open_until: dict[tuple[int, int], list[float]] = {}
    for region in sorted(regions, key=lambda region: (region.start, -region.seen_until)):
        if region.is_folded or region.task is not None or region.thread_id is None:
            yield from _pair(region)
            continue
        ends = open_until.setdefault((region.process_id, region.thread_id), [])
        while ends and ends[-1] <= region.start:
            ends.pop()
        if ends and region.seen_until > ends[-1]:
            yield from _pair(region)
            continue
        ends.append(region.seen_until)
        start, stop = _microseconds(region.start), _microseconds(region.seen_until)
        yield {**_common(region, 'X'), 'ts': start, 'dur': stop - start, 'args': _arguments(region)}


def _pair(region: Region) -> Iterator[Event]:
    number = f'{region.id:#x}'
    common = {'id': number, 'cat': _CATEGORY}
    yield {**_common(region, 'b'), **common, 'ts': _microseconds(region.start), 'args': _arguments(region)}
    yield {**_common(region, 'e'), **common, 'ts': _microseconds(region.seen_until)}


def _common(region: Region, phase: str) -> Event:
    name = f'{region.name} ({region.calls} calls)' if region.is_folded else region.name
    return {'ph': phase, 'name': name, 'cat': _CATEGORY, 'pid': region.process_id, 'tid': region.thread_id or 0}


_SHOWN = (
    'task', 'error', 'calls', 'errors', 'wall_time', 'shortest', 'longest', 'thread_cpu', 'cpu', 'ram', 'combined_ram',
    'gpu_ram', 'gpu_utilization', 'gpu_coverage', 'io', 'energy',
)  # fmt: skip


def _arguments(region: Region) -> Event:
    shown = {name: value for name in _SHOWN if (value := getattr(region, name)) is not None}
    if not region.has_ended:
        shown['has_ended'] = False
    if region.attributes:
        shown['attributes'] = region.attributes
    return dict(plain(shown))


class _Series(NamedTuple):
    """One line of a counter, from one column."""

    counter: str
    line: str
    divisor: float
    is_rate: bool
    is_mean: bool


def _counters(recording: Recording, root: int) -> Iterator[Event]:
    """Yield the samples. What is known of the time since the sample before stands where that time begins."""
    samples = recording.samples
    series = [_series(column) for column in recording.columns]
    before: tuple[float | None, ...] | None = None
    for columns in samples.batches(samples.names[1:]):
        for row in zip(*columns, strict=True):
            yield from _sample_events(series, before, row, root)
            before = row


def _sample_events(
    series: Sequence[_Series], before: Sequence[float | None] | None, row: Sequence[float | None], root: int
) -> Iterator[Event]:
    now: dict[str, dict[str, float]] = {}
    since: dict[str, dict[str, float]] = {}
    for index, (counter, line, divisor, is_rate, is_mean) in enumerate(series, 1):
        value = row[index]
        if value is None:
            continue
        if not (is_rate or is_mean):
            now.setdefault(counter, {})[line] = value / divisor
        elif before is not None:
            if is_rate:
                last, seconds = before[index], (row[0] or 0) - (before[0] or 0)
                if last is None:
                    continue
                value = max(0.0, value - last) / seconds
            since.setdefault(counter, {})[line] = value / divisor
    if before is not None:
        yield from _counter_events(before[0] or 0.0, since, root)
    yield from _counter_events(row[0] or 0.0, now, root)


def _counter_events(t: float, counters: Mapping[str, Mapping[str, float]], pid: int) -> Iterator[Event]:
    for name, lines in counters.items():
        yield {'ph': 'C', 'name': name, 'ts': _microseconds(t), 'pid': pid, 'tid': 0, 'args': lines}


def _series(column: Column) -> _Series:
    group = next((group for group in _GROUPS if column.name.startswith(group)), '')
    is_rate = column.kind == COUNTER
    unit, divisor = (_RATE_UNITS if is_rate else _GAUGE_UNITS).get(column.unit, (column.unit, 1.0))
    name = column.name.removeprefix(group)
    title = f'{name} [{unit}]' if unit else name
    return _Series(title, group.rstrip('_') or 'value', divisor, is_rate, column.name in _SINCE_BEFORE)


def _gpu_counters(recording: Recording, root: int) -> Iterator[Event]:
    names = {gpu.id: f'GPU {gpu.id} {gpu.name or gpu.uuid}' for gpu in recording.gpus}
    last: dict[int, float] = {}
    for sample in recording.gpu_samples():
        name = names.get(sample.gpu, f'GPU {sample.gpu}')
        if sample.utilization is not None and sample.gpu in last:
            lines = {'value': sample.utilization}
            yield from _counter_events(last[sample.gpu], {f'{name} utilization [%]': lines}, root)
        last[sample.gpu] = sample.t
        sizes = {'all': sample.ram, 'tracked': sample.combined_ram}
        ram = {line: size / _MEGA for line, size in sizes.items() if size is not None}
        if ram:
            yield from _counter_events(sample.t, {f'{name} RAM [MB]': ram}, root)


def _process_counters(recording: Recording) -> Iterator[Event]:
    pids = {process.id: process.pid for process in recording.processes}
    for sample in recording.process_samples():
        if sample.rss is not None and sample.process in pids:
            lines = {'value': sample.rss / _MEGA}
            yield from _counter_events(sample.t, {'rss [MB]': lines}, pids[sample.process])


def _microseconds(seconds: float) -> int:
    return round(seconds * _MICRO)
