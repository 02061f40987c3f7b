"""The log of regions that the tracked processes write, read line by line as it grows, as rows of a recording."""

from __future__ import annotations

import os
import sys

from gpu_tracker.recording.writing.region_lines import Begin, End, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpu_tracker.recording.writing.recording_file import Statement
    from gpu_tracker.recording.writing.region_lines import Fold

MOST_REGIONS = 1_000_000
"""Rows of regions in one recording; a file of them stays below 200 MB."""
_CHUNK = 1 << 18
"""Bytes that are read at once: 10 ms of parsing."""
_LONGEST_LINE = 1 << 16

_INSERT = (
    'INSERT OR IGNORE INTO regions (id, parent, pid, thread, task, name, attributes, start, stop, thread_cpu, '
    'peak_before, peak_after, error, calls, total, shortest, longest, squares, errors) '
    'VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)'
)
_END = 'UPDATE regions SET stop = ?, thread_cpu = ?, peak_after = ?, error = ?, errors = ? WHERE id = ?'
_STOP, _THREAD_CPU, _PEAK_AFTER, _ERROR, _ERRORS = 8, 9, 11, 12, 18
"""Places in the values of an insertion that the end of a region fills in."""


class RegionLog:
    """Reads a log from its start, and keeps rows until they are written.

    :param path: Of the log, which is there already.
    :param start_ns: The monotonic time that is 0 in the recording, in nanoseconds.
    :param most: Rows at most; lines for more than these are counted.
    :raises OSError: if the log cannot be opened.
    :ivar lost: Lines that were not understood, or came when there were too many rows already.
    """

    def __init__(self, path: str, *, start_ns: int = 0, most: int = MOST_REGIONS) -> None:
        self._path = path
        self._handle = os.open(path, os.O_RDONLY | getattr(os, 'O_CLOEXEC', 0) | getattr(os, 'O_BINARY', 0))
        self.start_ns = start_ns
        self.lost = 0
        self._left = most
        self._offset = 0
        self._rest = b''
        self._new: dict[int, list[object]] = {}
        self._ends: list[tuple[object, ...]] = []
        self._open: dict[int, int | None] = {}
        """Regions that have not ended, with what their thread's CPU time was at their start."""

    @property
    def has_grown(self) -> bool:
        """Whether there is something to read."""
        return os.fstat(self._handle).st_size > self._offset

    def read(self) -> bool:
        """Read some of what is new; return whether there is more."""
        content = self._read()
        self._offset += len(content)
        lines = (self._rest + content).split(b'\n')
        self._rest = lines.pop()
        if len(self._rest) > _LONGEST_LINE:  # no line of ours
            self._rest = b''
            self.lost += 1
        for line in lines:
            if line:
                self._take(line)
        return len(content) == _CHUNK

    def rows(self) -> list[Statement]:
        """Return what is to be written; call :meth:`written` when it was."""
        return [(_INSERT, list(self._new.values())), (_END, self._ends)]

    def written(self) -> None:
        """Forget the rows."""
        self._new = {}
        self._ends = []

    @property
    def waiting(self) -> int:
        """How many rows wait for being written."""
        return len(self._new) + len(self._ends)

    def remove(self) -> None:
        """Remove the log, unless another file has its name by now."""
        try:
            if os.path.samestat(os.stat(self._path), os.fstat(self._handle)):
                if sys.platform == 'win32':
                    os.close(self._handle)  # no file is removed there that is open
                os.unlink(self._path)
        except OSError:
            pass  # it is gone already

    def _read(self) -> bytes:
        if sys.platform != 'win32':
            return os.pread(self._handle, _CHUNK, self._offset)
        os.lseek(self._handle, self._offset, os.SEEK_SET)
        return os.read(self._handle, _CHUNK)

    def _take(self, line: bytes) -> None:
        found = parse(line)
        if found is None:
            self.lost += 1
        elif isinstance(found, End):
            self._end(found)
        elif self._left <= 0:
            self.lost += 1
        else:
            self._left -= 1
            self._new[found.id] = self._begun(found) if isinstance(found, Begin) else self._folded(found)

    def _begun(self, begin: Begin) -> list[object]:
        self._open[begin.id] = begin.thread_cpu
        return [
            begin.id, begin.parent, begin.process_id, begin.thread_id, begin.task, begin.name, begin.attributes,
            self._time(begin.t), None, None, begin.peak, None, None, 1, None, None, None, None, 0,
        ]  # fmt: skip

    def _folded(self, fold: Fold) -> list[object]:
        return [
            fold.id, fold.parent, fold.process_id, fold.thread_id, None, fold.name, None,
            self._time(fold.first), self._time(fold.last), _us(fold.thread_cpu), None, None, None,
            fold.calls, _us(fold.total), _us(fold.shortest), _us(fold.longest), fold.squares, fold.errors,
        ]  # fmt: skip

    def _end(self, end: End) -> None:
        if end.id not in self._open:  # its beginning was lost
            self.lost += 1
            return
        before = self._open.pop(end.id)
        used = None if before is None or end.thread_cpu is None else _us(end.thread_cpu - before)
        stop, errors = self._time(end.t), int(end.error is not None)
        row = self._new.get(end.id)
        if row is None:
            self._ends.append((stop, used, end.peak, end.error, errors, end.id))
        else:
            row[_STOP], row[_THREAD_CPU], row[_PEAK_AFTER] = stop, used, end.peak
            row[_ERROR], row[_ERRORS] = end.error, errors

    def _time(self, t_ns: int) -> int:
        return (t_ns - self.start_ns) // 1000


def _us(ns: int | None) -> int | None:
    return None if ns is None else ns // 1000
