"""How long a dashboard takes to ask all hosts, and what that costs."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.fleet_agents import Crowd, agents, rounds_of
from benchmarks.fleet_servers import INTERVAL, dashboard, wait_until_seen
from benchmarks.fleet_streams import open_pages
from benchmarks.peers import OURS
from benchmarks.processes import memory
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.environments import Environment
    from benchmarks.fleet_agents import Agents, Count, Round
    from benchmarks.fleet_servers import Server
    from benchmarks.fleet_streams import Stream
    from benchmarks.session import Session

MIXED = Crowd(985, dead=5, hanging=5, garbage=5)
"""What a fleet of 1,000 hosts may look like on a bad day."""

_ROUNDS = 3
_AFTER_A_ROUND = 0.6
"""The part of an interval after which a round is over: hosts have 1.5 s to answer."""
_PATIENCE = 10
"""Seconds that a round may take longer than its interval."""


@dataclass(frozen=True)
class Case:
    """What a dashboard has to do.

    :ivar pages: How many are open.
    :ivar asked: How often all hosts are asked, after the first time.
    :ivar interval: Seconds between two times.
    """

    name: str
    crowd: Crowd
    pages: int = 0
    asked: int = 8
    interval: float = INTERVAL


WITH_A_PAGE = Case('15 fail, a page is open', MIXED, pages=1)
CASES = (
    Case('1,000 well, a page is open', Crowd(1000), pages=1),
    Case('15 fail, no page is open', MIXED),
    WITH_A_PAGE,
    Case('15 fail, 10 pages are open', MIXED, pages=10),
)
QUICK_CASES = tuple(Case(case.name, case.crowd, case.pages, asked=4) for case in CASES[1:3])


def measure(session: Session, part: str, cases: Sequence[Case]) -> None:
    """Measure the dashboard in each case."""
    environment = session.environments[OURS.name]
    for case in cases:

        def figures(case: Case = case) -> dict[str, float]:
            with agents(case.crowd) as there:
                return _figures(environment, there, case)

        session.take_turns(part, case.name, session.rounds(_ROUNDS), {OURS.name: figures})


def _figures(environment: Environment, there: Agents, case: Case) -> dict[str, float]:
    there.record()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(dashboard(environment, there.urls, case.interval))
        pages = stack.enter_context(open_pages(server, case.pages))
        before = _after_rounds(1, there, case, server)
        after = _after_rounds(1 + case.asked, there, case, server)
        figures = _of_rounds(rounds_of(there.events(), case.interval), case, pages) | _held(server)
        wait_until_seen(server, case.crowd.well)
    return figures | {
        'cpu': (after.cpu - before.cpu) / case.asked,
        'agents cpu': (after.agents.cpu - before.agents.cpu) / case.asked,
        'connections': after.agents.connections,
        'requests': after.agents.requests,
    }


class _Moment(NamedTuple):
    """What a dashboard and the agents have done until a moment.

    :ivar cpu: The dashboard's CPU time in seconds.
    """

    cpu: float
    agents: Count


def _after_rounds(number: int, there: Agents, case: Case, server: Server) -> _Moment:
    """Wait until all hosts were asked so often, and a round is over and the next has not begun."""
    there.wait_for(number * case.crowd.well, number * (case.interval + _PATIENCE))
    time.sleep(_AFTER_A_ROUND * case.interval)
    return _Moment(server.cpu(), there.count())


def _of_rounds(rounds: Sequence[Round], case: Case, pages: Sequence[Stream]) -> dict[str, float]:
    """Return how long it took, the first time, usually and at most, and the same until a page has been told."""
    if len(rounds) <= case.asked:
        raise FailedError(f'has asked {len(rounds)} times, not {case.asked + 1}')
    settled = [one.seconds for one in rounds]
    figures = {'first': settled[0], 'median': median(settled[1:]), 'longest': max(settled[1:])}
    if pages:
        told = until_told(rounds, [event.when for event in pages[0].told()])
        figures |= {'first told': told[0], 'median told': median(told[1:]), 'longest told': max(told[1:])}
    return figures


def until_told(rounds: Sequence[Round], told: Sequence[float]) -> list[float]:
    """Return of each round the seconds until all are settled and a page knows.

    :param told: When the page has got something, in order.
    """
    ends = [*(one.begun for one in rounds[1:]), float('inf')]
    return [
        max([one.settled, *(when for when in told if one.begun <= when < end)]) - one.begun
        for one, end in zip(rounds, ends, strict=True)
    ]


def _held(server: Server) -> dict[str, float]:
    held = memory(server.pid)
    if held is None:
        raise FailedError('has ended while it was asked')
    return {'rss': held.resident, 'pss': held.proportional}
