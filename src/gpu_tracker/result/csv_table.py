"""A table of runs as CSV: one line a run, below one line with the names of the figures."""

from __future__ import annotations

import os
import sys

from gpu_tracker.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_FIRST = ('command', 'exit_code')
"""The columns that say which run a line is of."""


def table_of(figures: Mapping[str, object], command: Sequence[str], exit_code: int | None) -> str:
    """Return the table of one run: two lines, without the end of the last one.

    A column has the name of the figure, with dots: ``max_ram.main.total_rss`` is that of ``main`` in ``max_ram``.
    Lists, such as those of GPUs, are left out. The cell of an unknown figure is empty.

    :param figures: The report as JSON has it.
    :param command: The words of the command; none: a process was watched that had been started before.
    :param exit_code: That of the command; None: it is unknown.
    """
    import shlex  # noqa: PLC0415 - whoever wants another format needs none of it

    row: dict[str, object] = {'command': shlex.join(command), 'exit_code': exit_code}
    row |= _flat(figures, '')
    return _written(list(row), [row]).rstrip('\n')


def append(path: str, table: str) -> None:
    """Add the lines of ``table`` to the one in the file ``path``, which is made where it is missing.

    Columns that the file has not yet are put behind its own; older lines have empty cells there. Of several processes
    that do so at once each adds its lines.

    :raises OSError: The file cannot be written; it is as it was.
    :raises ValueError: It is no such table.
    """
    target = files.replaceable_file(path)
    if target is None:  # a terminal or a pipe has nothing to go on with
        files.write_whole(path, f'{table}\n')
        return
    with _Lock(target):
        old_columns, old_rows = _read(target)
        new_columns, new_rows = _parsed(table)
        columns = old_columns + [name for name in new_columns if name not in old_columns]
        files.write_whole(target, _written(columns, [*old_rows, *new_rows]))


def check(path: str) -> None:
    """Raise ValueError where something can be read at ``path`` that is no table of runs."""
    target = files.replaceable_file(path)
    if target is not None:
        _read(target)


def _read(path: str) -> tuple[list[str], list[dict[str, str]]]:
    try:
        with open(path, encoding='utf-8', errors='surrogateescape', newline='') as file:
            return _parsed(file.read())
    except FileNotFoundError:
        return [], []


def _parsed(text: str) -> tuple[list[str], list[dict[str, str]]]:
    """Return the columns and the rows of a table."""
    import csv  # noqa: PLC0415 - as above
    import io  # noqa: PLC0415

    if not text:
        return [], []
    try:
        reader = csv.DictReader(io.StringIO(text, newline=''), strict=True)
        columns, rows = list(reader.fieldnames or ()), list(reader)
    except csv.Error as error:
        raise ValueError(str(error)) from None
    if tuple(columns[: len(_FIRST)]) != _FIRST:
        raise ValueError(f'its first line does not begin with {",".join(_FIRST)}')
    for row in rows:
        if None in row or None in row.values():
            raise ValueError(f'line {rows.index(row) + 2} has the wrong number of cells')
    return columns, rows


def _written(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    import csv  # noqa: PLC0415 - as above
    import io  # noqa: PLC0415

    lines = []
    for row in ({name: name for name in columns}, *rows):
        line = io.StringIO()
        csv.DictWriter(line, columns, lineterminator='\r\n').writerow(row)  # so that both are quoted within cells
        lines.append(line.getvalue().removesuffix('\r\n') + '\n')
    return ''.join(lines)


def _flat(figures: Mapping[str, object], prefix: str) -> dict[str, object]:
    """Return the figures by their names with dots."""
    flat: dict[str, object] = {}
    for name, value in figures.items():
        if isinstance(value, dict):
            flat |= _flat(value, f'{prefix}{name}.')
        elif not isinstance(value, list):
            flat[f'{prefix}{name}'] = value
    return flat


class _Lock:
    """Keeps other processes from adding to the same table meanwhile; where there are no such locks, it does nothing.

    The lock is on the folder, for the file itself is replaced by another one each time.
    """

    def __init__(self, path: str) -> None:
        self._folder = os.path.dirname(path)
        self._descriptor: int | None = None

    def __enter__(self) -> None:
        if sys.platform == 'win32':
            return
        import fcntl  # noqa: PLC0415 - not on every system

        try:
            self._descriptor = os.open(self._folder, os.O_RDONLY)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        except OSError:
            pass  # the folder may be written to and not read, or its file system knows no locks

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
