"""Who holds devices open, read from ``/proc`` at the least cost a process.

A process whose CPU clock stands still since the poll before has not run, so that it has neither opened nor closed
anything; what the kernel does for it, such as passing a descriptor through a socket, it does while the process runs.
So at most polls only those that have run are read.

What is not seen by that, for a minute at most (see ``_ROUND``):

- a descriptor opened by another process that shares the table of descriptors, made by clone(2) with CLONE_FILES and
  without CLONE_THREAD, while this one sleeps; that other process is seen to hold it;
- a process that has run for less than its clock can resolve: it counts nanoseconds, but on some virtual machines leaves
  out time that was stolen from them.

And never: descriptors of a thread that has a table of its own (unshare(2) with CLONE_FILES) while the first thread of
its process lives.
"""

from __future__ import annotations

import math
import os
import time
from typing import TYPE_CHECKING

from gpu_tracker.idle.observing.device_files import finder_for
from gpu_tracker.processes.linux import cpu_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpu_tracker.idle.observing.device_files import Identity

_ROUND = 60.0
"""Seconds in which every process is read again at least once, whatever its clock says; spread over all polls."""
_UNREAD = math.nan
"""Stands for a time that no clock shows: it differs from every number, itself too."""
_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD in the kernel's sched.h."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NONE: frozenset[int] = frozenset()


class _Process:
    """A process that was listed."""

    __slots__ = ('cpu', 'pid')

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.cpu: float | None = _UNREAD
        """Its CPU seconds before it was read last; None for a part of the kernel, which opens no devices."""


class OpenDevices:
    """Lookup of processes that hold devices open; to be asked by one thread at a time.

    :param proc: The folder of proc(5).
    :param clock: Returns the CPU seconds of a pid; where it raises OSError the process is read at every poll.
    :param monotonic: Returns the time.
    """

    def __init__(
        self,
        proc: str = '/proc',
        clock: Callable[[int], float] = cpu_clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._proc = proc
        self._clock = clock
        self._monotonic = monotonic
        self._begin({})

    @property
    def unseen(self) -> frozenset[int]:
        """The processes at the last poll whose descriptors we have no right to see."""
        return frozenset(self._denied)

    @property
    def are_others_hidden(self) -> bool:
        """Whether /proc did not list other users' processes at the last poll (mount option hidepid of proc(5))."""
        return bool(self._processes) and '1' not in self._processes  # each PID namespace has a process 1

    @property
    def count(self) -> int:
        """How many processes there were at the last poll, parts of the kernel among them."""
        return len(self._processes)

    def poll(self, identities: Mapping[int, Identity]) -> dict[int, frozenset[int]]:
        """Return by number of the device the pids of those that hold it open.

        :param identities: The identities of the devices, by number.
        """
        if identities != self._identities:
            self._begin(identities)
        if not identities:
            return {}
        self._put_those_due()
        self._read_those_changed(os.listdir(self._proc))
        holders: dict[int, set[int]] = {number: set() for number in identities}
        for pid, numbers in self._held.items():
            for number in numbers:
                holders[number].add(pid)
        return {number: frozenset(pids) for number, pids in holders.items()}

    def _begin(self, identities: Mapping[int, Identity]) -> None:
        self._identities = dict(identities)
        self._finder = finder_for(identities)
        self._processes: dict[str, _Process] = {}
        self._held: dict[int, frozenset[int]] = {}
        self._denied: set[int] = set()
        self._round: list[str] = []
        self._shares_due = 0.0
        self._polled_at = self._monotonic()

    def _put_those_due(self) -> None:
        """Have those read whose turn it is: the share of all that belongs to the time since the last poll."""
        now = self._monotonic()
        self._shares_due += len(self._processes) * (now - self._polled_at) / _ROUND
        self._polled_at = now
        while self._shares_due >= 1.0:
            self._shares_due -= 1.0
            if not self._round:
                self._round = list(self._processes)
            process = self._processes.get(self._round.pop())
            if process is not None:
                process.cpu = _UNREAD

    def _read_those_changed(self, names: list[str]) -> None:
        processes, clock = self._processes, self._clock
        others = 0
        for name in names:
            process = processes.get(name)
            if process is None:
                if not name.isdecimal():
                    others += 1
                    continue
                process = processes[name] = _Process(int(name))
            before = process.cpu
            if before is None:
                continue
            try:
                cpu = clock(process.pid)
            except OSError:
                cpu = _UNREAD  # it has just ended, or the kernel has no such clocks
            if cpu != before:
                process.cpu = cpu  # taken before the reading: after it, it would hide what is opened meanwhile
                self._read(process)
        if len(processes) > len(names) - others:
            for name in processes.keys() - names:
                self._forget(processes.pop(name).pid)

    def _forget(self, pid: int) -> None:
        self._held.pop(pid, None)
        self._denied.discard(pid)

    def _read(self, process: _Process) -> None:
        pid = process.pid
        was_denied = pid in self._denied
        try:
            numbers = self._find(f'{self._proc}/{pid}/fd')
            is_denied = False
        except (FileNotFoundError, ProcessLookupError):
            self._forget(pid)
            return
        except OSError:
            numbers, is_denied = None, True  # another user's, or a program that hides what it does
        if numbers is None and not (is_denied and was_denied):
            numbers, is_denied = self._find_without_table(process, is_denied=is_denied)
        self._forget(pid)
        if is_denied:
            self._denied.add(pid)
        if numbers:
            self._held[pid] = numbers

    def _find(self, path: str) -> frozenset[int] | None:
        folder = os.open(path, _FOLDER)
        try:
            return self._finder.find(folder)
        finally:
            os.close(folder)

    def _find_without_table(self, process: _Process, *, is_denied: bool) -> tuple[frozenset[int], bool]:
        """Return what a process has open of which nothing is to be seen, and whether that is for want of rights."""
        folder = f'{self._proc}/{process.pid}'
        try:
            with open(f'{folder}/stat', 'rb') as file:
                fields = _fields(file.read())
        except OSError:
            return _NONE, False  # it has ended
        if int(fields[6]) & _KERNEL_THREAD:
            process.cpu = None
            return _NONE, False
        has_ended = fields[0] in {b'Z', b'X'}
        if has_ended and int(fields[17]) > 1:
            return self._find_in_threads(folder), False
        return _NONE, is_denied and not has_ended

    def _find_in_threads(self, folder: str) -> frozenset[int]:
        """Return what a process has open whose first thread has ended: the table is to be seen at the others only."""
        try:
            threads = os.listdir(f'{folder}/task')
        except OSError:
            return _NONE  # it has ended, which makes the clock differ at the next poll
        for thread in threads:
            try:
                numbers = self._find(f'{folder}/task/{thread}/fd')
            except OSError:
                continue  # it has ended; some kernels deny its table instead of showing none
            if numbers:
                return numbers
        return _NONE


def _fields(line: bytes) -> list[bytes]:
    """Return the fields of a stat file from the third on, see proc_pid_stat(5)."""
    return line[line.rindex(b')') + 2 :].split(b' ', 18)
