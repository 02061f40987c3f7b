"""What a job of many ranks suggests for the next one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpu_tracker.advice.facts import Facts, RankFacts
from gpu_tracker.advice.rules import advise
from gpu_tracker.jobs.records import ENDED
from gpu_tracker.system.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_tracker.jobs.job_report import JobReport


def advised(report: JobReport) -> JobReport:
    """Return the report of a job with what it suggests; nothing while it runs."""
    if report.is_running:
        return report
    return replace(report, advice=advise(facts_of_job(report)))


def facts_of_job(report: JobReport) -> Facts:
    """Return what the report of a job says of it."""
    ranks = report.ranks
    has_succeeded = all(rank.state == ENDED for rank in ranks) and not report.never_started
    allocations = {(rank.job, rank.array_task) for rank in ranks}
    systems = {rank.batch_system for rank in ranks}
    # What a task of an array is given is for that task alone, and several of them may have run on a node.
    system = systems.pop() if len(systems) == len(allocations) == 1 else None
    steps = {(rank.job, rank.array_task, rank.step) for rank in ranks}
    are_comparable = has_succeeded and len(steps) == 1 and not report.restarted
    return Facts(
        seconds=report.seconds or 0,
        is_job=True,
        exit_code=0 if has_succeeded else 1,
        batch=system,
        ram_peak_bytes=_largest_of_all(node.max_ram.value for node in report.nodes),
        ram_is_lower_bound=any(rank.max_ram.upper is None for rank in ranks),
        ram_allowed_bytes=report.asked_ram_of_node,
        machine_ram_bytes=_largest(node.system_ram_capacity for node in report.nodes),
        oom_kills=max((group.kills for group in report.oom_kills), default=0),
        swap_peak_bytes=0 if all(rank.swapped_out == 0 for rank in ranks) else None,
        cores_max=_largest_of_all(rank.max_cores for rank in ranks),
        cores_allowed=_largest_of_all(rank.asked_cores for rank in ranks),
        cores_allowed_by='request',
        time_limit_seconds=_largest_of_all(rank.time_limit for rank in ranks),
        ranks=tuple(
            RankFacts(rank.rank, None if rank.node is None else printable(rank.node), rank.seconds)
            for rank in (ranks if are_comparable else ())
            if rank.rank is not None
        ),
    )


def _largest(numbers: Iterable[float | None]) -> float | None:
    return max((number for number in numbers if number is not None), default=None)


def _largest_of_all(numbers: Iterable[float | None]) -> float | None:
    """Return the largest number; None if one is unknown."""
    found = list(numbers)
    return None if None in found else _largest(found)
