"""What was killed for lack of memory in the control groups of ranks, each group and each kill once. Pure.

Ranks that share a group see the same kills. Each has the counter of the group when it began, and what came on top of it
while it ran: the numbers of the kills that it has seen. So one that several ranks have seen is known to be one.

Where such a counter falls, two kills may have the same number, and count as one: in version 1, and wherever the groups
below are added up, it has lost the kills of a group below that was removed before a later rank began. So the figure is
a lower bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_tracker.jobs.job_report import GroupKills
from gpu_tracker.jobs.moments import covered
from gpu_tracker.jobs.runs import grouped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpu_tracker.jobs.runs import Run


def group_kills(runs: Sequence[Run]) -> Iterator[GroupKills]:
    """Yield the groups in which processes were killed while ranks ran in them.

    Groups within each other may have the same kills: version 2 counts those of the groups below as well.
    """
    for members in grouped(runs, _group).values():
        kills = int(covered(numbers for run in members for numbers in _kills_seen(run)))
        if kills:
            yield GroupKills(
                nodes=tuple(dict.fromkeys(run.node for run in members)),
                folder=members[0].record.text('control_group', 'folder'),
                kills=kills,
                ranks=tuple(dict.fromkeys(run.label for run in members)),
            )


def _group(run: Run) -> tuple[object, ...]:
    """Return what tells the group of a run from all others: folders can have one name in several containers."""
    record = run.record
    inode, folder = record.figure('control_group', 'inode'), record.text('control_group', 'folder')
    if inode is not None:
        return record.machine or run.node, inode
    return (record.machine or run.node, folder) if folder is not None else (record.name,)


def _kills_seen(run: Run) -> Iterator[tuple[int, int]]:
    """Yield the kills that a run has seen, as the numbers between which the counter of its group was."""
    before = run.record.figure('control_group', 'oom_kills_before') or 0
    yield before, before + (run.record.figure('control_group', 'oom_kills') or 0)
    # Of a group of its own, which was new, the figure is from after the end of the sampler.
    yield 0, run.record.figure('own_group', 'oom_kills') or 0
