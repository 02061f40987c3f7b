"""A program whose process is there already, and which is not started before it is let go."""

from __future__ import annotations

import errno
import os
import signal

from gpu_tracker.idle.running import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pwd import struct_passwd

_GO = b'\n'
_NEVER = 125
_DEFAULTED = tuple(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
FOLDER, USER, PROGRAM = 'folder', 'user', 'program'
"""What can keep a program from being started."""


class HeldProgram:
    """Forks the process at once; it ends by itself where this one ends before ``let_go``.

    It gets a session and process group of its own, signals as they are by default, ``/dev/null`` as its standard input,
    and no descriptor but the standard ones.

    :param command: The program and its arguments.
    :param folder: In which it starts.
    :param environment: All of its variables; the program is looked for in their ``PATH``.
    :param user: Whose it will be; None: this process' user.
    :param output: What its standard output and error go to; None: where this process' go.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: str,
        environment: Mapping[str, str],
        user: struct_passwd | None,
        output: int | None,
    ) -> None:
        self._go_reader, self._go_writer = os.pipe()
        self.exec_handle, self._error_writer = os.pipe()
        """The former becomes readable when the program runs, or cannot be started."""
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        guardian = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._go_writer)
                self._become(command, folder, environment, user, output, guardian)
            finally:
                os._exit(_NEVER)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(self._go_reader)
        os.close(self._error_writer)

    def let_go(self) -> None:
        """Have the program started."""
        try:
            os.write(self._go_writer, _GO)
        except BrokenPipeError:
            pass  # killed while it was waiting; its status tells
        os.close(self._go_writer)

    def failure(self) -> tuple[str, OSError] | None:
        """Return what has kept the program from being started, and why; None where it runs, or was killed before.

        To be asked when ``exec_handle`` is readable. That stays open: the sampler may not have copied it yet.
        """
        what, _, number = os.read(self.exec_handle, 64).decode().partition(' ')
        return (what, OSError(int(number), os.strerror(int(number)))) if what else None

    def kill(self) -> None:
        """End the process before the program is started, or in the course of that."""
        os.kill(self.pid, signal.SIGKILL)

    def _become(
        self,
        command: Sequence[str],
        folder: str,
        environment: Mapping[str, str],
        user: struct_passwd | None,
        output: int | None,
        guardian: int,
    ) -> None:
        """Wait for the word to go and become the program; runs in the new process only."""
        for number in _DEFAULTED:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.setsid()
        if os.read(self._go_reader, 1) != _GO:
            return
        what = USER
        try:
            if user is not None:
                os.initgroups(user.pw_name, user.pw_gid)
                os.setgid(user.pw_gid)
                os.setuid(user.pw_uid)
            kernel.die_with_parent(signal.SIGKILL)
            if os.getppid() != guardian:
                return
            what = FOLDER
            os.chdir(folder)
            what = PROGRAM
            if output is not None:
                os.dup2(output, 1)
                os.dup2(output, 2)
            _execute(command, environment)
        except OSError as error:
            os.write(self._error_writer, f'{what} {error.errno}'.encode())


def _execute(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Become the program, which is looked for in the PATH of ``environment``.

    os.execvpe imports a module for that, which the user that this process has become may not be able to read.

    :raises OSError: It cannot be run.
    """
    name = command[0]
    path = environment.get('PATH', os.defpath)
    failure = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    for file in [name] if '/' in name else [f'{folder or "."}/{name}' for folder in path.split(':')]:
        try:
            os.execve(file, list(command), environment)
        except OSError as error:
            if error.errno == errno.EACCES or '/' in name:
                failure = error
            elif error.errno not in {errno.ENOENT, errno.ENOTDIR}:
                raise
    raise failure
