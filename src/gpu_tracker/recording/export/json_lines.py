"""All of a recording as JSON Lines: one object a line, whose ``type`` says what it is.

In this order: ``meta``, ``summary`` (the result, as ``-f json`` prints it), ``column``, ``gpu``, ``process``,
``region``, ``message``, ``clock``, ``sample``, ``gpu_sample``, ``process_sample``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.errors import RecordingError
from gpu_tracker.recording.reading.plain import plain, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpu_tracker.recording.reading.recording import Recording

_LINES_AT_ONCE = 1000


def pieces(recording: Recording) -> Iterator[bytes]:
    """Yield the lines, some at a time."""
    waiting: list[str] = []
    for kind, record in _records(recording):
        waiting.append(text({'type': kind, **record}))
        if len(waiting) >= _LINES_AT_ONCE:
            yield _joined(waiting)
            waiting = []
    yield _joined(waiting)


def _joined(lines: Iterable[str]) -> bytes:
    return ''.join(f'{line}\n' for line in lines).encode()


def _records(recording: Recording) -> Iterator[tuple[str, dict[str, object]]]:
    yield 'meta', plain(recording.meta)
    try:
        yield 'summary', recording.summary().to_dict()
    except RecordingError:
        pass  # there is none yet
    for kind, records in (
        ('column', recording.columns),
        ('gpu', recording.gpus),
        ('process', recording.processes),
        ('region', recording.regions),
        ('message', recording.messages),
        ('clock', recording.clock),
    ):
        for record in records:
            yield kind, plain(record)
    names = recording.samples.names
    for columns in recording.samples.batches(names[1:]):
        for row in zip(*columns, strict=True):
            yield 'sample', dict(zip(names, row, strict=True))
    for gpu_sample in recording.gpu_samples():
        yield 'gpu_sample', plain(gpu_sample)
    for process_sample in recording.process_samples():
        yield 'process_sample', plain(process_sample)
