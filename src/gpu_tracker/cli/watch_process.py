"""Tracks a process into a temporary recording while it is watched."""

from __future__ import annotations

import os
import select
import tempfile
import time
from typing import TYPE_CHECKING

from gpu_tracker.cli import tracking
from gpu_tracker.cli.running_process import open_process
from gpu_tracker.cli.watching import EndingSignals, can_draw, on_terminal, print_last
from gpu_tracker.errors import ParameterError
from gpu_tracker.processes import process_exists

if TYPE_CHECKING:
    from gpu_tracker.running.run import Run
    from gpu_tracker.views.live.model import State
    from gpu_tracker.views.live.state import Source

INTERVAL = 0.5
"""Seconds between two samples, and between two commits."""
_LONGEST_FIRST = 5.0
"""Deadline for the first screen, in seconds."""
_BETWEEN_LOOKS = 0.1
_LONG_ENOUGH = 1.0
"""Seconds between the two samples of a single screen: rates are differences."""


def watch(process_id: int, *, color: bool) -> int:
    """Track the process and show its use until it or the view ends; return the exit code."""
    from gpu_tracker.running.options import QUICK_STOP, Options  # noqa: PLC0415 - help does without
    from gpu_tracker.running.run import Run  # noqa: PLC0415 - as above

    try:
        handle = open_process(process_id)
    except ParameterError as error:
        accepted = f'a recording or {error.accepted}'
        raise ParameterError('what to watch', str(process_id), accepted, error.advice) from error
    process = _Process(process_id, handle)
    with EndingSignals() as signals, tempfile.TemporaryDirectory(prefix='gpu-tracker-') as folder:
        path = os.path.join(folder, 'recording.db')
        options = Options(
            **QUICK_STOP, process_id=process_id, sleep_time=INTERVAL, tracking_file=path, per_process=True
        )
        run = Run(options, tracking.notify, commit_interval=INTERVAL)
        run.start()
        run.notify_first()
        state = _shown(path, run, process, signals, color=color)
    code = 0 if state is None else print_last(state, color=color)
    return signals.end() or code


class _Process:
    """The watched process.

    :param handle: Descriptor that is readable at its end; None if the system has none.
    """

    def __init__(self, process_id: int, handle: int | None) -> None:
        self.handle = handle
        self._process_id = process_id

    def has_ended(self) -> bool:
        """Return whether it has ended."""
        if self.handle is not None:
            return bool(select.select([self.handle], [], [], 0)[0])
        return not process_exists(self._process_id)


def _shown(path: str, run: Run, process: _Process, signals: EndingSignals, *, color: bool) -> State | None:
    """Show the process until it or the view ends; return the last screen, or None."""
    from gpu_tracker.recording.reading.tail import Tail  # noqa: PLC0415 - as above
    from gpu_tracker.views.live.state import Source  # noqa: PLC0415 - as above

    with Tail(path) as tail:
        source = Source(tail)
        one_screen = not can_draw()
        if one_screen:
            state = _first_screen(source, process, signals)
        else:
            state = on_terminal(source, signals, color=color, also=process.handle, is_over=process.has_ended)
        has_ended = process.has_ended()
        if tracking.stop(run):
            tracking.finish(run, None)
        if has_ended:
            return source.read()._replace(ending='The process has ended.')
        return state if one_screen or state.ending is not None else None


def _first_screen(source: Source, process: _Process, signals: EndingSignals) -> State:
    """Return the state when there are enough samples for one screen, or at the deadline."""
    until = time.monotonic() + _LONGEST_FIRST
    watched = {} if process.handle is None else {process.handle: process.has_ended}
    while True:
        state = source.read()
        is_enough = (state.seconds or 0.0) >= _LONG_ENOUGH or time.monotonic() >= until
        if is_enough or process.has_ended() or signals.wait(_BETWEEN_LOOKS, watched):
            return state
