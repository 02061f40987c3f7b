"""Becomes another program, which finds everything as if it had been started without us. POSIX only."""

from __future__ import annotations

import errno
import os
import signal

from gpu_tracker.cli import command_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def restore_signals() -> None:
    """Undo what the interpreter has changed for itself; signal(2) keeps ignored signals over exec."""
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    for name in ('SIGPIPE', 'SIGXFSZ'):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)


def execute(words: list[str], environment: Mapping[str, str] | None = None) -> None:
    """Replace this process by the program, as execvp(3) does: a script that names no interpreter goes to the shell.

    :raises OSError: It cannot be started.
    """
    variables = os.environ if environment is None else environment
    try:
        os.execvpe(words[0], words, variables)
    except OSError as error:
        path = command_words.find_program(words[0], os.get_exec_path(variables))
        if error.errno != errno.ENOEXEC or path is None or not _is_text(path):
            raise
        os.execve(command_words.SHELL, [command_words.SHELL, path, *words[1:]], variables)


def _is_text(path: str) -> bool:
    """Tell a script from a damaged or foreign binary, by the zero bytes that shells look for as well."""
    with open(path, 'rb') as file:
        return b'\0' not in file.read(256)
