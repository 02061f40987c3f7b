"""What a program used of a machine: RAM, GPU RAM, CPU, GPU utilization and time, for it and everything it started."""

from __future__ import annotations

from gpu_tracker import real as _real  # noqa: F401 - before a test replaces what it holds
from gpu_tracker.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.gpus.api import available_gpus, claim_gpus, gpu_info
    from gpu_tracker.jobs.loading import load_job
    from gpu_tracker.recording.comparing.comparison import compare
    from gpu_tracker.recording.reading.recording import load
    from gpu_tracker.regions.blocks import region
    from gpu_tracker.result.usage import (
        ComputeTime,
        CPUUtilization,
        GPUUtilization,
        JobIdentity,
        MaxGPURAM,
        MaxRAM,
        ProcessingUnitPercentages,
        ResourceUsage,
        RSSValues,
    )
    from gpu_tracker.sub_tracker import SubTracker, SubTrackingAnalyzer, TrackingComparison, sub_track
    from gpu_tracker.tracked_command import run
    from gpu_tracker.tracked_function import track
    from gpu_tracker.tracker import Tracker

__all__ = [
    'CPUUtilization',
    'ComputeTime',
    'GPUUtilization',
    'JobIdentity',
    'MaxGPURAM',
    'MaxRAM',
    'ProcessingUnitPercentages',
    'RSSValues',
    'ResourceUsage',
    'SubTracker',
    'SubTrackingAnalyzer',
    'Tracker',
    'TrackingComparison',
    '__version__',
    'available_gpus',
    'claim_gpus',
    'compare',
    'gpu_info',
    'load',
    'load_job',
    'region',
    'run',
    'sub_track',
    'track',
]

_MODULES = {
    'SubTracker': 'sub_tracker',
    'SubTrackingAnalyzer': 'sub_tracker',
    'Tracker': 'tracker',
    'TrackingComparison': 'sub_tracker',
    'available_gpus': 'gpus.api',
    'claim_gpus': 'gpus.api',
    'compare': 'recording.comparing.comparison',
    'gpu_info': 'gpus.api',
    'load': 'recording.reading.recording',
    'load_job': 'jobs.loading',
    'load_ipython_extension': 'notebook.magics',
    'region': 'regions.blocks',
    'run': 'tracked_command',
    'sub_track': 'sub_tracker',
    'track': 'tracked_function',
    'unload_ipython_extension': 'notebook.magics',
}
"""Name -> the module that it is from, for those that are not from ``result.usage``."""


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__


def __getattr__(name: str) -> object:
    """Import what is first asked for: dataclasses cost 15 ms, and the sampler needs none of all this."""
    if name in __all__ or name in _MODULES:  # IPython's are not for people
        from importlib import import_module  # noqa: PLC0415

        module = import_module(f'gpu_tracker.{_MODULES.get(name, "result.usage")}')
        return globals().setdefault(name, getattr(module, name))
    message = f'module {__name__!r} has no attribute {name!r}'
    raise AttributeError(message)
