"""What Prometheus knows of the hosts themselves: whom it reaches, and what their agents report of themselves."""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.fleet.hosts import untrusted
from gpu_tracker.fleet.hosts.host import DOWN, UP, HostState, Known, names
from gpu_tracker.fleet.hosts.report import HostReport
from gpu_tracker.fleet.prometheus import queries
from gpu_tracker.fleet.prometheus.queries import JOB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gpu_tracker.fleet.hosts.fleet import Fleet
    from gpu_tracker.fleet.hosts.report import GpuReport
    from gpu_tracker.fleet.prometheus.queries import Sample

_LONGEST_NAME = 200


class Target(NamedTuple):
    """What Prometheus scrapes: a host of the fleet."""

    job: str
    instance: str


class Reach(NamedTuple):
    """How a target was at its last scrape."""

    name: str | None
    """What it is called where targets are listed; None: there it has no name."""
    group: str | None
    is_up: bool
    """Whether it could be scraped."""
    scraped: float | None = None
    """When that was, in seconds since 1970 by Prometheus's clock; None: unknown."""
    interval: float | None = None
    """Seconds between two scrapes; None: unknown."""


class Agent(NamedTuple):
    """What an agent has told of itself; None is unknown."""

    hostname: str | None = None
    version: str | None = None
    has_driver: bool | None = None
    """Whether the GPU driver answers."""
    seen: float | None = None
    """When it was last scraped before, in seconds since 1970 by Prometheus's clock."""


_UNKNOWN = Agent()


def target_of(sample: Sample) -> Target:
    """Return where a sample was scraped."""
    return Target(sample.label('job'), sample.label('instance'))


def reached(
    samples: Iterable[Sample], scraped: Iterable[Sample] = (), spacing: Iterable[Sample] = ()
) -> dict[Target, Reach]:
    """Return the targets in the order of their names.

    :param samples: Whether they could be scraped.
    :param scraped: When they were.
    :param spacing: How often they are.
    """
    moments = {target_of(sample): sample.value for sample in scraped}
    intervals = {target_of(sample): untrusted.number(sample.value) for sample in spacing}
    found = {
        (target := target_of(sample)): Reach(
            _name(sample, 'name'),
            _name(sample, 'group'),
            is_up=sample.value == 1,
            scraped=moments.get(target),
            interval=intervals.get(target),
        )
        for sample in samples
        if sample.label('instance')
    }
    return dict(sorted(found.items(), key=lambda entry: (entry[0].instance, entry[0].job)))


def agents(told: Iterable[Sample], gpus: Iterable[Sample]) -> dict[Target, Agent]:
    """Return what the agents report.

    :param told: The answer to AGENTS or AGENTS_BEFORE.
    :param gpus: That for GPUs, whose labels name the host.
    """
    found: dict[Target, Agent] = {}
    for sample in told:
        target = target_of(sample)
        agent = found.get(target, _UNKNOWN)
        match sample.label('__name__'):
            case queries.INFO:
                agent = agent._replace(version=_name(sample, 'version'))
            case queries.DRIVER_UP if sample.value is not None:
                agent = agent._replace(has_driver=sample.value == 1)
            case '':
                agent = agent._replace(seen=untrusted.number(sample.value))
        found[target] = agent
    for sample in gpus:
        target = target_of(sample)
        found[target] = found.get(target, _UNKNOWN)._replace(hostname=_name(sample, 'host'))
    return found


def place_of(target: Target) -> str:
    """Return where a target is, for people."""
    return untrusted.text(target.instance, _LONGEST_NAME) or ''


def _name(sample: Sample, label: str) -> str | None:
    return untrusted.text(sample.label(label), _LONGEST_NAME) or None


FORGET = 600.0
"""Seconds after which a host leaves the fleet that Prometheus has as a target no more."""

UNREACHABLE = 'Prometheus cannot scrape its agent'
NO_AGENT = 'Prometheus scrapes it and gets no metrics of gpu-tracker'
NO_DRIVER = 'its GPU driver does not answer'
NO_TARGET = 'it is a target of Prometheus no more'

_SLOWEST = 300.0
"""Seconds between two scrapes that Prometheus can do with; what is older it does not report."""

_PLACEHOLDER = 'prometheus'
"""The ID of the row that says why there is no host."""
_UNKNOWN_HOST = Agent()


