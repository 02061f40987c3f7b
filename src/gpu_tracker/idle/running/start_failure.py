"""Why a program could not be started, in words for whoever has configured it."""

from __future__ import annotations

import errno
import os

from gpu_tracker.idle.running.held_program import FOLDER, LOG, USER


def in_words(what: str, error: OSError, *, command: str, folder: str, user: str | None, log: str | None) -> str:
    """Return the reason.

    :param what: What was at fault: :data:`~gpu_tracker.idle.running.held_program.FOLDER` and so on.
    """
    if what == FOLDER:
        return f'its folder {folder} {_of_a_folder(error)}'
    if what == LOG:
        return f'its log {log} cannot be opened{"" if user is None else f" by {user}"}: {error.strerror}'
    if what == USER:
        return f'it cannot become the user {user}: {error.strerror}'
    return _of_a_program(error, command, folder)


def not_ready_in_words(seconds: float, user: str | None, log: str | None) -> str:
    """Return the reason of one that was not ready to be started within so many seconds."""
    steps = [
        *([] if user is None else [f'become the user {user}']),
        *([] if log is None else [f'open its log {log}']),
    ]
    return f'it could not {" and ".join(steps) or "be made ready"} within {seconds:g} s'


def _of_a_program(error: OSError, command: str, folder: str) -> str:
    if error.errno == errno.ENOENT:
        return _not_found(command, folder)
    if error.errno == errno.EACCES:
        return f'{command} may not be run: it is not executable, or a folder on its path is closed'
    if error.errno == errno.ENOEXEC:
        return f'{command} is no program: a script needs a first line such as #!/bin/sh'
    return f'{command} cannot be run: {error.strerror}'


def _of_a_folder(error: OSError) -> str:
    return {
        errno.ENOENT: 'does not exist',
        errno.ENOTDIR: 'is no folder',
        errno.EACCES: 'may not be entered',
    }.get(error.errno or 0, f'cannot be entered: {error.strerror}')


def _not_found(command: str, folder: str) -> str:
    if '/' not in command:
        return f'{command} is in no folder of PATH'
    if os.path.lexists(os.path.join(folder, command)):
        return f'{command} is there, but what it needs to run is not: the interpreter that its first line names'
    return f'{command} does not exist' + ('' if command.startswith('/') else f' in {folder}')
