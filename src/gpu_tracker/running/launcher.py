"""The small process that launches the command of ``gpu_tracker.run``, and what the program has of it. Linux only.

That process holds the command back and waits for it, as the command line does. It adopts the orphans of the command,
and has no other children. So the memory of the program, and what that has started, cannot be taken for the command's.
The program writes requests into one pipe, a byte each, and reads events from another, a line each.
"""

from __future__ import annotations

import errno
import fcntl
import marshal
import signal

from gpu_tracker.errors import SamplerError
from gpu_tracker.processes.reaped import OrphansUse
from gpu_tracker.real import os
from gpu_tracker.running import supervise
from gpu_tracker.running.held_command import HeldCommand, become_subreaper, restore_signals, start_fault
from gpu_tracker.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from gpu_tracker.totals import ProcessUse

_BOOTSTRAP = """\
import marshal, signal, sys
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during the imports prints no traceback
asked, answers, reader, writer = map(int, sys.argv[1:])
with open(asked, 'rb', closefd=False) as file:
    path, words, environment = marshal.load(file)
sys.path += [entry for entry in path if entry not in sys.path]
from gpu_tracker.running.launcher import main
main(asked, answers, (reader, writer), words, environment)
"""
_GO, _INTERRUPT, _REAP = b'g', b'i', b'r'
"""Let the command run; it was interrupted, as this process was if the terminal has done it; wait for it."""
_HELD, _STARTED, _ENDED, _USED, _REFUSED = 'held', 'started', 'ended', 'used', 'refused'


class _Used:
    """What a command has used, from the words of its launcher, which are in the order of ``struct rusage``."""

    def __init__(self, words: Sequence[str]) -> None:
        self.ru_utime, self.ru_stime = float(words[0]), float(words[1])
        self.ru_majflt = int(words[7])
        self.ru_maxrss, self.ru_nvcsw, self.ru_nivcsw = int(words[2]), int(words[14]), int(words[15])


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
        import subprocess  # noqa: PLC0415 - the launcher need not have it

        from gpu_tracker.sampler import spawn  # noqa: PLC0415 - as above

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

    def reap(self) -> tuple[int, ProcessUse]:
        """Have the command waited for; return its exit code and what it has used."""
        self._ask(_REAP)
        code, *used = self._answer(_USED)
        self._is_known = False
        return int(code), _Used(used)

    def kill(self) -> None:
        """End this process, and the command if nobody has waited for it."""
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
                    raise SamplerError('The helper process that starts the command was killed.')
                self._rest += piece
            line, _, self._rest = self._rest.partition(b'\n')
            word, *values = line.decode().split()
            if word == _REFUSED:
                self._is_known = False
                number = int(values[0])
                raise OSError(number, os.strerror(number), self._words[0])
            if word == expected:
                return values


def main(
    asked: int, answers: int, exec_pipe: tuple[int, int], words: list[str], environment: Mapping[str, str]
) -> None:
    """Launch a command, which is held until it may run, and wait for it.

    :param asked: Where it is read what to do.
    :param answers: Where it is written what has happened.
    :param exec_pipe: The pipe of which the exec of the command closes the last writing end.
    """
    restore_signals()
    # Who reads from a pipe may be gone: the program, or the command, where it was killed before it may run.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for handle in (asked, answers, *exec_pipe):
        os.set_inheritable(handle, False)  # noqa: FBT003 - the only way to call it
    fault = start_fault(words[0], os.get_exec_path(environment))
    if fault is not None:
        _report(answers, _REFUSED, fault.errno or errno.ENOENT)
        return
    try:
        command = HeldCommand(words, environment, exec_pipe)
    except OSError as refusal:
        _report(answers, _REFUSED, refusal.errno or errno.EAGAIN)
        return
    _let_go_of_streams()
    become_subreaper()
    _report(answers, _HELD, command.process_id)
    if os.read(asked, 1) != _GO:
        command.cancel()
        return
    supervise.hold_signals()
    error = command.release()
    if error is not None:
        os.waitpid(command.process_id, 0)
        _report(answers, _REFUSED, error.errno or errno.ENOENT)
        return
    _report(answers, _STARTED)
    orphans = _wait(command.process_id, asked)
    ended = _ENDED, orphans.cpu_seconds, orphans.faults, orphans.max_rss
    _report(answers, *ended)
    while os.read(asked, 1) == _INTERRUPT:
        _report(answers, *ended)  # the command has ended, but the program may have missed the answer
    _, status, used = os.wait4(command.process_id, 0)
    _report(answers, _USED, os.waitstatus_to_exitcode(status), *used)


def _wait(process_id: int, asked: int) -> OrphansUse:
    """Return when the command has ended, as ``wait_for_end`` does, and pass on what interrupts only the program."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGIO})
    fcntl.fcntl(asked, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(asked, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.kill(os.getpid(), signal.SIGIO)  # for what has come before that
    orphans = OrphansUse()
    received = passed_on = 0
    while True:
        is_over, orphans = supervise.reap_orphans(process_id, orphans)
        if is_over:
            os.set_blocking(asked, True)
            return orphans
        number = supervise.pass_on_next(process_id, also=(signal.SIGIO,))
        if number == signal.SIGINT:
            received += 1
        elif number == signal.SIGIO:
            passed_on += _count(asked)
            if passed_on > received:  # else the terminal has interrupted this process and the command with the program
                received = passed_on
                supervise.send(process_id, signal.SIGINT)


def _count(asked: int) -> int:
    """Return how often the program was interrupted since it was asked last; it may have ended."""
    try:
        return os.read(asked, 1 << 10).count(_INTERRUPT)
    except BlockingIOError:
        return 0


def _let_go_of_streams() -> None:
    """Leave the standard streams to the command: who reads from a pipe waits for all that may write into it."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os.close(null)


def _report(answers: int, *words: object) -> None:
    try:
        os.write(answers, f'{" ".join(map(str, words))}\n'.encode())
    except BrokenPipeError:
        pass  # the program has ended: the command runs on, as those that subprocess starts
