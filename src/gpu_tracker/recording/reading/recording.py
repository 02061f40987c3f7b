"""A recording that is read: what run it was, its samples, its regions, and its result."""

from __future__ import annotations

import keyword
import os
import re
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from gpu_tracker.bindings import make
from gpu_tracker.errors import RecordingError
from gpu_tracker.figures import so_far
from gpu_tracker.recording.reading.database import INTEGER_OR_NONE, Database
from gpu_tracker.recording.reading.device_rows import read_gpu_samples, read_gpus, read_process_samples, read_processes
from gpu_tracker.recording.reading.meta import read_meta
from gpu_tracker.recording.reading.model import ClockPoint, Column, Message
from gpu_tracker.recording.reading.region_rows import read_calls, read_regions
from gpu_tracker.recording.reading.samples import Samples, StoredColumn, sums_in_sql
from gpu_tracker.recording.reading.span_figures import SpanFigures
from gpu_tracker.resources.building import WRONG_TOTALS, build
from gpu_tracker.units import Units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpu_tracker.recording.reading.model import Gpu, GpuSample, Meta, ProcessRecord, ProcessSample, Region
    from gpu_tracker.recording.reading.region_rows import RegionCall
    from gpu_tracker.result.usage import ResourceUsage

_NAME = re.compile(r'[a-z][a-z0-9_]{0,99}', re.ASCII)
_MICRO = 1e6


def load(path: str | os.PathLike[str], *, salvage: bool = False) -> Recording:
    """Open the file of a recording, and return a :class:`.Recording`. The recorded run may still be running.

    :param salvage: Read as much as possible of a damaged file.
    :raises RecordingError: if the file is not a recording, needs a newer gpu-tracker or cannot be read.
    """
    return Recording(os.fsdecode(path), salvage=salvage)


