"""What Prometheus knows of the hosts themselves: whom it reaches, and what their agents tell of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.fleet.hosts import untrusted
from gpu_tracker.fleet.prometheus import queries

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_tracker.fleet.prometheus.answers import Sample

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
    """Return what the agents tell.

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
