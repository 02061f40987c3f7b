"""What the tracker's figures of memory have to be: near the truth, within their bounds, free of contradictions."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpu_tracker.sampling import Sampling

GROUPS = ('main', 'descendants', 'combined')
COUNTERS = 3 * 32 * (os.cpu_count() or 1) * mmap.PAGESIZE
"""The kernel counts anonymous, file and shared pages of a process for each core, and 32 of each kind may be missing
from its sums (percpu_counter_batch)."""
STIRRED = 1_500_000
"""What the interpreters of a few small processes allocate and give back beside what a test has them do."""
TOO_MUCH = 1.01
"""A figure above the truth is never excused by when a sample was made: only the kernel's counters blur it."""


def bounds_of(record: Sampling) -> dict[str, dict[str, tuple[float | None, float | None]]]:
    """Return the lower and the upper bound of each group's peak, by what they are bounds of."""
    recorded = {'main': record.main_ram, 'descendants': record.descendants_ram, 'combined': record.combined_ram}
    return {
        group: {
            'total': (bounds.lower, bounds.upper),
            'private': (bounds.private.lower, bounds.private.upper),
            'shared': (bounds.shared.lower, bounds.shared.upper),
        }
        for group, bounds in recorded.items()
    }


def apart(
    run: Mapping[str, Any], truth: Mapping[str, int], *, tolerance: float = 0.02, groups: Iterable[str] = GROUPS[1:]
) -> list[str]:
    """Return the groups whose total is further from the truth than what everybody had for three samples may be."""
    return [
        f'{group} RAM: {value:,}, {value / truth[group] - 1:+.1%} of {truth[group]:,}'
        for group in groups
        if abs((value := run['ram'][group]['total_rss'] or 0) - truth[group])
        > tolerance * truth[group] + COUNTERS + STIRRED
    ]


def outside(
    run: Mapping[str, Any],
    lowest: Mapping[str, int],
    highest: Mapping[str, int] | None = None,
    *,
    estimate: float = TOO_MUCH,
) -> list[str]:
    """Return what contradicts a truth that lies between ``lowest`` and ``highest``, whatever was seen of it.

    The bounds have to contain it. They have to contain the figure as well, which is never above the truth, nor 0 where
    it is unknown.

    :param estimate: How many times the truth a figure may be that is nothing but an estimate.
    """
    highest = highest or lowest
    return [line for group in GROUPS for line in _outside(run, group, lowest[group], highest[group], estimate)]


def _outside(run: Mapping[str, Any], group: str, lowest: int, highest: int, estimate: float) -> Iterator[str]:
    value = run['ram'][group]['total_rss']
    lower, upper = run['bounds'][group]['total']
    most = TOO_MUCH * highest + COUNTERS + STIRRED
    if lower is not None and lower > most:
        yield f'{group} lower bound: {lower:,}, {lower / highest - 1:+.1%} of {highest:,}'
    if upper is not None and upper < lowest - COUNTERS:
        yield f'{group} upper bound: {upper:,}, {upper / lowest - 1:+.1%} of {lowest:,}'
    if value is not None:
        if value == 0 < lowest:
            yield f'{group} RAM: 0, where there was some'
        if value > estimate * highest + COUNTERS + STIRRED:
            yield f'{group} RAM: {value:,}, {value / highest - 1:+.1%} of {highest:,}'
        if lower is not None and value < lower:
            yield f'{group} RAM: {value:,}, below its lower bound {lower:,}'
        if upper is not None and value > upper:
            yield f'{group} RAM: {value:,}, above its upper bound {upper:,}'


def below(run: Mapping[str, Any], truth: Mapping[str, int], part: float, groups: Iterable[str] = GROUPS) -> list[str]:
    """Return the groups whose total has lost more than is allowed of the truth."""
    return [
        f'{group} RAM: {value:,}, {value / truth[group] - 1:+.1%} of {truth[group]:,}'
        for group in groups
        if (value := run['ram'][group]['total_rss'] or 0) < part * truth[group] - COUNTERS
    ]


def contradictions(ram: Mapping[str, Mapping[str, float | None]]) -> list[str]:
    """Return what cannot be true at the same time of the figures of main, descendants and both, ``max_ram``."""
    return [*_contradictions_of_groups(ram), *(line for group in GROUPS for line in _of_split(group, ram[group]))]


def _contradictions_of_groups(ram: Mapping[str, Mapping[str, float | None]]) -> Iterator[str]:
    main, descendants, combined = (ram[group]['total_rss'] for group in GROUPS)
    if combined is None:
        return
    for name, part in (('main', main), ('descendants', descendants)):
        if part is not None and part > combined:
            yield f'{name} {part:,} > combined {combined:,}'
    if None not in (main, descendants) and combined > main + descendants:
        yield f'combined {combined:,} > main {main:,} + descendants {descendants:,}'


def _of_split(group: str, figures: Mapping[str, float | None]) -> Iterator[str]:
    total, private, shared = (figures[kind] for kind in ('total_rss', 'private_rss', 'shared_rss'))
    if total is None:
        return
    for kind, part in (('private', private), ('shared', shared)):
        if part is not None and part > total:
            yield f'{group} {kind} {part:,} > total {total:,}'
    # Each is the largest of its own moment: the moment of the largest total had no more of either.
    if None not in (private, shared) and total > private + shared:
        yield f'{group} total {total:,} > private {private:,} + shared {shared:,}'
