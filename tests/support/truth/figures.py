"""The rule for figures: near the truth, or marked as a lower bound, and never above the truth."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

GROUPS = ('main', 'descendants', 'combined')
TOLERANCE = 0.02
"""The part of the truth by which a figure may be wrong."""
COUNTERS = 3 * 32 * (os.cpu_count() or 1) * mmap.PAGESIZE
"""The kernel counts anonymous, file and shared pages of a process for each core, and 32 of each kind may be missing
from its sums (percpu_counter_batch)."""
STIRRED = 1_500_000
"""What the interpreters of a few small processes allocate and give back beside what a test has them do."""
SLACK = COUNTERS + STIRRED
SECONDS = 0.02
"""CPU seconds that the start or the end of a process may take, or two ticks."""
_SPLIT = 1 << 20
"""Bytes by which private and shared memory may differ from the total."""


def wrong(
    name: str, value: float | None, lowest: float, highest: float, *, slack: float, is_marked: bool
) -> Iterator[str]:
    """Yield how a figure breaks the rule.

    :param lowest: The least that the truth can be.
    :param highest: The most that it can be.
    :param is_marked: The figure is marked as a lower bound, or is allowed to be unknown.
    """
    if value is None:
        if not is_marked and lowest > slack:
            yield f'{name}: unknown, where there was {lowest:,.6g}'
        return
    if value > (1 + TOLERANCE) * highest + slack:
        yield f'{name}: {value:,.6g}, above {highest:,.6g}'
    if value < (1 - TOLERANCE) * lowest - slack and not is_marked:
        yield f'{name}: {value:,.6g}, below {lowest:,.6g} and not marked'


def wrong_ram(
    run: Mapping[str, Any],
    truth: Mapping[str, int],
    highest: Mapping[str, int] | None = None,
    *,
    groups: Iterable[str] = GROUPS,
    is_seen: bool = False,
    may_be_unknown: bool = False,
) -> list[str]:
    """Return how the RAM of groups breaks the rule, and which figures contradict each other.

    :param run: A result, see :func:`support.truth.tracked` and :func:`support.truth.command`.
    :param truth: The bytes that each group had, or the least that it can have had.
    :param highest: The most that it can have had.
    :param is_seen: Samples have seen it all, so that a mark excuses nothing.
    :param may_be_unknown: No sample needs to have read a process of the group.
    """
    highest = highest or truth
    found: list[str] = []
    for group in groups:
        value = run['ram'][group]['total_rss']
        is_marked = not is_seen and f'max_ram.{group}.total_rss' in run['marked']
        excused = is_marked or (value is None and may_be_unknown)
        found += wrong(f'{group} RAM', value, truth[group], highest[group], slack=SLACK, is_marked=excused)
        if value == 0 < truth[group]:
            found.append(f'{group} RAM: 0, where there was some')
    return [*found, *contradictions(run)]


def wrong_cpu(
    run: Mapping[str, Any],
    truth: Mapping[str, float],
    highest: Mapping[str, float] | None = None,
    *,
    slack: float = SECONDS,
    is_seen: bool = False,
) -> list[str]:
    """Return how the CPU seconds of groups break the rule.

    :param truth: The seconds of the groups that are to be compared, or the least that they can have used.
    :param highest: The most that they can have used.
    """
    highest = highest or truth
    found: list[str] = []
    for group, seconds in truth.items():
        is_marked = not is_seen and f'cpu_utilization.{group}.mean_sum_percent' in run['marked']
        found += wrong(f'{group} CPU', run['cpu'][group], seconds, highest[group], slack=slack, is_marked=is_marked)
    return found


def contradictions(run: Mapping[str, Any]) -> list[str]:
    """Return what cannot be true at the same time of the RAM of main, descendants and both."""
    ram, marked = run['ram'], run['marked']
    return [
        *_contradictions_of_groups(ram),
        *(line for group in GROUPS for line in _of_split(group, ram[group], marked)),
    ]


def _contradictions_of_groups(ram: Mapping[str, Mapping[str, float | None]]) -> Iterator[str]:
    main, descendants, combined = (ram[group]['total_rss'] for group in GROUPS)
    if combined is None:
        return
    for name, part in (('main', main), ('descendants', descendants)):
        if part is not None and part > combined:
            yield f'{name} {part:,} > combined {combined:,}'
    if main is not None and descendants is not None and combined > main + descendants:
        yield f'combined {combined:,} > main {main:,} + descendants {descendants:,}'


def _of_split(group: str, figures: Mapping[str, float | None], marked: Iterable[str]) -> Iterator[str]:
    total, private, shared = (figures[kind] for kind in ('total_rss', 'private_rss', 'shared_rss'))
    if total is None:
        return
    for kind, part in (('private', private), ('shared', shared)):
        if part is not None and part > total:
            yield f'{group} {kind} {part:,} > total {total:,}'
    # Each is the largest of its own moment: the moment of the largest total had no more of either.
    if private is None or shared is None or f'max_ram.{group}.private_rss' in marked:
        return
    if private + shared < (1 - TOLERANCE) * total - _SPLIT:
        yield f'{group} total {total:,} > private {private:,} + shared {shared:,}'
