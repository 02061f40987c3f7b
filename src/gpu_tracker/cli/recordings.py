"""Finds and opens the recordings that arguments of commands name: by their files, or by the ID of a killed run."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpu_tracker import killed_runs
from gpu_tracker.errors import RecordingError
from gpu_tracker.recording.export import check_destination
from gpu_tracker.recording.reading.recording import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_tracker.recording.reading.recording import Recording


def killed_run(name: str) -> str | None:
    """Return the file of the killed run that an argument names, by its ID or path; None if it names something else."""
    if os.path.lexists(name):
        return name if killed_runs.is_kept_run(name) else None
    return killed_runs.path_of(name)


def file_of(name: str) -> str:
    """Return the file of the recording that an argument names.

    :raises RecordingError: It names a killed run without a recording.
    """
    path = killed_run(name)
    if path is None:
        return name
    run = killed_runs.load(path)
    if run is None or run.recording is None:
        raise RecordingError(f'{name} is a killed run without a recording: only gpu-tracker show reads it')
    return run.recording


@contextmanager
def opened(name: str, output_path: str | None, *, salvage: bool) -> Iterator[Recording]:
    """Open the recording that an argument names.

    :param output_path: The file to write, which must not be the recording.
    """
    with load(file_of(name), salvage=salvage) as recording:
        if output_path is not None:
            check_destination(recording, output_path)
        yield recording
