"""A dashboard and nvgpu's master with the same agents: how long their answers take."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.fleet_agents import NVGPU_FORM, Crowd, agents
from benchmarks.fleet_servers import dashboard, nvgpu_master, wait_until_seen
from benchmarks.peers import NVGPU, OURS
from benchmarks.results import Gap
from benchmarks.session import FailedError, reason_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.fleet_agents import Agents
    from benchmarks.fleet_servers import Server
    from benchmarks.session import Session

PAGE = 'page'
JSON = 'json'
_ROUNDS = 7
_QUICK_ROUNDS = 2
_CLUSTER_STATUS = '/cluster_status'
_PAGES = {OURS.name: ('/', '/api/v1/fleet'), NVGPU.name: ('/',)}
"""What a browser has to get before it can show the hosts, styles and scripts left out; nvgpu's has all in one."""


@dataclass(frozen=True)
class Case:
    """The agents that both ask."""

    name: str
    crowd: Crowd


CASES = (
    Case('20 well', Crowd(20, form=NVGPU_FORM)),
    Case('19 well, 1 dead', Crowd(19, dead=1, form=NVGPU_FORM)),
    Case('19 well, 1 hanging', Crowd(19, hanging=1, form=NVGPU_FORM)),
    Case('19 well, 1 garbage', Crowd(19, garbage=1, form=NVGPU_FORM)),
)


def measure(session: Session, part: str, cases: Sequence[Case]) -> None:
    """Measure both in turn, in each case."""
    for case in cases:
        if not session.wants(case.name):
            continue
        with agents(case.crowd) as there, contextlib.ExitStack() as stack:
            _measure_case(session, part, case, _servers(session, part, case, there, stack))


def _servers(session: Session, part: str, case: Case, there: Agents, stack: contextlib.ExitStack) -> dict[str, Server]:
    """Start both, and return those that could be started."""
    servers = {}
    for name, start in ((OURS.name, dashboard), (NVGPU.name, nvgpu_master)):
        if name not in session.environments:
            continue  # why is known
        try:
            server = stack.enter_context(start(session.environments[name], there.urls))
            if name == OURS.name:
                wait_until_seen(server, case.crowd.well)
            servers[name] = server
        except FailedError as error:
            session.results.gaps.append(Gap(part, case.name, name, reason_of(error)))
    return servers


def _measure_case(session: Session, part: str, case: Case, servers: dict[str, Server]) -> None:
    def figures(name: str) -> dict[str, float]:
        return {PAGE: _seconds(servers[name], *_PAGES[name]), JSON: _seconds(servers[name], _CLUSTER_STATUS)}

    measures = {name: (lambda name=name: figures(name)) for name in servers}
    session.take_turns(part, case.name, session.rounds(_ROUNDS, _QUICK_ROUNDS), measures)


def _seconds(server: Server, *paths: str) -> float:
    """Return how long it takes to get all paths over a new connection."""
    start = time.perf_counter()
    server.get(*paths)
    return time.perf_counter() - start
