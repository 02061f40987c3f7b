"""Whether a dashboard's memory grows with the rounds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.fleet_agents import Crowd, agents
from benchmarks.fleet_rounds import MIXED
from benchmarks.fleet_servers import dashboard, wait_until_seen
from benchmarks.fleet_streams import open_pages
from benchmarks.peers import OURS
from benchmarks.processes import memory, peak_memory
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.environments import Environment
    from benchmarks.fleet_agents import Agents
    from benchmarks.fleet_servers import Server
    from benchmarks.session import Session

RESIDENT = 'rss after '
PROPORTIONAL = 'pss after '
"""Figures, each with the number of times that all hosts have been asked."""
PEAK = 'peak'

_LONGEST_ROUND = 10
"""Seconds."""


@dataclass(frozen=True)
class Case:
    """How long a dashboard runs.

    :ivar asked: How often all hosts are asked.
    :ivar marks: At how many points its memory is read, evenly, and once at the beginning.
    :ivar interval: Seconds between two times: time is compressed.
    :ivar pages: How many are open.
    """

    name: str
    crowd: Crowd
    asked: int
    marks: int
    interval: float = 0.5
    pages: int = 1


HOUR = Case('an hour', MIXED, asked=720, marks=9)
"""Of rounds each 5 s."""
QUICK_HOUR = Case('an hour', MIXED, asked=60, marks=6)


def measure(session: Session, part: str, case: Case) -> None:
    """Measure the dashboard once: it takes minutes."""
    environment = session.environments[OURS.name]

    def figures() -> dict[str, float]:
        with agents(case.crowd) as there:
            return _figures(environment, there, case)

    session.take_turns(part, case.name, 1, {OURS.name: figures})


def _figures(environment: Environment, there: Agents, case: Case) -> dict[str, float]:
    marks = [1, *(case.asked * number // case.marks for number in range(1, case.marks + 1))]
    figures: dict[str, float] = {}
    with dashboard(environment, there.urls, case.interval) as server, open_pages(server, case.pages):
        start = time.monotonic()
        for asked in dict.fromkeys(marks):
            there.wait_for(asked * case.crowd.well, asked * _LONGEST_ROUND)  # those that fail are asked less often
            figures |= _held(server, asked)
        figures |= {'seconds': time.monotonic() - start, PEAK: peak_memory(server.pid) or 0}
        wait_until_seen(server, case.crowd.well)
    return figures


def _held(server: Server, asked: int) -> dict[str, float]:
    held = memory(server.pid)
    if held is None:
        raise FailedError('has ended while it was asked')
    return {f'{RESIDENT}{asked}': held.resident, f'{PROPORTIONAL}{asked}': held.proportional}


def marks_of(kinds: Sequence[str]) -> list[int]:
    """Return after how many times memory was read, from the names of all figures."""
    return sorted(int(kind.removeprefix(RESIDENT)) for kind in kinds if kind.startswith(RESIDENT))
