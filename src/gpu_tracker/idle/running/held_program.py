"""A program whose process is there already, and which is not started before it is let go."""

from __future__ import annotations

import errno
import os
import signal
import socket

from gpu_tracker.processes import descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pwd import struct_passwd

_DROPPED = {
    'XDG_RUNTIME_DIR': 'a folder that only its user can enter',
    'XDG_CACHE_HOME': 'folders in a home; the new HOME tells where they are',
    'XDG_CONFIG_HOME': 'as above',
    'XDG_DATA_HOME': 'as above',
    'XDG_STATE_HOME': 'as above',
    'DBUS_SESSION_BUS_ADDRESS': "a session of the monitor's user",
    'SSH_AGENT_PID': "keys of the monitor's user",
    'SSH_AUTH_SOCK': 'as above',
    'KRB5CCNAME': "tickets of the monitor's user",
    'XAUTHORITY': "a file that opens the screen of the monitor's user",
    'MAIL': "a mailbox of the monitor's user",
    'PWD': 'the program starts in a folder of its own',
    'OLDPWD': 'as above',
}
"""Variables that belong to a user or a login, and why another user's program has nothing of them."""
_DROPPED_BEGINNING = 'SUDO_'
"""Who has started the monitor is no matter of its programs."""


def variables_for(user: struct_passwd, environment: Mapping[str, str], configured: Iterable[str]) -> dict[str, str]:
    """Return the variables of a program of ``user``.

    :param environment: Those that it would have without a change of user.
    :param configured: The names of those that the configuration gives: they stay as they are.
    """
    fixed = set(configured)
    kept = {name: value for name, value in environment.items() if name in fixed or not _is_dropped(name)}
    own = {'HOME': user.pw_dir, 'SHELL': user.pw_shell, 'USER': user.pw_name, 'LOGNAME': user.pw_name}
    return kept | {name: value for name, value in own.items() if name not in fixed}


def _is_dropped(name: str) -> bool:
    return name in _DROPPED or name.startswith(_DROPPED_BEGINNING)


_READY = _GO = b'\n'
_NEVER = 125
_DEFAULTED = tuple(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
FOLDER, USER, LOG, PROGRAM = 'folder', 'user', 'log', 'program'
"""What can keep a program from being started."""


class HeldProgram:
    """Forks the process at once; it ends by itself where this one ends before ``let_go``.

    It gets a session and process group of its own, signals as they are by default, ``/dev/null`` as its standard input,
    and no descriptor but the standard ones.

    :param command: The program and its arguments.
    :param folder: In which it starts.
    :param environment: All of its variables; the program is looked for in their ``PATH``.
    :param user: Whose it will be; None: this process' user.
    :param log: The file to the end of which its standard output and error go; None: where this process' go. It is
        opened as that user: its links lead nowhere where the user may not write, and a new file is the user's.
    :param private: Descriptors of this process that the held one must not keep open: while it is stuck in a file system
        that hangs, others would not see the end of this process by them.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: str,
        environment: Mapping[str, str],
        user: struct_passwd | None,
        log: str | None,
        private: Sequence[int] = (),
    ) -> None:
        self.log: int | None = None
        """The descriptor of the log, once it is ready; None where there is none."""
        self._channel, self._far_end = socket.socketpair()
        self.exec_handle, self._error_writer = os.pipe()
        """The former becomes readable when the program runs, or cannot be started."""
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        guardian = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                for handle in private:
                    os.close(handle)
                self._channel.close()
                self._become(command, folder, environment, user, log, guardian)
            finally:
                os._exit(_NEVER)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self._far_end.close()
        os.close(self._error_writer)

    @property
    def ready_handle(self) -> int:
        """Becomes readable when the process waits to be let go, or cannot be."""
        return self._channel.fileno()

    def is_ready(self) -> bool:
        """Return whether it can be let go; to be asked once, when ``ready_handle`` is readable."""
        # Handed over instead of opened in /proc: a root without CAP_SYS_PTRACE, as in containers, may not read there.
        message, handles, _, _ = socket.recv_fds(self._channel, len(_READY), 1, socket.MSG_CMSG_CLOEXEC)
        self.log = next(iter(handles), None)
        return message == _READY

    def let_go(self) -> None:
        """Have the program started."""
        try:
            self._channel.send(_GO)
        except BrokenPipeError:
            pass  # killed while it was waiting; its status shows that
        self._channel.close()

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
        log: str | None,
        guardian: int,
    ) -> None:
        """Wait for the word to go and become the program; runs in the new process only."""
        for number in _DEFAULTED:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.setsid()
        what = USER
        try:
            if user is not None:
                os.initgroups(user.pw_name, user.pw_gid)
                os.setgid(user.pw_gid)
                os.setuid(user.pw_uid)
            descendants.die_with_parent(signal.SIGKILL)
            if os.getppid() != guardian:
                return
            what = LOG
            output = None if log is None else _open_log(log)
            if not self._wait_to_go(output):
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

    def _wait_to_go(self, output: int | None) -> bool:
        """Hand the log to the guardian; return whether the program is to be started."""
        if output is None:
            self._far_end.send(_READY)
        else:
            socket.send_fds(self._far_end, [_READY], [output])
        return self._far_end.recv(len(_GO)) == _GO


def _open_log(path: str) -> int:
    """Return the descriptor of the log, to the end of which everybody writes.

    :raises OSError: It cannot be opened.
    """
    # Without waiting for the reader of a FIFO; the program may wait when it writes.
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK, 0o666)
    os.set_blocking(handle, True)
    return handle


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
    steps = [*([] if user is None else [f'become the user {user}']), *([] if log is None else [f'open its log {log}'])]
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
    return {errno.ENOENT: 'does not exist', errno.ENOTDIR: 'is no folder', errno.EACCES: 'may not be entered'}.get(
        error.errno or 0, f'cannot be entered: {error.strerror}'
    )


def _not_found(command: str, folder: str) -> str:
    if '/' not in command:
        return f'{command} is in no folder of PATH'
    if os.path.lexists(os.path.join(folder, command)):
        return f'{command} is there, but what it needs to run is not: the interpreter that its first line names'
    return f'{command} does not exist' + ('' if command.startswith('/') else f' in {folder}')
