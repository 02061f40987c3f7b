"""A program and its guardian, seen from the monitor: nothing here waits for either of them."""

from __future__ import annotations

import fcntl
import json
import marshal
import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Self

from gpu_tracker.idle.running import GUARDIAN_MARK, guardian_protocol, program_orphans
from gpu_tracker.idle.running.guardian_protocol import LaunchError

if TYPE_CHECKING:
    from gpu_tracker.idle.running.guardian_protocol import Orders

_BOOTSTRAP = """\
import marshal, sys
with open(0, 'rb', closefd=False) as file:
    orders = marshal.load(file)
sys.path += [entry for entry in orders['path'] if entry not in sys.path]
from gpu_tracker.idle.running.guardian import main
main(orders, int(sys.argv[2]), int(sys.argv[3]))
"""
_FLAGS = ('-P', '-s', '-S')
"""As samplers are started: what lies in the user's folders can hide nothing, and start-up costs half."""
_KEPT_VARIABLES = ('PYTHONHOME', 'PYTHONPLATLIBDIR', 'PYTHONDONTWRITEBYTECODE', 'PYTHONPYCACHEPREFIX')
_PACKAGE_PARENT = os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
)
_FIRST_FREE = 3
"""Above standard input, output and error, which the guardian and the program have."""
_MOST_BYTES = 65536
_LONGEST_REASON = 1000


class RunningProgram:
    """Started with :meth:`start`; waited for with an event loop's reader on :meth:`fileno`."""

    def __init__(self, process: subprocess.Popen[bytes], control: int, status: int) -> None:
        self.program_pid: int | None = None
        """The program's own process; None until it runs."""
        self.final: guardian_protocol.Message | None = None
        """The last message; None as long as the guardian has not sent it."""
        self._process = process
        self._control: int | None = control
        self._status: int | None = status
        self._received = b''

    @classmethod
    def start(cls, orders: Orders) -> Self:
        """Start a guardian, which starts the program; return in some milliseconds, before it does.

        :raises LaunchError: There is no interpreter to run it, or the system has no process or descriptor left.
        """
        if not sys.executable:
            raise LaunchError(
                "no Python interpreter can start the program's guardian process: sys.executable is not set"
            )
        opened: list[int] = []
        try:
            control_read, control_write = _pipe(opened)
            status_read, status_write = _pipe(opened)
            with _unnamed_file() as file:
                file.write(marshal.dumps(orders_of(orders)))
                file.seek(0)
                process = subprocess.Popen(
                    [sys.executable, *_FLAGS, '-c', _BOOTSTRAP, GUARDIAN_MARK, str(control_read), str(status_write)],
                    stdin=file,
                    env=_environment(),
                    pass_fds=(control_read, status_write),
                    start_new_session=True,
                )
        except OSError as error:
            for handle in opened:
                os.close(handle)
            raise LaunchError(f"the program's guardian process cannot be started: {error}") from error
        os.close(control_read)
        os.close(status_write)
        os.set_blocking(control_write, False)
        os.set_blocking(status_read, False)
        return cls(process, control_write, status_read)

    @property
    def pid(self) -> int:
        """The guardian's process."""
        return self._process.pid

    def fileno(self) -> int:
        """Return the descriptor that is readable when there is something to :meth:`read`; -1 after :meth:`close`."""
        return -1 if self._status is None else self._status

    def read(self) -> list[guardian_protocol.Message]:
        """Return what the guardian has sent since the last call, without waiting.

        After one of :data:`~gpu_tracker.idle.running.guardian_protocol.FINAL` nothing comes any more.
        """
        found: list[guardian_protocol.Message] = []
        while self._status is not None and self.final is None:
            try:
                received = os.read(self._status, _MOST_BYTES)
            except BlockingIOError:
                break
            *lines, self._received = (self._received + received).split(b'\n')
            # Asked before each line: a guardian that fails after its last message reports that too.
            found += [self._take(guardian_protocol.parse(line)) for line in lines if self.final is None]
            if not received:
                # Its descriptors are closed a little before its orphans get another parent, who is to find them.
                if self.final is None and self.has_ended():
                    found.append(self._take(guardian_protocol.Lost(self._ending())))
                break
        return found

    def stop(self, reason: str, grace: float) -> None:
        """Have the program and all its descendants ended: SIGTERM, and after ``grace`` seconds SIGKILL.

        A second order counts where its time ends sooner.
        """
        self._order(reason, grace)

    def kill(self, reason: str = 'there is no time left') -> None:
        """Have the program and all its descendants ended by SIGKILL."""
        self._order(reason, 0.0)

    def has_ended(self) -> bool:
        """Return whether the guardian itself has ended, and reap it; without waiting."""
        return self._process.poll() is not None

    def close(self) -> None:
        """Let go of the pipes; a guardian that still runs takes that for the monitor's end."""
        for handle in (self._control, self._status):
            if handle is not None:
                os.close(handle)
        self._control = self._status = None

    def _take(self, message: guardian_protocol.Message) -> guardian_protocol.Message:
        if isinstance(message, guardian_protocol.Started):
            self.program_pid = message.pid
        elif isinstance(message, guardian_protocol.FINAL):
            self.final = message
        return message

    def _order(self, reason: str, grace: float) -> None:
        if self._control is None:
            return
        line = json.dumps({'reason': reason[:_LONGEST_REASON], 'grace': grace}).encode() + b'\n'
        try:
            os.write(self._control, line)
        except (BrokenPipeError, BlockingIOError):
            pass  # it has ended already; or it hangs, and does not read what it was ordered before either

    def _ending(self) -> str:
        code = self._process.returncode
        return 'its guardian was ended from outside' if code < 0 else f'its guardian has failed (exit code {code})'


def orders_of(orders: Orders) -> dict[str, Any]:
    """Return ``orders`` in the plain form in which a guardian gets them."""
    program = orders.program
    return {
        'command': list(orders.command),
        'folder': program.folder,
        'environment': dict(orders.environment),
        'configured': [name for name, _ in program.environment],
        'mark': {program_orphans.VARIABLE: program_orphans.mark()},
        'user': program.user,
        'log': program.log,
        'grace': program.stop_grace,
        'gpus': orders.gpu_names,
        'gpu_count': len(orders.gpus),
        'uuids': orders.uuids,
        'reason': orders.reason,
        'monitor': os.getpid(),
        'path': [_PACKAGE_PARENT, *(os.path.abspath(entry) for entry in sys.path if entry)],
    }


def _unnamed_file() -> Any:  # noqa: ANN401 - one of two kinds
    """Return a file that takes more than a pipe: an environment may be large."""
    if hasattr(os, 'memfd_create'):
        return open(os.memfd_create('gpu-tracker-orders'), 'wb+')
    return tempfile.TemporaryFile()


def _pipe(opened: list[int]) -> tuple[int, int]:
    """Return both ends of a new pipe, none of them standard input, output or error; add them to ``opened``."""
    made = os.pipe()
    try:
        ends = []
        for handle in made:
            ends.append(fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE))
            opened.append(ends[-1])
    finally:
        for handle in made:
            os.close(handle)
    return ends[0], ends[1]


def _environment() -> dict[str, str]:
    """Return the guardian's own variables: none that change its interpreter, except where that needs them."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith('PYTHON') or name in _KEPT_VARIABLES
    }
