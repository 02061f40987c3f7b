"""The sub-tracking of gpu-tracker 5: code blocks that write when they start and stop, and what was used meanwhile.

New programs use :func:`gpu_tracker.region` and :func:`gpu_tracker.load`; ``docs/migration.rst`` compares both.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.sub_tracker.analyzer import SubTrackingAnalyzer
    from gpu_tracker.sub_tracker.block import SubTracker, sub_track
    from gpu_tracker.sub_tracker.comparison import ComparisonResults, TrackingComparison
    from gpu_tracker.sub_tracker.results import CodeBlockResults, SubTrackingResults

__all__ = [
    'CodeBlockResults',
    'ComparisonResults',
    'SubTracker',
    'SubTrackingAnalyzer',
    'SubTrackingResults',
    'TrackingComparison',
    'sub_track',
]

_MODULES = {
    'CodeBlockResults': 'results',
    'ComparisonResults': 'comparison',
    'SubTracker': 'block',
    'SubTrackingAnalyzer': 'analyzer',
    'SubTrackingResults': 'results',
    'TrackingComparison': 'comparison',
    'sub_track': 'block',
}


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__


def __getattr__(name: str) -> object:
    """Import what is first asked for: a program that only marks its blocks needs no analysis."""
    if name in _MODULES:
        from importlib import import_module  # noqa: PLC0415

        return globals().setdefault(name, getattr(import_module(f'gpu_tracker.sub_tracker.{_MODULES[name]}'), name))
    message = f'module {__name__!r} has no attribute {name!r}'
    raise AttributeError(message)
