"""The figures that go to OpenTelemetry: one table with their names, units and attributes.

Names that begin with ``hw.`` and ``process.`` are those of the semantic conventions for hardware and processes, version
1.44.0 (https://opentelemetry.io/docs/specs/semconv/), which are *in development* and *release candidates* there. What
has no name in them begins with ``gpu_tracker.``: a maximum so far is no ``process.memory.usage``, which is what is in
use now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from gpu_tracker.system.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gpu_tracker.fleet.agent.job_ranks import JobRank
    from gpu_tracker.fleet.hosts.report import GpuReport, HostReport

    Attributes = Mapping[str, str | int]
    Values = Iterable[tuple[float | None, Attributes]]

Subject = TypeVar('Subject')

SCHEMA = 'https://opentelemetry.io/schemas/1.44.0'
"""The version of the conventions."""

GAUGE = 'gauge'
COUNTER = 'counter'
UP_DOWN_COUNTER = 'updowncounter'
"""The kinds of instruments, in the words of the conventions."""

_PERCENT = 100


class Point(NamedTuple):
    """A value, and its attributes."""

    value: float
    attributes: Attributes


class OtlpFigure(NamedTuple, Generic[Subject]):
    """A metric: what each GPU or each rank has one value of, or one for each of some attributes."""

    name: str
    unit: str
    """In UCUM, as the conventions have it."""
    kind: str
    text: str
    values: Callable[[Subject], Values]
    """Values with the attributes that they have beside those of the subject; None is unknown, and not sent."""


class Device(NamedTuple):
    """A GPU, or a MIG device of one."""

    gpu: GpuReport
    number: str
    """That of the GPU, or ``0:1``."""
    parent: GpuReport | None
    """The GPU that it is a part of."""


class Known(NamedTuple):
    """What is sent at one moment."""

    devices: Sequence[Device]
    ranks: Sequence[JobRank]


def _one(
    value: Callable[[Subject], float | None],
) -> Callable[[Subject], Values]:
    return lambda subject: [(value(subject), {})]


def _memory_utilization(device: Device) -> float | None:
    percent = device.gpu.memory_used_percent
    return None if percent is None else percent / _PERCENT


def _utilization(device: Device) -> Values:
    percent = device.gpu.utilization_percent
    return [(None if percent is None else percent / _PERCENT, {'hw.gpu.task': 'general'})]


def _io(device: Device) -> Values:
    health = device.gpu.health
    if health is None:
        return []
    return [
        (health.pcie_sent_bytes, {'network.io.direction': 'transmit', 'gpu_tracker.gpu.link': 'pcie'}),
        (health.pcie_received_bytes, {'network.io.direction': 'receive', 'gpu_tracker.gpu.link': 'pcie'}),
        (health.nvlink_sent_bytes, {'network.io.direction': 'transmit', 'gpu_tracker.gpu.link': 'nvlink'}),
        (health.nvlink_received_bytes, {'network.io.direction': 'receive', 'gpu_tracker.gpu.link': 'nvlink'}),
    ]


def _errors(device: Device) -> Values:
    health = device.gpu.health
    if health is None:
        return []
    return [
        (health.ecc_volatile_corrected, {'error.type': 'corrected'}),
        (health.ecc_volatile_uncorrected, {'error.type': 'uncorrected'}),
    ]


def _xid_errors(device: Device) -> Values:
    counts = None if device.gpu.health is None else device.gpu.health.xid_errors
    return [(count, {'gpu_tracker.gpu.xid': code}) for code, count in counts or ()]


def _temperature(device: Device) -> Values:
    # A sensor is a component of its own, of which the GPU is the parent.
    key, name = printable(device.gpu.key), f'GPU {device.number}'
    sensor = {
        'hw.id': f'{key}/temperature',
        'hw.name': f'{name} temperature',
        'hw.parent': key,
        'hw.sensor_location': name,
    }
    return [(device.gpu.temperature_celsius, sensor)]


def _disk_io(rank: JobRank) -> Values:
    return [(rank.read, {'disk.io.direction': 'read'}), (rank.written, {'disk.io.direction': 'write'})]


GPU_FIGURES: tuple[OtlpFigure[Device], ...] = (
    OtlpFigure('hw.gpu.utilization', '1', GAUGE, 'Fraction of time in which the GPU was busy.', _utilization),
    OtlpFigure(
        'hw.gpu.memory.limit',
        'By',
        UP_DOWN_COUNTER,
        'Size of the GPU memory.',
        _one(lambda d: d.gpu.memory_total_bytes),
    ),
    OtlpFigure(
        'hw.gpu.memory.usage', 'By', UP_DOWN_COUNTER, 'GPU memory used.', _one(lambda d: d.gpu.memory_used_bytes)
    ),
    OtlpFigure('hw.gpu.memory.utilization', '1', GAUGE, 'Fraction of GPU memory used.', _one(_memory_utilization)),
    OtlpFigure('hw.gpu.io', 'By', COUNTER, 'Received and transmitted bytes by the GPU.', _io),
    OtlpFigure('hw.errors', '{error}', COUNTER, 'Memory errors since the driver was loaded.', _errors),
    OtlpFigure('hw.power', 'W', GAUGE, 'Instantaneous power consumed by the GPU.', _one(lambda d: d.gpu.power_watts)),
    OtlpFigure(
        'hw.energy',
        'J',
        COUNTER,
        'Energy consumed by the GPU since the driver was loaded.',
        _one(lambda d: None if d.gpu.health is None else d.gpu.health.energy_joules),
    ),
    OtlpFigure('hw.temperature', 'Cel', GAUGE, 'Temperature of the GPU.', _temperature),
    OtlpFigure(
        'gpu_tracker.gpu.power.limit',
        'W',
        GAUGE,
        'Power that the GPU may draw.',
        _one(lambda d: d.gpu.power_limit_watts),
    ),
    OtlpFigure(
        'gpu_tracker.gpu.sm_clock',
        'Hz',
        GAUGE,
        'Clock of the streaming multiprocessors.',
        _one(lambda d: d.gpu.sm_clock_hertz),
    ),
    OtlpFigure(
        'gpu_tracker.gpu.xid_errors',
        '{error}',
        COUNTER,
        'XID errors since the agent began, by their code.',
        _xid_errors,
    ),
)
RANK_FIGURES: tuple[OtlpFigure[JobRank], ...] = (
    OtlpFigure(
        'process.cpu.time',
        's',
        COUNTER,
        'CPU time of the rank and all that it has started, in all modes.',
        _one(lambda rank: rank.cpu_seconds),
    ),
    OtlpFigure('process.disk.io', 'By', COUNTER, 'Bytes from and to storage.', _disk_io),
    OtlpFigure(
        'process.uptime', 's', GAUGE, 'For how long the rank has run.', _one(lambda rank: rank.updated - rank.started)
    ),
    OtlpFigure(
        'gpu_tracker.job.rank.memory.max',
        'By',
        GAUGE,
        'The most RAM of the rank and all that it has started so far.',
        _one(lambda rank: rank.memory_max),
    ),
    OtlpFigure(
        'gpu_tracker.job.rank.gpu.memory.max',
        'By',
        GAUGE,
        'The most GPU memory of the same so far.',
        _one(lambda rank: rank.gpu_memory_max),
    ),
    OtlpFigure(
        'gpu_tracker.job.rank.gpu.utilization',
        '1',
        GAUGE,
        'How busy its GPUs were on average so far, from 0 to 1 for each, summed over them.',
        _one(lambda rank: rank.gpu_utilization),
    ),
)


def resource_attributes(host: str, version: str) -> dict[str, str]:
    """Return the attributes of all that an agent sends.

    ``service.instance.id`` is the host's name: Prometheus, as a receiver, keeps this attribute as ``instance``, and not
    ``host.name``.
    """
    return {
        'service.name': 'gpu-tracker-agent',
        'service.version': version,
        'service.instance.id': printable(host),
        'host.name': printable(host),
    }


def devices(report: HostReport | None) -> Iterator[Device]:
    """Yield the GPUs in a report, and their MIG devices."""
    for gpu in (None if report is None else report.gpus) or ():
        yield Device(gpu, str(gpu.number), None)
        for part in gpu.mig_devices or ():
            yield Device(part, f'{gpu.number}:{part.number}', gpu)


def points_of_gpus(figure: OtlpFigure[Device], found: Iterable[Device]) -> Iterator[Point]:
    """Yield the values of a figure that are known, with all their attributes."""
    for device in found:
        for value, own in figure.values(device):
            if value is not None:
                yield Point(value, {**_device_attributes(device), **own} if 'hw.id' not in own else own)


def points_of_ranks(figure: OtlpFigure[JobRank], ranks: Iterable[JobRank]) -> Iterator[Point]:
    """Yield the same of ranks."""
    for rank in ranks:
        for value, own in figure.values(rank):
            if value is not None:
                yield Point(value, {**_rank_attributes(rank), **own})


def _device_attributes(device: Device) -> Attributes:
    gpu = device.gpu
    attributes: dict[str, str | int] = {
        'hw.id': printable(gpu.key),
        'hw.name': f'GPU {device.number}',
        'hw.type': 'gpu',
    }
    if gpu.type is not None:
        attributes['hw.model'] = printable(gpu.type)
    if device.parent is not None:
        attributes['hw.parent'] = printable(device.parent.key)
    return attributes


def _rank_attributes(rank: JobRank) -> Attributes:
    attributes = {
        'process.pid': rank.pid,
        'gpu_tracker.job.id': rank.job,
        'gpu_tracker.job.folder': rank.folder,
        'gpu_tracker.job.step': rank.step,
        'gpu_tracker.job.rank': rank.rank,
        'gpu_tracker.job.node': rank.node,
    }
    return {name: value for name, value in attributes.items() if value is not None}
