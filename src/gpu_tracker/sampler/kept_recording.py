"""The recording of a run that nobody has asked to record: it begins late, and gives up instead of being in the way."""

from __future__ import annotations

import os

from gpu_tracker.resources import RefusedError
from gpu_tracker.sampler.kept_run import LARGEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.recording.writing.recorder import Recorder
    from gpu_tracker.resources import Message, Resource
    from gpu_tracker.totals import Totals

_BEGINNING = 0.25
"""Seconds after the first sample in which nothing is written: SQLite is loaded when the command runs already."""


class KeptRecording:
    """Such a recording, as one of the sampler's records.

    :param path: The file, which does not exist yet.
    :param open_recorder: Opens the recording in the file.
    :param largest: Bytes of a file that is removed.
    """

    def __init__(
        self, path: str, resources: Sequence[Resource], open_recorder: Callable[[], Recorder], largest: int = LARGEST
    ) -> None:
        self._path = path
        self._resources = resources
        self._open_recorder = open_recorder
        self._largest = largest
        self._recorder: Recorder | None = None
        self._first: list[tuple[float, list[float | None]]] = []
        """Samples before the recording has begun."""
        self.is_recording = True

    def sampled(self, now: float) -> None:
        """Fold what the resources have measured at ``now``."""
        if self._recorder is not None:
            self._recorder.sampled(now)
        elif self.is_recording:
            self._first.append((now, [value for resource in self._resources for value in resource.row()]))
            if now - self._first[0][0] >= _BEGINNING:
                self._begin()

    def due(self) -> float:
        """Return when :meth:`commit` is due between two samples; infinity if it is not."""
        return float('inf') if self._recorder is None else self._recorder.due()

    def is_due(self, now: float) -> bool:
        """Return whether a sample at ``now`` is to be followed by a commit."""
        return self._recorder is not None and self._recorder.is_due(now)

    def published(self, now: float, totals: Totals) -> None:
        """Keep the totals so far, and commit all that was measured."""
        if self._recorder is not None:
            self._recorder.published(now, totals)
            self._give_up_if_too_large()

    def commit(self, now: float) -> None:
        """Commit what was measured."""
        if self._recorder is not None:
            self._recorder.commit(now)
            self._give_up_if_too_large()

    def take_messages(self) -> list[Message]:
        """Return no messages: a recording that nobody has asked for is none of the user's concerns."""
        if self._recorder is not None and self._recorder.take_messages():
            self.discard()  # the disk is full
        return []

    def finish(self, ended: str, totals: Totals | None, exit_code: int | None) -> None:
        """Write the end of the run, and close the file."""
        if self._recorder is None and self.is_recording:
            self._begin()
        recorder = self._recorder
        if recorder is None:
            return
        recorder.finish(ended, totals, exit_code)
        if recorder.take_messages():
            self._remove()

    def discard(self) -> None:
        """Close the file and remove it."""
        if self._recorder is not None:
            self._recorder.discard()
            self._remove()
        self._recorder = None
        self.is_recording = False

    def _begin(self) -> None:
        first, self._first = self._first, []
        try:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            self._recorder = self._open_recorder()
        except (OSError, RefusedError):
            self._remove()
            self.is_recording = False
            return
        for now, values in first:
            self._recorder.add(now, values)

    def _give_up_if_too_large(self) -> None:
        try:
            size = os.stat(self._path).st_size
        except OSError:
            size = self._largest + 1  # somebody has removed it
        if size > self._largest:
            self.discard()

    def _remove(self) -> None:
        for path in (self._path, f'{self._path}-journal'):
            try:
                os.unlink(path)
            except OSError:
                pass  # it is not there
