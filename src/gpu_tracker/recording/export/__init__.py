"""Recordings in the formats of other programs: one module a format, and the table :data:`FORMATS` of all of them.

Each module has a function ``pieces`` that yields the file some bytes at a time, so that a recording of any length is
exported in little memory.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

from gpu_tracker.errors import RecordingError
from gpu_tracker.system import files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_tracker.recording.reading.recording import Recording

FORMATS = {
    'csv': 'csv_table',
    'jsonl': 'json_lines',
    'parquet': 'parquet',
    'chrome-trace': 'chrome_trace',
    'sub-tracking': 'sub_tracking',
}
"""The name of a format, and its module."""

BINARY = ('parquet',)
"""The formats that are no text."""

_JOURNAL = '-journal'


def pieces(recording: Recording, format_name: str) -> Iterator[bytes]:
    """Yield the recording in the format of that name.

    :raises RecordingError: where there is no such format, or it needs a package that is missing.
    """
    if format_name not in FORMATS:
        raise RecordingError(f'the format must be one of {", ".join(FORMATS)}, not {format_name!r}')
    module = import_module(f'{__name__}.{FORMATS[format_name]}')
    found: Iterator[bytes] = module.pieces(recording)
    return found


def check_destination(recording: Recording, path: str) -> None:
    """Raise RecordingError where ``path`` is the recording itself, or the journal that it may have."""
    for own in (recording.path, recording.path + _JOURNAL):
        try:
            is_own = os.path.samefile(own, path)
        except OSError:
            is_own = os.path.realpath(own) == os.path.realpath(path)
        if is_own:
            raise RecordingError(f'{path} is the recording itself: choose another path for the export')


def export_to(recording: Recording, path: str, format_name: str) -> None:
    """Write a file in the format of that name; where that fails, a file that was there stays as it was.

    :raises RecordingError: as :func:`pieces` and :func:`check_destination`, or where it cannot be written.
    """
    check_destination(recording, path)
    try:
        files.write_pieces(path, pieces(recording, format_name))
    except OSError as error:
        raise RecordingError(f'cannot write {path}: {error.strerror or error}') from error
