"""Waits for the tracked command as if it had been started without us: signals reach it, and its orphans are reaped.

For systems with sigwaitinfo, which tells who has sent a signal.
"""

from __future__ import annotations

import os
import signal

from gpu_tracker.processes import SAMPLER_NAME
from gpu_tracker.processes.reaped import OrphansUse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any, Self

_PASSED_ON = {
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
}
_WATCHED = _PASSED_ON | {signal.SIGCHLD}
# Of siginfo's si_code, asm-generic/siginfo.h. SIGTSTP is left alone: the terminal stops us with the command.
_SENT_BY_KERNEL = 128


def hold_signals() -> None:
    """Keep every signal of concern for ``wait_for_end``; none is lost, and none ends this process before that."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)


class EarlySignals:
    """Signals that come before the command runs, while there is something that must not be left behind.

    A context. At its end they wait for ``wait_for_end``, as after :func:`hold_signals`. What is started meanwhile gets
    them as always, which a blocked signal would change.

    :ivar received: The first that has come; None: none has.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Begin to take note of them."""
        for number in _PASSED_ON:
            handler = signal.getsignal(number)
            if handler in {signal.SIG_DFL, signal.default_int_handler}:
                self._handlers[number] = handler
                signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        """Have those to come wait."""
        hold_signals()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def end_as_received(self) -> int:
        """End this process by the signal that has come; return the exit code of a shell for it where that fails."""
        number = self.received or 0
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        return 128 + number

    def _note(self, number: int, _: object) -> None:
        self.received = self.received or number


def let_signals_through() -> None:
    """Forget the signals that came too late for the command, and treat those still to come in the usual way."""
    while signal.sigtimedwait(_WATCHED, 0) is not None:
        pass
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)


def wait_for_end(process_id: int) -> OrphansUse:
    """Return when the command has ended, and leave it as a zombie: it is to be read once more before it is reaped.

    What it has left in the background is neither waited for nor killed. Returns the use of its ended orphans.
    """
    orphans = OrphansUse()
    while True:
        is_over, orphans = reap_orphans(process_id, orphans)
        if is_over:
            return orphans
        pass_on_next(process_id)


def pass_on_next(process_id: int, seconds: float | None = None, also: Collection[int] = ()) -> int | None:
    """Wait for the next signal of concern, and pass it on to the command where it is one for that.

    :param seconds: For how long; None: without end.
    :param also: Signals that end the wait too, and are for this process alone.
    :return: The signal; None where none has come.
    """
    watched = _WATCHED | set(also)
    received = signal.sigwaitinfo(watched) if seconds is None else signal.sigtimedwait(watched, max(0.0, seconds))
    if received is None:
        return None
    if received.si_signo in _PASSED_ON and not _has_received(process_id, received):
        send(process_id, received.si_signo)
    return received.si_signo


def send(process_id: int, *numbers: int) -> None:
    """Send signals to the command, unless it runs as somebody else, as sudo does: only that user may signal it."""
    try:
        for number in numbers:
            os.kill(process_id, number)
    except PermissionError:
        pass


def wait_plainly(process_id: int) -> None:
    """Return when the command has ended, for when ``wait_for_end`` has failed: a running command is never abandoned."""
    os.waitid(os.P_PID, process_id, os.WEXITED | os.WNOWAIT)


def reap_orphans(process_id: int, orphans: OrphansUse) -> tuple[bool, OrphansUse]:
    """Reap ended children other than the command.

    :param orphans: What was reaped before.
    :return: Whether the command has ended, and all orphans that were reaped.
    """
    while True:
        # Asked first: an ended command would hide the other children from the question for any of them.
        if has_ended(process_id):
            return True, orphans
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if ended is None:
            return False, orphans
        if ended.si_pid != process_id:
            orphans = reap(ended.si_pid, orphans)


def reap(process_id: int, orphans: OrphansUse) -> OrphansUse:
    """Reap an ended child other than the command, and return ``orphans`` with it, if it counts for the tree."""
    is_sampler = _is_sampler(process_id)
    usage = os.wait4(process_id, 0)[2]
    return orphans if is_sampler else orphans.plus(usage)


def has_ended(process_id: int) -> bool:
    """Return whether a child has ended; it is left as a zombie."""
    return os.waitid(os.P_PID, process_id, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _is_sampler(process_id: int) -> bool:
    """Return whether an ended process was the sampler of a tracker in the command, which never counts."""
    try:
        with open(f'/proc/{process_id}/comm', 'rb') as file:
            return file.read().rstrip(b'\n') == SAMPLER_NAME
    except OSError:
        return False


def _has_received(process_id: int, received: signal.struct_siginfo) -> bool:
    """Return whether the command has got the same signal already, because terminals send to whole process groups."""
    if received.si_code != _SENT_BY_KERNEL:
        return False
    if received.si_signo == signal.SIGHUP and os.getsid(0) == os.getpid():
        return False  # a closed terminal tells the leader of its session alone, and the leader is this process
    # A command that has made a group of its own, as timeout(1) does, is not reached by the terminal.
    return os.getpgid(process_id) == os.getpgrp()
