"""CUDA calls: what the probe has seen of the tracked processes; part of the result where it is asked for."""

from __future__ import annotations

from gpu_tracker.resources import COUNTER, GAUGE, GROUPS, WHOSE, Column, entry_of, function_at
from gpu_tracker.resources.threaded import Target, ThreadedReader, ThreadedResource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from gpu_tracker.resources.context import Context
    from gpu_tracker.resources.threaded import OpenSource
    from gpu_tracker.result.cuda_usage import CUDAUsage
    from gpu_tracker.totals import Totals
    from gpu_tracker.units import Units

TITLE = 'CUDA calls'
"""What is measured, as messages call it."""
_NAME = 'cuda'
_LONGEST_END = 2.0
"""Seconds that the end of a run waits for the probe: nothing says later what that has not said by then."""
_COLUMNS = (
    ('launches', 'count', COUNTER, 'CUDA kernels launched by'),
    ('allocated', 'bytes', COUNTER, 'GPU memory allocated by'),
    ('freed', 'bytes', COUNTER, 'GPU memory freed by'),
    ('memory_current', 'bytes', GAUGE, 'GPU memory allocated and not freed by'),
)


class Cuda(ThreadedResource):
    """The figures that the probe's thread has published last: all of these since the first sample."""

    columns = tuple(
        Column(f'{group}_cuda_{name}', unit, kind, f'{meaning} {WHOSE[group]}')
        for group in GROUPS
        for name, unit, kind, meaning in _COLUMNS
    )

    def __init__(self, reader: ThreadedReader) -> None:
        super().__init__(reader, _LONGEST_END)

    def row(self) -> Sequence[float | None]:
        """Return launches and memory of the three groups at the last reading, up to a second ago; None: unknown."""
        found: Mapping[str, Any] = self._reader.result()
        groups = [found.get(group, {}) for group in GROUPS]
        return [
            group.get(f'{name}_bytes' if unit == 'bytes' else name) for group in groups for name, unit, *_ in _COLUMNS
        ]


def open_resource(context: Context) -> Cuda:
    """Return the probe of the tree, which is attached before a command that is held back runs."""
    root = context.tree.root.pid
    command, folder = context.config['command'] or ((), '')
    target = Target(root, frozenset(context.tree.members) - {root}, tuple(command), folder)
    return Cuda(open_reader(_open_probe, target))


def _open_probe(target: Target) -> Any:  # noqa: ANN401 - a Source, which the wing has
    return function_at(entry_of(_NAME).opener)(target)


def open_reader(open_source: OpenSource, target: Target) -> ThreadedReader:
    """Return the thread that reads what ``open_source`` opens."""
    from gpu_tracker.result.cuda_usage import cuda_usage  # noqa: PLC0415 - imports dataclasses

    reader = ThreadedReader(_NAME, TITLE, lambda found: cuda_usage(found, 'bytes'))
    reader.open(open_source, target)
    return reader


def usage_of(totals: Totals, wanted: Units) -> dict[str, CUDAUsage]:
    """Return the section ``cuda`` of the result."""
    from gpu_tracker.result.cuda_usage import cuda_usage  # noqa: PLC0415 - imports dataclasses

    return {'cuda': cuda_usage(totals['cuda'], wanted.gpu_ram)}
