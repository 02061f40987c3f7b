"""What the processes that use a GPU are, read from ``/proc``."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.idle.observation import GpuUser
from gpu_tracker.idle.observing.exempt import has_name, is_exempt
from gpu_tracker.idle.observing.program_names import NamedProgram, program_of
from gpu_tracker.idle.observing.user_names import UserNames

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_ATTEMPTS = 3
"""How often a process' parents are followed: one that ends meanwhile breaks the chain, and hands its children on."""
_KEPT = 0.05
"""Seconds for which is kept what was read: one look asks several times for the same process."""


class _Stat(NamedTuple):
    """What the stat file of a process tells."""

    name: str
    parent: int


class Programs:
    """Tells what processes are.

    What was read is kept for one look and not longer: a process may become another program at any time, and its pid
    another process. To read costs 30 µs a process, and few use GPUs.

    :param proc: The folder of proc(5).
    :param name_of: Tells at once the name of the user with an ID, or the ID as text; None: :class:`UserNames`.
    :param own_pid: The monitor, which never counts.
    :param monotonic: Tells the time.
    """

    def __init__(
        self,
        proc: str = '/proc',
        *,
        name_of: Callable[[int], str] | None = None,
        own_pid: int | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._proc = proc
        self._name_of = UserNames().name if name_of is None else name_of
        self._own_pid = os.getpid() if own_pid is None else own_pid
        self._monotonic = monotonic
        self._read_at = monotonic()
        self._programs: dict[int, NamedProgram] = {}
        self._parents: dict[int, int | None] = {}

    def names(self, pid: int) -> tuple[str, ...]:
        """Return what a process may be called: its own name, its program's, its script's; nothing where it is gone."""
        return self._program(pid).names

    def never_counts(self, pid: int) -> bool:
        """Tell whether a process never counts: the monitor itself, and those of :data:`exempt.EXEMPT`."""
        return pid == self._own_pid or is_exempt(self._program(pid))

    def is_ignored(self, pid: int, ignore_programs: Collection[str]) -> bool:
        """Tell whether one of a process' names is among those of programs that do not count."""
        return bool(ignore_programs) and has_name(self.names(pid), ignore_programs)

    def describe(self, pid: int) -> GpuUser:
        """Return what a process is and whose, as far as that is to be seen."""
        try:
            # Of the folder, which is the effective user's even where its files are root's.
            user = self._name_of(os.stat(f'{self._proc}/{pid}').st_uid)
        except OSError:
            return GpuUser(pid, '?')  # gone, or hidden (mount option hidepid of proc(5))
        return GpuUser(pid, self._program(pid).name, user)

    def is_ours(self, pid: int, roots: Collection[int]) -> bool:
        """Tell whether a process is one of ``roots`` or descends from one."""
        if not roots:
            return False
        self._forget_what_is_old()
        for _ in range(_ATTEMPTS):
            answer = self._descends(pid, roots)
            if answer is not None:
                return answer
            self._parents.clear()
        return False

    def _descends(self, pid: int, roots: Collection[int]) -> bool | None:
        """Follow the parents; None where one of them has ended meanwhile, so that its child has another parent now."""
        first, seen = pid, set()
        while pid not in roots:
            if pid <= 1 or pid in seen:  # 0: of another PID namespace; a reused pid could make a circle
                return False
            seen.add(pid)
            parent = self._parent(pid)
            if parent is None:
                return False if pid == first else None
            pid = parent
        return True

    def _parent(self, pid: int) -> int | None:
        if pid not in self._parents:
            line = self._stat(pid)
            self._parents[pid] = None if line is None else line.parent
        return self._parents[pid]

    def _forget_what_is_old(self) -> None:
        now = self._monotonic()
        if now - self._read_at > _KEPT:
            self._read_at = now
            self._programs.clear()
            self._parents.clear()

    def _program(self, pid: int) -> NamedProgram:
        self._forget_what_is_old()
        if pid not in self._programs:
            self._programs[pid] = self._read(pid)
        return self._programs[pid]

    def _read(self, pid: int) -> NamedProgram:
        line = self._stat(pid)
        if line is None:
            return NamedProgram()
        self._parents.setdefault(pid, line.parent)
        try:
            with open(f'{self._proc}/{pid}/cmdline', 'rb') as file:
                text = os.fsdecode(file.read())
        except OSError:
            text = ''  # it has just ended
        return program_of(line.name, text.rstrip('\0').split('\0') if text else [])

    def _stat(self, pid: int) -> _Stat | None:
        try:
            with open(f'{self._proc}/{pid}/stat', 'rb') as file:
                line = file.read()
        except OSError:
            return None  # gone, or hidden
        name_end = line.rindex(b')')
        return _Stat(os.fsdecode(line[line.index(b'(') + 1 : name_end]), int(line[name_end + 2 :].split(b' ', 2)[1]))
