"""The recording of a run as the sampler makes it: rows after each sample, and a commit every two seconds.

What ``meta`` says:

- ``program``, ``command`` (a JSON list; NULL where it is not known), ``folder``, ``host``, ``system``, ``machine``,
  ``python``, ``cores``, ``ram_capacity`` (bytes), ``root_pid``: what was tracked, and where.
- ``interval`` (seconds), ``units`` (a JSON list: of RAM, GPU RAM and time, and the cores expected) and ``sections`` (a
  JSON list): how.
- ``started`` (ISO 8601, UTC), ``start_unix_us``, ``start_monotonic_us``: the first sample on three clocks.
- ``job``: which rank of which job it was, as JSON, see :class:`.JobIdentity`; NULL where no launcher
  was to be seen.
- ``totals``: what the run has used so far, as JSON; at the end what was reported.
- ``ended``, ``exit_code``: see :data:`~gpu_tracker.recording.schema.STOPPED`. Absent while the run goes on, and where
  the sampler was killed. The exit code is -n where signal n has ended the command.
- ``termination_reason``: which limit has ended the run, see :mod:`gpu_tracker.limits`; absent where none has.
- ``region_lines_lost``, ``samples_lost``: how many could not be kept; absent where there are none.
- ``oom_kills``: how many processes of the control group were killed for lack of memory; absent where none is known of.
"""

from __future__ import annotations

import time

