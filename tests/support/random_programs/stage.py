"""Performs a random program, stops it at its holds, and hears what its processes tell."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from support.random_programs.script import Actor, Program

_SOURCE = Path(__file__).parent / 'actor.c'
_KILOBYTE = 1024


def build(folder: str) -> str:
    """Compile the program that performs scripts, and return its path."""
    path = f'{folder}/actor'
    subprocess.run(
        ['cc', '-std=gnu11', '-O1', '-g', '-Wall', '-Wextra', '-Werror', '-o', path, str(_SOURCE)], check=True
    )
    return path


@dataclass(frozen=True)
class Told:
    """What a process has told of itself at a hold, before an exec, or at its end."""

    event: str
    number: int
    pid: int
    image: int
    """How often it has called execve(2)."""
    own: float
    """CPU seconds of its own."""
    reaped: float
    """CPU seconds of children that it has waited for, and of theirs."""
    mark: int
    """The high-water mark of this image, in bytes."""


class Stage:
    """A folder in which a program is performed.

    :param actor: The path of the program that performs scripts, see :func:`build`.
    :param folder: An empty folder.
    """

    def __init__(self, program: Program, actor: str, folder: str) -> None:
        self._program = program
        self.words = [actor, folder, '0', '0']
        """The command that performs the program."""
        self.folder = folder
        self.told: dict[Actor, list[Told]] = {actor: [] for actor in program.actors}
        self._actors = {body: actor for actor in program.actors for body in actor.bodies}
        with open(f'{folder}/script', 'w', encoding='ascii') as script:
            script.write(str(program))
        self._log = self._pipe('log')
        self._gates = [self._pipe(f'gate.{hold}') for hold in range(program.holds)]
        self._channels = [self._pipe(f'{end}.{n}') for n in range(len(program.handed)) for end in ('given', 'taken')]
        self._unfinished = b''

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Take everything away; processes that are left, because something is broken, are killed."""
        for told in self.told.values():
            if told and told[-1].event != 'end':
                try:
                    os.kill(told[-1].pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for handle in (self._log, *self._gates, *self._channels):
            os.close(handle)

    def wait_for_hold(self, hold: int) -> list[int]:
        """Wait until all have come to a hold, or to their ends before; return the living's pids, the root's first."""
        actors = self._program.living(hold)
        ended = [actor for actor in self._program.actors if actor.ended is not None and actor.ended <= hold]
        self._hear(lambda: all(self.at(actor, hold) for actor in actors) and all(map(self.end, ended)), f'hold {hold}')
        return [self.told[actor][-1].pid for actor in actors]

    def let_go(self, hold: int) -> None:
        """Let all go on who stand at a hold."""
        os.write(self._gates[hold], bytes(len(self._program.living(hold))))

    def wait_for_ends(self, actors: Iterable[Actor] | None = None) -> None:
        """Wait until all have ended, or some."""
        awaited = list(self._program.actors if actors is None else actors)
        self._hear(lambda: all(self.end(actor) for actor in awaited), 'the ends')

    def at(self, actor: Actor, hold: int) -> Told | None:
        """Return what a process has told at a hold."""
        return next((told for told in self.told[actor] if told.event == 'hold' and told.number == hold), None)

    def end(self, actor: Actor) -> Told | None:
        """Return what a process has told at its end."""
        return next((told for told in self.told[actor][-1:] if told.event == 'end'), None)

    def _pipe(self, name: str) -> int:
        path = f'{self.folder}/{name}'
        os.mkfifo(path)
        return os.open(path, os.O_RDWR)  # so that opening it waits for nobody

    def _hear(self, enough: Callable[[], bool], what: str) -> None:
        """Take in what is told until it is enough."""
        deadline = time.monotonic() + TIMEOUT
        while not enough():
            if not select.select([self._log], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f'{what} never came\n{self._program}')
            *lines, self._unfinished = (self._unfinished + os.read(self._log, 1 << 16)).split(b'\n')
            for line in lines:
                self._take(line.decode())

    def _take(self, line: str) -> None:
        event, *words = line.split()
        number, pid, body, image, own, reaped, mark = map(int, words)
        told = Told(event, number, pid, image, own / 1e9, reaped / 1e6, mark * _KILOBYTE)
        self.told[self._actors[body]].append(told)
