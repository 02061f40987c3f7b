"""What a program used of a machine: RAM, GPU RAM, CPU, GPU utilization and time, for it and everything it started."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.gpus.api import available_gpus, claim_gpus, gpu_info
    from gpu_tracker.tracker import Tracker
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
    'available_gpus',
    'claim_gpus',
    'gpu_info',
]

_MODULES = {'Tracker': 'tracker', 'available_gpus': 'gpus.api', 'claim_gpus': 'gpus.api', 'gpu_info': 'gpus.api'}
"""Name -> the module that it is from, for those that are not from ``usage``."""


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__


def __getattr__(name: str) -> object:
    """Import what is first asked for: dataclasses cost 15 ms, and the sampler needs none of all this."""
    if name in __all__:
        from importlib import import_module  # noqa: PLC0415

        module = import_module(f'gpu_tracker.{_MODULES.get(name, "usage")}')
        return globals().setdefault(name, getattr(module, name))
    message = f'module {__name__!r} has no attribute {name!r}'
    raise AttributeError(message)
