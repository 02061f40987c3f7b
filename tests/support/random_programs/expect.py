"""The bounds between which each figure of a run has to lie, and how exact the physics lets it be.

The truth does not come from the tracker. Memory is bounded from below by what was there at a hold and by high-water
marks, and from above by what was there at the hold before and all that was brought since. CPU time is bounded from both
sides by all that was used. A figure that is marked as a lower bound may be below that, and none may be above it.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from support.random_programs.script import PROCESS, TWIN
from support.truth.figures import GROUPS, TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.random_programs.run import Run
    from support.random_programs.script import Actor
    from support.random_programs.stage import Told

_TICK = 0.02
"""Times of children that were waited for come in ticks of 10 ms, user and system time each rounded down."""
_OWN_TIME = 0.001
"""A process' own time is exact; waking up from a hold and ending take some microseconds that are told of nowhere."""
_LAUNCH = 0.01
"""What a command's process has used as a copy of the launcher, before its exec, is not the command's; and its means are
over the time from the first sample on, which begins before the command does."""
_CORES = os.cpu_count() or 1
_MARK = 3 * max(32, 2 * _CORES) * _CORES * mmap.PAGESIZE
"""The kernel updates high-water marks from counters of anonymous, file and shared pages, each of which every core may
keep 32 pages of for itself, and on large machines two for each core (percpu_counter_batch)."""
_NEW_PROCESS = 2_500_000
"""Pages of the C library, the stack and the data of a new process or program image."""
_STIRRED = 1 << 17
"""Bytes for each process that come while it goes into a hold: its stack, buffers, the C library's pages."""


@dataclass(frozen=True)
class Bound:
    """One figure of the tracker, and between what it has to lie."""

    name: str
    value: float
    low: float
    high: float
    slack_low: float
    slack_high: float

    @property
    def excess(self) -> float:
        """By how much it lies outside the truth: below (negative), above (positive), or not at all."""
        return min(0.0, self.value - self.low) + max(0.0, self.value - self.high)

    @property
    def holds(self) -> bool:
        """Tell whether that is no more than physics allows."""
        return -self.slack_low <= self.excess <= self.slack_high

    def __str__(self) -> str:
        """Return it in one line."""
        return (
            f'{self.name}: {self.value:,.6g}, to be from {self.low:,.6g} (- {self.slack_low:,.3g}) '
            f'to {self.high:,.6g} (+ {self.slack_high:,.3g})'
        )


def bounds(run: Run) -> list[Bound]:
    """Return all bounds of a run."""
    return [*_ram(run), *_cpu(run), *_threads(run), *_consistency(run)]


def compared(run: Run) -> Iterator[tuple[str, float, float, str]]:
    """Return name, value, the least that is true, and the path in the result of RAM and CPU of each group."""
    cpu = {bound.name: bound for bound in _cpu(replace(run, marked=frozenset()))}
    for group in GROUPS:
        total = run.ram[group]['total_rss']
        if total is not None:
            yield f'{group} RAM', total, _ram_low(run, group), f'max_ram.{group}.total_rss'
        if group != 'combined':
            found = cpu[f'{group} CPU']
            low = found.low - found.slack_low
            yield found.name, found.value, low, f'cpu_utilization.{group}.mean_sum_percent'


# RAM


def _ram(run: Run) -> Iterator[Bound]:
    stirred = _STIRRED * len(run.program.actors)
    for group in GROUPS:
        low, high = _ram_low(run, group), _ram_high(run, group)
        total = run.ram[group]['total_rss']
        slack_low = TOLERANCE * low + _MARK * len(_members(run, group)) + stirred
        slack_high = TOLERANCE * high + _MARK + stirred if high else 0
        is_marked = f'max_ram.{group}.total_rss' in run.marked
        held = max(union[group] for union in run.unions)
        if total is None and held and run.is_seen and (run.program.way == PROCESS or group == 'combined'):
            # Who was there at no hold may be unknown. So may main and descendants of a command: the kernel does not
            # say whose its largest process was.
            yield Bound(f'{group} RAM', 0, held, high, slack_low, slack_high)
        if total is not None:
            yield Bound(f'{group} RAM', total, 0 if is_marked else low, high, slack_low, slack_high)
            if group != 'descendants' or run.program.has_descendants:
                yield Bound(f'{group} RAM of somebody', total, 1, float('inf'), 0, 0)
        for kind in ('private', 'shared'):
            value = run.ram[group][f'{kind}_rss']
            if value is not None:  # they are of the moment of a reading
                yield Bound(f'{group} {kind} RAM', value, 0, high, 0, slack_high)


