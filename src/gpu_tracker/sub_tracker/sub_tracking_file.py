"""Reads and combines sub-tracking files: CSV and SQLite, of gpu-tracker 5 and of this one, and recordings' regions."""

from __future__ import annotations

import csv
import math
import os
import sqlite3
from bisect import bisect_right
from typing import TYPE_CHECKING

from gpu_tracker.errors import SubTrackingError
from gpu_tracker.sub_tracker import file_kinds
from gpu_tracker.sub_tracker.calls import START, STOP, BlockCalls, Call, Row, paired
from gpu_tracker.sub_tracker.log_files import CALL_COLUMN, COLUMNS, ENDINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gpu_tracker.recording.reading.model import ClockPoint

_POSITIONS = frozenset((START, STOP))


def read_blocks(path: str) -> dict[str, BlockCalls]:
    """Return the calls of each block in the file ``path``; those of a recording are its regions.

    :raises SubTrackingError: where it is no such file; OSError and RecordingError: where it cannot be read.
    """
    if file_kinds.kind_of(path) == file_kinds.RECORDING:
        return _blocks_of_recording(path)
    return paired(read_rows(path))


def read_rows(path: str) -> Iterator[Row]:
    """Yield the rows of a CSV or SQLite file. Rows that are damaged, as the last one may be, are left out.

    :raises SubTrackingError: where it is no such file; OSError: where it cannot be read.
    """
    kind = file_kinds.kind_of(path)
    if kind == file_kinds.RECORDING:
        advice = f"'gpu-tracker export {path} -f sub-tracking' makes a file of its regions"
        raise SubTrackingError(f'{path} is a recording, whose regions cannot be combined as they are; {advice}')
    return _csv_rows(path) if kind == file_kinds.CSV else _sqlite_rows(path)


def combine(path: str, sources: Sequence[str]) -> None:
    """Write the rows of the files ``sources`` to a new file at ``path``, whose ending says the format.

    :raises SubTrackingError: where that file is there already, or one of the others is no sub-tracking file.
    """
    if not path.endswith(ENDINGS):
        raise SubTrackingError(f'a sub-tracking file ends in .csv or .sqlite, not {path!r}')
    if not sources:
        raise SubTrackingError('there are no files to combine')
    if os.path.lexists(path):
        raise SubTrackingError(f'{path} exists already; remove it, or give another name')
    rows = [row for source in sources for row in read_rows(source)]
    names = (*COLUMNS, CALL_COLUMN) if any(row.call_id is not None for row in rows) else COLUMNS
    fresh = f'{path}.part-{os.getpid()}'
    try:
        (_write_csv if path.endswith('.csv') else _write_sqlite)(fresh, names, rows)
        os.rename(fresh, path)
    except sqlite3.Error as error:
        raise SubTrackingError(f'cannot write {path}: {error}') from error
    finally:
        if os.path.lexists(fresh):
            os.unlink(fresh)


def unix_time(clock: Sequence[ClockPoint], start: float) -> Callable[[float], float]:
    """Return what makes a time of a recording a Unix time, as its view ``data`` does.

    :param clock: The points of the recording's clock.
    :param start: The Unix time of the first sample, where there are none.
    """
    times = [point.t for point in clock]
    offsets = [point.unix - point.t for point in clock]

    def converted(t: float) -> float:
        return t + (offsets[max(bisect_right(times, t) - 1, 0)] if offsets else start)

    return converted


def _blocks_of_recording(path: str) -> dict[str, BlockCalls]:
    from gpu_tracker.recording.reading.recording import load  # noqa: PLC0415 - files of gpu-tracker 5 do without

    with load(path) as recording:
        convert = unix_time(recording.clock, (recording.meta.start_unix_us or 0) / 1e6)
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
                total, squares = region.wall_time, region.squares or 0.0
                call = Call(start, call.stop, region.calls, total, shortest, longest, squares)
            block.calls.append(call)
    return blocks


def _csv_rows(path: str) -> Iterator[Row]:
    try:
        with open(path, encoding='utf-8', errors='replace', newline='') as file:
            lines = csv.reader(file)
            places = _places(path, next(lines, []))
            for line in lines:
                row = _row(line, places)
                if row is not None:
                    yield row
    except csv.Error as error:
        raise SubTrackingError(f'cannot read {path}: {error}') from error


def _sqlite_rows(path: str) -> Iterator[Row]:
    with file_kinds.old_database(path, 'data') as connection:
        places = _places(path, file_kinds.column_names(connection, 'data'))
        for line in connection.execute('SELECT * FROM data ORDER BY rowid'):
            row = _row(line, places)
            if row is not None:
                yield row


def _places(path: str, names: Sequence[str]) -> list[int | None]:
    """Return where the five columns are, None for a missing call id."""
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        needed = ', '.join(COLUMNS)
        raise SubTrackingError(f'{path} is no sub-tracking file: it has no column {missing[0]!r} (needed: {needed})')
    return [*(names.index(name) for name in COLUMNS), names.index(CALL_COLUMN) if CALL_COLUMN in names else None]


def _row(line: Sequence[object], places: Sequence[int | None]) -> Row | None:
    """Return what a line says, None for a damaged one."""
    try:
        process_id, name, position, timestamp, call = (None if place is None else line[place] for place in places)
        call_id = None if call in {None, ''} else _whole(call)
        row = Row(_whole(process_id), str(name), _whole(position), float(str(timestamp)), call_id)
    except (ValueError, IndexError, OverflowError):
        return None
    return row if row.position in _POSITIONS and math.isfinite(row.timestamp) else None


def _whole(value: object) -> int:
    """Return a whole number, also where another program has written it with a decimal point."""
    text = str(value)
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if number.is_integer():
            return int(number)
        raise


def _write_csv(path: str, names: Sequence[str], rows: Iterable[Row]) -> None:
    with open(path, 'x', encoding='utf-8', errors='replace', newline='') as file:
        writer = csv.writer(file, lineterminator='\n')
        writer.writerow(names)
        writer.writerows(row[: len(names)] for row in rows)


def _write_sqlite(path: str, names: Sequence[str], rows: Iterable[Row]) -> None:
    types = ('INTEGER', 'VARCHAR', 'INTEGER', 'FLOAT', 'INTEGER')
    described = ', '.join(f'{name} {kind}' for name, kind in zip(names, types, strict=False))
    connection = sqlite3.connect(path)
    try:
        with connection:
            connection.execute(f'CREATE TABLE data ({described})')
            marks = ', '.join('?' * len(names))
            connection.executemany(
                f'INSERT INTO data VALUES ({marks})',  # noqa: S608 - question marks
                (row[: len(names)] for row in rows),
            )
    finally:
        connection.close()
