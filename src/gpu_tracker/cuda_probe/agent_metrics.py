"""The metrics of CUDA calls that the agent exports, made of successive reports of one probe.

See ``gpu_tracker.fleet.agent.probed`` for what the agent expects.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from gpu_tracker.system.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prometheus_client.metrics_core import Metric

    from gpu_tracker.cuda_probe.cuda_report import CudaReport, ProcessReport
    from gpu_tracker.cuda_probe.probe_session import Probe
    from gpu_tracker.result.cuda_usage import CUDADevice, CUDAGpu

_PERCENT = 100
_REPORTED_AFTER_END = 300.0
"""Seconds for which a program that has ended is still reported: who asks every minute gets its last figures."""


class RowKey(NamedTuple):
    """Whose figures a row has, and on which GPU."""

    pid: int
    program: str
    container: str
    """Its ID; empty: none is known."""
    uuid: str | None
    """None: which GPU that was is not known."""


class Row(NamedTuple):
    """What the program runs of one process did on one GPU; those with the same name count together."""

    launches: int
    launch_to_sync_seconds: float | None
    synchronisations: int
    copies: int
    allocations: int
    frees: int
    in_use_bytes: float
    max_bytes: float
    active: float | None
    """The part of the time since the report before, from 0 to 1."""
    used_cores: float | None
    """On average since the report before."""


class ProcessKey(NamedTuple):
    """Whose figures those are that no GPU has."""

    pid: int
    program: str
    container: str


class Failure(NamedTuple):
    """Failed calls of a process."""

    pid: int
    program: str
    container: str
    function: str
    error: str


class Series(NamedTuple):
    """All of it, at one time."""

    rows: Mapping[RowKey, Row]
    streams: Mapping[ProcessKey, int]
    """Streams to which a process has launched."""
    failures: Mapping[Failure, int]


class _Spent(NamedTuple):
    """What a program run has had on a GPU until a report."""

    active_seconds: float | None
    core_seconds: float | None


class ProcessSeries:
    """Turns reports, one after the other, into series; holds only what the last report has."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._spent: dict[tuple[int, int | None], _Spent] = {}
        """By program run and its own number of the GPU."""
        self._ended: dict[int, float] = {}
        """By program run: when it was first reported as ended."""

    def of(self, report: CudaReport, programs: Mapping[int, str]) -> Series:
        """Return the series of a report.

        :param programs: Process ID -> what it is called; the others have the kernel's names.
        """
        elapsed = report.seconds - self._seconds
        spent: dict[tuple[int, int | None], _Spent] = {}
        rows: dict[RowKey, Row] = {}
        streams: dict[ProcessKey, int] = {}
        failures: dict[Failure, int] = {}
        for process in self._reported(report):
            owner = ProcessKey(process.pid, programs.get(process.pid, process.name), process.container or '')
            for device in process.devices:
                run = process.run, device.ordinal
                spent[run] = _spent(device, process.seconds)
                row = _row(device, self._spent.get(run, _Spent(0.0, 0.0)), spent[run], elapsed)
                key = RowKey(*owner, device.uuid)
                rows[key] = _combined(rows[key], row) if key in rows else row
            streams[owner] = streams.get(owner, 0) + process.streams
            for failed in process.failures:
                failure = Failure(*owner, failed.function, failed.error_name)
                failures[failure] = failures.get(failure, 0) + failed.count
        self._seconds, self._spent = report.seconds, spent
        return Series(rows, streams, failures)

    def _reported(self, report: CudaReport) -> Iterator[ProcessReport]:
        """Yield the program runs that are reported: those that run, and those that have ended lately."""
        ended: dict[int, float] = {}
        for process in report.processes:
            if process.ended:
                ended[process.run] = self._ended.get(process.run, report.seconds)
                if report.seconds - ended[process.run] > _REPORTED_AFTER_END:
                    continue
            yield process
        self._ended = ended


