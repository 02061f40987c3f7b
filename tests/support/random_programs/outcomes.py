"""The outcome of a random program: the properties that were checked, and how some were violated."""

from __future__ import annotations

import os
import subprocess
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from support.random_programs.expect import bounds
from support.random_programs.generate import generate
from support.random_programs.run import run
from support.truth.figures import contradictions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from support.random_programs.run import Run

CONTRADICTIONS = 'contradictions'
"""The property that the RAM figures of one run do not contradict each other."""
MEASURED = 'is measured'
"""The property that the program and its tracker come to their ends."""


@dataclass(frozen=True)
class Outcome:
    """What was checked of one run of a program."""

    seed: int | None
    interval: float
    properties: Mapping[str, str | None]
    """Each checked property: how it was violated, or None."""
    run: Run | None
    """None if the program was not measured."""

    @property
    def violations(self) -> dict[str, str]:
        """The properties that were violated."""
        return {name: text for name, text in self.properties.items() if text is not None}

    def __str__(self) -> str:
        """Return the violations, one a line."""
        return '\n'.join(f'seed {self.seed}, interval {self.interval} s: {text}' for text in self.violations.values())


def properties(found: Run) -> dict[str, str | None]:
    """Return each property that can be checked of a run: how it is violated, or None."""
    checked = {bound.name: None if bound.holds else str(bound) for bound in bounds(found)}
    contradicting = contradictions(_result(found))
    if not found.is_seen and {f'max_ram.{group}.total_rss' for group in ('main', 'descendants')} <= found.marked:
        # wait4 does not report whose the largest process was: main and descendants may both be too low.
        contradicting = [text for text in contradicting if '+ descendants' not in text]
    return {**checked, CONTRADICTIONS: '; '.join(contradicting) or None, MEASURED: None}


def _result(found: Run) -> dict[str, object]:
    return {'ram': found.ram, 'marked': found.marked}


def violations(found: Run) -> list[str]:
    """Return what is wrong in the figures of a run."""
    return [text for text in properties(found).values() if text is not None]


def outcome(seed: int, actor: str, interval: float, **options: Any) -> Outcome:
    """Run the program of a seed and check its figures.

    :param options: Those of :func:`~random_programs.run.run`.
    """
    try:
        found = run(generate(seed), actor, interval, **options)
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        # The other programs of a long campaign still count.
        text = ''.join(traceback.format_exception(error))
        return Outcome(seed, interval, {MEASURED: f'{MEASURED}: {text}'}, None)
    return Outcome(seed, interval, properties(found), found)


def outcomes(
    seeds: Iterable[int], actor: str, interval: float, at_a_time: int | None = None, **options: Any
) -> Iterator[Outcome]:
    """Run the programs of seeds, some at a time, and check their figures.

    :param at_a_time: One for each core if not given: most of its time a program stands still.
    """
    with ThreadPoolExecutor(at_a_time or os.cpu_count()) as pool:
        yield from pool.map(lambda seed: outcome(seed, actor, interval, **options), seeds)
