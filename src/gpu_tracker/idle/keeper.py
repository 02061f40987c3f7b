"""The programs that run: started and stopped as was decided, and listened to."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gpu_tracker.idle.running.launch import LaunchError, orders_for
from gpu_tracker.idle.running.messages import Ended, Lost, NotStarted, Started, Stuck
from gpu_tracker.idle.running.running_program import RunningProgram
from gpu_tracker.idle.running.strays import Strays

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping

    from gpu_tracker.idle.decision import Start
    from gpu_tracker.idle.observation import SeenGpu
    from gpu_tracker.idle.running.messages import Message

_TIDYING = 10.0
"""Seconds after the end of a program in which its guardian and its sampler end as well."""


class End(NamedTuple):
    """A program is gone, with all that it had started."""

    text: str
    """How, and what it has used, in words that follow its name."""
    failed: bool
    """Whether it was not started, or has ended with an error."""


class Keeper(Protocol):
    """Runs programs. Nothing here waits."""

    @property
    def pids(self) -> Mapping[str, int]:
        """The processes of the programs that run, by the programs' names."""

    @property
    def roots(self) -> frozenset[int]:
        """The processes below which everything is ours."""

    def start(self, action: Start) -> None:
        """Start a program; its end is told, be it that it could not be started."""

    def stop(self, name: str, reason: str, grace: float) -> None:
        """Have a program and all its descendants ended."""

    def kill(self) -> None:
        """Have all programs ended by SIGKILL."""

    def tidy(self, now: float) -> None:
        """Reap what has ended, and end what a guardian that was killed has left."""


class GuardedPrograms:
    """Runs each program under a guardian; see :class:`Keeper`. It makes this process the parent of orphans.

    :param ended: Called with the name of a program that is gone, and how.
    """

    def __init__(self, log: logging.Logger, ended: Callable[[str, End], None]) -> None:
        self._log = log
        self._ended = ended
        self._running: dict[str, RunningProgram] = {}
        self._leaving: list[RunningProgram] = []
        self._strays = Strays()
        self._has_strays = False
        self._tidy_until = 0.0

    @property
    def pids(self) -> Mapping[str, int]:
        """The processes of the programs that run, by the programs' names."""
        return {name: one.program_pid for name, one in self._running.items() if one.program_pid is not None}

    @property
    def roots(self) -> frozenset[int]:
        """The guardians: everything below them is ours."""
        return frozenset(one.pid for one in (*self._running.values(), *self._leaving))

    def start(self, action: Start) -> None:
        """Start a guardian, which starts the program."""
        name = action.program.name
        loop = asyncio.get_running_loop()
        try:
            running = RunningProgram.start(orders_for(action.program, action.gpus, os.environ, action.reason))
        except LaunchError as error:
            loop.call_soon(self._ended, name, End(f'could not be started: {error}', failed=True))
            return
        self._running[name] = running
        loop.add_reader(running.fileno(), self._read, name, running, action.gpus)

    def stop(self, name: str, reason: str, grace: float) -> None:
        """Order its guardian to end it."""
        if name in self._running:
            self._running[name].stop(reason, grace)

    def kill(self) -> None:
        """Order the guardians to leave no time to their programs."""
        for running in self._running.values():
            running.kill()

    def tidy(self, now: float) -> None:
        """Reap guardians and samplers, and end what the program of a guardian that was killed has left."""
        if self._has_strays:
            self._has_strays = self._strays.end(self.roots) > 0
        if self._leaving:
            self._leaving = [running for running in self._leaving if not running.has_ended()]
            self._tidy_until = now + _TIDYING
        if now < self._tidy_until:
            self._strays.reap(self.roots)

    def _read(self, name: str, running: RunningProgram, gpus: tuple[SeenGpu, ...]) -> None:
        handle = running.fileno()
        for message in running.read():
            self._take(name, message)
        if running.final is not None:
            asyncio.get_running_loop().remove_reader(handle)
            running.close()
            self._leaving.append(running)
            del self._running[name]
            self._ended(name, _end_of(running.final, len(gpus)))

    def _take(self, name: str, message: Message) -> None:
        if isinstance(message, Started):
            self._log.info('%s runs: pid %d', name, message.pid)
            if message.unmeasured is not None:
                self._log.warning('%s: what it uses is not measured: %s', name, message.unmeasured)
        elif isinstance(message, Stuck):
            self._log.warning('%s: SIGKILL does not end %s', name, message.left)
        elif isinstance(message, Lost):
            self._has_strays = True


class Rehearsal:
    """Starts nothing: a dry run; see :class:`Keeper`."""

    pids: Mapping[str, int] = {}
    roots: frozenset[int] = frozenset()

    def __init__(self, ended: Callable[[str, End], None]) -> None:
        self._ended = ended

    def start(self, action: Start) -> None:
        """Do nothing."""

    def stop(self, name: str, reason: str, grace: float) -> None:  # noqa: ARG002 - nothing needs time
        """Tell the end of what never ran."""
        asyncio.get_running_loop().call_soon(self._ended, name, End(f'would have ended ({reason})', failed=False))

    def kill(self) -> None:
        """Do nothing."""

    def tidy(self, now: float) -> None:
        """Do nothing."""


def _end_of(final: Message, gpus: int) -> End:
    """Return what the last message of a guardian means, whose program had so many GPUs."""
    if isinstance(final, NotStarted):
        return End(f'could not be started: {final.reason}', failed=True)
    if isinstance(final, Ended):
        return End(f'has ended, {final.ending}: {final.used(gpus)}', failed=final.code != 0)
    return End(f'has ended: {final.reason}' if isinstance(final, Lost) else 'has ended', failed=True)
