"""The view of a run on standard output, from its first screen to the last, and the signals that end it."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Self

from gpu_tracker.cli import output, screen

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.views.live.model import State
    from gpu_tracker.views.live.state import Source

_FOOTER = 'q ends the view; the program goes on'
_PLAIN_WIDTH = 80


def can_draw() -> bool:
    """Return whether standard output is a terminal on which screens can be drawn in place."""
    return sys.platform != 'win32' and screen.can_go_back()


def on_terminal(
    source: Source,
    signals: EndingSignals,
    *,
    color: bool,
    also: int | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> State:
    """Draw on standard output until the run has ended, or a key or a signal ends the view.

    :param also: A descriptor; something to read there ends the view too.
    :param is_over: Asked after each drawing whether the view is to end.
    :return: The last state that was drawn.
    """
    from gpu_tracker.views.live.terminal import Terminal  # noqa: PLC0415 - not where one screen is printed
    from gpu_tracker.views.live.viewer import view  # noqa: PLC0415 - as above

    terminal = Terminal(output.STANDARD_OUTPUT)
    with screen.Keys(wanted=True) as keys:

        def stop() -> None:
            terminal.leave()
            keys.give_back()
            os.kill(os.getpid(), signal.SIGSTOP)

        signals.on_stop(stop)

        def wait(seconds: float) -> bool:
            keys.take()  # anew where this program was stopped and goes on
            if is_over():
                return True
            watched = {} if also is None else {also: is_over}
            return signals.wait(seconds, watched | keys.watched)

        return view(source, terminal, wait, color=color, footer=_FOOTER)


def print_last(state: State, *, color: bool) -> int:
    """Print a state and how the run ended; return the exit code."""
    from gpu_tracker.views.live.viewer import picture  # noqa: PLC0415 - help does without

    lines = picture(state, screen.width() or _PLAIN_WIDTH, None, color=color)
    ending = [] if state.ending is None else ['', state.ending]
    return output.print_text(''.join(f'{line}\n' for line in [*lines, *ending]))


class EndingSignals:
    """A context manager that holds ending signals back until the terminal is restored."""

    _NAMES = ('SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT')

    def __init__(self) -> None:
        self._received: list[int] = []
        self._before: dict[int, object] = {}
        self._reader = self._writer = -1
        self._stop: Callable[[], None] | None = None
        self._stop_requested = False

    def __enter__(self) -> Self:
        """Hold the signals back."""
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        os.set_blocking(self._reader, False)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for name in self._NAMES:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # under nohup, SIGHUP
                self._set(number, lambda received, _: self._received.append(received))
        return self

    def __exit__(self, *_: object) -> None:
        """Let signals through."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type] # what it was
        os.close(self._reader)
        os.close(self._writer)

    def on_stop(self, stop: Callable[[], None]) -> None:
        """Call ``stop`` on Ctrl-Z while this program waits, never while it draws."""
        number = getattr(signal, 'SIGTSTP', None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            self._stop = stop
            self._set(number, self._request_stop)

    def wait(self, seconds: float, watched: dict[int, Callable[[], bool]]) -> bool:
        """Wait this long; return True at a signal, or when a function in ``watched`` returns True."""
        import select  # noqa: PLC0415 - where something is waited for
        import time  # noqa: PLC0415 - as above

        until = time.monotonic() + seconds
        poll = select.poll()
        for descriptor in (self._reader, *watched):
            poll.register(descriptor, select.POLLIN)
        while not self._received:
            if self._stop_requested and self._stop is not None:
                self._stop_requested = False
                self._stop()
            left = until - time.monotonic()
            if left <= 0:
                return False
            for descriptor, _ in poll.poll(left * 1000):
                if descriptor == self._reader:
                    os.read(self._reader, 4096)
                elif watched[descriptor]():
                    return True
        return True

    def end(self) -> int:
        """End by the received signal; return 0 if there was none."""
        if not self._received:
            return 0
        number = self._received[0]
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return 128 + number

    def _request_stop(self, *_: object) -> None:
        self._stop_requested = True

    def _set(self, number: int, handler: Callable[..., object]) -> None:
        self._before.setdefault(number, signal.signal(number, handler))
