"""The health of GPUs in Prometheus' words: errors, throttling, energy and traffic; nothing where a value is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from gpu_tracker.gpus.model import THROTTLE_REASONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client.metrics_core import Metric

    from gpu_tracker.gpus.model import GpuHealth

    Healths = Sequence[tuple[GpuHealth, tuple[str, ...]]]
    """Each with the labels of its GPU."""

_PREFIX = 'gpu_tracker_gpu'
_ECC = 'Memory errors since the driver was loaded (volatile), and in the life of the GPU (aggregate).'


_COUNTERS = (
    ('energy', 'joules', 'Energy that the GPU has used since the driver was loaded.'),
    ('pcie_sent', 'bytes', 'Bytes that the GPU has sent through PCIe.'),
    ('pcie_received', 'bytes', 'Bytes that the GPU has received through PCIe.'),
    ('nvlink_sent', 'bytes', 'Bytes that the GPU has sent through NVLink.'),
    ('nvlink_received', 'bytes', 'Bytes that the GPU has received through NVLink.'),
)
"""Names, units and texts; name and unit together are a field of GpuHealth."""
_GAUGES = (
    ('row_remap_pending', '1: a row of memory is replaced at the next reset of the GPU.'),
    ('row_remap_failed', '1: a row of memory could not be replaced; the GPU is to be exchanged.'),
)
"""Fields of GpuHealth, and their texts."""


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
        _add(rows, (*own, 'corrected'), health.remapped_rows_corrected)
        _add(rows, (*own, 'uncorrected'), health.remapped_rows_uncorrected)
        for reason in THROTTLE_REASONS if health.throttle_reasons is not None else ():
            throttled.add_metric((*own, reason), int(reason in (health.throttle_reasons or ())))
    yield from (xid, ecc, rows, throttled)
    families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {
        **{
            f'{name}_{unit}': CounterMetricFamily(f'{_PREFIX}_{name}', text, labels=labels, unit=unit)
            for name, unit, text in _COUNTERS
        },
        **{name: GaugeMetricFamily(f'{_PREFIX}_{name}', text, labels=labels) for name, text in _GAUGES},
    }
    for field, family in families.items():
        for health, own in healths:
            _add(family, own, getattr(health, field))
        yield family


def _add(family: CounterMetricFamily | GaugeMetricFamily, labels: tuple[str, ...], value: float | None) -> None:
    if value is not None:
        family.add_metric(labels, float(value))
