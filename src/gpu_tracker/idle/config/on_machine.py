"""What of a configuration cannot work on this machine: folders, programs and logs that are not there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpu_tracker.idle.config.interpolation import left_in
from gpu_tracker.idle.config.permission import User, is_hidden, may, user_named
from gpu_tracker.idle.config.problem import Problem
from gpu_tracker.idle.config.values import hint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpu_tracker.idle.config.document import Document
    from gpu_tracker.idle.config.settings import Program


def faults(document: Document, programs: Iterable[Program], environment: Mapping[str, str]) -> Iterator[Problem]:
    """Return what stands in the way of programs, and leave everything as it is.

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
    missing = [key for key in left_in(value) if key not in known]
    return f'; there is no key {" or ".join(missing)}' if missing else ''
