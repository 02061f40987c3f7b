"""The process that launches the command of ``gpu_tracker.run``, and waits for it as the command line does. Linux only.

It is small, adopts the orphans of the command, and has no other children, unlike the program that calls ``run``. That
program, see :mod:`gpu_tracker.running.launched_command`, writes requests into one pipe, a byte each, and reads events
from another, a line each.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal

from gpu_tracker.processes.reaped import OrphansUse
from gpu_tracker.running import supervise
from gpu_tracker.running.held_command import HeldCommand, become_subreaper, restore_signals, start_fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

GO, INTERRUPT, REAP = b'g', b'i', b'r'
"""Let the command run; it was interrupted, as this process was if the terminal has done it; wait for it."""
HELD, STARTED, ENDED, USED, REFUSED = 'held', 'started', 'ended', 'used', 'refused'


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
        _answer(answers, REFUSED, fault.errno or errno.ENOENT)
        return
    try:
        command = HeldCommand(words, environment, exec_pipe)
    except OSError as refusal:
        _answer(answers, REFUSED, refusal.errno or errno.EAGAIN)
        return
    _let_go_of_streams()
    become_subreaper()
    _answer(answers, HELD, command.process_id)
    if os.read(asked, 1) != GO:
        command.cancel()
        return
    supervise.hold_signals()
    error = command.release()
    if error is not None:
        os.waitpid(command.process_id, 0)
        _answer(answers, REFUSED, error.errno or errno.ENOENT)
        return
    _answer(answers, STARTED)
    orphans = _wait(command.process_id, asked)
    ended = ENDED, orphans.cpu_seconds, orphans.faults, orphans.max_rss
    _answer(answers, *ended)
    while os.read(asked, 1) == INTERRUPT:
        _answer(answers, *ended)  # the command has ended, but the program may have missed the answer
    _, status, used = os.wait4(command.process_id, 0)
    figures = used.ru_utime, used.ru_stime, used.ru_maxrss, used.ru_nvcsw, used.ru_nivcsw
    _answer(answers, USED, os.waitstatus_to_exitcode(status), *figures)


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
                _interrupt(process_id)


def _count(asked: int) -> int:
    """Return how often the program was interrupted since it was asked last; it may have ended."""
    try:
        return os.read(asked, 1 << 10).count(INTERRUPT)
    except BlockingIOError:
        return 0


def _interrupt(process_id: int) -> None:
    try:
        os.kill(process_id, signal.SIGINT)
    except PermissionError:
        pass  # it runs as somebody else, as sudo does


def _let_go_of_streams() -> None:
    """Leave the standard streams to the command: who reads from a pipe waits for all that may write into it."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os.close(null)


def _answer(answers: int, *words: object) -> None:
    try:
        os.write(answers, f'{" ".join(map(str, words))}\n'.encode())
    except BrokenPipeError:
        pass  # the program has ended: the command runs on, as those that subprocess starts
