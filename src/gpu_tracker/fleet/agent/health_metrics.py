"""The health of GPUs in Prometheus' words: errors, throttling, energy and traffic; nothing where a value is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from gpu_tracker.gpus.model import THROTTLE_REASONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client.metrics_core import Metric

    from gpu_tracker.gpus.model import GpuHealth

    Healths = Sequence[tuple[GpuHealth, tuple[str, ...]]]
    """Each with the labels of its GPU."""

_PREFIX = 'gpu_tracker_gpu'
_ECC = 'Memory errors since the driver was loaded (volatile), and in the life of the GPU (aggregate).'


class _Figure(NamedTuple):
    """What a GPU has one value of."""

    name: str
    unit: str
    text: str
    value: Callable[[GpuHealth], float | None]
    family: type[CounterMetricFamily | GaugeMetricFamily] = CounterMetricFamily


_FIGURES = (
    _Figure('energy', 'joules', 'Energy that the GPU has used since the driver was loaded.', lambda gpu: gpu.energy),
    _Figure('pcie_sent', 'bytes', 'Bytes that the GPU has sent through PCIe.', lambda gpu: gpu.pcie_sent),
    _Figure('pcie_received', 'bytes', 'Bytes that the GPU has received through PCIe.', lambda gpu: gpu.pcie_received),
    _Figure('nvlink_sent', 'bytes', 'Bytes that the GPU has sent through NVLink.', lambda gpu: gpu.nvlink_sent),
    _Figure(
        'nvlink_received', 'bytes', 'Bytes that the GPU has received through NVLink.', lambda gpu: gpu.nvlink_received
    ),
    _Figure(
        'row_remap_pending',
        '',
        '1: a row of memory is replaced at the next reset of the GPU.',
        lambda gpu: gpu.remap_pending,
        GaugeMetricFamily,
    ),
    _Figure(
        'row_remap_failed',
        '',
        '1: a row of memory could not be replaced; the GPU is to be exchanged.',
        lambda gpu: gpu.remap_failed,
        GaugeMetricFamily,
    ),
)


def health_families(healths: Healths, labels: tuple[str, ...]) -> Iterator[Metric]:
    """Yield the families of metrics.

    :param labels: The names of the labels that all series of a GPU have.
    """
    xid = CounterMetricFamily(f'{_PREFIX}_xid_errors', 'XID errors since the agent began.', labels=(*labels, 'xid'))
    ecc = CounterMetricFamily(f'{_PREFIX}_ecc_errors', _ECC, labels=(*labels, 'error', 'counter'))
    rows = GaugeMetricFamily(
        f'{_PREFIX}_remapped_rows', 'Rows of memory that were replaced.', labels=(*labels, 'error')
    )
    throttled = GaugeMetricFamily(
        f'{_PREFIX}_throttled', '1 for each reason for which the GPU is slowed down now.', labels=(*labels, 'reason')
    )
    for health, own in healths:
        for code, count in health.xid_errors or ():
            xid.add_metric((*own, str(code)), count)
        _add(ecc, (*own, 'corrected', 'volatile'), health.ecc_volatile_corrected)
        _add(ecc, (*own, 'uncorrected', 'volatile'), health.ecc_volatile_uncorrected)
        _add(ecc, (*own, 'corrected', 'aggregate'), health.ecc_aggregate_corrected)
        _add(ecc, (*own, 'uncorrected', 'aggregate'), health.ecc_aggregate_uncorrected)
        _add(rows, (*own, 'corrected'), health.remapped_corrected)
        _add(rows, (*own, 'uncorrected'), health.remapped_uncorrected)
        for reason in THROTTLE_REASONS if health.throttled is not None else ():
            throttled.add_metric((*own, reason), int(reason in (health.throttled or ())))
    yield from (xid, ecc, rows, throttled)
    for figure in _FIGURES:
        family = figure.family(f'{_PREFIX}_{figure.name}', figure.text, labels=labels, unit=figure.unit)
        for health, own in healths:
            value = figure.value(health)
            _add(family, own, None if value is None else float(value))
        yield family


def _add(family: CounterMetricFamily | GaugeMetricFamily, labels: tuple[str, ...], value: float | None) -> None:
    if value is not None:
        family.add_metric(labels, value)