def _known_peak(run: Run, group: str) -> float:
    """Return what a group has had for certain, whether it could be seen or not: the largest of its processes.

    Those that nobody waits for may go on when the tracking has ended with the root.
    """
    told = [
        told
        for actor in _members(run, group)
        if not actor.maps_twice
        for told in _risen(run, actor)
        if told.event == 'hold' or _is_heard_of(actor)
    ]
    return max([0, *(each.mark for each in told)])


def _members(run: Run, group: str) -> list[Actor]:
    root, *descendants = run.program.actors
    return {'main': [root], 'descendants': descendants, 'combined': run.program.actors}[group]


def _ram_low(run: Run, group: str) -> float:
    """Return the least that a group can have had at its peak."""
    return max(_known_peak(run, group), *[union[group] for union in run.unions])


def _risen(run: Run, actor: Actor) -> Iterator[Told]:
    """Return what a process has told of marks that it has reached while it was tracked."""
    if actor.verb == TWIN:
        return  # the mark is that of a memory that was there before it
    before = None
    is_tracked = actor.born >= run.program.first_tracked
    for told in run.told[actor]:
        if run.program.way == PROCESS and told.event == 'hold' and told.number == 0:
            before, is_tracked = told, True
        elif is_tracked and (before is None or before.image != told.image or before.mark != told.mark):
            yield told


def _ram_high(run: Run, group: str) -> float:
    """Return the most that a group can have had at any moment."""
    program = run.program
    high = max(_most_in_phase(run, group, phase) for phase in range(program.first_tracked, program.holds + 1))
    if program.way == PROCESS:
        high = max(high, run.unions[0][group])
    for actor in _members(run, group):
        if actor.maps_twice:
            high += actor.pages.total() * mmap.PAGESIZE
    if group == 'main':
        high = min(high, max(told.mark for told in run.told[program.root]))
    return high


def _most_in_phase(run: Run, group: str, phase: int) -> float:
    """Return the most that a group can have had from the hold before a phase to its end."""
    members = _members(run, group)
    before = run.unions[phase - 1][group] if phase else 0
    if phase < run.program.holds and not any(phase in actor.gives_back for actor in members):
        return run.unions[phase][group]  # it only grows, so that it has most in the end
    root = run.program.root
    brought = _brought(members, phase)
    for done in run.program.handed:  # the giver has brought it: only without that one it is new
        if done.phase == phase and done.taker in members and done.giver not in members:
            brought += done.pages * mmap.PAGESIZE
    if group == 'descendants' and root.starts[phase]:
        # Those that the root forks have all of its pages.
        brought += (run.unions[phase - 1]['main'] if phase else 0) + _brought([root], phase)
    return before + brought


def _brought(members: list[Actor], phase: int) -> int:
    new = sum(actor.starts[phase] for actor in members) + sum(actor.born == phase for actor in members)
    return sum(actor.pages[phase] for actor in members) * mmap.PAGESIZE + new * _NEW_PROCESS


# CPU


