"""The jobs of which a host runs ranks, read from the JSON of an agent that need not be honest."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.fleet.hosts import untrusted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOST_JOBS = 500
"""Of one host, steps counted by themselves."""
LONGEST_NAME = 100
"""Characters of a name: more than schedulers use."""
_MOST_RANKS = 10**9


class RunningJob(NamedTuple):
    """What one host runs of one step of a job; None is unknown.

    Sums are those of the ranks that have reported figures, and unknown where one of these does not know its own.
    """

    job: str | None
    """The ID of the job, that of a task in an array as ``4711_3``."""
    folder: str | None
    """The name of its folder; None as well where the agent reads that folder alone."""
    step: str | None
    launcher: str | None
    ranks: int
    """How many of its ranks run on this host."""
    ranks_expected: int | None
    """How many the step has, on all hosts together."""
    started: float | None = None
    """When the first of the ranks began, in seconds since 1970."""
    updated: float | None = None
    """When the newest of their figures were written."""
    cpu_seconds: float | None = None
    cpu_cores: float | None = None
    """How many cores were busy on average between the newest figures and those before."""
    memory_max_bytes: int | None = None
    """The sum of the maxima of the ranks, which need not have been at one moment."""
    gpu_memory_max_bytes: int | None = None
    read_bytes: int | None = None
    """Read from storage."""
    written_bytes: int | None = None


def parse_jobs(listed: object) -> tuple[RunningJob, ...] | None:
    """Return the jobs in a report; None where there are none, as in those of agents that read no job folders.

    An entry that is not as it should be is left out: the GPUs of the same host are still good.
    """
    if not isinstance(listed, list):
        return None
    return tuple(_jobs(listed[:MOST_JOBS]))


def _jobs(listed: list[object]) -> Iterator[RunningJob]:
    for entry in listed:
        ranks = untrusted.whole(entry.get('ranks'), 1, _MOST_RANKS) if isinstance(entry, dict) else None
        if isinstance(entry, dict) and ranks is not None:
            yield _job(entry, ranks)


def _job(entry: Mapping[str, object], ranks: int) -> RunningJob:
    return RunningJob(
        job=untrusted.text(entry.get('job'), LONGEST_NAME),
        folder=untrusted.text(entry.get('folder'), LONGEST_NAME),
        step=untrusted.text(entry.get('step'), LONGEST_NAME),
        launcher=untrusted.text(entry.get('launcher'), LONGEST_NAME),
        ranks=ranks,
        ranks_expected=untrusted.whole(entry.get('ranks_expected'), 1, _MOST_RANKS),
        started=untrusted.number(entry.get('started')),
        updated=untrusted.number(entry.get('updated')),
        cpu_seconds=untrusted.number(entry.get('cpu_seconds')),
        cpu_cores=untrusted.number(entry.get('cpu_cores')),
        memory_max_bytes=untrusted.whole(entry.get('memory_max_bytes')),
        gpu_memory_max_bytes=untrusted.whole(entry.get('gpu_memory_max_bytes')),
        read_bytes=untrusted.whole(entry.get('read_bytes')),
        written_bytes=untrusted.whole(entry.get('written_bytes')),
    )
