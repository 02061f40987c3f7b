"""A job's folder, loaded: the records of its ranks, and what their recordings add to the report."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from gpu_tracker.errors import RecordingError
from gpu_tracker.jobs.merging import merge
from gpu_tracker.jobs.records import Alive, read_folder
from gpu_tracker.recording.reading.recording import load
from gpu_tracker.recording.writing.rank_files import PARTIAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpu_tracker.jobs.job_report import JobReport
    from gpu_tracker.jobs.records import RankRecord
    from gpu_tracker.recording.reading.recording import Recording
    from gpu_tracker.recording.reading.region_rows import RegionCall

RAM = 'combined_total_rss'
_MICRO = 1e6
_MOST_RECORDINGS = 2000
"""That are read unless they are asked for: each takes a few milliseconds."""


def load_job(
    folder: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, with_recordings: bool | None = None
) -> JobReport:
    """Return the report of a job. While the job runs, the report has the figures measured so far.

    :param folder: The folder given as ``--job`` or ``job_folder``, or a list of such folders.
    :param with_recordings: Read the recordings of the ranks, for regions and the peak RAM of nodes (default: only if
        there are at most 2,000).
    :raises RecordingError: if a folder cannot be read, or no rank wrote into the folders.
    """
    folders = [folder] if isinstance(folder, (str, os.PathLike)) else list(folder)
    records, problems = read_folders([os.fsdecode(one) for one in folders])
    recordings = _Recordings()
    count = sum(record.recording is not None for record in records)
    if with_recordings is None:
        with_recordings = count <= _MOST_RECORDINGS
        if not with_recordings:
            problems.append(
                f'The {count:,} recordings were not read: regions are missing, and RAM of nodes has bounds only. '
                'gpu-tracker merge --recordings, or load_job(with_recordings=True), reads them.'
            )
    report = merge(
        records,
        now=time.time(),
        is_alive=Alive(),
        problems=problems,
        series_of=recordings.series_of if with_recordings else None,
        calls_of=recordings.calls_of if with_recordings else None,
    )
    return report if not recordings.problems else _with_problems(report, recordings.problems)


def read_folders(folders: Sequence[str]) -> tuple[list[RankRecord], list[str]]:
    """Return the records in all folders, and what is wrong with some.

    :raises RecordingError: where a folder cannot be read, or there is no record in all of them.
    """
    records: list[RankRecord] = []
    problems: list[str] = []
    distinct = {os.path.realpath(folder): folder for folder in reversed(folders)}
    for folder in reversed(distinct.values()):
        found, wrong = read_folder(folder)
        records += found
        problems += wrong
    if not records:
        names = ', '.join(folders)
        reason = f' ({problems[0]})' if problems else ': run the ranks with gpu-tracker --job=FOLDER'
        raise RecordingError(f'no rank of a job has written into {names}{reason}')
    return records, problems


def open_recording(record: RankRecord) -> Recording:
    """Return the recording of a rank; of one that was not completed, as far as it goes.

    :raises RecordingError: where it cannot be read.
    """
    path = record.recording or ''
    return load(path, salvage=path.endswith(PARTIAL))


class _Recordings:
    """What is read of recordings, each of which is opened once; those that cannot be read are left out, and named.

    :ivar problems: What is wrong with them.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._calls: dict[str, Sequence[RegionCall]] = {}

    def series_of(self, record: RankRecord) -> Sequence[tuple[float, float]] | None:
        """Return the RAM of a rank over time, on the clock of its machine; None where that is not known."""
        if record.recording is None:
            return None
        try:
            with open_recording(record) as recording:
                self._calls[record.recording] = recording.region_calls()
                return _series(recording)
        except RecordingError as error:
            self._calls[record.recording] = ()
            self.problems.append(str(error))
            return None

    def calls_of(self, record: RankRecord) -> Sequence[RegionCall]:
        """Return the calls of the regions of a rank."""
        if record.recording is None:
            return ()
        if record.recording not in self._calls:  # it was alone on its node, whose RAM is its own
            self.series_of(record)
        return self._calls[record.recording]


def _series(recording: Recording) -> list[tuple[float, float]] | None:
    start = recording.meta.start_monotonic_us
    if start is None or RAM not in recording.samples.names:
        return None
    found: list[tuple[float, float]] = []
    last = 0.0
    for times, sizes in recording.samples.batches([RAM]):
        # Before its exec a command has nothing, and at the last sample it has mostly ended.
        found += [(start / _MICRO + t, size) for t, size in zip(times, sizes, strict=True) if size is not None]  # type: ignore[operator]  # a time is a number
        last = times[-1] or 0.0
    if found:
        found.append((start / _MICRO + last + 1 / _MICRO, 0.0))
    return found or None


def _with_problems(report: JobReport, problems: Sequence[str]) -> JobReport:
    from dataclasses import replace  # noqa: PLC0415 - rarely needed

    return replace(report, problems=(*report.problems, *dict.fromkeys(problems)))