def _spent(device: CUDADevice, seconds: float) -> _Spent:
    cores = None if device.used_cores is None else device.used_cores * seconds
    return _Spent(device.launch_to_sync_seconds, cores)


def _row(device: CUDADevice, before: _Spent, now: _Spent, elapsed: float) -> Row:
    active = _rate(before.active_seconds, now.active_seconds, elapsed)
    return Row(
        launches=device.launches,
        launch_to_sync_seconds=device.launch_to_sync_seconds,
        synchronisations=device.synchronisations,
        copies=device.copies,
        allocations=device.allocations,
        frees=device.frees,
        in_use_bytes=device.memory_current,
        max_bytes=device.memory_max,
        active=None if active is None else min(1.0, active),
        used_cores=_rate(before.core_seconds, now.core_seconds, elapsed),
    )


def _rate(before: float | None, now: float | None, elapsed: float) -> float | None:
    return None if before is None or now is None or elapsed <= 0 else max(0.0, now - before) / elapsed


def _combined(one: Row, other: Row) -> Row:
    """Return two program runs, or two numbers of one GPU, as one."""
    sums: Row = Row._make(map(_sum, one, other))
    active = None if sums.active is None else min(1.0, sums.active)
    return sums._replace(max_bytes=max(one.max_bytes, other.max_bytes), active=active)


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


_OF_GPU = ('host', 'uuid', 'index', 'model', 'mig_instance')
_OF_PROCESS = ('pid', 'program', 'container')
_LABELS = (*_OF_GPU, 'vendor', 'driver', *_OF_PROCESS)
_WITHOUT_GPU = ('host', 'vendor', 'driver', *_OF_PROCESS)
"""Of what is counted for a process, and not for each of its GPUs."""
_LONGEST_PROGRAM = 100


class _Figure(NamedTuple):
    """A figure that each process has on each GPU, as far as it is known."""

    name: str
    unit: str
    text: str
    field: str
    """Of :class:`Row`."""
    family: type[CounterMetricFamily | GaugeMetricFamily] = CounterMetricFamily


_TO_SYNC = 'Time from launches to the calls that waited for the launched work; this is not GPU time.'
_ACTIVE = 'Share of the last seconds in which launched work waited for a synchronisation, from 0 to 1.'
_CORES = 'CUDA cores that such work could fill at most, on average over the last seconds.'
_IN_USE = 'Memory that was seen allocated and is not freed.'
_FIGURES = (
    _Figure('launches', '', 'Kernel launches that succeeded.', 'launches'),
    _Figure('launch_to_sync', 'seconds', _TO_SYNC, 'launch_to_sync_seconds'),
    _Figure('synchronisations', '', 'Calls that waited for a stream, a device or an event.', 'synchronisations'),
    _Figure('copies', '', 'Blocking copies that succeeded.', 'copies'),
    _Figure('allocations', '', 'Allocations that succeeded.', 'allocations'),
    _Figure('frees', '', 'Frees of what was seen allocated.', 'frees'),
    _Figure('memory_in_use', 'bytes', _IN_USE, 'in_use_bytes', GaugeMetricFamily),
    _Figure('memory_max', 'bytes', 'The most of it at once.', 'max_bytes', GaugeMetricFamily),
    _Figure('active', 'ratio', _ACTIVE, 'active', GaugeMetricFamily),
    _Figure('used_cores', '', _CORES, 'used_cores', GaugeMetricFamily),
)