from gpu_tracker.errors import see
from gpu_tracker.recording.schema import as_json
from gpu_tracker.recording.writing.recording_file import Failure, RecordingFile, is_busy, is_failure_of_data
from gpu_tracker.recording.writing.sample_rows import (
    GPU,
    GPU_SAMPLE,
    PROCESS,
    PROCESS_GPU_SAMPLE,
    PROCESS_SAMPLE,
    GpuRows,
    ProcessRows,
    SampleRows,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.recording.writing.recording_file import Statement
    from gpu_tracker.recording.writing.region_log import RegionLog
    from gpu_tracker.resources import Message, Resource
    from gpu_tracker.totals import Totals

COMMIT_INTERVAL = 2.0
"""Seconds after which what was measured is in the file."""
_TOLERANCE = 0.05
"""Seconds by which a commit may come later, so that a sample a second is two samples a commit and not one."""
_SOON = 0.1
"""Seconds to the next commit where the log of regions has more than was read, or a reader was in the way of this."""
_MOST_WAITING = 10_000
"""Rows of a kind that wait where the disk is full: three hours at one sample a second, 10 MB."""
_CLOCK_STEP_US = 20_000
"""By how much the wall clock has to differ from what was last noted to be noted again."""
_LONGEST_LAST_READING = 3.0
"""Seconds that the end of a run takes at most to read the log of regions."""

_META = 'INSERT OR REPLACE INTO meta VALUES (?, ?)'
_CLOCK = 'INSERT OR REPLACE INTO clock VALUES (?, ?)'
_MESSAGE = 'INSERT INTO messages VALUES (?, ?, ?)'
_FULL = (
    'The recording cannot be written to {}: {}. Sampling goes on; what is measured is kept, and written when that is '
    'possible again.'
)
_UNFINISHED = 'The recording {} is incomplete: there is no room for its end, or it is being read all the time.'
_DROPPED = 'The oldest samples of the recording were dropped, because it could not be written for too long.'
_WITHOUT_LOCKS = (
    'The file system of {} does not support file locks. Read the recording only after the run has ended. '
    f'{see("no-locks")}'
)


class Recorder:
    """Writes one recording.

    :param path: Of the file, which is there and empty.
    :param meta: What is known of the run before it begins, by the keys of ``meta``.
    :param units: Of RAM, GPU RAM and time, and the cores expected.
    :param resources: What is sampled.
    :param interval: Seconds between two samples.
    :param tree: The tracked processes, where each of them is to have rows; None: no rows.
    :param regions: The log of regions; None: there is none.
    :param commit_interval: Seconds after which what was measured is in the file; None: :data:`COMMIT_INTERVAL`.
    :param monotonic: The clock of the samples.
    :param wall_clock: Seconds since 1970.
    :raises Failure: if the file cannot be written.
    """

    def __init__(
        self,
        path: str,
        *,
        meta: Mapping[str, str | float | None],
        units: Sequence[Any],
        resources: Sequence[Resource],
        interval: float,
        tree: ProcessTree | None = None,
        regions: RegionLog | None = None,
        commit_interval: float | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._resources = resources
        self._interval = interval
        self._regions = regions
        self._commit_interval = COMMIT_INTERVAL if commit_interval is None else commit_interval
        self._monotonic = monotonic
        self._wall_clock = wall_clock
        self._rows = SampleRows([column for resource in resources for column in resource.columns])
        self._gpus = GpuRows()
        self._processes = None if tree is None else ProcessRows(tree)
        self._meta: dict[str, object] = {}
        of_processes = PROCESS, PROCESS_SAMPLE, PROCESS_GPU_SAMPLE
        statements = (self._rows.sql, GPU, GPU_SAMPLE, _CLOCK, _MESSAGE, *of_processes)
        self._waiting: dict[str, list[Sequence[object]]] = {sql: [] for sql in statements}
        """Rows that were not written yet, by the statement that writes them."""
        self._samples = self._waiting[self._rows.sql]
        self._clock_offset: int | None = None
        self._start: float | None = None
        self._next = float('-inf')
        self._pause_of_reader = 0.0
        """Seconds to the next commit, at most, where a reader was in the way of the last one; 0: none was."""
        self._messages: list[Message] = []
        self._noted = 0
        self._is_failing = False
        self._has_warned = False
        self._samples_lost = 0
        self._file = RecordingFile(path)
        self._file.create(self._rows.columns, units, [(_META, list(meta.items())), self._rows.descriptions()])
        if not self._file.has_locks:
            self._messages.append(('warning', _WITHOUT_LOCKS.format(path)))

    is_recording = True
    """It wants the totals that the tracker reports."""

    def sampled(self, now: float) -> None:
        """Take in what the resources have measured at ``now``."""
        self.add(now, [value for resource in self._resources for value in resource.row()])

    def add(self, now: float, values: Sequence[float | None]) -> None:
        """Take in the values of all columns at ``now``."""
        if self._start is None:
            self._begin(now)
        t = self._time(now)
        self._samples.append(self._rows.row(t, values))
        if self._processes is not None:
            for sql, row in self._processes.rows(t, self._gpu_ram_by_process()):
                self._waiting[sql].append(row)
        for resource in self._resources:
            for device in resource.take_devices():
                for sql, row in self._gpus.rows(self._time(device.at), device):
                    self._waiting[sql].append(row)

    def _gpu_ram_by_process(self) -> Mapping[int, int | None] | None:
        found = (resource.gpu_ram_by_process() for resource in self._resources)
        return next((by_process for by_process in found if by_process is not None), None)

    def due(self) -> float:
        """Return when the next commit is due where no sample comes before it.

        Regions do not wait for samples, nor does what could not be written for a reader.
        """
        return self._next if self._regions is not None or self._pause_of_reader else float('inf')

    def is_due(self, now: float) -> bool:
        """Return whether a sample at ``now`` is to be followed by a commit, since the next one would be too late."""
        return now >= self._next or now + self._interval > self._next + _TOLERANCE

    def published(self, now: float, totals: Totals) -> None:
        """Take note of the totals so far, and commit all that was measured."""
        self._note_totals(now, totals)
        self.commit(now)

    def commit(self, now: float) -> None:
        """Write what was measured; what cannot be written now is written later."""
        self._next = now + self._commit_interval
        if self._regions is not None and not (self._meta or self._samples or self._regions.has_grown):
            return  # between two samples far apart
        if self._regions is not None:
            try:
                has_more = self._regions.read()
            except OSError:
                has_more = False  # the file system of the log is gone
            if has_more:
                self._next = now + _SOON
        self._note_clock()
        self._write()
        if self._pause_of_reader:
            self._next = min(self._next, now + self._pause_of_reader)

    def take_messages(self) -> list[Message]:
        """Return the messages for the user that were not taken yet."""
        messages, self._messages = self._messages, []
        return messages

    def finish(self, ended: str, totals: Totals | None, exit_code: int | None) -> None:
        """Write the end of the run, and close the file.

        :param ended: What ``meta`` says of it.
        :param totals: What the tracker has reported; None: the last totals that were published are the final ones.
        :param exit_code: That of the command; None: unknown, or there was none.
        """
        now = self._monotonic()
        self._read_all_regions()
        if totals is not None:
            self._note_totals(now, totals)
            if 'termination_reason' in totals:
                self._meta['termination_reason'] = totals['termination_reason']
        self._meta |= {'ended': ended, 'exit_code': exit_code}
        self._note_clock(always=True)
        try:
            self._file.be_patient()
            self._write()
        except Failure as error:
            self._fail(error)
        finally:
            self._messages = [('warning', _UNFINISHED.format(self._path))] if self._meta else []
            self._file.close()
            if self._regions is not None:
                self._regions.remove()

    def discard(self) -> None:
        """Close the file, which is of no use: whoever has made it removes it."""
        self._file.close()
        if self._regions is not None:
            self._regions.remove()

    def _begin(self, now: float) -> None:
        unix = self._wall_clock() - (self._monotonic() - now)
        self._start = now
        self._meta |= {
            'started': time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(unix)) + f'.{int(unix % 1 * 1e6):06d}Z',
            'start_unix_us': round(unix * 1e6),
            'start_monotonic_us': round(now * 1e6),
        }
        if self._regions is not None:
            self._regions.start_ns = round(now * 1e6) * 1000
        self._clock_offset = round(unix * 1e6)
        self._waiting[_CLOCK].append((0, self._clock_offset))

    def _time(self, now: float) -> int:
        return round((now - (self._start or 0.0)) * 1e6)

    def _note_totals(self, now: float, totals: Totals) -> None:
        self._meta['totals'] = as_json(totals)
        if 'control_group' in totals and totals['control_group']['oom_kills']:
            self._meta['oom_kills'] = totals['control_group']['oom_kills']
        self._waiting[_MESSAGE] += [(self._time(now), *message) for message in totals['messages'][self._noted :]]
        self._noted = max(self._noted, len(totals['messages']))

    def _note_clock(self, *, always: bool = False) -> None:
        at, unix = self._time(self._monotonic()), round(self._wall_clock() * 1e6)
        if always or self._clock_offset is None or abs(unix - at - self._clock_offset) > _CLOCK_STEP_US:
            self._clock_offset = unix - at
            self._waiting[_CLOCK].append((at, unix))

    def _read_all_regions(self) -> None:
        log = self._regions
        if log is None:
            return
        give_up = self._monotonic() + _LONGEST_LAST_READING
        try:
            while log.read():
                if self._monotonic() > give_up:
                    log.lost += 1
                    break
        except OSError:
            pass  # the file system of the log is gone

    def _write(self) -> None:
        """Commit everything that waits."""
        paused, self._pause_of_reader = self._pause_of_reader, 0.0
        self._forget_oldest()
        if self._regions is not None and self._regions.lost:
            self._meta['region_lines_lost'] = self._regions.lost
        try:
            self._file.write(self._statements())
        except Failure as error:
            if is_failure_of_data(error):
                self._write_one_by_one()
            elif is_busy(error):
                self._pause_of_reader = max(_SOON, 2 * paused)  # it may stay, and each try writes all that waits
            else:
                self._fail(error)
            return
        except (OverflowError, ValueError):
            self._write_one_by_one()
        self._is_failing = False
        self._forget()

    def _statements(self) -> list[Statement]:
        found: list[Statement] = [(_META, list(self._meta.items())), *self._waiting.items()]
        if self._regions is not None:
            found += self._regions.rows()
        return [(sql, rows) for sql, rows in found if rows]

    def _forget(self) -> None:
        self._meta = {}
        for rows in self._waiting.values():
            rows.clear()
        if self._regions is not None:
            self._regions.written()

    def _write_one_by_one(self) -> None:
        """Write each row by itself and leave out those that cannot be stored: texts and numbers come from programs."""
        for sql, rows in self._statements():
            for row in rows:
                try:
                    self._file.write([(sql, (row,))])
                except (Failure, OverflowError, ValueError):
                    if self._regions is not None and ' regions ' in sql:
                        self._regions.lost += 1
        self._forget()

    def _fail(self, error: Failure) -> None:
        self._is_failing = True
        if not self._has_warned:
            self._has_warned = True
            self._messages.append(('warning', _FULL.format(self._path, error)))

    def _forget_oldest(self) -> None:
        lost = len(self._samples) - _MOST_WAITING
        if lost > 0:
            if not self._samples_lost:
                self._messages.append(('warning', _DROPPED))
            self._samples_lost += lost
            self._meta['samples_lost'] = self._samples_lost
        for rows in self._waiting.values():
            del rows[:-_MOST_WAITING]
        if self._regions is not None and self._regions.waiting > _MOST_WAITING and self._is_failing:
            self._regions.lost += self._regions.waiting
            self._regions.written()
