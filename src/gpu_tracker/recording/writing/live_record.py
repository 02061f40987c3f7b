"""A rank's report while it runs, which the sampler writes, and its last one where the tracker is gone."""

from __future__ import annotations

import gc

from gpu_tracker.recording.schema import ABANDONED
from gpu_tracker.recording.writing.rank_files import RankFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.resources import Message
    from gpu_tracker.totals import RankRequest, Totals

_FIRST = 1.0
"""Seconds after which the first one is written."""


class LiveRecord:
    """Writes the report of one rank, and gives its recording the final name when that is closed.

    It stands behind the recording in the line of recorders, so that the recording is complete before.

    :param request: Which files, and what is known of the rank.
    """

    is_recording = False
    """The tracker writes the last report itself, with the totals as they were settled."""

    def __init__(self, request: RankRequest) -> None:
        self._files = RankFiles(request['folder'], request['name'])
        self._about = request['about']
        self._interval: float = request['about']['write_interval']
        self._next: float | None = None
        self._last: Totals | None = None
        self._messages: list[Message] = []
        self._has_failed = False

    def sampled(self, now: float) -> None:
        """Take note of when the run has begun."""
        if self._next is None:
            self._next = now + _FIRST

    def due(self) -> float:
        """Return infinity: samples come often enough."""
        return float('inf')

    def is_due(self, now: float) -> bool:
        """Return whether a sample at ``now`` is to be followed by a report."""
        return self._next is not None and now >= self._next

    def published(self, now: float, totals: Totals) -> None:
        """Write the report, where it is time."""
        self._last = totals
        if not self.is_due(now) or totals['record']['held']:
            return
        self._next = now + self._interval
        self._write(totals, None)

    def commit(self, now: float) -> None:
        """Do nothing: there is nothing between two samples."""

    def take_messages(self) -> list[Message]:
        """Return the messages that were not taken yet."""
        messages, self._messages = self._messages, []
        return messages

    def finish(self, ended: str, totals: Totals | None, exit_code: int | None) -> None:
        """Complete the recording; write the last report where the tracker is gone."""
        del totals, exit_code  # the tracker's report has them
        self._files.complete_recording()
        if ended == ABANDONED and self._last is not None:
            self._write(self._last, ended)

    def discard(self) -> None:
        """Remove what was written."""
        self._files.discard()

    def _write(self, totals: Totals, ended: str | None) -> None:
        try:
            self._files.write(self._about, totals, ended)
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                text = f'The record of this rank could not be written to {self._files.report}: {error.strerror}.'
                self._messages.append(('warning', text))
        finally:
            gc.collect(0)  # json makes cycles, and the collector is off
