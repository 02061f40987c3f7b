"""The programs that run: started and stopped as was decided, and listened to."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.idle.running.guardian_protocol import Ended, LaunchError, Lost, NotStarted, Started, Stuck, orders_for
from gpu_tracker.idle.running.program_groups import empty_groups
from gpu_tracker.idle.running.program_orphans import Orphans, mark
from gpu_tracker.idle.running.running_program import RunningProgram

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping

    from gpu_tracker.idle.decision import Start
    from gpu_tracker.idle.running.guardian_protocol import Message

_TIMEOUT = 15.0
"""Seconds of a guardian beyond the grace that it gives: it reports what SIGKILL does not end after 10, and the last
figures of what was used take it 5 at most."""
_SHORT_PAUSE, _LONG_PAUSE = 0.02, 1.0
"""Seconds between two scans for what a lost guardian has left: from the one, doubled up to the other."""


class End(NamedTuple):
    """A program is gone, with all that it had started."""

    text: str
    """How, and what it has used, in words that follow its name."""
    failed: bool
    """Whether it was not started, or has ended with an error."""
    ending: str | None = None
    """How, in words that stand alone, such as ``exit code 1``; None: as ``text`` has it."""
    started: bool = True
    """Whether it ever ran."""


class _Guarded(NamedTuple):
    """A program that runs under its guardian."""

    running: RunningProgram
    gpus: int
    """How many it runs on."""


class _LostProgram(NamedTuple):
    """A program whose guardian was killed."""

    end: End
    pid: int | None
    """The program's; None: it did not run yet."""


