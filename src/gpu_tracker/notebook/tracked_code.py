"""The tracked code of a notebook, from the start of its tracker to its tables."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING

from IPython.display import display

from gpu_tracker.errors import GpuTrackerError, ParameterError, RecordingError
from gpu_tracker.notebook.options import refusal
from gpu_tracker.recording.reading.recording import load
from gpu_tracker.result.formats import as_summary
from gpu_tracker.tracker import Tracker
from gpu_tracker.views.html import growth, heading, paragraph

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from gpu_tracker.notebook.options import Request
    from gpu_tracker.result.usage import ResourceUsage


class TrackedCode:
    """A cell or a statement that is tracked from now on.

    The run is recorded, because sparklines and report need a recording. Without a given file, the recording is in a
    temporary folder, which is removed when the tables are shown.

    :param code: The tracked code. Its first line is the title of the tables.
    :raises UsageError: if an option has an invalid value.
    """

    def __init__(self, shell: InteractiveShell, request: Request, code: str) -> None:
        self._shell = shell
        self._title = next(filter(None, map(str.strip, code.splitlines())), '')
        self._request = request
        self._owner = os.getpid()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._tracker: Tracker | None = None
        file: str | None = request.parameters.get('tracking_file')
        if file is None:
            file = self._private_file()
        self._recording = None if file is None else os.path.abspath(file)  # the code may change the working directory
        try:
            tracker = Tracker(**(request.parameters | {'tracking_file': file}))
            tracker.start()
        except GpuTrackerError as error:
            self._remove_folder()
            if isinstance(error, ParameterError):
                raise refusal(error) from None
            _warn(f'nothing is tracked: {error}')  # the code runs anyway
        else:
            self._tracker = tracker

    def end(self) -> None:
        """Stop, and show the result. Do nothing in a process that the code forked."""
        tracker, self._tracker = self._tracker, None
        if tracker is None or os.getpid() != self._owner:
            return
        try:
            tracker.stop()
            self._show(tracker)
        except GpuTrackerError as error:
            _warn(str(error))
        finally:
            self._remove_folder()

    def _show(self, tracker: Tracker) -> None:
        usage = tracker.resource_usage
        lines = self._growth(usage)
        shown = {
            'text/html': ''.join([heading(self._title), *map(paragraph, lines), tracker._repr_html_() or '']),
            'text/plain': '\n'.join([self._title, *lines, as_summary(usage)]),
        }
        display(shown, raw=True)
        if self._request.variable is not None:
            _ = tracker.regions  # the tracker keeps them, and the recording may be removed
            self._shell.push({self._request.variable: tracker})
        if self._request.shows_report and self._recording is not None:
            with load(self._recording) as recording:
                frame = recording.report()
            display(frame)

    def _growth(self, usage: ResourceUsage) -> list[str]:
        """Return the line of added memory; no line without a recording."""
        if self._recording is None:
            return []
        try:
            with load(self._recording) as recording:
                return growth(usage, recording)
        except RecordingError:
            return []

    def _private_file(self) -> str | None:
        """Return a path in a temporary folder; None if it cannot be made: then there are no sparklines."""
        try:
            self._folder = tempfile.TemporaryDirectory(prefix='gpu-tracker-', ignore_cleanup_errors=True)
        except OSError:
            return None
        return os.path.join(self._folder.name, 'cell.db')

    def _remove_folder(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()


def _warn(text: str) -> None:
    print(f'gpu-tracker: {text}', file=sys.stderr)  # noqa: T201 - notebooks show standard error below the cell