class Recording:
    """An open recording. Use the recording in a ``with`` statement, or call :meth:`close` at the end.

    :ivar path: Path of the file.
    :ivar meta: Description of the recorded run and machine (:class:`.Meta`).
    :ivar columns: Columns in the table of samples (:class:`.Column`).
    :ivar samples: All samples (:class:`.Samples`).
    :ivar gpus: GPUs of the machine (:class:`.Gpu`).
    """

    def __init__(self, path: str, *, salvage: bool = False) -> None:
        self.path = path
        self._database = Database(path, salvage=salvage)
        try:
            with self._database as database:
                self.meta: Meta = read_meta(database)
                self.columns, stored = read_columns(database)
                self.gpus: tuple[Gpu, ...] = tuple(read_gpus(database))
                last = last_time(database)
        except BaseException:
            self._database.close()
            raise
        self.samples = Samples(self._database, stored, None, -1 if last is None else last)
        self._last = None if last is None else last / _MICRO

    def __repr__(self) -> str:
        """Return which file it is."""
        return f'<Recording {self.path}>'

    def _repr_html_(self) -> str:
        """Return the run, its result over time and its regions as tables, for notebooks."""
        html: str = make('recording as HTML', self)
        return html

    def __enter__(self) -> Self:
        """Return the recording."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @property
    def duration(self) -> float | None:
        """Seconds from the first sample to the last."""
        return self._last

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """Regions by start: :class:`.Region`."""
        return read_regions(self._database, lambda: self.span_figures, self.meta.root_pid)

    def region_calls(self) -> list[RegionCall]:
        """Return the calls of regions that have ended, without what was used in them, which takes longer to find."""
        return read_calls(self._database)

    @cached_property
    def span_figures(self) -> SpanFigures:
        """What all tracked processes used in any span of time; the samples are read when this is first asked for."""
        return SpanFigures(self.samples, self.columns)

    @cached_property
    def processes(self) -> tuple[ProcessRecord, ...]:
        """Recorded processes: :class:`.ProcessRecord`."""
        return tuple(read_processes(self._database))

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """Messages that the tracker logged (:class:`.Message`)."""
        rows = self._database.rows('messages', ('rowid', 't', 'level', 'text'))
        return tuple(Message(t / _MICRO, level, text) for _, t, level, text in rows)

    @cached_property
    def clock(self) -> tuple[ClockPoint, ...]:
        """Moments on both clocks, which show where the date was set while the run went on."""
        rows = self._database.rows('clock', ('t', 'unix'))
        return tuple(ClockPoint(t / _MICRO, unix / _MICRO) for t, unix in rows)

    def gpu_samples(self) -> Iterator[GpuSample]:
        """Iterate over all samples of GPUs, sorted by time (:class:`.GpuSample`)."""
        return read_gpu_samples(self._database)

    def process_samples(self) -> Iterator[ProcessSample]:
        """Yield each :class:`.ProcessSample`, in order of time. Without ``per_process``, yield nothing."""
        return read_process_samples(self._database)

    def summary(
        self, ram_unit: str | None = None, gpu_ram_unit: str | None = None, time_unit: str | None = None
    ) -> ResourceUsage:
        """Return the result of the run: a :class:`~gpu_tracker.ResourceUsage`.

        If the recording is incomplete, all sums and maxima are lower bounds. Default units: those of the run.

        :raises RecordingError: if the run ended before a result was recorded.
        """
        totals, units = self.meta.totals, self.meta.units
        if totals is None or units is None:
            raise RecordingError(f'{self.path} has no result: the run ended before the first result was recorded')
        try:
            wanted: Any = totals
            ram, gpu_ram, time, cores = units
            usage = build(wanted, Units(ram_unit or ram, gpu_ram_unit or gpu_ram, time_unit or time, cores))
            return usage if self.meta.is_complete else replace(usage, lower_bounds=so_far(usage))
        except WRONG_TOTALS as error:
            raise RecordingError(
                f'{self.path} is not a gpu-tracker recording: it has no readable totals ({error!r})'
            ) from error

    def export(self, path: str | os.PathLike[str], format: str) -> None:  # noqa: A002 - the documented name
        """Convert the recording to another file format.

        :param format: ``csv``, ``jsonl``, ``parquet``, ``chrome-trace`` or ``sub-tracking``.
        :raises RecordingError: if the file cannot be written.
        """
        make('recording as file', self, os.fsdecode(path), format)

    def report(self, height: int | None = None) -> Any:  # noqa: ANN401 - a class of the views
        """Return the HTML page of ``gpu-tracker report``, as a :class:`.ReportFrame` to display in a notebook."""
        return make('recording as page', [self], height=height)

    def plot(self, only: Iterable[str] | None = None, start: float | None = None, stop: float | None = None) -> Any:  # noqa: ANN401 - the package need not be there
        """Return a ``matplotlib.figure.Figure`` of the run.

        :param only: Panels to draw: ``ram``, ``cpu``, ``gpu_ram``, ``gpu``, ``gpu_activity``, ``io``, ``power``
            (default: all panels with data).
        :param start: Start of the plot, in seconds since the first sample.
        :param stop: End of the plot.
        :raises ValueError: if a panel does not exist.
        :raises RecordingError: if matplotlib is not installed.
        """
        return make('recording as picture', self, only, start, stop)


def read_columns(database: Database) -> tuple[tuple[Column, ...], list[StoredColumn]]:
    """Return the columns of the samples, and how they are stored.

    :raises RecordingError: where they are not what they have to be.
    """
    shown: list[Column] = []
    units: dict[str, float] = {}
    sums: dict[str, list[str]] = {}
    for _, name, unit, kind, small_unit, beyond, meaning in database.rows(
        'columns', ('position', 'name', 'unit', 'kind', 'small_unit', 'beyond', 'meaning')
    ):
        if not _NAME.fullmatch(name) or keyword.iskeyword(name) or name == 't':
            raise RecordingError(
                f'{database.path} is not a gpu-tracker recording: {name[:40]!r} is not the name of a column'
            )
        if not 0 < small_unit < float('inf'):
            raise RecordingError(
                f'{database.path} is not a gpu-tracker recording: {name} has the invalid unit {small_unit}'
            )
        shown.append(Column(name, unit, kind, meaning))
        units[name] = float(small_unit)
        sums[name] = _NAME.findall(beyond)
    if len(units) < len(shown):
        raise RecordingError(f'{database.path} is not a gpu-tracker recording: two columns have the same name')
    found = sums_in_sql(sums, database.path)
    if shown:
        names = ', '.join(column.name for column in shown)
        database.value(f'SELECT {names} FROM samples LIMIT 1')  # noqa: S608 - raises where one is not there
    return tuple(shown), [StoredColumn(name, unit, found[name]) for name, unit in units.items()]


def last_time(database: Database) -> int | None:
    """Return the microsecond of the last sample: what is written later is not read."""
    last = database.value('SELECT max(t) FROM samples')
    if type(last) not in INTEGER_OR_NONE:
        raise database.wrong_type('samples', 't', last, INTEGER_OR_NONE)
    if last is None:  # there is none, or the end of a damaged file is not there
        for batch in database.batches('samples', ['t']):
            last = batch[-1][0]
    found: int | None = last
    return found
