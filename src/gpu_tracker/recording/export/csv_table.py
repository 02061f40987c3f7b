"""The samples as CSV (RFC 4180): a line of names, and one line a sample in base units, empty where unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_tracker.recording.reading.recording import Recording


def pieces(recording: Recording) -> Iterator[bytes]:
    """Yield the table. Numbers and names of columns need no quotes."""
    samples = recording.samples
    yield f'{",".join(samples.names)}\r\n'.encode()
    for columns in samples.batches(samples.names[1:]):
        lines = [
            ','.join(['' if value is None else repr(value) for value in row]) for row in zip(*columns, strict=True)
        ]
        yield '\r\n'.join([*lines, '']).encode()
