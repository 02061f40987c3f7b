"""What a program used of a machine: RAM, GPU RAM, CPU, GPU utilization and time, for it and everything it started."""

from __future__ import annotations

from gpu_tracker.tracker import Tracker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.usage import (
        ComputeTime,
        CPUUtilization,
        GPUUtilization,
        MaxGPURAM,
        MaxRAM,
        ProcessingUnitPercentages,
        ResourceUsage,
        RSSValues,
    )

__version__ = '6.0.0'

__all__ = [
    'CPUUtilization',
    'ComputeTime',
    'GPUUtilization',
    'MaxGPURAM',
    'MaxRAM',
    'ProcessingUnitPercentages',
    'RSSValues',
    'ResourceUsage',
    'Tracker',
    '__version__',
]


def __getattr__(name: str) -> object:
    """Import the classes of the result when they are first asked for: dataclasses cost 15 ms."""
    if name in __all__:
        from gpu_tracker import usage  # noqa: PLC0415

        return getattr(usage, name)
    message = f'module {__name__!r} has no attribute {name!r}'
    raise AttributeError(message)
