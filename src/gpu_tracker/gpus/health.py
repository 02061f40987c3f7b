"""The health of a GPU for people, in a few words; its health and activity as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_tracker.gpus.model import GpuActivity, GpuHealth

_SLOWED = {
    'hardware_slowdown': 'slowed',
    'software_thermal': 'slowed: hot',
    'hardware_thermal': 'slowed: hot',
    'power_brake': 'slowed: power',
    'reliability': 'slowed: voltage',
}
"""What is said of the reasons for which a GPU runs slower, but for limits that are there to be reached."""


def findings(health: GpuHealth) -> list[str]:
    """Return in a few words what is wrong with a GPU; nothing where all is well, or nothing is known."""
    found = [f'XID {code}' if count == 1 else f'XID {code} ({count:,})' for code, count in health.xid_errors or ()]
    if health.ecc_volatile_uncorrected:
        found.append(f'ECC errors: {health.ecc_volatile_uncorrected:,}')
    if health.row_remap_failed:
        found.append('memory row not replaced')
    elif health.row_remap_pending:
        found.append('reset to replace memory row')
    return [*found, *dict.fromkeys(_SLOWED[reason] for reason in health.throttle_reasons or () if reason in _SLOWED)]


def health_as_json(health: GpuHealth) -> dict[str, object]:
    """Return what ``json.dumps`` takes: the keys of ``health`` in :func:`gpu_tracker.gpus.machine.snapshot`."""
    errors = health.xid_errors
    return {
        **health._asdict(),
        'xid_errors': None if errors is None else {str(code): count for code, count in errors},
        'throttle_reasons': None if health.throttle_reasons is None else list(health.throttle_reasons),
    }


def activity_as_json(activity: GpuActivity) -> dict[str, object]:
    """Return what ``json.dumps`` takes: the keys of ``activity`` in :func:`gpu_tracker.gpus.machine.snapshot`."""
    return {
        'problem': activity.problem,
        'seconds': activity.seconds,
        'sm_percent': activity.sm,
        'occupancy_percent': activity.occupancy,
        'tensor_percent': activity.tensor,
        'dram_percent': activity.dram,
        'pcie_sent_bytes_per_second': activity.pcie_sent,
        'pcie_received_bytes_per_second': activity.pcie_received,
        'nvlink_sent_bytes_per_second': activity.nvlink_sent,
        'nvlink_received_bytes_per_second': activity.nvlink_received,
    }
