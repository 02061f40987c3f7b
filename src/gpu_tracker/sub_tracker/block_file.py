"""Files of code blocks: CSV and SQLite in the layout of gpu-tracker 5, and recordings, whose regions are blocks."""

from __future__ import annotations

import contextlib
import csv
import math
import os
import sqlite3
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import quote

from gpu_tracker.errors import SubTrackingError
from gpu_tracker.recording.schema import APPLICATION_ID
from gpu_tracker.sub_tracker import block_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gpu_tracker.recording.reading.recording import Recording

Parsed = TypeVar('Parsed')

CSV, SQLITE, RECORDING = 'csv', 'sqlite', 'recording'

_MAGIC = b'SQLite format 3\0'
_APPLICATION = slice(68, 72)  # https://www.sqlite.org/fileformat.html
_LOCK_TIMEOUT = 10.0


class Row(NamedTuple):
    """One row of a file; ``call_id`` is None in files of gpu-tracker 5."""

    process_id: int
    name: str
    position: int
    timestamp: float
    call_id: int | None


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a block, or a recording's sum of many calls between ``start`` and ``stop``.

    Times are Unix times, durations seconds; ``squares`` is the sum of the squares of the calls' durations.
    """

    start: float
    stop: float
    n_calls: int
    total: float
    shortest: float
    longest: float
    squares: float

    @classmethod
    def single(cls, start: float, stop: float) -> Call:
        """Return one call."""
        lasted = stop - start
        return cls(start, stop, 1, lasted, lasted, lasted, lasted * lasted)


@dataclass(slots=True)
class BlockCalls:
    """All calls of one block, ordered by process ID and start, and the number of calls without a stop."""

    calls: list[Call] = field(default_factory=list)
    n_unfinished: int = 0

    def compute_time(self) -> dict[str, float | None]:
        """Return the statistics of the durations in seconds."""
        n_calls = sum(call.n_calls for call in self.calls)
        total = math.fsum(call.total for call in self.calls)
        if not n_calls:
            return {'min': None, 'max': None, 'mean': None, 'std': None, 'total': 0.0}
        mean = total / n_calls
        squares = math.fsum(
            (call.total - mean) ** 2  # exact for a single call, unlike the difference of two large squares
            if call.n_calls == 1
            else max(call.squares - 2 * mean * call.total + call.n_calls * mean * mean, 0.0)
            for call in self.calls
        )
        return {
            'min': min(call.shortest for call in self.calls),
            'max': max(call.longest for call in self.calls),
            'mean': mean,
            'std': math.sqrt(squares / n_calls),
            'total': total,
        }


def read_blocks(path: str) -> dict[str, BlockCalls]:
    """Return the calls of each block.

    :raises SubTrackingError: if the file is damaged or of another kind; OSError, RecordingError: if it is unreadable.
    """
    if kind_of(path) != RECORDING:
        return paired(path, read_rows(path))
    from gpu_tracker.recording.reading.recording import load  # noqa: PLC0415 - files of gpu-tracker 5 do without

    with load(path) as recording:
        return _blocks_of(recording)


def read_rows(path: str) -> Iterator[Row]:
    """Yield the rows of a CSV or SQLite file.

    :raises SubTrackingError: if the file is damaged or of another kind; OSError: if it is unreadable.
    """
    if kind_of(path) == RECORDING:
        advice = f"export its regions with 'gpu-tracker export {path} -f sub-tracking'"
        raise SubTrackingError(f'{path} is a recording: {advice}')
    lines = read_lines(path)
    names = [str(name) for name in next(lines, [])]
    missing = [name for name in block_log.COLUMNS[:-1] if name not in names]
    if missing:
        raise SubTrackingError(f'{path} is not a sub-tracking file: it has no column {missing[0]!r}')
    places = [names.index(name) if name in names else None for name in block_log.COLUMNS]

    def row(line: Sequence[object]) -> Row:
        process_id, name, position, timestamp, call = (None if place is None else line[place] for place in places)
        call_id = None if call in {None, ''} else _whole(call)
        found = Row(_whole(process_id), str(name), _whole(position), float(str(timestamp)), call_id)
        if len(line) != len(names) or found.position not in block_log.POSITIONS or not math.isfinite(found.timestamp):
            raise ValueError
        return found

    return parsed(path, lines, row)


def paired(path: str, rows: Iterable[Row]) -> dict[str, BlockCalls]:
    """Return the calls of each block.

    A stop belongs to the latest start with its process ID and call ID. Rows of gpu-tracker 5 have no call IDs: that is
    right for recursion, and a guess for threads.

    :raises SubTrackingError: if a stop has no start.
    """
    opened: dict[tuple[int, str, int | None], list[float]] = {}
    ended: dict[str, list[tuple[int, float, float]]] = {}
    for row in sorted(rows, key=lambda row: (row.process_id, row.timestamp)):  # stable: equal times stay as in the file
        starts = opened.setdefault((row.process_id, row.name, row.call_id), [])
        calls = ended.setdefault(row.name, [])
        if row.position == block_log.START:
            starts.append(row.timestamp)
        elif starts:
            calls.append((row.process_id, starts.pop(), row.timestamp))
        else:
            raise SubTrackingError(
                f'{path} is damaged: process {row.process_id} ends the code block {row.name!r} at '
                f'{row.timestamp!r}, but never started it'
            )
    blocks = {
        name: BlockCalls([Call.single(start, stop) for _, start, stop in sorted(calls)])
        for name, calls in ended.items()
    }
    for (_, name, _), starts in opened.items():
        blocks[name].n_unfinished += len(starts)
    return blocks


def combine(path: str, sources: Sequence[str]) -> None:
    """Write the rows of the files ``sources`` to a new file.

    :raises SubTrackingError: if it exists, or one of the sources is no sub-tracking file.
    """
    block_log.check_ending(path)
    if not sources:
        raise SubTrackingError('there are no files to combine')
    if os.path.lexists(path):
        raise SubTrackingError(f'{path} exists already; remove it, or give another name')
    rows = [row for source in sources for row in read_rows(source)]
    try:
        block_log.append(path, rows)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise SubTrackingError(f'cannot write {path}: {error.strerror or error}') from error


def kind_of(path: str) -> str:
    """Return ``csv``, ``sqlite`` or, for a recording of this gpu-tracker, ``recording``."""
    with open(path, 'rb') as file:
        begin = file.read(_APPLICATION.stop)
    if not begin.startswith(_MAGIC):
        return CSV
    return RECORDING if int.from_bytes(begin[_APPLICATION]) == APPLICATION_ID else SQLITE


def read_lines(path: str, table: str = 'data') -> Iterator[Sequence[object]]:
    """Yield the lines of a CSV file, or the column names and the rows of an SQLite file's table.

    :raises SubTrackingError: if the file is neither, or has no such table.
    """
    if kind_of(path) == CSV:
        try:
            with open(path, encoding='utf-8', errors='replace', newline='') as file:
                yield from filter(None, csv.reader(file))
        except csv.Error as error:
            raise SubTrackingError(f'cannot read {path}: {error}') from error
        return
    uri = f'file:{quote(os.fsencode(os.path.abspath(path)))}?mode=ro'
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=_LOCK_TIMEOUT)) as connection:
            connection.execute('PRAGMA trusted_schema=OFF')
            connection.text_factory = lambda data: data.decode(errors='replace')
            is_there = "SELECT 1 FROM sqlite_master WHERE name = ? AND type = 'table'"  # no view, which may run forever
            if connection.execute(is_there, (table,)).fetchone() is None:
                raise SubTrackingError(f'{path} is not a file of gpu-tracker: it has no table {table!r}')
            rows = connection.execute(f'SELECT * FROM {table} ORDER BY rowid')  # noqa: S608 - a name of our own
            yield [name for name, *_ in rows.description]
            yield from rows
    except sqlite3.Error as error:
        raise SubTrackingError(f'cannot read {path}: {error}') from error


def parsed(
    path: str, lines: Iterable[Sequence[object]], parse: Callable[[Sequence[object]], Parsed]
) -> Iterator[Parsed]:
    """Yield what ``parse`` makes of each line. The last line may be cut off, and is then left out.

    :raises SubTrackingError: if ``parse`` raises ValueError or IndexError for a line before the last.
    """
    damaged: Sequence[object] | None = None
    for line in lines:
        if damaged is not None:
            raise SubTrackingError(f'{path} is damaged: {",".join(map(str, damaged))!r} is not a valid row')
        try:
            found = parse(line)
        except (ValueError, IndexError):
            damaged = line
        else:
            yield found


def unix_time(recording: Recording) -> Callable[[float], float]:
    """Return a function from times of a recording to Unix times."""
    times = [point.t for point in recording.clock]
    offsets = [point.unix - point.t for point in recording.clock]
    start = (recording.meta.start_unix_us or 0) / 1e6

    def converted(t: float) -> float:
        return t + (offsets[max(bisect_right(times, t) - 1, 0)] if offsets else start)

    return converted


def _blocks_of(recording: Recording) -> dict[str, BlockCalls]:
    convert = unix_time(recording)
    blocks: dict[str, BlockCalls] = {}
    for region in sorted(recording.regions, key=lambda region: (region.process_id, region.start)):
        block = blocks.setdefault(region.name, BlockCalls())
        if region.stop is None or region.wall_time is None:
            block.n_unfinished += 1
            continue
        start = convert(region.start)
        call = Call.single(start, start + region.stop - region.start)
        if region.is_folded:
            shortest, longest = region.shortest or 0.0, region.longest or 0.0
            call = Call(start, call.stop, region.calls, region.wall_time, shortest, longest, region.squares or 0.0)
        block.calls.append(call)
    return blocks


def _whole(value: object) -> int:
    """Return a whole number, which other programs may write with a decimal point."""
    number = float(str(value))
    if not number.is_integer():
        raise ValueError
    return int(number)
