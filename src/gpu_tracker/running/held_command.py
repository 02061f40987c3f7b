"""Becomes another program, which finds everything as if it had been started without us. POSIX only."""

from __future__ import annotations

import errno
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


SHELL = '/bin/sh'
_SUFFIXES = ('', '.exe', '.com')
"""Of programs that Windows starts without a shell."""


def find_program(name: str, search_path: list[str]) -> str | None:
    """Return the path of the executable file that a shell would start for ``name``, or None."""
    if not name:
        return None
    suffixes = _SUFFIXES if sys.platform == 'win32' else ('',)
    for folder in _folders(name, search_path):
        for suffix in suffixes:
            path = os.path.join(folder, name + suffix)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
    return None


def _folders(name: str, search_path: list[str]) -> list[str]:
    """Return the folders in which a shell would look for ``name``."""
    return [''] if os.path.basename(name) != name else search_path


def start_fault(name: str, search_path: list[str]) -> OSError | None:
    """Return why ``name`` cannot be started, as far as a look at the files tells."""
    if find_program(name, search_path) is not None:
        return None
    there = any(os.path.exists(os.path.join(folder, name)) for folder in _folders(name, search_path))
    number = errno.EACCES if there else errno.ENOENT
    return OSError(number, os.strerror(number))


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
        path = find_program(words[0], os.get_exec_path(variables))
        if error.errno != errno.ENOEXEC or path is None or not _is_text(path):
            raise
        os.execve(SHELL, [SHELL, path, *words[1:]], variables)


def _is_text(path: str) -> bool:
    """Tell a script from a damaged or foreign binary, by the zero bytes that shells look for as well."""
    with open(path, 'rb') as file:
        return b'\0' not in file.read(256)


_CANCELLED = 125
_GO = b'\n'


class HeldCommand:
    """A command whose process exists already, and whose program is not started before ``release``.

    The process ends by itself where this one ends before that.
    """

    def __init__(
        self,
        words: list[str],
        environment: Mapping[str, str] | None = None,
        exec_pipe: tuple[int, int] | None = None,
    ) -> None:
        """Fork the process that will become ``words[0]`` with the arguments ``words[1:]``.

        :param environment: That of the program; None: this process' own.
        :param exec_pipe: The pipe of which exec closes the last writing end; None: one is made.
        :raises OSError: where there can be no such process, or no descriptors for it; all is then as it was.
        """
        self._environment = environment
        handles: list[int] = []
        try:
            handles += os.pipe()
            handles += exec_pipe or os.pipe()
            self._go_reader, self._go_writer, self.exec_handle, self._error_writer = handles
            self.process_id = self._fork(words)
        except OSError:
            for handle in handles:
                os.close(handle)
            raise
        os.close(self._go_reader)
        os.close(self._error_writer)  # exec closes the last one: the end of the pipe means that the program runs

    def _fork(self, words: list[str]) -> int:
        """Return the ID of the new process."""
        child_signal = signal.getsignal(signal.SIGCHLD)
        if child_signal == signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would have the kernel reap the command unseen
        # No signal may find the new process while it still is a copy of this one.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            process_id = os.fork()
            if process_id == 0:
                try:
                    signal.signal(signal.SIGCHLD, child_signal or signal.SIG_DFL)
                    self._become(words, mask)
                finally:
                    os._exit(_CANCELLED)
        except OSError:
            signal.signal(signal.SIGCHLD, child_signal or signal.SIG_DFL)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return process_id

    def release(self) -> OSError | None:
        """Let the program start; return why it could not, and None as soon as it runs (or was killed before that)."""
        try:
            os.write(self._go_writer, _GO)
        except BrokenPipeError:
            pass  # killed while it was waiting; its status tells
        os.close(self._go_writer)
        number = os.read(self.exec_handle, 16)
        os.close(self.exec_handle)
        return OSError(int(number), os.strerror(int(number))) if number else None

    def cancel(self) -> None:
        """End and reap the waiting process; the program is never started."""
        os.kill(self.process_id, signal.SIGKILL)
        os.waitpid(self.process_id, 0)

    def _become(self, words: list[str], mask: set[signal.Signals] | set[int]) -> None:
        """Wait for the word to go and become the program; runs in the new process only."""
        os.close(self._go_writer)
        os.close(self.exec_handle)
        restore_signals()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if os.read(self._go_reader, 1) != _GO:
            return
        try:
            execute(words, self._environment)
        except OSError as error:
            os.write(self._error_writer, str(error.errno).encode())


def become_subreaper() -> None:
    """Have orphans of the command handed to this process, where they are still found, instead of to init (Linux)."""
    if sys.platform == 'linux':
        try:
            from gpu_tracker.processes import descendants  # noqa: PLC0415 - imports ctypes

            descendants.become_subreaper()
        except (ImportError, OSError):
            pass  # no descriptor is left to load it with; orphans then are known from their parents alone


def raise_limit_on_descriptors() -> None:
    """Let this process have as many as its hard limit allows. What it has forked before keeps the limit it had."""
    try:
        import resource  # noqa: PLC0415 (not on every system, and not before the command has been forked)

        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ImportError, OSError, ValueError):
        pass  # it has to do with what it has
