"""Tools that measure a program, their runs, and what they report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from benchmarks.environments import Tool

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from benchmarks.environments import Environment


@dataclass(frozen=True)
class Run:
    """One run of a peer.

    :ivar program: The words of the program to be measured; none has a blank in it.
    :ivar interval: Seconds between two samples.
    :ivar folder: A fresh folder for the peer's files; the peer is started in it.
    """

    program: list[str]
    interval: float
    folder: Path


@dataclass(frozen=True)
class Report:
    """What a peer itself tells of a run; None: it does not tell.

    :ivar peak_bytes: The peak memory of the whole tree, as the peer defines it.
    :ivar descendants_bytes: The peak memory of the descendants alone.
    :ivar cpu_seconds: The CPU time of the tree.
    :ivar sampler_seconds: The CPU time that the sampler itself has used.
    :ivar samples: The number of samples that it took.
    :ivar seconds_sampled: From the first sample to the last one.
    :ivar lower_bounds: Of ``peak`` and ``cpu``, those that the peer itself reports as lower bounds.
    """

    peak_bytes: float | None = None
    descendants_bytes: float | None = None
    cpu_seconds: float | None = None
    sampler_seconds: float | None = None
    samples: int | None = None
    seconds_sampled: float | None = None
    lower_bounds: frozenset[str] = frozenset()

    @property
    def period(self) -> float | None:
        """The mean of the seconds between two samples."""
        if self.samples is None or self.seconds_sampled is None or self.samples <= 1:
            return None
        return self.seconds_sampled / (self.samples - 1)


class Peer(Tool, ABC):
    """A tool that measures programs.

    :cvar module: What a program would import to use it; None: it is a command only.
    :cvar importing: The statement by which a program gets what it uses, where that is not ``import`` and the module:
        a module may put off the work until something of it is asked for.
    :cvar cannot: Name of a kind of figure (see FIGURES) to the reason why this peer has none.
    """

    module: ClassVar[str | None] = None
    importing: ClassVar[str | None] = None
    cannot: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @abstractmethod
    def command(self, environment: Environment, run: Run) -> list[str]:
        """Return the words that make the peer run and measure the program."""

    @abstractmethod
    def report(self, run: Run, output: str) -> Report:
        """Return what the peer tells after a run; ``output`` is what it has printed, errors too."""


FIGURES = {
    'samples': 'cost of a sample, and how that grows',
    'import': 'import of its module',
    'start and stop': 'start and stop within a program',
    'command': 'command line around a program',
    'effect': 'run time of the measured program',
    'gpu': 'cost of a sample of GPUs',
    'peak': 'peak memory',
    'cpu': 'CPU time',
}
"""The kinds of figures that a peer may not have, by the names that :attr:`Peer.cannot` uses."""
