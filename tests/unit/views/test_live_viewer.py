"""A view on a terminal: what it draws, when, and what is left when it ends."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cli.live import LiveView
from gpu_tracker.cli.watching import EndingSignals
from gpu_tracker.errors import RecordingError
from gpu_tracker.views.live.terminal import Terminal
from gpu_tracker.views.live.viewer import BackgroundView, view
from support.live_states import RAM, state
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpu_tracker.views.live.model import State

ENTER = '\x1b[?1049h\x1b[?25l'
LEAVE = '\x1b[0m\x1b[?25h\x1b[?1049l'
_MARK = b'\x00mark'
SMALL = state(figures=(RAM,), processes=None, regions=(), other_gpus=())


class Scripted:
    """A source whose states a test says; an exception is raised."""

    def __init__(self, *states: State | Exception) -> None:
        self._states = list(states)

    def read(self) -> State:
        found = self._states.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


class Window:
    """A terminal that nobody's jobs are on, and what was written to it."""

    def __init__(self) -> None:
        self.keyboard, self.handle = pty.openpty()
        os.set_blocking(self.keyboard, False)

    @property
    def shown(self) -> str:
        """All that was written before now."""
        os.write(self.handle, _MARK)
        found = b''

        def is_complete() -> bool:
            nonlocal found
            with contextlib.suppress(BlockingIOError):
                found += os.read(self.keyboard, 65536)
            return found.endswith(_MARK)

        eventually(is_complete)
        return found.removesuffix(_MARK).decode()


@pytest.fixture
def window() -> Iterator[Window]:
    window = Window()
    yield window
    os.close(window.keyboard)
    os.close(window.handle)


def test_a_view_ends_with_the_run(window: Window) -> None:
    waits: list[float] = []
    states = Scripted(SMALL, SMALL, SMALL._replace(ending='Over.'))
    last = view(states, Terminal(window.handle), lambda seconds: bool(waits.append(seconds)), color=False)
    assert last.ending == 'Over.'
    assert waits == [0.5, 0.5]
    shown = window.shown
    assert shown.startswith(f'{ENTER}\x1b[H\x1b[Kpython train.py')
    assert shown.count('\x1b[H') == 2
    assert shown.count(ENTER) == 1
    assert shown.endswith(f'\x1b[J{LEAVE}')


def test_a_view_ends_when_it_is_asked_to(window: Window) -> None:
    last = view(Scripted(SMALL), Terminal(window.handle), lambda _: True, color=False)
    assert last is SMALL
    assert window.shown.endswith(LEAVE)


def test_the_terminal_is_left_after_an_exception(window: Window) -> None:
    states = Scripted(SMALL, RecordingError('it is gone'))
    with pytest.raises(RecordingError, match='it is gone'):
        view(states, Terminal(window.handle), lambda _: False, color=False)
    assert window.shown.endswith(LEAVE)


def test_nothing_is_drawn_of_a_run_that_has_ended(window: Window) -> None:
    view(Scripted(SMALL._replace(ending='Over.')), Terminal(window.handle), lambda _: False, color=False)
    assert window.shown == ''


def test_a_background_view_that_cannot_read_says_so_when_it_ends(window: Window, tmp_path: Path) -> None:
    background = BackgroundView(str(tmp_path / 'missing.db'), window.handle, color=False)
    background.begin()
    problem = background.end()
    assert isinstance(problem, RecordingError)
    assert 'No such file' in str(problem)


def test_a_window_that_was_closed_ends_the_view() -> None:
    keyboard, handle = pty.openpty()
    os.close(keyboard)
    assert view(Scripted(SMALL), Terminal(handle), lambda _: False, color=False) is SMALL
    os.close(handle)


def test_a_stop_waits_for_the_end_of_a_drawing() -> None:
    stops: list[str] = []
    with EndingSignals() as signals:
        signals.on_stop(lambda: stops.append('stopped'))
        signal.raise_signal(signal.SIGTSTP)
        assert stops == []
        assert not signals.wait(0.01, {})
        assert stops == ['stopped']
        assert not signals.wait(0, {})
    assert stops == ['stopped']


def test_nothing_is_drawn_while_the_terminal_is_left(window: Window) -> None:
    terminal = Terminal(window.handle)
    terminal.show(['before'])
    drawing = threading.Thread(target=terminal.show, args=[['after']])
    with terminal.left():
        drawing.start()
        drawing.join(0.05)
        assert drawing.is_alive()
        assert window.shown.endswith(LEAVE)
    drawing.join()
    assert window.shown.startswith(ENTER)


def test_a_view_of_a_run_that_fails_is_reported_when_it_ends(
    window: Window, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGTSTP)
    try:
        live = LiveView(str(tmp_path / 'missing.db'), window.handle, 'footer', None)
        live.end()  # of a run that never began
        live.begin()
        assert capfd.readouterr().err == ''
        live.end()
    finally:
        signal.signal(signal.SIGTSTP, before)
    complaint = f'cannot read {tmp_path}/missing.db: No such file or directory'
    assert capfd.readouterr().err == f'gpu-tracker: --live stopped because of an error: RecordingError: {complaint}\n'
