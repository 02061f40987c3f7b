"""Launches a command in a small process of its own, which holds it back and waits for it. Linux only.

That process, see :mod:`gpu_tracker.running.launcher`, adopts the orphans of the command. The memory of the calling
program, and what that has started, cannot be taken for the command's.
"""

from __future__ import annotations

import marshal
import signal
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.errors import SamplerError
from gpu_tracker.processes.reaped import OrphansUse
from gpu_tracker.real import os
from gpu_tracker.sampler import spawn
from gpu_tracker.system import files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_BOOTSTRAP = """\
import marshal, sys
asked, answers, reader, writer = map(int, sys.argv[1:])
with open(asked, 'rb', closefd=False) as file:
    path, words, environment = marshal.load(file)
sys.path += [entry for entry in path if entry not in sys.path]
from gpu_tracker.running.launcher import main
main(asked, answers, (reader, writer), words, environment)
"""
_GO, _INTERRUPT, _REAP = b'g', b'i', b'r'  # as in gpu_tracker.running.launcher
_HELD, _STARTED, _ENDED, _USED, _REFUSED = 'held', 'started', 'ended', 'used', 'refused'


class Used(NamedTuple):
    """What the kernel has reported of a command that was waited for, see getrusage(2)."""

    ru_utime: float
    ru_stime: float
    ru_maxrss: int
    ru_nvcsw: int
    ru_nivcsw: int


class CommandLauncher:
    """The process that launches a command and waits for it.

    :param streams: What :class:`subprocess.Popen` is to be told of the standard streams and the folder.
    :ivar command: The process of the command, which is held.
    :ivar exec_handle: The reading end of a pipe whose other end its exec closes.
    """

    def __init__(self, words: list[str], streams: Mapping[str, Any], environment: dict[str, str]) -> None:
        """Start it, and return when the command is held.

        :raises OSError: where the command cannot be started.
        :raises SamplerError: where there is no interpreter.
        """
        self._words = words
        self._rest = b''
        self._is_known = False
        asked, self._asked = os.pipe()
        self._answers, answers = os.pipe()
        self.exec_handle, writer = os.pipe()
        handles = (asked, answers, self.exec_handle, writer)
        try:
            self._process = subprocess.Popen(
                [spawn.interpreter(), *spawn.FLAGS, '-c', _BOOTSTRAP, *map(str, handles)],
                env=spawn.environment(),
                pass_fds=handles,
                **streams,
            )
        except BaseException:
            self._close_handles()
            raise
        finally:
            for handle in (asked, answers, writer):
                os.close(handle)
        try:
            self._ask(marshal.dumps((spawn.search_path(), words, environment)))
            self.command = int(self._answer(_HELD)[0])
        except BaseException:
            self._process.kill()
            self.close()
            raise
        self.pid = self._process.pid
        self._is_known = True

    def run(self, started: Callable[[], None]) -> tuple[OrphansUse, BaseException | None]:
        """Run the command to its end. Return the use of its orphans, and the exception that was raised meanwhile.

        KeyboardInterrupt is passed on to the command, if it has not got it from the terminal; all else ends it.

        :param started: Called when the command runs, and once more when it has ended: an exception may have come first.
        :raises OSError: where it cannot be started.
        """
        raised: BaseException | None = None
        try:
            self._ask(_GO)
            self._answer(_STARTED)
            started()
        except SamplerError:
            raise
        except BaseException as error:
            if not self._is_known:  # it could not be started
                raise
            raised = error
            self._pass_on(error)
        while True:
            try:
                seconds, faults, max_rss = self._answer(_ENDED)
                started()
            except SamplerError as error:
                raise raised or error from None  # interrupted before it could run: that is the reason
            except BaseException as error:  # noqa: BLE001 - raised again when the command has ended
                if not self._is_known:  # it could not be started, and was waited for
                    raise raised or error from None
                raised = error
                self._pass_on(error)
            else:
                return OrphansUse(float(seconds), int(faults), int(max_rss)), raised

    def _pass_on(self, error: BaseException) -> None:
        """Have the command interrupted, or end it; an answer that was missed comes once more."""
        if not isinstance(error, KeyboardInterrupt):
            self._kill_command()
        self._ask(_INTERRUPT)

    def _kill_command(self) -> None:
        try:
            os.kill(self.command, signal.SIGKILL)  # while it is the child of a process that does not wait for it
        except (ProcessLookupError, PermissionError):
            pass  # it could not be started, or that process was ended; or the command runs as somebody else, by sudo

    def reap(self) -> tuple[int, Used]:
        """Have the command waited for; return its exit code and what it has used."""
        self._ask(_REAP)
        code, user, system, peak, voluntary, involuntary = self._answer(_USED)
        self._is_known = False
        return int(code), Used(float(user), float(system), int(peak), int(voluntary), int(involuntary))

    def kill(self) -> None:
        """End the command, where it was not waited for, and this process."""
        if self._is_known and self._process.poll() is None:
            self._kill_command()
        self._process.kill()

    def close(self) -> None:
        """Wait for this process, which has nothing more to do."""
        self._close_handles()
        self._process.wait()

    def _ask(self, what: bytes) -> None:
        try:
            files.write_all(self._asked, what)
        except BrokenPipeError:
            pass  # the process has been ended from outside, as there will be no answer

    def _close_handles(self) -> None:
        for handle in (self._asked, self._answers, self.exec_handle):
            os.close(handle)

    def _answer(self, expected: str) -> list[str]:
        """Return what stands in the next answer after the word that is expected.

        :raises OSError: where the command cannot be started.
        """
        while True:
            while b'\n' not in self._rest:
                piece = os.read(self._answers, 1 << 10)
                if not piece:
                    raise SamplerError('The process that launches the command was ended from outside.')
                self._rest += piece
            line, _, self._rest = self._rest.partition(b'\n')
            word, *values = line.decode().split()
            if word == _REFUSED:
                self._is_known = False
                number = int(values[0])
                raise OSError(number, os.strerror(number), self._words[0])
            if word == expected:
                return values
