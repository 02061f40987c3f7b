"""The format of a recording: one SQLite file a run, whose tables never change meaning.

Version 1. The tables are described in ``docs/formats.rst``; ``meta`` describes the run and ``columns`` each column of
``samples``. Numbers are stored as integers in small units, since the figures of a whole week have to fit into a few
megabytes; the view ``readings`` has them in base units.

All times are microseconds of the system's monotonic clock since the first sample.
"""

from __future__ import annotations

from gpu_tracker.resources import COUNTER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from gpu_tracker.resources import Column

APPLICATION_ID = 0x67707574
"""``gput``, where SQLite keeps what a file is (``PRAGMA application_id``)."""
VERSION = 1
"""The version of the format (``PRAGMA user_version``)."""

STOPPED = 'stopped'
"""``meta.ended``: the tracker has stopped the run, and ``totals`` are those that were reported."""
ABANDONED = 'abandoned'
"""``meta.ended``: the tracker was gone before the end. Without ``ended`` the sampler was gone as well."""

SMALL_UNITS = {'bytes': 1024.0, 'seconds': 1e-6, 'percent': 1e-2, 'joules': 1e-3, 'count': 1.0}
"""What 1 in a column means, in the base unit of the column; see :func:`small_unit`."""

_SUMS = {
    'combined_cpu': ('main_cpu', 'descendants_cpu'),
    'combined_n_threads': ('main_n_threads', 'descendants_n_threads'),
    'combined_gpu_ram': ('main_gpu_ram', 'descendants_gpu_ram'),
    'main_total_rss': ('main_private_rss', 'main_shared_rss'),
    'descendants_total_rss': ('descendants_private_rss', 'descendants_shared_rss'),
    'combined_private_rss': ('main_private_rss', 'descendants_private_rss'),
    'combined_total_rss': ('combined_private_rss', 'combined_shared_rss'),
}
"""Columns that hold what they have beyond the sum of two others: mostly 0, which takes no space in the file."""

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE columns (
    position INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, unit TEXT NOT NULL, kind TEXT NOT NULL,
    small_unit REAL NOT NULL, beyond TEXT NOT NULL, meaning TEXT NOT NULL
);
CREATE TABLE gpus (id INTEGER PRIMARY KEY, uuid TEXT NOT NULL, name TEXT, total_ram INTEGER);
CREATE TABLE gpu_samples (
    t INTEGER NOT NULL, gpu INTEGER NOT NULL, ram INTEGER, combined_ram INTEGER, utilization INTEGER,
    PRIMARY KEY (t, gpu)
) WITHOUT ROWID;
CREATE TABLE processes (
    id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, parent INTEGER NOT NULL, name TEXT NOT NULL, first_t INTEGER NOT NULL,
    command TEXT
);
CREATE TABLE process_samples (
    t INTEGER NOT NULL, process INTEGER NOT NULL, rss INTEGER, cpu INTEGER, n_threads INTEGER, gpu_ram INTEGER,
    PRIMARY KEY (t, process)
) WITHOUT ROWID;
CREATE TABLE regions (
    id INTEGER PRIMARY KEY, parent INTEGER, pid INTEGER NOT NULL, thread INTEGER, task TEXT, name TEXT NOT NULL,
    attributes TEXT, start INTEGER NOT NULL, stop INTEGER, thread_cpu INTEGER, peak_before INTEGER,
    peak_after INTEGER, error TEXT, calls INTEGER NOT NULL DEFAULT 1, total INTEGER, shortest INTEGER, longest INTEGER,
    squares REAL, errors INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE clock (t INTEGER PRIMARY KEY, unix INTEGER NOT NULL);
CREATE TABLE messages (t INTEGER NOT NULL, level TEXT NOT NULL, text TEXT NOT NULL);
"""
"""All tables but ``samples``, whose columns are those of the resources that are sampled.

- ``meta``: see :mod:`gpu_tracker.recording.writing.recorder` for the keys; values are texts, numbers, or JSON as text.
- ``gpu_samples``: RAM in KiB, utilization in hundredths of a percent. ``combined_ram`` is that of the tracked tree.
- ``processes``: ``command`` is the command line as ``ps`` shows it, 200 characters at most.
- ``process_samples``: RSS and GPU memory in KiB, CPU time in microseconds since the process started; only with
  ``per_process``.
- ``regions``: ``start`` and ``stop`` in microseconds (``stop`` is NULL where the region has not ended), ``thread_cpu``
  in microseconds, ``peak_before`` and ``peak_after`` in KiB: the high-water mark of the process' RSS at both ends.
  Where ``total`` is not NULL, the row is the sum of ``calls`` calls that began and ended between ``start`` and
  ``stop``: ``total``, ``shortest`` and ``longest`` are their wall time in microseconds, ``squares`` the sum of its
  squares in seconds squared, ``errors`` how many of them an exception has ended. ``error`` is the name of the
  exception's type. ``attributes`` is a JSON object or NULL.
- ``clock``: microseconds since 1970 at some points of time, which show where the wall clock was set.
"""


ADDED = frozenset({('processes', 'command'), ('process_samples', 'gpu_ram')})
"""Columns that older recordings of this version lack; they are read as unknown."""


def stored_sum(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the columns beyond whose sum the column ``name`` is stored, among ``names``: two or none."""
    others = _SUMS.get(name, ())
    return others if all(other in names for other in others) else ()


def samples_table(columns: Sequence[Column]) -> str:
    """Return the statement that creates ``samples``, one INTEGER column for each of ``columns``."""
    return f'CREATE TABLE samples (t INTEGER PRIMARY KEY, {", ".join(f"{column.name} INTEGER" for column in columns)})'


def readings_view(columns: Sequence[Column]) -> str:
    """Return the statement that creates the view ``readings``: ``samples`` in base units, ``t`` in seconds."""
    names = [column.name for column in columns]
    shown = [f'{expression(column.name, names)} * {small_unit(column)!r} AS {column.name}' for column in columns]
    return f'CREATE VIEW readings AS SELECT t * 1e-6 AS t, {", ".join(shown)} FROM samples'  # noqa: S608 - our own names


def small_unit(column: Column) -> float:
    """Return what 1 in a column means; counters of bytes are whole, so that the last row has what is reported."""
    return 1.0 if (column.unit, column.kind) == ('bytes', COUNTER) else SMALL_UNITS[column.unit]


def expression(name: str, names: Sequence[str]) -> str:
    """Return the SQL of the value of a column in its small unit; NULL where it is unknown."""
    others = [f'coalesce({expression(other, names)}, 0)' for other in stored_sum(name, names)]
    return f'({" + ".join([name, *others])})'


def as_json(value: object) -> str:
    """Return plain data as JSON; a number that JSON does not have, such as NaN, becomes null."""
    import json  # noqa: PLC0415 - the measured process needs none

    try:
        return json.dumps(value, separators=(',', ':'), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), separators=(',', ':'))


def _finite(value: Any) -> object:  # noqa: ANN401 - plain data of any kind
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and value - value != 0 else value
