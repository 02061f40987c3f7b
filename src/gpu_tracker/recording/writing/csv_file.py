"""The samples of a run as a CSV file in the layout of gpu-tracker 5: what does not change, and then the rows."""

from __future__ import annotations

import errno
import os
import time

from gpu_tracker.recording.writing.timepoints import STATIC, TIMEPOINT, TimepointRows, static_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from gpu_tracker.resources import Message, Resource
    from gpu_tracker.totals import Totals

_INTERVAL = 2.0
"""Seconds after which what was measured is in the file."""
_TOLERANCE = 0.05
_MOST_WAITING = 10_000
"""Rows that wait where the disk is full."""
_FULL = (
    'The samples cannot be written to {}: {}. Sampling goes on; they are kept, and written when that is possible again.'
)
_DROPPED = 'The oldest samples of {} were dropped, because it could not be written for too long.'


class CsvFile:
    """Writes the samples into a file that is there and empty.

    :param units: Of RAM, GPU RAM and time, and the cores expected.
    :param resources: What is sampled.
    :param interval: Seconds between two samples.
    :param wall_clock: Seconds since 1970.
    :raises OSError: if the file cannot be opened.
    """

    is_recording = False
    """There is nothing in it that the end of the run changes."""

    def __init__(
        self,
        path: str,
        *,
        units: Sequence[Any],
        resources: Sequence[Resource],
        interval: float,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._units = units
        self._resources = resources
        self._interval = interval
        self._wall_clock = wall_clock
        self._names = [column.name for resource in resources for column in resource.columns]
        self._rows = TimepointRows(units)
        self._static: Sequence[str | float | None] | None = None
        self._samples: list[tuple[float, list[float | None]]] = []
        """Those that came before anything was known of the machine."""
        self._lines: list[str] = []
        self._next = float('-inf')
        self._messages: list[Message] = []
        self._warned: set[str] = set()
        self._handle = os.open(path, os.O_WRONLY | getattr(os, 'O_CLOEXEC', 0) | getattr(os, 'O_BINARY', 0))
        self._written = 0

    def sampled(self, now: float) -> None:
        """Take in what the resources have measured."""
        del now
        row = [value for resource in self._resources for value in resource.row()]
        self._samples.append((self._wall_clock(), row))

    def due(self) -> float:
        """Return infinity: what waits has come with a sample, and is written with one."""
        return float('inf')

    def is_due(self, now: float) -> bool:
        """Return whether a sample at ``now`` is to be followed by a commit, since the next one would be too late."""
        return now + self._interval > self._next + _TOLERANCE

    def published(self, now: float, totals: Totals) -> None:
        """Write what was measured; what cannot be written now is written later."""
        self._next = now + _INTERVAL
        if self._static is None:
            self._static = static_values(totals, self._units)
            self._lines += [_line(STATIC), _line(self._static), _line(TIMEPOINT)]
        for timestamp, values in self._samples:
            row = dict(zip(self._names, values, strict=True))
            self._lines.append(_line(self._rows.row(timestamp, row, self._static)))
        self._samples = []
        lost = len(self._lines) - _MOST_WAITING
        if lost > 0:
            self._warn(_DROPPED.format(self._path))
            first = 0 if self._written else 3
            del self._lines[first : first + lost]
        self._write()

    def commit(self, now: float) -> None:
        """Do nothing: samples are written when totals are published."""

    def take_messages(self) -> list[Message]:
        """Return the messages for the user that were not taken yet."""
        messages, self._messages = self._messages, []
        return messages

    def finish(self, ended: str, totals: Totals | None, exit_code: int | None) -> None:
        """Close the file."""
        del ended, totals, exit_code
        os.close(self._handle)

    def discard(self) -> None:
        """Close the file, which is of no use: whoever has made it removes it."""
        os.close(self._handle)

    def _write(self) -> None:
        """Write whole lines, or nothing: half a line would be read as a number that nobody has measured."""
        content = ''.join(self._lines).encode()
        os.lseek(self._handle, self._written, os.SEEK_SET)
        try:
            written = os.write(self._handle, content)
            if written < len(content):
                written += os.write(self._handle, content[written:])
            if written < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301 - as a write without any room
        except OSError as error:
            os.ftruncate(self._handle, self._written)
            self._warn(_FULL.format(self._path, error.strerror or error))
            return
        self._written += len(content)
        self._lines = []

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self._messages.append(('warning', text))


def _line(values: Iterable[str | float | None]) -> str:
    return ','.join('' if value is None else str(value) for value in values) + '\r\n'
