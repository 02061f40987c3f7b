"""The configuration file on this machine: read, and checked against the folders, programs and users there are."""

from __future__ import annotations

import asyncio
import functools
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.background import in_thread
from gpu_tracker.idle.config.document import Problem, referred_to, sorted_by_line
from gpu_tracker.idle.config.file_access import User, is_hidden, may, this_caller, user_named, writable_by_others
from gpu_tracker.idle.config.parser import parse
from gpu_tracker.idle.config.values import hint

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from gpu_tracker.idle.config.document import Document
    from gpu_tracker.idle.config.idle_settings import Program, Settings

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
    faults = machine_faults(parsed.document, parsed.settings.programs, os.environ)
    errors = sorted_by_line([*parsed.errors, *faults])
    warnings = [*_warn_of_writers(path), *parsed.warnings] if caller.is_root else parsed.warnings
    return Reading(None if errors else parsed.settings, errors, tuple(warnings))


def _warn_of_writers(path: str) -> Iterator[Problem]:
    try:
        place = writable_by_others(path)
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
    if not (stat.S_ISREG(file.st_mode) or stat.S_ISDIR(file.st_mode)):  # of a folder open reports it
        raise _UnreadableError('is not a regular file, so SIGHUP cannot reload it')


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
        raise _UnreadableError('is larger than 1 MB, too large for a configuration file')
    try:
        return data.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        raise _UnreadableError('is not UTF-8 text', before.count(b'\n') + 1) from error


def machine_faults(
    document: Document, programs: Iterable[Program], environment: Mapping[str, str]
) -> Iterator[Problem]:
    """Return what keeps programs from being started, and change nothing.

    ``environment`` is that of the monitor. A program's keys that could not be read are left out.
    """
    for program in programs:
        section = document.sections[program.name]
        user = user_named(program.user)
        checks = {
            'dir': folder_fault(program.folder, user) if program.folder else None,
            'cmd': program_fault(program, environment, user) if program.command else None,
            'log': None if program.log is None else log_fault(program.log, user),
        }
        paths = {'dir': program.folder, 'cmd': ''.join(program.command[:1]), 'log': program.log or ''}
        for key, fault in checks.items():
            if fault is not None:
                text = f'{key}: {fault}{_missing_keys(paths[key], section.values)}'
                yield Problem(section.line_of(key), section.name, text)


def folder_fault(folder: str, user: User | None = None) -> str | None:
    """Return why a folder cannot be worked in, in words; None where it can.

    :param user: Who is to; None: the user of this process.
    """
    if is_hidden(user, folder):
        return None
    if not os.path.exists(folder):
        return f'there is no folder {folder!r}{hint(folder)}'
    if not os.path.isdir(folder):
        return f'{folder!r} is no folder'
    if not may(user, folder, os.X_OK):
        return f'the folder {folder!r} may not be entered{_by(user)}'
    return None


def program_fault(program: Program, environment: Mapping[str, str], user: User | None = None) -> str | None:
    """Return why a program cannot be started, in words; None where it can, or where its name depends on its GPU.

    :param user: Who is to; None: the user of this process.
    """
    name = program.command[0]
    if '{gpu}' in name:
        return None
    if '/' in name:
        if not os.path.isabs(name) and not os.path.isdir(program.folder):
            return None  # that of dir is said, and nothing else is known
        places, where = [program.folder], 'there is no program'
    else:
        places = os.get_exec_path({**environment, **dict(program.environment)})
        where = 'no folder of PATH has a program'
    # What is relative there counts from where the program is started.
    paths = [os.path.join(program.folder, place, name) for place in places]
    if any(is_hidden(user, path) or (os.path.isfile(path) and may(user, path, os.X_OK)) for path in paths):
        return None
    if '/' in name and os.path.exists(paths[0]):
        return f'{name!r} is no program that may be executed{_by(user)}'
    if any(os.path.isfile(path) and os.access(path, os.X_OK) for path in paths):
        return f'{where} {name!r} that may be executed{_by(user)}'
    return f'{where} {name!r}' + ('; give its folder in full, ~ is not replaced here' if name[0] == '~' else '')


def log_fault(log: str, user: User | None = None) -> str | None:
    """Return why nothing can be appended to a file, in words; None where it can.

    :param user: Who is to; None: the user of this process.
    """
    if is_hidden(user, log):
        return None
    if os.path.isdir(log) or log.endswith('/'):
        return f'{log!r} is a folder, not a file'
    if os.path.exists(log):
        return None if may(user, log, os.W_OK) else f'{log!r} may not be written{_by(user)}'
    folder = os.path.dirname(os.path.realpath(log) if os.path.islink(log) else log)
    if not os.path.isdir(folder):
        return f'there is no folder {folder!r} for it'
    if not may(user, folder, os.W_OK | os.X_OK):
        return f'no file may be made in {folder!r}{_by(user)}'
    return None


def _by(user: User | None) -> str:
    return '' if user is None else f' by {user.name}'


def _missing_keys(value: str, known: Mapping[str, str]) -> str:
    missing = [key for key in referred_to(value) if key not in known]
    return f'; there is no key {" or ".join(missing)}' if missing else ''


class Reloading:
    """Reads a file in a thread, because it may hang: what it names may lie on a server that does not answer.

    :param path: Of the file.
    :param done: Called when there is something to take.
    :param read: Reads it.
    """

    def __init__(
        self, path: str, log: logging.Logger, done: Callable[[], None], *, read: Callable[[str], Reading] = read
    ) -> None:
        self._path = path
        self._log = log
        self._done = done
        self._read_file = read
        self._task: asyncio.Task[None] | None = None
        self._is_asked_again = False
        self._reading: Reading | None = None

    def ask(self) -> None:
        """Have the file read, after the reading that goes on if there is one."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._read())
        else:
            self._is_asked_again = True
            self._log.warning(
                'SIGHUP: %s is still being read after the previous SIGHUP. Afterwards, the file is read again',
                self._path,
            )

    def take(self, current: Settings) -> Settings | None:
        """Return what was read last, once; None: nothing was, or nothing that can be used, which is logged."""
        reading, self._reading = self._reading, None
        if reading is None:
            return None
        for problem in reading.warnings:
            self._log.warning('%s', problem.describe(self._path))
        for problem in reading.errors:
            self._log.error('%s', problem.describe(self._path))
        settings = reading.settings
        if settings is None:
            self._log.error('SIGHUP: %s has errors, so nothing changes', self._path)
            return None
        if current.programs and not settings.programs:  # it may just be written: that must not stop everything
            self._log.error('SIGHUP: %s has no program, so nothing changes', self._path)
            return None
        self._log.info('SIGHUP: %s is read again', self._path)
        return settings

    async def _read(self) -> None:
        try:
            self._reading = await in_thread(functools.partial(self._read_file, self._path))
        except Exception:  # noqa: BLE001 - whatever it is, the monitor goes on
            self._log.exception('SIGHUP: %s cannot be read', self._path)
        self._task = None
        if self._is_asked_again:
            self._is_asked_again = False
            self.ask()
        self._done()
