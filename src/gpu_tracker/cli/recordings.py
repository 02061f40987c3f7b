"""Finds and opens the recordings in arguments of commands: files, or kept and killed runs."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpu_tracker import killed_runs
from gpu_tracker.cli import options
from gpu_tracker.errors import RecordingError
from gpu_tracker.recording.export import check_destination
from gpu_tracker.recording.reading.recording import load
from gpu_tracker.running import numbered_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_tracker.recording.reading.recording import Recording


def named(name: str) -> str:
    """Return the number or the ID of the run that ended last for ``last``, and every other name as it is.

    :raises RecordingError: There is no run.
    """
    if name != options.LAST_RUN or os.path.lexists(name):
        return name
    newest = numbered_runs.newest()
    if newest is None:
        raise RecordingError('there is no run yet: start one with gpu-tracker COMMAND')
    return newest


def last_two() -> list[str]:
    """Return the two runs that were kept last, if there are two, as groups of ``gpu-tracker compare``."""
    return [f'run {number}={number}' for number in list(numbered_runs.found())[-2:]]


def killed_run(name: str) -> str | None:
    """Return the file of the killed run that an argument names, by its ID or path; None if it names something else."""
    if os.path.lexists(name):
        return name if killed_runs.is_kept_run(name) else None
    return killed_runs.path_of(name)


def file_of(name: str) -> str:
    """Return the file of the recording that an argument names.

    :raises RecordingError: There is no such run, or it has no recording.
    """
    name = named(name)
    if name.isdecimal() and not os.path.lexists(name):
        return _file_of_number(name)
    path = killed_run(name)
    if path is None:
        return name
    run = killed_runs.load(path)
    if run is None or run.recording is None or not os.path.lexists(run.recording):
        raise RecordingError(f'{name} was killed and has no recording: use gpu-tracker show')
    return run.recording


def _file_of_number(number: str) -> str:
    path = numbered_runs.found().get(int(number))
    if path is None:
        raise RecordingError(f'there is no run {number}: list the runs with "gpu-tracker runs"')
    return path


@contextmanager
def opened(name: str, output_path: str | None, *, salvage: bool) -> Iterator[Recording]:
    """Open the recording that an argument names.

    :param output_path: The file to write, which must not be the recording.
    """
    with load(file_of(name), salvage=salvage) as recording:
        if output_path is not None:
            check_destination(recording, output_path)
        yield recording