class GuardedPrograms:
    """Runs each program under a guardian. Nothing here waits. It makes this process the parent of orphans.

    A guardian that does not follow its orders is killed. The program of one that was killed is gone when this process
    has ended all that it has left.

    :param ended: Called with the name of a program that is gone, and how.
    :param timeout: Seconds of a guardian to follow an order, beyond the grace of its program.
    """

    def __init__(self, log: logging.Logger, ended: Callable[[str, End], None], *, timeout: float = _TIMEOUT) -> None:
        self._log = log
        self._ended = ended
        self._timeout = timeout
        self._running: dict[str, _Guarded] = {}
        self._overdue: dict[str, asyncio.TimerHandle] = {}
        """What waits for the end of those that are being stopped, by the programs' names."""
        self._disobeyed: set[str] = set()
        """The programs whose guardians were killed for that."""
        self._stuck: set[str] = set()
        """The programs of which SIGKILL leaves something: their guardians can do no more."""
        self._leaving: list[RunningProgram] = []
        self._lost: dict[str, _LostProgram] = {}
        """Those that may have left processes, by their names."""
        self._orphans = Orphans()

    @property
    def pids(self) -> Mapping[str, int]:
        """The processes of the programs that run, by the programs' names."""
        found = {name: one.running.program_pid for name, one in self._running.items()}
        return {name: pid for name, pid in found.items() if pid is not None}

    @property
    def roots(self) -> frozenset[int]:
        """The guardians, and this process as long as it has what was below one: everything below them is ours."""
        return self._guardians | ({os.getpid()} if self._lost else set())

    @property
    def _guardians(self) -> frozenset[int]:
        return frozenset(one.pid for one in (*(one.running for one in self._running.values()), *self._leaving))

    def start(self, action: Start) -> None:
        """Start a guardian, which starts the program."""
        name = action.program.name
        loop = asyncio.get_running_loop()
        try:
            running = RunningProgram.start(orders_for(action.program, action.gpus, os.environ, action.reason))
        except LaunchError as error:
            loop.call_soon(self._ended, name, End(f'could not be started: {error}', failed=True, started=False))
            return
        self._running[name] = _Guarded(running, len(action.gpus))
        loop.add_reader(running.fileno(), self._read, name)

    def stop(self, name: str, reason: str, grace: float) -> None:
        """Order its guardian to end it."""
        if name in self._running:
            self._running[name].running.stop(reason, grace)
            self._expect_end(name, grace)

    def kill(self) -> None:
        """Order the guardians to leave no time to their programs."""
        for name, one in self._running.items():
            one.running.kill()
            self._expect_end(name, 0.0)

    def tidy(self) -> None:
        """Reap guardians, samplers, and other children that have ended."""
        self._leaving = [running for running in self._leaving if not running.has_ended()]
        self._orphans.reap(self._guardians)

    def _expect_end(self, name: str, grace: float) -> None:
        """Give a guardian some time to report its program's end."""
        os.kill(self._running[name].running.pid, signal.SIGCONT)  # it cannot read an order while it is stopped
        if name in self._stuck:
            return
        due = asyncio.get_running_loop().time() + grace + self._timeout
        before = self._overdue.get(name)
        if before is None or before.when() > due:
            self._forget_overdue(name)
            self._overdue[name] = asyncio.get_running_loop().call_at(due, self._kill_guardian, name)

    def _forget_overdue(self, name: str) -> None:
        if name in self._overdue:
            self._overdue.pop(name).cancel()

    def _kill_guardian(self, name: str) -> None:
        self._forget_overdue(name)
        self._disobeyed.add(name)
        guardian = self._running[name].running.pid
        self._log.warning(
            '%s: killing the guardian process of the program (pid %d), which does not respond', name, guardian
        )
        os.kill(guardian, signal.SIGKILL)  # no other's number: it is not waited for before its end is reported

    def _read(self, name: str) -> None:
        running, gpus = self._running[name]
        handle = running.fileno()
        for message in running.read():
            self._take(name, message)
        if running.final is not None:
            asyncio.get_running_loop().remove_reader(handle)
            self._forget_overdue(name)
            running.close()
            self._leaving.append(running)
            self._stuck.discard(name)
            del self._running[name]
            end = _end_of(running.final, gpus)
            if name in self._disobeyed:
                self._disobeyed.remove(name)
                end = end if isinstance(running.final, Ended) else End('has ended with its guardian', failed=True)
            if isinstance(running.final, Lost):
                self._lost[name] = _LostProgram(end, running.program_pid)
                self._end_orphans(_SHORT_PAUSE)
            else:
                self._ended(name, end)

    def _take(self, name: str, message: Message) -> None:
        if isinstance(message, Started):
            self._log.info('%s runs: pid %d', name, message.pid)
            if message.unmeasured is not None:
                self._log.warning(
                    '%s: the resource usage of the program cannot be measured: %s', name, message.unmeasured
                )
        elif isinstance(message, Stuck):
            self._forget_overdue(name)  # it obeys
            self._stuck.add(name)
            self._log.warning('%s: still running after SIGKILL: %s', name, message.left)

    def _end_orphans(self, pause: float) -> None:
        """End what lost guardians have left, and report the programs' ends when nothing is left any more."""
        pids = [one.pid for one in self._lost.values() if one.pid is not None]
        try:
            is_any_left = self._orphans.end(self._guardians, pids) > 0
        except OSError:  # such as too many open files: nobody else would ever report these programs' ends
            is_any_left = True
        if is_any_left:
            asyncio.get_running_loop().call_later(pause, self._end_orphans, min(2 * pause, _LONG_PAUSE))
            return
        for of_monitor, group in empty_groups():
            if of_monitor == mark():
                group.remove()
        gone, self._lost = self._lost, {}
        for name, one in gone.items():
            self._ended(name, one.end)


class DryRun:
    """Starts nothing, with the methods of :class:`GuardedPrograms`."""

    pids: Mapping[str, int] = {}
    roots: frozenset[int] = frozenset()

    def __init__(self, ended: Callable[[str, End], None]) -> None:
        self._ended = ended

    def start(self, action: Start) -> None:
        """Do nothing."""

    def stop(self, name: str, reason: str, grace: float) -> None:  # noqa: ARG002 - nothing needs time
        """Report the end of what never ran."""
        asyncio.get_running_loop().call_soon(self._ended, name, End(f'would have ended ({reason})', failed=False))

    def kill(self) -> None:
        """Do nothing."""

    def tidy(self) -> None:
        """Do nothing."""


def _end_of(final: Message, gpus: int) -> End:
    """Return what the last message of a guardian means, whose program had so many GPUs."""
    if isinstance(final, NotStarted) and final.stopped:
        return End('was stopped before it was started', failed=False, started=False)
    if isinstance(final, NotStarted):
        return End(f'could not be started: {final.reason}', failed=True, started=False)
    if isinstance(final, Ended):
        text = f'has ended, {final.ending}: {final.used(gpus)}'
        ending = final.ending if final.reason is None else f'{final.ending}, stopped: {final.reason}'
        return End(text, failed=final.code != 0, ending=ending)
    return End(f'has ended: {final.reason}' if isinstance(final, Lost) else 'has ended', failed=True)