class Roster:
    """Turns what Prometheus reports into the states of hosts, and remembers what it tells no more.

    :param fleet: Where the states go.
    :param label: What to call Prometheus itself.
    :param clock: Returns monotonic seconds.
    """

    def __init__(self, fleet: Fleet, label: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.jobs = {JOB}
        """Whose targets are hosts."""
        self._fleet = fleet
        self._label = label
        self._clock = clock
        self._numbers = count()
        self._ids: dict[Target, str] = {}
        self._agents: dict[Target, Agent] = {}
        self._listed: dict[Target, float] = {}
        self._recalled: set[Target] = set()
        self._ahead = 0.0

    def target(self, host_id: str) -> Target | None:
        """Return which target a host is; None: there is no such host."""
        return next((target for target, known in self._ids.items() if known == host_id), None)

    def remember(self, agents: Mapping[Target, Agent]) -> None:
        """Learn of agents; what they do not report now is kept."""
        self.jobs |= {target.job for target in agents}
        for target, agent in agents.items():
            known = self._agents.get(target, _UNKNOWN_HOST)
            self._agents[target] = agent._replace(
                hostname=agent.hostname or known.hostname,
                version=agent.version or known.version,
                seen=known.seen if agent.seen is None else agent.seen,
            )

    def update(
        self,
        targets: Mapping[Target, Reach],
        told: Mapping[Target, Agent],
        gpus: Mapping[Target, tuple[GpuReport, ...]],
        now: float,
        ahead: float = 0.0,
    ) -> None:
        """Take all that was asked in a round.

        :param targets: All there are.
        :param told: What the agents of those that are up tell of themselves.
        :param gpus: Their GPUs; a host that is missing has none.
        :param now: Seconds since 1970 by the clock of Prometheus, which tells all moments here.
        :param ahead: By how many seconds it is ahead of this machine's, by which people are told.
        """
        self.remember(told)
        self._ahead = ahead
        called = names(
            {
                target: Known(reach.name or self._agents.get(target, _UNKNOWN_HOST).hostname, place_of(target))
                for target, reach in targets.items()
            }
        )
        for target, reach in targets.items():
            self._listed[target] = self._clock()
            host = self._host(target)._replace(name=called[target], group=reach.group)
            self._fleet.put(
                self._state(host, target, reach, told.get(target, _UNKNOWN_HOST), gpus.get(target, ()), now)
            )
        self._part_from([target for target in self._ids if target not in targets])
        self._fleet.remove(_PLACEHOLDER)

    def blank(self) -> list[Target]:
        """Return the hosts that are not up and whose GPUs are not known; each once."""
        blank = [
            target
            for target in self._ids.keys() - self._recalled
            if (host := self._host(target)).state != UP and (host.report is None or host.report.gpus is None)
        ]
        self._recalled.update(blank)
        return blank

    def recall(self, told: Mapping[Target, Agent], gpus: Mapping[Target, tuple[GpuReport, ...]]) -> None:
        """Show GPUs as they were, on hosts of which nothing newer is known."""
        self.remember(told)
        for target, listed in gpus.items():
            if target not in self._ids:
                continue  # another job's, on the same address
            host = self._host(target)
            if host.state != UP:
                self._fleet.put(host._replace(report=_report(self._agents.get(target, _UNKNOWN_HOST), target, listed)))

    def failed(self, error: str) -> None:
        """Have all hosts down, since nobody can tell how they are.

        :param error: Why, for people.
        """
        if not self._ids:
            self._fleet.put(HostState(_PLACEHOLDER, self._label, state=DOWN, error=error))
        for target in self._ids:
            self._fleet.put(self._host(target).failed(error))

    def _host(self, target: Target) -> HostState:
        if target not in self._ids:
            self._ids[target] = str(next(self._numbers))
        key = self._ids[target]
        return self._fleet.state(key) or HostState(key, target.instance)

    def _state(
        self,
        host: HostState,
        target: Target,
        reach: Reach,
        told: Agent,
        gpus: tuple[GpuReport, ...],
        now: float,
    ) -> HostState:
        agent = self._agents.get(target, _UNKNOWN_HOST)
        age = None if reach.scraped is None else max(0.0, now - reach.scraped)
        if reach.is_up and told.has_driver:
            interval = _SLOWEST if reach.interval is None else reach.interval
            report = _report(agent, target, gpus)._replace(age=age, interval=interval)
            last_seen = host.last_seen if age is None else now - age - self._ahead
            return host.reported(report, now)._replace(last_seen=last_seen)
        if not reach.is_up:
            before = None if agent.seen is None else agent.seen - self._ahead
            return host._replace(last_seen=before if host.last_seen is None else host.last_seen).failed(UNREACHABLE)
        if told.has_driver is None:
            return host.failed(NO_AGENT)
        return host.reported(_report(agent, target, None, NO_DRIVER), now)

    def _part_from(self, gone: list[Target]) -> None:
        """Show for a while that a target is gone: its row shall not vanish where a configuration has a mistake."""
        for target in gone:
            if self._clock() - self._listed.get(target, 0.0) < FORGET:
                self._fleet.put(self._host(target).failed(NO_TARGET))
                continue
            self._fleet.remove(self._ids.pop(target))
            self._recalled.discard(target)
            self._agents.pop(target, None)
            self._listed.pop(target, None)


def _report(
    agent: Agent, target: Target, gpus: tuple[GpuReport, ...] | None, driver_problem: str | None = None
) -> HostReport:
    return HostReport(
        hostname=agent.hostname or target.instance,
        agent=f'gpu-tracker {agent.version}' if agent.version else 'prometheus',
        gpus=gpus,
        driver_problem=driver_problem,
    )