class CudaMetrics:
    """What a probe sees of the processes on the GPUs.

    :param probe: Collects already.
    """

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._followed: frozenset[int] = frozenset()
        self._programs: dict[int, str] = {}
        self._process_series = ProcessSeries()
        self._families: list[Metric] = []

    def look(self, gpus: Sequence[Mapping[str, str]], programs: Mapping[int, str]) -> None:
        """Follow the processes that are new on the GPUs, and make the families of metrics anew.

        :param gpus: The labels of each GPU and MIG device.
        :param programs: Process ID -> what it is about.
        """
        now = frozenset(programs)
        for pid in sorted(now - self._followed):
            with contextlib.suppress(ProcessLookupError):  # it has ended since the driver has listed it
                self._probe.follow(pid)
        self._followed = now
        report = self._probe.report()
        reported = {process.pid for process in report.processes}
        # A process that has left the GPU is still reported for a while, by the same name.
        self._programs = {pid: text for pid, text in self._programs.items() if pid in reported} | dict(programs)
        series = self._process_series.of(report, self._programs)
        devices = {device.uuid: device for device in report.devices}
        host = next((gpu['host'] for gpu in gpus), '')
        self._families = [
            *_families_by_gpu(series, {gpu['uuid']: gpu for gpu in gpus}, devices, host),
            *_families_without_gpu(series, report.devices, host),
            _lost(report.events_lost, host),
        ]

    def collect(self) -> Iterator[Metric]:
        """Yield the families that the last call of :meth:`look` has made."""
        yield from self._families


def open_metrics() -> CudaMetrics:
    """Return the metrics of the processes on the GPUs.

    :raises gpu_tracker.errors.GpuTrackerError: Something is missing, which the text names.
    """
    from gpu_tracker.cuda_probe.probe_session import Probe, open_probe  # noqa: PLC0415 - what it needs exists on Linux only

    return CudaMetrics(open_probe(Probe))


def _families_by_gpu(
    series: Series, gpus: Mapping[str, Mapping[str, str]], devices: Mapping[str, CUDAGpu], host: str
) -> Iterator[Metric]:
    labels = {key: _labels(key, gpus, devices, host) for key in series.rows}
    for figure in _FIGURES:
        family = figure.family(f'gpu_tracker_cuda_{figure.name}', figure.text, labels=_LABELS, unit=figure.unit)
        for key, row in series.rows.items():
            value: float | None = getattr(row, figure.field)
            if value is not None:
                family.add_metric(labels[key], value)
        yield family


def _families_without_gpu(series: Series, devices: Sequence[CUDAGpu], host: str) -> Iterator[Metric]:
    # All GPUs that CUDA can use are of one vendor, and have one driver.
    of_host = (host, *(_maker(devices[0]) if devices else ('', '')))
    streams = GaugeMetricFamily('gpu_tracker_cuda_streams', 'Streams that had launches.', labels=_WITHOUT_GPU)
    for owner, number in series.streams.items():
        streams.add_metric((*of_host, *_owner(owner)), number)
    yield streams
    labels = (*_WITHOUT_GPU, 'function', 'error')
    failures = CounterMetricFamily('gpu_tracker_cuda_failures', 'Calls that returned an error.', labels=labels)
    for failure, count in series.failures.items():
        failures.add_metric((*of_host, *_owner(failure), failure.function, failure.error), count)
    yield failures


def _lost(events: int, host: str) -> Metric:
    lost = CounterMetricFamily(
        'gpu_tracker_cuda_events_lost', 'Events that found no room: times lack them.', labels=('host',)
    )
    lost.add_metric((host,), events)
    return lost


def _labels(
    key: RowKey, gpus: Mapping[str, Mapping[str, str]], devices: Mapping[str, CUDAGpu], host: str
) -> tuple[str, ...]:
    """Return the labels of a row: those that the agent has of the GPU, else what the probe knows of it."""
    uuid = key.uuid or ''
    device = devices.get(uuid)
    known = {'host': host, 'uuid': printable(uuid), 'model': printable((device and device.model) or '')}
    of_gpu = known | dict(gpus.get(uuid, {}))
    maker = ('', '') if device is None else _maker(device)
    return (*(of_gpu.get(name, '') for name in _OF_GPU), *maker, *_owner(key))


def _maker(device: CUDAGpu) -> tuple[str, str]:
    return device.vendor, printable(device.driver or '')


def _owner(key: RowKey | ProcessKey | Failure) -> tuple[str, str, str]:
    return str(key.pid), printable(key.program)[:_LONGEST_PROGRAM], key.container
