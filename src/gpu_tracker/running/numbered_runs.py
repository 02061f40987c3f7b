"""The recordings of runs that are kept: each under its number, in the folder of killed runs. Linux only."""

from __future__ import annotations

import os
import shutil
import sys

from gpu_tracker.background import call_in_time
from gpu_tracker.sampler import kept_run
from gpu_tracker.sampler.kept_run import LARGEST, MOST, RECORDING, SUFFIX

_LONGEST = 0.2
"""Seconds that the end of a run waits for its number: a disk may hang."""


def keep_in_time(path: str, folder: str, seconds: float = _LONGEST) -> int | None:
    """Keep a recording as :func:`keep` does; return its number, or None if that fails or takes too long."""
    try:
        return call_in_time(lambda: keep(path, folder), seconds)
    except (OSError, RuntimeError):
        return None  # a full disk, a folder that was removed, or no thread is left: the run is not kept


def keep(path: str, folder: str) -> int:
    """Give a finished recording the next number, remove the oldest ones, and return the number.

    :param path: A file in ``folder`` is renamed; one elsewhere is copied.
    :param folder: Of the user's runs.
    :raises OSError: It cannot be kept, or is too large.
    """
    if _size(path) > LARGEST:
        raise OSError('it is too large')
    if os.path.dirname(path) != folder:
        path = _copied(path, folder)
    number = max(found(), default=0) + 1
    while True:
        try:
            os.link(path, path_of(number, folder))  # which fails if another run has taken the number
        except FileExistsError:
            number += 1
        else:
            break
    os.unlink(path)
    remove_oldest(folder)
    return number


def path_of(number: int, folder: str) -> str:
    """Return the path of a kept recording."""
    return f'{folder}/{number}{RECORDING}'


def found() -> dict[int, str]:
    """Return the paths of the kept recordings by their numbers, in order."""
    paths: dict[int, str] = {}
    for folder in _folders():
        for name in os.listdir(folder):
            stem, ending = os.path.splitext(name)
            if ending == RECORDING and stem.isdecimal():
                paths.setdefault(int(stem), f'{folder}/{name}')
    return dict(sorted(paths.items()))


def newest() -> str | None:
    """Return the number of the run that ended last, or its ID if it was killed; None: no run is recorded."""
    path = max(recordings(), key=_time, default=None)
    return None if path is None else os.path.basename(path).removesuffix(RECORDING)


def recordings() -> list[str]:
    """Return the paths of the recordings of all runs that were kept or killed."""
    killed = [path for folder in _folders() for path in _recordings(folder) if os.path.lexists(_run_file(path))]
    return [*found().values(), *killed]


def remove_oldest(folder: str, most: int = MOST, largest: int = LARGEST) -> None:
    """Remove the recordings that ended first, down to ``most`` of at most ``largest`` bytes together.

    :raises OSError: The folder cannot be read.
    """
    size = 0
    for count, path in enumerate(sorted(_recordings(folder), key=_time, reverse=True), 1):
        size += _size(path)
        if count > most or size > largest:
            kept_run.remove(path)


def _copied(path: str, folder: str) -> str:
    copy = f'{folder}/.{os.urandom(3).hex()}{RECORDING}'
    try:
        shutil.copyfile(path, copy)
    except OSError:
        kept_run.remove(copy)
        raise
    return copy


def _folders() -> list[str]:
    if sys.platform != 'linux':
        return []
    return [folder for folder in kept_run.local_folders() if kept_run.is_own(folder)]


def _recordings(folder: str) -> list[str]:
    """Return the paths of all recordings in a folder whose runs have ended, also of copies that are not complete."""
    paths = [f'{folder}/{name}' for name in os.listdir(folder) if name.endswith(RECORDING)]
    return [path for path in paths if not kept_run.goes_on(_run_file(path))]


def _run_file(path: str) -> str:
    return path.removesuffix(RECORDING) + SUFFIX


def _time(path: str) -> tuple[float, str]:
    try:
        return os.stat(path).st_mtime, path
    except OSError:
        return 0.0, path  # another run has removed it


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0  # another run has removed it
