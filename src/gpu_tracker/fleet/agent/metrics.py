"""This machine in Prometheus' words: base units, and nothing where a value is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from gpu_tracker.fleet.agent.health_metrics import health_families
from gpu_tracker.fleet.hosts.host import UP
from gpu_tracker.fleet.hosts.nvgpu import KINDS, kind_of
from gpu_tracker.fleet.hosts.report import STATUSES
from gpu_tracker.system.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prometheus_client.metrics_core import Metric

    from gpu_tracker.fleet.agent.local_host import LocalHost
    from gpu_tracker.fleet.hosts.host import HostState
    from gpu_tracker.fleet.hosts.report import GpuReport, HostReport, ProcessReport

_LABELS = ('host', 'uuid', 'index', 'model', 'mig_instance')
_MIG_INSTANCE = _LABELS.index('mig_instance')
_LONGEST_PROGRAM = 100
_PERCENT = 100
_UNSEEN = '?'
"""The user of a process that cannot be looked up."""


def _ratio(percent: float | None) -> float | None:
    return None if percent is None else percent / _PERCENT


_FIGURES: tuple[tuple[str, str, str, Callable[[GpuReport], float | None]], ...] = (
    ('utilization', 'ratio', 'Share of the time that the GPU was busy.', lambda gpu: _ratio(gpu.utilization_percent)),
    ('memory_size', 'bytes', 'Memory of the GPU.', lambda gpu: gpu.memory_total_bytes),
    ('memory_used', 'bytes', 'Memory of the GPU that is in use.', lambda gpu: gpu.memory_used_bytes),
    ('memory_free', 'bytes', 'Memory of the GPU that programs can have.', lambda gpu: gpu.memory_free_bytes),
    ('temperature', 'celsius', 'Temperature of the GPU.', lambda gpu: gpu.temperature_celsius),
    ('sm_clock', 'hertz', 'Clock of the streaming multiprocessors.', lambda gpu: gpu.sm_clock_hertz),
    ('power', 'watts', 'Power that the GPU draws.', lambda gpu: gpu.power_watts),
    ('power_limit', 'watts', 'Power that the GPU may draw.', lambda gpu: gpu.power_limit_watts),
    (
        'processes',
        '',
        'Processes on the GPU; those on a MIG device count for its GPU as well.',
        lambda gpu: None if gpu.processes is None else len(gpu.processes),
    ),
)
"""Names, units, texts and values of gauges that each GPU has, as far as its value is known."""
_ACTIVITY = (
    ('sm_activity', 'Share of the streaming multiprocessors that worked.', 'sm'),
    ('sm_occupancy', 'Warps on the streaming multiprocessors, as a share of what these can hold.', 'occupancy'),
    ('tensor_activity', 'Share of the time in which tensor cores worked.', 'tensor'),
    ('dram_activity', 'Share of the bandwidth of the memory that was used.', 'dram'),
)
"""Names and texts of ratios, and the fields of GpuActivity."""


class HostCollector(Collector):
    """Tells the newest reading of this machine; of one that is stale only which GPUs there are.

    :param export_processes: Report the memory of each process.
    :param export_users: Report the names of users.
    """

    def __init__(self, host: LocalHost, version: str, *, export_processes: bool, export_users: bool) -> None:
        self._host = host
        self._version = version
        self._export_processes = export_processes
        self._export_users = export_users

    def collect(self) -> Iterator[Metric]:
        """Yield the families of metrics as they are now."""
        state, taken = self._host.state(), self._host.time
        yield InfoMetricFamily('gpu_tracker_agent', 'The agent that tells this.', {'version': self._version})
        yield GaugeMetricFamily(
            'gpu_tracker_driver_up',
            '0: the GPU driver does not work, or has not answered lately. A machine without a driver has 1 and no GPU.',
            int(state.state == UP),
        )
        if taken is not None:
            yield GaugeMetricFamily(
                'gpu_tracker_reading_timestamp_seconds', 'When the GPUs were last read, since 1970.', taken
            )
        devices = [] if state.report is None else list(_devices(state.report))
        yield _info(devices)
        yield _kinds(devices, state)
        if state.state != UP:
            return
        yield _statuses(devices)
        for name, unit, text, value in _FIGURES:
            yield _figure(name, unit, text, [(value(gpu), labels) for gpu, labels in devices])
        for name, text, field in _ACTIVITY:
            known = [(gpu.activity, labels) for gpu, labels in devices if gpu.activity is not None]
            yield _figure(name, 'ratio', text, [(_ratio(getattr(one, field)), labels) for one, labels in known])
        yield from health_families([(gpu.health, labels) for gpu, labels in devices if gpu.health is not None], _LABELS)
        if self._export_processes:
            yield from _processes(devices, with_users=self._export_users)
        if self._export_users:
            yield from _users(devices)


class _Device(NamedTuple):
    """A GPU or MIG device, and the labels that all its series have."""

    gpu: GpuReport
    labels: tuple[str, ...]


def _devices(report: HostReport) -> Iterator[_Device]:
    host = _label(report.hostname)
    for gpu in report.gpus or ():
        index = _label(gpu.place)
        yield _Device(gpu, (host, _label(gpu.uuid), index, _label(gpu.type), ''))
        for part in gpu.mig_devices or ():
            number = str(part.number)
            yield _Device(part, (host, _label(part.uuid), f'{index}:{number}', _label(part.type), number))


def _label(text: str | None) -> str:
    """Return a text that can be written as UTF-8."""
    return printable(text or '')


def _info(devices: Iterable[_Device]) -> Metric:
    family = InfoMetricFamily('gpu_tracker_gpu', 'A GPU, or a MIG device of one.', labels=_LABELS)
    for gpu, labels in devices:
        family.add_metric(labels, {'pci_bus_id': _label(gpu.pci_bus_id), 'vendor': _label(gpu.vendor)})
    return family


def _kinds(devices: Iterable[_Device], host: HostState) -> Metric:
    family = _gauge(
        'counts_as',
        '',
        '1 for what a whole GPU counts as; one in MIG mode is as good as the best of its MIG devices.',
        (*_LABELS, 'kind'),
    )
    for gpu, labels in devices:
        if not labels[_MIG_INSTANCE]:
            for kind in KINDS:
                family.add_metric((*labels, kind), int(kind_of(gpu, host) == kind))
    return family


def _statuses(devices: Iterable[_Device]) -> Metric:
    family = _gauge(
        'status',
        '',
        '1 for what the GPU is now. A GPU is free where `gpu-tracker available` would give it.',
        (*_LABELS, 'status'),
    )
    for gpu, labels in devices:
        for status in STATUSES:
            family.add_metric((*labels, status), int(gpu.status == status))
    return family


def _figure(name: str, unit: str, text: str, values: Iterable[tuple[float | None, tuple[str, ...]]]) -> Metric:
    family = _gauge(name, unit, text, _LABELS)
    for value, labels in values:
        if value is not None:
            family.add_metric(labels, value)
    return family


def _processes(devices: Iterable[_Device], *, with_users: bool) -> Iterator[Metric]:
    own = ('pid', 'program', 'user') if with_users else ('pid', 'program')
    memory = _gauge('process_memory', 'bytes', 'Memory of the GPU that a process has.', (*_LABELS, *own))
    text = 'Share of the time in which the GPU worked for a process, from 0 to 1.'
    utilization = _gauge('process_utilization', 'ratio', text, (*_LABELS, *own))
    for gpu, labels in devices:
        for process in gpu.processes or ():
            program = _label(process.program)[:_LONGEST_PROGRAM]
            values = (*labels, *(str(process.pid), program, _user(process))[: len(own)])
            if process.memory_bytes is not None:
                memory.add_metric(values, process.memory_bytes)
            if process.utilization_percent is not None:
                utilization.add_metric(values, process.utilization_percent / _PERCENT)
    yield memory
    yield utilization


def _users(devices: Sequence[_Device]) -> Iterator[Metric]:
    counts = _gauge('user_processes', '', 'Processes of a user on the GPU; the user ? is unknown.', (*_LABELS, 'user'))
    memory = _gauge('user_memory', 'bytes', "Memory of the GPU that a user's processes have.", (*_LABELS, 'user'))
    for gpu, labels in devices:
        by_user: dict[str, list[ProcessReport]] = {}
        for process in gpu.processes or ():
            by_user.setdefault(_user(process), []).append(process)
        for user, processes in by_user.items():
            counts.add_metric((*labels, user), len(processes))
            sizes = [process.memory_bytes for process in processes if process.memory_bytes is not None]
            if len(sizes) == len(processes):  # part of a sum would be taken for the whole
                memory.add_metric((*labels, user), sum(sizes))
    yield counts
    yield memory


def _user(process: ProcessReport) -> str:
    return _UNSEEN if process.user is None else _label(process.user)


def _gauge(name: str, unit: str, text: str, labels: Sequence[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f'gpu_tracker_gpu_{name}', text, labels=labels, unit=unit)
