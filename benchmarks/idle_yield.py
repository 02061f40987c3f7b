"""How long it takes from a foreign open of a device until the program on that GPU is gone, with all its processes."""

from __future__ import annotations

import contextlib
import os
import select
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.idle_monitors import (
    configuration,
    fuser_monitor,
    make_device,
    monitor,
    nothing_left,
    other_processes,
    with_mark,
)
from benchmarks.peers import FUSER, OURS
from benchmarks.processes import marked
from benchmarks.results import Gap
from benchmarks.running import fresh_folder
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from benchmarks.environments import Environment
    from benchmarks.session import Session

TOLD, LOOKING, PEER = 'gpu-tracker, told by inotify', 'gpu-tracker, by looks only', 'fuser each interval, SIGKILL'
"""Who is measured: the same monitor where somebody opens the watched node, and where it is another node of the same
device, as a container has; and the peer."""

_ZERO, _FULL = (1, 5), (1, 7)
"""/dev/zero and /dev/full: devices that can be opened, and that hardly anybody has open."""
_MILLI = 1000
_LONGEST_START = 30.0
_MORE = 10.0
"""Seconds that a program may take in addition to two intervals."""
_PAUSE = 0.02


@dataclass(frozen=True)
class Case:
    """A program and an interval.

    :ivar words: The program.
    :ivar processes: Of how many it consists.
    :ivar interval: Seconds between two looks.
    :ivar rounds: How often somebody opens the device; the moments are spread evenly over the interval.
    :ivar others: How many other processes are there, which sleep.
    :ivar device: What the monitor watches whose node is opened; None: a plain file.
    :ivar other_device: Of which another node is opened; None: that is left out.
    """

    name: str
    words: tuple[str, ...]
    processes: int
    interval: float
    rounds: int
    others: int = 0
    device: tuple[int, int] | None = _ZERO
    other_device: tuple[int, int] | None = _FULL


_SLEEP = ('sleep', 'infinity')
_SHELL = ('sh', '-c', 'sleep infinity & wait')
CASES = (
    Case('sleep, looked at each 1 s', _SLEEP, 1, 1, 20),
    Case('a shell with a grandchild, looked at each 1 s', _SHELL, 2, 1, 20),
    Case('sleep, looked at each 1 s, 2,000 other processes', _SLEEP, 1, 1, 20, others=2000),
    Case('sleep, looked at each 10 s', _SLEEP, 1, 10, 7),
)
QUICK_ROUNDS = 2


@dataclass(frozen=True)
class _Watched:
    """A device that a monitor watches, with its program on it.

    :ivar opened: The path by which others open it.
    :ivar mark: Of the program.
    """

    opened: Path
    mark: str


def measure(session: Session, part: str, cases: Sequence[Case]) -> None:
    """Measure each case with each monitor in turn; all run all the time, on devices of their own."""
    environment = session.environments[OURS.name]
    for case in cases:
        if not session.wants(case.name):
            continue
        rounds = session.rounds(case.rounds, QUICK_ROUNDS)
        openers = {TOLD: _told, LOOKING: _looking, PEER: _peer}
        if case.other_device is None:
            del openers[LOOKING]
        elif os.geteuid() != 0:
            del openers[LOOKING]
            session.results.gaps.append(Gap(part, case.name, LOOKING, 'only root can make device nodes'))
        if FUSER.name not in session.environments:
            del openers[PEER]
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(other_processes(case.others))
                watched = {who: stack.enter_context(opener(environment, case)) for who, opener in openers.items()}
                measures = {who: _measure(one, case, rounds) for who, one in watched.items()}
                session.take_turns(part, case.name, rounds, measures)
        except FailedError as error:
            session.results.gaps.append(Gap(part, case.name, OURS.name, str(error)))


def _measure(watched: _Watched, case: Case, rounds: int) -> Callable[[], dict[str, float]]:
    moments = iter([(number + 0.5) / rounds * case.interval for number in range(rounds)])
    return lambda: {'seconds': _time_to_yield(watched, case, next(moments))}


def _time_to_yield(watched: _Watched, case: Case, moment: float) -> float:
    """Return the seconds from before the device is opened until no process of the program is left.

    :param moment: Seconds after the program was started at which it is opened.
    """
    pids = _program(watched.mark, case)
    time.sleep(moment)
    with contextlib.ExitStack() as stack:
        left = select.poll()
        handles = set()
        for pid in pids:
            handle = os.pidfd_open(pid)
            stack.callback(os.close, handle)
            left.register(handle, select.POLLIN)
            handles.add(handle)
        longest = 2 * case.interval + _MORE
        begun = time.monotonic()
        stack.callback(os.close, os.open(watched.opened, os.O_RDONLY))
        while handles:
            ended = left.poll(max(0.0, begun + longest - time.monotonic()) * _MILLI)
            if not ended:
                raise FailedError(f'{len(handles)} of its {len(pids)} processes still there after {longest:g} s')
            for handle, _ in ended:
                left.unregister(handle)
                handles.discard(handle)
        seconds = time.monotonic() - begun
        if marked(watched.mark):
            raise FailedError('it has started more processes meanwhile')
    return seconds


def _program(mark: str, case: Case) -> list[int]:
    """Return the program's processes when all are there."""
    deadline = time.monotonic() + case.interval + _LONGEST_START
    while time.monotonic() < deadline:
        pids = marked(mark)
        if len(pids) == case.processes:
            return pids
        time.sleep(_PAUSE)
    raise FailedError('its program was not started')


@contextlib.contextmanager
def _told(environment: Environment, case: Case) -> Iterator[_Watched]:
    """Have the very node opened that the monitor watches."""
    with _ours(environment, case, case.device) as (folder, mark):
        yield _Watched(folder / 'nvidia0', mark)


@contextlib.contextmanager
def _looking(environment: Environment, case: Case) -> Iterator[_Watched]:
    """Have another node of the same device opened, of whose opening nobody is told."""
    with _ours(environment, case, case.other_device) as (folder, mark):
        (folder / 'container').mkdir()
        node = folder / 'container' / 'nvidia0'
        make_device(node, case.other_device)
        yield _Watched(node, mark)


@contextlib.contextmanager
def _ours(environment: Environment, case: Case, number: tuple[int, int] | None) -> Iterator[tuple[Path, str]]:
    mark = uuid.uuid4().hex
    with fresh_folder() as folder, nothing_left(mark):
        make_device(folder / 'nvidia0', number)
        text = configuration(case.interval, [with_mark(mark, *case.words)])
        with monitor(environment, folder, text, uuid.uuid4().hex):
            yield folder, mark


@contextlib.contextmanager
def _peer(environment: Environment, case: Case) -> Iterator[_Watched]:
    mark = uuid.uuid4().hex
    with fresh_folder() as folder, nothing_left(mark):
        device = folder / 'nvidia0'
        device.touch()  # fuser tells files by inode, so that a plain one is the same to it
        command = with_mark(mark, *case.words)
        with fuser_monitor(environment, folder, case.interval, [str(device)], command, uuid.uuid4().hex):
            yield _Watched(device, mark)
