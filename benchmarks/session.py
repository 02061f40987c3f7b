"""What all parts of the benchmark share: the peers, their environments, and the alternation between them."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.results import Gap, Results

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.environments import Environment
    from benchmarks.peers import Peer


class FailedError(Exception):
    """A peer gave no figures; the message says why."""


def reason_of(error: Exception) -> str:
    """Return what a table says of a peer that has failed."""
    if isinstance(error, FailedError):
        return str(error)
    return f'its report could not be read ({type(error).__name__})'


def progress(text: str) -> None:
    """Say on standard error what is done now."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - a command


@dataclass(frozen=True)
class Session:
    """A run of the benchmark.

    :ivar peers: Those that are there, ours first.
    :ivar environments: Theirs, and those of tools that are no peers, by name.
    :ivar rounds_wanted: The rounds that were asked for; None: as many as each part wants.
    :ivar quick: Fewer workloads and shorter windows.
    :ivar rows: Only rows in whose names this is found; None: all of them.
    """

    peers: Sequence[Peer]
    environments: Mapping[str, Environment]
    results: Results
    rounds_wanted: int | None = None
    quick: bool = False
    rows: re.Pattern[str] | None = None

    def wants(self, row: str) -> bool:
        """Tell whether a row is to be measured."""
        return self.rows is None or self.rows.search(row) is not None

    def rounds(self, usual: int, quick: int = 1) -> int:
        """Return the number of rounds, of which a part says what is usual."""
        return self.rounds_wanted or (quick if self.quick else usual)

    def alternate(
        self,
        part: str,
        row: str,
        rounds: int,
        figure: str,
        measure: Callable[[Peer, Environment], dict[str, float]],
        *,
        only: Sequence[Peer] | None = None,
        after: Callable[[int], None] | None = None,
    ) -> None:
        """Measure all peers in turn, again and again; each round begins with another one.

        :param figure: One of FIGURES, by which peers say that they do not have it.
        :param only: The peers to measure; all where not given.
        :param after: Called at the end of each round with its number.
        """
        able: dict[str, Callable[[], dict[str, float]]] = {}
        if not self.wants(row):
            return
        for peer in self.peers:
            if only is not None and peer not in only:
                continue
            if figure in peer.cannot:
                self.results.gaps.append(Gap(part, row, peer.name, peer.cannot[figure]))
            else:
                able[peer.name] = functools.partial(measure, peer, self.environments[peer.name])
        self.take_turns(part, row, rounds, able, after=after)

    def take_turns(
        self,
        part: str,
        row: str,
        rounds: int,
        measures: Mapping[str, Callable[[], dict[str, float]]],
        *,
        after: Callable[[int], None] | None = None,
    ) -> list[str]:
        """Take all measures in turn, again and again; each round begins with another one.

        One that fails is not taken again.

        :param measures: By the names that their figures are to have.
        :param after: Called at the end of each round with its number.
        :return: The names of those that have not failed.
        """
        able = list(measures) if self.wants(row) else []
        for number in range(rounds if able else 0):
            turn = number % len(able) if able else 0
            for name in [*able[turn:], *able[:turn]]:
                progress(f'{part}: {row}, round {number + 1} of {rounds}: {name}')
                if not self._measure(part, row, number, name, measures[name]):
                    able.remove(name)
            if after is not None:
                after(number)
        return able

    def _measure(self, part: str, row: str, number: int, name: str, measure: Callable[[], dict[str, float]]) -> bool:
        """Take a measure once; tell whether it has not failed."""
        try:
            values = measure()
        except Exception as error:  # noqa: BLE001 - whatever goes wrong with a peer must not end the others' run
            reason = reason_of(error)
            progress(f'    failed: {reason}')
            self.results.gaps.append(Gap(part, row, name, reason))
            return False
        self.results.add(part, row, name, number, values)
        return True
