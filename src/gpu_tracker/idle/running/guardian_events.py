"""What a guardian waits for: its monitor's orders, its monitor's end, signals, and the end of children."""

from __future__ import annotations

import json
import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_MOST_BYTES = 65536
MONITOR_ENDED = 'the monitor has ended'


class GuardianEvents:
    """Waits without using the CPU, and remembers what was ordered.

    :param control: The descriptor from which orders are read, as lines of JSON.
    :param monitor: The process that gives them; this one's parent.
    :param grace: Seconds that the program has after SIGTERM where no order says otherwise.
    """

    def __init__(self, control: int, monitor: int, grace: float) -> None:
        self.reason: str | None = None
        """Why the program is to end; None as long as it is not."""
        self.deadline: float | None = None
        """From when on it is ended by force, in monotonic seconds; None as long as it is not to end."""
        self._control = control
        self._grace = grace
        self._received = b''
        self._signals: set[int] = set()
        self._poll = select.poll()
        os.set_blocking(control, False)
        self._poll.register(control, select.POLLIN)
        self._wakeup = self._catch_signals()
        self._monitor = self._open_monitor(monitor)

    def end(self, reason: str, grace: float | None = None) -> None:
        """Have the program ended for ``reason``, unless it is to end already; then only a shorter ``grace`` counts."""
        deadline = time.monotonic() + (self._grace if grace is None else grace)
        if self.reason is None or self.deadline is None:
            self.reason, self.deadline = reason, deadline
        else:
            self.deadline = min(self.deadline, deadline)

    def wait(self, seconds: float | None, other: int | None = None) -> bool:
        """Return when something has happened, at the latest after ``seconds``; None: without end.

        :param other: A descriptor that ends the wait when it is readable.
        :return: Whether ``other`` is.
        """
        if other is not None:
            self._poll.register(other, select.POLLIN)
        try:
            ready = [handle for handle, _ in self._poll.poll(None if seconds is None else max(0.0, seconds) * 1000)]
        finally:
            if other is not None:
                self._poll.unregister(other)
        if self._wakeup in ready:
            os.read(self._wakeup, _MOST_BYTES)
        while self._signals:
            self.end(f'its guardian got {signal.Signals(self._signals.pop()).name}')
        if self._control in ready:
            self._take_orders()
        if self._monitor in ready:
            self._monitor_ended()
        return other in ready

    def _catch_signals(self) -> int:
        """Have signals noticed while waiting, and return the descriptor that becomes readable then."""
        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        self._poll.register(reading, select.POLLIN)
        signal.signal(signal.SIGCHLD, _take_note)
        for number in _ENDING_SIGNALS:
            signal.signal(number, lambda number, _: self._signals.add(number))
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        return reading

    def _open_monitor(self, monitor: int) -> int | None:
        try:
            handle = os.pidfd_open(monitor)
        except (OSError, AttributeError):
            handle = None  # it has ended, or is an old kernel's; then the end of the pipe shows it
        if os.getppid() != monitor:
            self.end(MONITOR_ENDED)  # before it could be watched; its number may be another's by now
        elif handle is not None:
            self._poll.register(handle, select.POLLIN)
        return handle

    def _take_orders(self) -> None:
        try:
            received = os.read(self._control, _MOST_BYTES)
        except BlockingIOError:
            return
        if not received:
            self._poll.unregister(self._control)
            self.end(MONITOR_ENDED)
            return
        *lines, self._received = (self._received + received).split(b'\n')
        for line in lines:
            order = json.loads(line)
            self.end(order['reason'], order['grace'])

    def _monitor_ended(self) -> None:
        if self._monitor is not None:
            self._poll.unregister(self._monitor)
        self.end(MONITOR_ENDED)


def _take_note(number: int, frame: FrameType | None) -> None:
    """Do nothing: a signal with a handler of its own ends the wait."""
