"""``gpu-tracker watch``: shows a running recording or process on one screen."""

from __future__ import annotations

import os
import sys

from gpu_tracker.cli import options, screen
from gpu_tracker.cli.watching import EndingSignals, can_draw, on_terminal, print_last
from gpu_tracker.errors import GpuTrackerError, RecordingError

TEXT = """
Shows a run live: current use, the last minutes, peaks so far, the largest
processes, and the regions (named parts of the program) that are running.

Usage:
  gpu-tracker watch <run> [options]

<run> is a recording that gpu-tracker --record=<file> is writing, or a process ID.
A process is tracked into a temporary file while it is watched.

Options:
  --no-color            Print no colours. Setting the environment variable
                        NO_COLOR has the same effect.
  -h --help             Print this text.
  -v --version          Print the version.

The screen is refreshed twice a second. The key q and Ctrl-C end the view; the
program goes on. After the end of the run the last screen stays. If standard output
is not a terminal, one screen is printed as plain text.
"""


def run(values: options.Values) -> int:
    """Show what ``values`` ask for, and return the exit code."""
    given = str(values['<run>'])
    if given == options.LAST_RUN and not os.path.exists(given):
        raise GpuTrackerError('watch shows only runs in progress. For the last finished run, use gpu-tracker show')
    color = screen.shows_colors() and not values['--no-color']
    if _is_process_id(given):
        if sys.platform == 'win32':
            raise GpuTrackerError(
                'watching a process needs Linux or another POSIX system: record the process, and watch the recording'
            )
        from gpu_tracker.cli import output, watch_process  # noqa: PLC0415 - imports what tracks
        from gpu_tracker.running import numbered_runs  # noqa: PLC0415 - as above

        if int(given) in numbered_runs.found():
            output.complain(
                f'gpu-tracker watch reads {given} as the ID of a process. For run {given}, use gpu-tracker show {given}'
            )
        return watch_process.watch(int(given), color=color)
    return _watch_file(given, color=color)


def _is_process_id(given: str) -> bool:
    return given.isascii() and given.isdecimal() and not os.path.exists(given)


def _watch_file(path: str, *, color: bool) -> int:
    from gpu_tracker.recording.reading.tail import Tail  # noqa: PLC0415 - help does without
    from gpu_tracker.system.terminal_text import printable  # noqa: PLC0415 - as above
    from gpu_tracker.views.live.state import Source  # noqa: PLC0415 - as above

    try:
        with Tail(path) as tail:
            source = Source(tail)
            state = source.read()  # a long recording takes its time, in which Ctrl-C ends this program as any other
            if state.ending is None and can_draw():
                with EndingSignals() as signals:
                    state = on_terminal(source, signals, color=color)
                if state.ending is None:
                    return signals.end()
            return print_last(state, color=color)
    except RecordingError as error:
        raise RecordingError(printable(str(error))) from error
