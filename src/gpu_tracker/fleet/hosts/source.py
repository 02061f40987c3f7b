"""Where a fleet's figures come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_tracker.fleet.hosts.fleet import Fleet


class Series(NamedTuple):
    """Two figures of one GPU over time, oldest first; None is unknown."""

    utilization: Sequence[float | None]
    """Percent."""
    memory: Sequence[float | None]
    """Percent of its memory that was in use."""


class Past(NamedTuple):
    """The GPUs of one host over time."""

    step: float
    """Seconds; each value is the mean over one step."""
    end: float
    """Seconds since 1970, when the last step ends."""
    gpus: Mapping[str, Series]
    """By the key of the GPU; all have the same number of values."""


class FleetSource(Protocol):
    """Asks the hosts themselves, or whoever knows of them."""

    @property
    def fleet(self) -> Fleet:
        """The hosts as they are now."""

    async def run(self) -> None:
        """Keep the fleet up to date, until cancelled."""

    async def past(self, host_id: str, seconds: float) -> Past | None:
        """Return what was, for as many of the last seconds as are kept; None: there is no such host."""
