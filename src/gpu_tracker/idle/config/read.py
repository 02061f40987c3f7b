"""Reads a configuration file, and checks it against this machine."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.idle.config import on_machine
from gpu_tracker.idle.config.caller import this_caller
from gpu_tracker.idle.config.parse import parse
from gpu_tracker.idle.config.problem import Problem, sorted_by_line
from gpu_tracker.idle.config.trust import place_open_to_others

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_tracker.idle.config.settings import Settings

DEFAULT_PATH = '~/.config/gpu_mon.conf'
"""The file that is read where none is named."""

_MOST_BYTES = 1_000_000
_HINT = "'gpu-tracker idle --print-config' prints one to begin with"


class Reading(NamedTuple):
    """What a file says, or what is wrong with it."""

    settings: Settings | None
    """None where there are errors."""
    errors: tuple[Problem, ...]
    """By line."""
    warnings: tuple[Problem, ...]
    """By line."""


class _UnreadableError(Exception):
    def __init__(self, text: str, line: int | None = None) -> None:
        super().__init__(text)
        self.problem = Problem(line, None, text)


def read(path: str) -> Reading:
    """Return what the file at ``path`` says to the user of this process; nothing is raised for what is wrong with it.

    Folders, programs and logs are looked for on this machine, and nothing is made.
    """
    try:
        text = _text_of(path)
    except _UnreadableError as error:
        return Reading(None, (error.problem,), ())
    caller = this_caller()
    parsed = parse(text, caller)
    faults = on_machine.faults(parsed.document, parsed.settings.programs, os.environ)
    errors = sorted_by_line([*parsed.errors, *faults])
    warnings = [*_distrust(path), *parsed.warnings] if caller.is_root else parsed.warnings
    return Reading(None if errors else parsed.settings, errors, tuple(warnings))


def _distrust(path: str) -> Iterator[Problem]:
    try:
        place = place_open_to_others(path)
    except OSError:
        return  # it is gone since it was read, or a folder above it
    if place is not None:
        which = 'it' if place == os.path.realpath(path) else f'the folder {place!r}'
        text = f'others than root may write {which}, and so run programs as root: chown root and chmod go-w prevent it'
        yield Problem(None, None, text)


def _opened_if_regular(path: str, flags: int) -> int:
    """Open a file that can be read again at a reload, and leave others alone: they may wait, or do something."""
    _refuse_others(os.stat(path))
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _refuse_others(os.fstat(handle))  # it may have been replaced meanwhile
    except _UnreadableError:
        os.close(handle)
        raise
    return handle


def _refuse_others(file: os.stat_result) -> None:
    if not (stat.S_ISREG(file.st_mode) or stat.S_ISDIR(file.st_mode)):  # of a folder open tells
        raise _UnreadableError('is no regular file, which SIGHUP could have read again')


def _text_of(path: str) -> str:
    try:
        with open(path, 'rb', opener=_opened_if_regular) as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError as error:
        hint = f'; {_HINT}' if path == os.path.expanduser(DEFAULT_PATH) else ''
        raise _UnreadableError(f'cannot be read: {error.strerror}{hint}') from error
    except OSError as error:
        raise _UnreadableError(f'cannot be read: {error.strerror}') from error
    if len(data) > _MOST_BYTES:
        raise _UnreadableError('is no configuration file: it has more than 1 MB')
    try:
        return data.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        raise _UnreadableError('is not UTF-8 text', before.count(b'\n') + 1) from error
