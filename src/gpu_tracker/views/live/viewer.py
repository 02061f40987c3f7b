"""A view of a recording on a terminal: drawn again twice a second until something ends it."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from gpu_tracker.recording.reading.tail import Tail
from gpu_tracker.views.live.quantities import symbols_of
from gpu_tracker.views.live.screen import colored, plain, screen_lines
from gpu_tracker.views.live.state import Source
from gpu_tracker.views.live.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.views.live.model import State

INTERVAL = 0.5
"""Seconds between two drawings."""
_LONGEST_END = 2.0
"""Seconds that the end of a view is waited for."""


def picture(state: State, width: int, height: int | None, *, color: bool, footer: str = '') -> list[str]:
    """Return the lines that show a state."""
    lines = screen_lines(state, width, height, symbols=symbols_of(os.environ), footer=footer)
    return colored(lines) if color else plain(lines)


def view(source: Source, terminal: Terminal, wait: Callable[[float], bool], *, color: bool, footer: str = '') -> State:
    """Draw a recording until its run has ended, or ``wait`` says so; return its last state.

    :param wait: Waits for so many seconds; returns True as soon as the view is to end.
    """
    with terminal:
        while True:
            state = source.read()
            if state.ending is not None:
                return state
            if terminal.is_ours():
                try:
                    terminal.show(picture(state, *terminal.size(), color=color, footer=footer))
                except OSError:
                    return state  # the window was closed
            if wait(INTERVAL):
                return state


class BackgroundView:
    """A view that a thread draws while this program does something else. What goes wrong in it harms nothing else.

    :param path: The recording.
    :param handle: A descriptor of the terminal.
    """

    def __init__(self, path: str, handle: int, *, color: bool, footer: str = '') -> None:
        self.terminal = Terminal(handle)
        self._path = path
        self._color = color
        self._footer = footer
        self._end_requested = threading.Event()
        self._thread: threading.Thread | None = None
        self._last: list[str] = []
        self._problem: Exception | None = None

    def begin(self) -> None:
        """Begin to draw."""
        thread = threading.Thread(target=self._draw, name='view', daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self._problem = error  # there can be no more threads
        else:
            self._thread = thread

    def end(self) -> Exception | None:
        """End the view, print its last screen, and return what went wrong in it, if anything."""
        self._end_requested.set()
        if self._thread is not None:
            self._thread.join(_LONGEST_END)
        self.terminal.print(self._last)
        return self._problem

    def _draw(self) -> None:
        try:
            with Tail(self._path) as tail:
                state = view(
                    Source(tail), self.terminal, self._end_requested.wait, color=self._color, footer=self._footer
                )
            if state.seconds is not None:
                self._last = picture(state, self.terminal.size()[0], None, color=self._color)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run goes on
            self._problem = error
