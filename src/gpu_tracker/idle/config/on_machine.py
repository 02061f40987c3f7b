"""What of a configuration cannot work on this machine: folders, programs and logs that are not there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

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
        checks = {
            'dir': folder_fault(program.folder) if program.folder else None,
            'cmd': program_fault(program, environment) if program.command else None,
            'log': None if program.log is None else log_fault(program.log),
        }
        for key, fault in checks.items():
            if fault is not None:
                yield Problem(section.line_of(key), section.name, f'{key}: {fault}')


def folder_fault(folder: str) -> str | None:
    """Return why a folder cannot be worked in, in words; None where it can."""
    if not os.path.exists(folder):
        return f'there is no folder {folder!r}{hint(folder)}'
    if not os.path.isdir(folder):
        return f'{folder!r} is no folder'
    if not os.access(folder, os.X_OK):
        return f'the folder {folder!r} may not be entered'
    return None


def program_fault(program: Program, environment: Mapping[str, str]) -> str | None:
    """Return why a program cannot be started, in words; None where it can, or where its name depends on its GPU."""
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
    if any(os.path.isfile(path) and os.access(path, os.X_OK) for path in paths):
        return None
    if '/' in name and os.path.exists(paths[0]):
        return f'{name!r} is no program that may be executed'
    return f'{where} {name!r}' + ('; give its folder in full, ~ is not replaced here' if name[0] == '~' else '')


def log_fault(log: str) -> str | None:
    """Return why nothing can be appended to a file, in words; None where it can."""
    if os.path.isdir(log) or log.endswith('/'):
        return f'{log!r} is a folder, not a file'
    if os.path.exists(log):
        return None if os.access(log, os.W_OK) else f'{log!r} may not be written'
    folder = os.path.dirname(os.path.realpath(log) if os.path.islink(log) else log)
    if not os.path.isdir(folder):
        return f'there is no folder {folder!r} for it'
    if not os.access(folder, os.W_OK | os.X_OK):
        return f'no file may be made in {folder!r}'
    return None