def _cpu(run: Run) -> Iterator[Bound]:
    program = run.program
    root = program.root
    as_process = program.way == PROCESS
    start = next(told for told in run.told[root] if told.event == 'hold') if as_process else None
    main = run.main_cpu - run.cpu_before
    yield Bound('main CPU', run.cpu['main'], main, main, *[_OWN_TIME if as_process else _LAUNCH] * 2)

    before = sum(sum(_times_at(run, actor, 0)) for actor in program.actors[1:]) + start.reaped if start else 0
    unheard = [actor for actor in program.actors[1:] if not _is_heard_of(actor)]
    high = run.descendants_reaped + sum(_whole_time(run, actor) for actor in unheard if actor.reaper() is None) - before
    is_marked = 'cpu_utilization.descendants.mean_sum_percent' in run.marked
    low = run.descendants_reaped + sum(_tracked_time(run, actor, is_marked=is_marked) for actor in unheard) - before
    # The root's own sum of its children is rounded at the start as well as at the end, and that of each process that
    # has waited for others and ended without being waited for.
    reapers = 1 + sum(
        any(child.waited is not None for child in program.actors if child.parent is actor) for actor in unheard
    )
    yield Bound(
        'descendants CPU',
        run.cpu['descendants'],
        low,
        high,
        TOLERANCE * low + _TICK * reapers + _OWN_TIME * len(program.actors),
        TOLERANCE * high + (_TICK * reapers if before or not as_process else 0) + _OWN_TIME * len(program.actors),
    )
    # By construction, whatever the kernel says.
    heard = [actor for actor in program.actors[1:] if _is_heard_of(actor)]
    yield Bound('main CPU burnt', run.cpu['main'], _burnt(run, [root]), float('inf'), _OWN_TIME, 0)
    yield Bound('descendants CPU burnt', run.cpu['descendants'], _burnt(run, heard), float('inf'), _TICK, 0)
    yield Bound('combined CPU', run.cpu['combined'], *[run.cpu['main'] + run.cpu['descendants']] * 2, 1e-6, 1e-6)


def _burnt(run: Run, actors: list[Actor]) -> float:
    """Return the CPU seconds that processes burn while they are tracked."""
    phases = range(run.program.first_tracked, run.program.holds + 1)
    return sum(actor.burnt[phase] for actor in actors for phase in phases) / 1000


def _is_heard_of(actor: Actor | None) -> bool:
    """Tell whether the root is told of all the time of a process at its end."""
    while actor is not None and actor.parent is not None:
        actor = actor.reaper()
    return actor is not None


def _top(actor: Actor) -> Actor:
    """Return the process that is told of the time of another in the end, and for which nobody waits."""
    while (reaper := actor.reaper()) is not None:
        actor = reaper
    return actor


def _whole_time(run: Run, actor: Actor) -> float:
    end = run.told[actor][-1]
    return end.own + end.reaped


def _times_at(run: Run, actor: Actor, hold: int) -> tuple[float, float]:
    """Return the CPU seconds of a process and of those it has waited for, as they can be seen at a hold."""
    if actor.is_zombie_at(hold):
        end = run.told[actor][-1]
        return end.own, end.reaped
    told = next((told for told in run.told[actor] if told.event == 'hold' and told.number == hold), None)
    return (told.own, told.reaped) if told else (0.0, 0.0)


def _tracked_time(run: Run, actor: Actor, *, is_marked: bool) -> float:
    """Return the CPU time of a process that must be known, if nobody waits for the one that is told of it in the end.

    If the figure is marked, that is what was seen at the last hold of that one. It is the same if that one has ended in
    the last phase: the tracking may have ended before.
    """
    top = _top(actor)
    if not is_marked and top.ended is not None and top.ended < run.program.holds:
        return _whole_time(run, actor) if actor is top else 0.0
    last = max(
        (hold for hold in range(run.program.holds) if top.lives_at(hold) or top.is_zombie_at(hold)), default=None
    )
    return 0.0 if last is None else sum(_times_at(run, actor, last))


# Threads and consistency


def _threads(run: Run) -> Iterator[Bound]:
    program = run.program
    holds = range(program.holds)
    yield Bound('main threads', run.threads['main'], 1, 1, 0, 0)
    seen = max(len(program.living(hold)) - 1 for hold in holds) if run.is_seen else 0
    # One in between has brought each orphan about.
    ever = sum(1 if actor.is_child else 2 for actor in program.actors[1:])
    yield Bound('descendants threads', run.threads['descendants'], seen, ever, 0, 0)


def _consistency(run: Run) -> Iterator[Bound]:
    if len(run.program.actors) == 1:
        for kind, value in run.ram['descendants'].items():
            yield Bound(f'descendants {kind} without any', value, 0, 0, 0, 0)
        yield Bound('descendants CPU without any', run.cpu['descendants'], 0, 0, 0, 0)
