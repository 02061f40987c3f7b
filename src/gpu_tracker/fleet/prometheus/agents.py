"""What Prometheus knows of the hosts themselves: whom it reaches, and what their agents tell of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.fleet.hosts import untrusted
from gpu_tracker.fleet.prometheus import queries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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


class Agent(NamedTuple):
    """What an agent has told of itself; None is unknown."""

    hostname: str | None = None
    version: str | None = None
    has_driver: bool | None = None
    """Whether the GPU driver answers."""
    reading: float | None = None
    """Seconds since 1970 by the host's clock, of its newest reading."""


_UNKNOWN = Agent()


def target_of(sample: Sample) -> Target:
    """Return where a sample was scraped."""
    return Target(sample.label('job'), sample.label('instance'))


def reached(samples: Iterable[Sample]) -> dict[Target, Reach]:
    """Return the targets in the order of their names."""
    found = {
        target_of(sample): Reach(_name(sample, 'name'), _name(sample, 'group'), is_up=sample.value == 1)
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
            case queries.READING | '':
                agent = agent._replace(reading=untrusted.number(sample.value))
        found[target] = agent
    for sample in gpus:
        target = target_of(sample)
        found[target] = found.get(target, _UNKNOWN)._replace(hostname=_name(sample, 'host'))
    return found


def names(hostnames: Mapping[Target, str | None]) -> dict[Target, str]:
    """Return what to call each target: its host's name, or where that is not known, or not its own, the instance."""
    seen: set[str] = set()
    shared: set[str] = set()
    for hostname in hostnames.values():
        if hostname is not None:
            (shared if hostname in seen else seen).add(hostname)
    return {target: _called(target, hostname, shared) for target, hostname in hostnames.items()}


def _called(target: Target, hostname: str | None, shared: set[str]) -> str:
    instance = untrusted.text(target.instance, _LONGEST_NAME) or ''
    if hostname is None:
        return instance
    return f'{hostname} ({instance})' if hostname in shared else hostname


def _name(sample: Sample, label: str) -> str | None:
    return untrusted.text(sample.label(label), _LONGEST_NAME) or None
