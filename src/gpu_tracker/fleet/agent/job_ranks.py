"""The ranks of jobs that run on this machine, and what those of each job add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.fleet.hosts.running_jobs import LONGEST_NAME, MOST_JOBS, RunningJob
from gpu_tracker.job import job_name
from gpu_tracker.system.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpu_tracker.jobs.records import RankRecord

_MISSED_REPORTS = 3
GRACE = 60.0
"""How many reports of a rank may be missing, and seconds in addition, until it counts as gone."""
_LONGEST_WRITE_INTERVAL = 3600.0
"""Seconds between two reports of a rank that are believed: that of a job of 360,000 ranks."""
_LARGEST = 2**62
_PERCENT = 100


class JobRank(NamedTuple):
    """A rank that runs on this machine, with its newest figures; None is unknown."""

    folder: str | None
    """The name of the job's folder; None where the agent reads that folder alone."""
    node: str | None
    launcher: str | None
    job: str | None
    """That of a task in an array as ``4711_3``."""
    step: str | None
    rank: int | None
    size: int | None
    """How many ranks there are in the step."""
    pid: int | None
    started: float
    """Seconds since 1970, as the next two."""
    updated: float
    expires: float
    """When it counts as gone if nothing is heard of it."""
    has_figures: bool
    """Not in the first second."""
    seconds: float | None = None
    """How long it was measured."""
    cpu_seconds: float | None = None
    cpu_cores: float | None = None
    """How many cores it kept busy on average between the newest figures and those before."""
    memory_max: int | None = None
    """Bytes, as all that follow."""
    gpu_memory_max: int | None = None
    gpu_utilization: float | None = None
    """The mean so far, from 0 to 1 for each GPU, summed over its GPUs."""
    read: int | None = None
    written: int | None = None


class JobsSeen(NamedTuple):
    """What is known of jobs at one moment."""

    ranks: tuple[JobRank, ...]
    problem: str | None
    """Why it may be wrong; None: nothing is wrong."""

    def as_json(self) -> dict[str, object]:
        """Return what ``/api/v1/host`` says of them."""
        return {'jobs': [job._asdict() for job in running_jobs(self.ranks)], 'jobs_problem': self.problem}


def rank_of(record: RankRecord, folder: str | None, before: JobRank | None) -> JobRank:
    """Return a rank by its record, whose texts and numbers are those of a stranger.

    :param folder: The name of the folder, where it is not the one that the agent was given.
    :param before: The same rank by its record before; None: there was none.
    """
    job = record.job
    identity = {'job': job.job, 'array_task': job.array_task}
    utilization = _number(record.figure('gpu', 'mean_sum'))
    write_interval = min(record.write_interval, _LONGEST_WRITE_INTERVAL)
    rank = JobRank(
        folder=_text(folder),
        node=_text(job.node),
        launcher=_text(job.launcher),
        job=_text(job_name(identity)),
        step=_text(job.step),
        rank=job.rank,
        size=job.size,
        pid=record.pid,
        started=record.started,
        updated=record.updated,
        expires=record.updated + _MISSED_REPORTS * write_interval + GRACE,
        has_figures=record.totals is not None,
        seconds=_number(record.figure('seconds')),
        cpu_seconds=_number(record.figure('cpu', 'combined', 0)),
        memory_max=_whole(record.figure('ram', 'combined', 0)),
        gpu_memory_max=_whole(record.figure('gpu', 'combined')),
        gpu_utilization=None if utilization is None else utilization / _PERCENT,
        read=_whole(record.figure('io', 'combined', 'bytes', 0)),
        written=_whole(record.figure('io', 'combined', 'bytes', 1)),
    )
    return rank._replace(cpu_cores=_cores(rank, before))


def _cores(rank: JobRank, before: JobRank | None) -> float | None:
    """Return how many cores were busy since the figures before; since the beginning where there are none."""
    if rank.seconds is None or rank.cpu_seconds is None:
        return None
    if before is not None and before.seconds is not None and before.cpu_seconds is not None:
        passed, used = rank.seconds - before.seconds, rank.cpu_seconds - before.cpu_seconds
        if passed > 0 and used >= 0:
            return used / passed
    return rank.cpu_seconds / rank.seconds if rank.seconds > 0 else None


def distinct(ranks: Iterable[JobRank]) -> list[JobRank]:
    """Return the ranks in order; of those that nothing distinguishes only the one that was started last.

    Such a pair is a rank that was started again before the end of its first attempt was noticed.
    """
    newest: dict[tuple[object, ...], JobRank] = {}
    for rank in sorted(ranks, key=lambda rank: rank.started):
        place = (rank.rank, None) if rank.rank is not None else (None, rank.pid)
        newest[rank.folder, rank.node, rank.job, rank.step, *place] = rank
    return sorted(newest.values(), key=_order)


def _order(rank: JobRank) -> tuple[object, ...]:
    return rank.folder or '', rank.job or '', rank.step or '', -1 if rank.rank is None else rank.rank, rank.pid or 0


def running_jobs(ranks: Iterable[JobRank]) -> tuple[RunningJob, ...]:
    """Return what the ranks of this machine add up to, an entry for each step of a job, those begun last first."""
    steps: dict[tuple[str | None, ...], list[JobRank]] = {}
    for rank in ranks:
        steps.setdefault((rank.job, rank.folder, rank.step), []).append(rank)
    jobs = [_running_job(found) for found in steps.values()]
    return tuple(sorted(jobs, key=lambda job: -(job.started or 0.0))[:MOST_JOBS])


def _running_job(ranks: Sequence[JobRank]) -> RunningJob:
    first = ranks[0]
    sizes = [rank.size for rank in ranks if rank.size]
    measured = [rank for rank in ranks if rank.has_figures]
    return RunningJob(
        job=first.job,
        folder=first.folder,
        step=first.step,
        launcher=first.launcher or None,
        ranks=len(ranks),
        ranks_expected=max(sizes) if sizes else None,
        started=min(rank.started for rank in ranks),
        updated=max(rank.updated for rank in ranks),
        cpu_seconds=_sum([rank.cpu_seconds for rank in measured]),
        cpu_cores=_sum([rank.cpu_cores for rank in measured]),
        memory_max_bytes=_whole(_sum([rank.memory_max for rank in measured])),
        gpu_memory_max_bytes=_whole(_sum([rank.gpu_memory_max for rank in measured])),
        read_bytes=_whole(_sum([rank.read for rank in measured])),
        written_bytes=_whole(_sum([rank.written for rank in measured])),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    """Return a sum; a part of it would be taken for the whole, so that it is None where one is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _text(text: str | None) -> str | None:
    return None if text is None else printable(text[:LONGEST_NAME])


def _number(value: float | None) -> float | None:
    return value if value is not None and 0 <= value <= _LARGEST else None


def _whole(value: float | None) -> int | None:
    known = _number(value)
    return None if known is None else int(known)
