"""Runs that were killed with their trackers, or ended without a stop. Their samplers have left files."""

from __future__ import annotations

import ast
import os
import stat
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_tracker.errors import RecordingError, ReportError
from gpu_tracker.limits import KILLED
from gpu_tracker.resources.building import WRONG_TOTALS, build
from gpu_tracker.resources.settle import REASONS, KernelFacts, settle
from gpu_tracker.result.usage import ResourceUsage
from gpu_tracker.sampler import kept_run
from gpu_tracker.sampler.store import LARGE_PLACE, Store
from gpu_tracker.units import Units

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_OPENING = getattr(os, 'O_NONBLOCK', 0) | getattr(os, 'O_CLOEXEC', 0) | getattr(os, 'O_BINARY', 0)
_WRONG = (*WRONG_TOTALS, ReportError)
"""What totals of strangers may raise."""


class KilledRun(NamedTuple):
    """A run that was killed, or still goes on.

    :ivar id: What it is called.
    :ivar path: Its file.
    :ivar program: The gpu-tracker that has written it, with its version.
    :ivar host: The name of the machine.
    :ivar pid: The tracked process.
    :ivar command: The beginning of its command line.
    :ivar started_unix: When it was started, in seconds since 1970.
    :ivar interval: Seconds between two samples.
    :ivar samples: How many there were.
    :ivar messages: Those for the user, as (level, text).
    :ivar tracking_has_ended: Neither its tracker nor its sampler runs any more; a tracked command may.
    :ivar recording: The file of its recording; None: it has none.
    :ivar units: Of RAM, of GPU RAM and of time, and the number of cores that were expected to be used.
    :ivar totals: See :class:`gpu_tracker.totals.Totals`.
    """

    id: str
    path: str
    program: str
    host: str
    pid: int
    command: tuple[str, ...]
    started_unix: float
    interval: float
    samples: int
    messages: tuple[tuple[str, str], ...]
    tracking_has_ended: bool
    recording: str | None
    units: tuple[str, str, str, int | None]
    totals: Mapping[str, Any]

    def usage(
        self, ram_unit: str | None = None, gpu_ram_unit: str | None = None, time_unit: str | None = None
    ) -> ResourceUsage:
        """Return what was measured, in the units of the run or in others.

        :raises RecordingError: The file is damaged.
        """
        ram, gpu_ram, of_time, cores = self.units
        totals: Any = self.totals
        try:
            built = build(totals, Units(ram_unit or ram, gpu_ram_unit or gpu_ram, time_unit or of_time, cores))
            return ResourceUsage.from_dict(built.to_dict())  # which checks all types
        except _WRONG as error:
            raise _damaged(self.path) from error


def found() -> Iterator[KilledRun | RecordingError]:
    """Yield all killed runs, and the errors of unreadable files."""
    for folder in kept_run.local_folders() if sys.platform == 'linux' else ():
        try:
            names = sorted(os.listdir(folder)) if kept_run.is_own(folder) else []  # else there is none, or others write
        except OSError:
            continue  # it may not be read
        for name in names:
            if name.endswith(kept_run.SUFFIX):
                try:
                    run = load(f'{folder}/{name}')
                except RecordingError as error:
                    yield error
                else:
                    if run is not None and run.tracking_has_ended:
                        yield run


def path_of(run_id: str) -> str | None:
    """Return the path of the run with that ID; None if there is none."""
    if os.path.basename(run_id) == run_id and sys.platform == 'linux':
        for folder in kept_run.local_folders():
            path = f'{folder}/{run_id}{kept_run.SUFFIX}'
            if kept_run.is_own(folder) and os.path.lexists(path):
                return path
    return None


def is_kept_run(path: str) -> bool:
    """Return whether a file has the beginning of such a file."""
    try:
        handle = os.open(path, _OPENING)
    except OSError:
        return False
    try:
        return stat.S_ISREG(os.fstat(handle).st_mode) and _is_ours(os.read(handle, kept_run.START))
    finally:
        os.close(handle)


def load(path: str) -> KilledRun | None:
    """Return the run in a file; None if nothing was measured of it.

    :raises RecordingError: It cannot be read.
    """
    handle = -1
    try:
        handle = os.open(path, _OPENING)
        if not os.fstat(handle).st_size:
            return None  # the tracker has its result
        beginning = os.read(handle, kept_run.START)
        if not beginning.startswith(kept_run.HEADER):
            if _is_ours(beginning):
                raise RecordingError(f'{path} was written by another version of gpu-tracker')
            raise _damaged(path)
        tracking_has_ended = not kept_run.is_locked(handle)
        data = Store(handle, LARGE_PLACE, kept_run.START).get()
        return None if data is None else _parsed(path, data, tracking_has_ended=tracking_has_ended)
    except OSError as error:
        raise RecordingError(f'cannot read {path}: {error.strerror}') from error
    finally:
        if handle >= 0:
            os.close(handle)


def _parsed(path: str, data: bytes, *, tracking_has_ended: bool) -> KilledRun | None:
    try:
        content: Any = ast.literal_eval(data.decode('ascii'))
        evidence = content['evidence']
        if evidence['record']['held']:
            return None  # its command was never started
        totals: dict[str, Any] = {**settle(evidence, KernelFacts(is_cut_off=tracking_has_ended))}
        if tracking_has_ended:
            totals['termination_reason'] = KILLED
            killed = REASONS['killed']
            # A mean is that of the time until then, and no bound of any other.
            bounds = {
                path: why for path, why in totals['lower_bounds'].items() if why != killed or '.mean_' not in path
            }
            totals['lower_bounds'] = {**bounds, 'compute_time.time': killed}
        ram, gpu_ram, time_unit, cores = content['units']
        time.localtime(content['started_unix'])
        run = KilledRun(
            id=os.path.basename(path).removesuffix(kept_run.SUFFIX),
            path=path,
            program=str(content['program']),
            host=str(content['host']),
            pid=int(content['pid']),
            command=tuple(map(str, content['command'])),
            started_unix=float(content['started_unix']),
            interval=float(content['interval']),
            samples=int(evidence['samples']),
            messages=tuple((str(level), str(text)) for level, text in evidence['messages']),
            tracking_has_ended=tracking_has_ended,
            recording=None if content['recording'] is None else str(content['recording']),
            units=(ram, gpu_ram, time_unit, cores),
            totals=totals,
        )
    except (*_WRONG, MemoryError, RecursionError, SyntaxError) as error:
        raise _damaged(path) from error
    run.usage()
    return run


def _is_ours(beginning: bytes) -> bool:
    return beginning.startswith(kept_run.HEADER.rpartition(b' ')[0])


def _damaged(path: str) -> RecordingError:
    return RecordingError(f'{path} is damaged')
