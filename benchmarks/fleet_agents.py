"""Agents of many hosts, which ``programs/simulated_agents.py`` pretends to be, and what they have seen."""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import tempfile
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from benchmarks.environments import base_python
from benchmarks.running import PROGRAMS
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

WELL = 'well'
DEAD = 'dead'
HANGING = 'hanging'
GARBAGE = 'garbage'

OURS_FORM = 'gpu-tracker'
NVGPU_FORM = 'nvgpu'

ASKED, ANSWERED, GIVEN_UP = range(3)
"""What agents note, as in ``programs/simulated_agents.py``."""

_PATIENCE = 60
"""Seconds that they may take to make their answers, and to tell what they have seen."""
_LOOK = 0.1
_PAUSE = 0.2
"""The part of an interval without a request after which a new round begins."""


@dataclass(frozen=True)
class Crowd:
    """How many agents there are of each kind.

    :ivar gpus: Of each host.
    :ivar form: OURS_FORM or NVGPU_FORM.
    """

    well: int
    dead: int = 0
    hanging: int = 0
    garbage: int = 0
    gpus: int = 8
    form: str = OURS_FORM

    @property
    def hosts(self) -> int:
        """All of them."""
        return self.well + self.dead + self.hanging + self.garbage

    def words(self) -> list[str]:
        """Return the command that is this crowd."""
        kinds = {WELL: self.well, DEAD: self.dead, HANGING: self.hanging, GARBAGE: self.garbage}
        numbers = [f'{kind}={number}' for kind, number in kinds.items()]
        return [base_python(), '-I', str(PROGRAMS / 'simulated_agents.py'), self.form, str(self.gpus), *numbers]


class Event(NamedTuple):
    """Something that an agent has noted.

    :ivar when: By the clock of ``time.monotonic()``, which is the same in all processes.
    """

    when: float
    agent: int
    kind: int


@dataclass(frozen=True)
class Round:
    """All hosts asked once, as the agents have seen it; those that are backed off have no part in it.

    :ivar begun: When the first request was there.
    :ivar settled: When the last answer was written, or the last client has given up.
    :ivar hosts: How many were asked.
    :ivar given_up: By how many of them in vain.
    """

    begun: float
    settled: float
    hosts: int
    given_up: int

    @property
    def seconds(self) -> float:
        """From the first request until all are settled."""
        return self.settled - self.begun


def rounds_of(events: Iterable[Event], interval: float) -> list[Round]:
    """Return the rounds in what the agents have noted, which need not be in order.

    :param interval: Seconds between two rounds: all hosts of one are asked within a part of it, and none twice.
    """
    rounds: list[list[Event]] = []
    round_of: dict[int, int] = {}
    asked = float('-inf')
    for event in sorted(events):
        if event.kind == ASKED:
            if event.when > asked + _PAUSE * interval or round_of.get(event.agent) == len(rounds) - 1:
                rounds.append([])
            asked = event.when
            round_of[event.agent] = len(rounds) - 1
        if event.agent in round_of:  # what comes of a request belongs to it, even when the next round has begun
            rounds[round_of[event.agent]].append(event)
    return [
        Round(
            begun=group[0].when,
            settled=group[-1].when,
            hosts=sum(event.kind == ASKED for event in group),
            given_up=sum(event.kind == GIVEN_UP for event in group),
        )
        for group in rounds
    ]


class Count(NamedTuple):
    """What agents have done until a moment.

    :ivar cpu: Their own CPU time in seconds.
    """

    requests: int
    connections: int
    cpu: float


class Agents:
    """Agents that run.

    :param errors: The file in which they complain.
    :ivar urls: One of each, in the order of their kinds.
    """

    def __init__(self, process: subprocess.Popen[str], errors: IO[str]) -> None:
        self._process = process
        self._errors = errors
        there = self._answer()
        self.urls: list[str] = there['urls']
        self.kinds: list[str] = there['kinds']

    def record(self) -> None:
        """Note what happens from now on, and forget what did before."""
        self._ask('record')

    def events(self) -> list[Event]:
        """Return what has been noted."""
        return [Event(*event) for event in self._ask('report')['events']]

    def count(self) -> Count:
        """Return what there has been since they were started."""
        return Count(**self._ask('count'))

    def wait_for(self, requests: int, patience: float) -> None:
        """Return when there have been so many requests.

        :param patience: Seconds.
        :raises FailedError: where they do not come.
        """
        deadline = time.monotonic() + patience
        while (found := self.count().requests) < requests:
            if time.monotonic() > deadline:
                raise FailedError(f'has asked only {found} times within {patience:g} s, not {requests}')
            time.sleep(_LOOK)

    def _ask(self, what: str) -> dict[str, Any]:
        if self._process.stdin is None:
            raise AssertionError('they were started with pipes')
        self._process.stdin.write(f'{what}\n')
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        """Return the next line, which comes whole."""
        stdout = self._process.stdout
        if stdout is None:
            raise AssertionError('they were started with pipes')
        line = stdout.readline() if select.select([stdout], [], [], _PATIENCE)[0] else ''
        if not line:
            self._errors.seek(0)
            said = self._errors.read().strip().splitlines() or [f'did not answer within {_PATIENCE} s']
            raise FailedError(f'the simulated agents: {said[-1]}')
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextlib.contextmanager
def agents(crowd: Crowd) -> Iterator[Agents]:
    """Start agents; they are there when this yields, and are killed in the end.

    :raises FailedError: where they cannot be started.
    """
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile('w+') as errors:  # a pipe that nobody reads would be full one day
        process = subprocess.Popen(crowd.words(), stdin=pipe, stdout=pipe, stderr=errors, text=True)
        with process:
            try:
                yield Agents(process, errors)
            finally:
                process.kill()


def cluster_as_toml(urls: Sequence[str], interval: float, *, in_groups_of: int = 100) -> str:
    """Return the configuration of a dashboard that asks these agents.

    :param interval: Seconds between two rounds.
    """
    lines = [f'interval_seconds = {interval:g}']
    for first in range(0, len(urls), in_groups_of):
        lines += [f'[groups.rack-{first // in_groups_of}]', f'hosts = {json.dumps(urls[first : first + in_groups_of])}']
    return '\n'.join(lines) + '\n'
