"""The process tree read from ``/proc``, at the least cost a process.

Every known process has its stat and statm files kept open: ``pread`` costs a third of opening them anew, and cannot be
fooled by a reused pid, since the file of a process that is gone answers ESRCH. Where the stat file says what it said at
the sample before, nothing else is read but the CPU clock. Processes that are new are found by listing
``/proc`` and opening only pids that were not there at the listing before.
"""

from __future__ import annotations

import os
import resource
import time

from gpu_tracker.process_tree import SAMPLER_MARK, stat
from gpu_tracker.process_tree.process import Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_STAT_BYTES = 2048
_SPARE_HANDLES = 64
"""Descriptors that are left for all else; processes past that are opened anew for each reading."""
_INIT = 1
_SIGCHLD_BIT = 1 << 16
_MARK = SAMPLER_MARK.encode()


def cpu_clock(pid: int) -> float:
    """Return the CPU seconds of all threads of ``pid``, ended ones included, to the nanosecond.

    The number of a process' CPU clock is its pid, inverted, above three bits that say which clock (clock_getres(2),
    "Dynamic clocks" in the kernel's posix-timers.h). A zombie still has one. stat(5) has the same in 10 ms ticks.

    :raises OSError: if the process is gone, or the kernel has no such clocks.
    """
    return time.clock_gettime_ns(~pid << 3 | 2) / 1e9


class LinuxProcessTree:
    """See :class:`~gpu_tracker.process_tree.ProcessTree`.

    :param launcher: A process that adopts the root's orphans: its new children belong to the tree.
    :param held: The root is still a copy of its launcher, whose memory is not the root's own, and will call execve(2).
    :param proc: The folder to read.
    :param clock: Tells the CPU seconds of a pid; where it raises OSError the ticks of stat(5) stand.
    :raises ProcessLookupError: if there is no such root.
    """

    def __init__(
        self,
        root_pid: int,
        *,
        launcher: int | None = None,
        held: bool = False,
        own_pid: int,
        proc: str = '/proc',
        clock: Callable[[int], float] = cpu_clock,
    ) -> None:
        self._proc = proc
        self._clock = clock
        self._launcher = launcher
        self._own_pid = own_pid
        self._names: set[str] = set()
        self._samplers: dict[int, Process] = {}
        self._most_handles = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE_HANDLES
        root = self._open(str(root_pid))
        if root is None:
            raise ProcessLookupError(root_pid)
        self.root = root
        self.root_gone = False
        self.members: dict[int, Process] = {}
        self._take_in(root)
        self.gone: list[Process] = []
        self.foreign_cpu = 0.0
        self._held_image = stat.image(root.raw) if held else None
        root.shares_memory = held
        self._ancestors = self._find_ancestors(root)
        self._adopters: tuple[int, ...] = ()  # the descendants that are there now are found through their parents alone
        self._admit_new()
        self._adopters = (_INIT, *self._ancestors)

    def refresh(self) -> None:
        """Read every member again and take in those that are new."""
        self.gone = []
        for process in self.members.values():
            self._read(process)
        if self._samplers:
            self._refresh_samplers()
        for process in self.gone:
            self._forget(process)
        self._admit_new()

    def refresh_root(self) -> None:
        """Read the root alone again."""
        if not self.root_gone:
            self.gone = []
            self._read(self.root)
            for process in self.gone:
                self._forget(process)
            self.gone = []

    def ignores_children(self, process: Process) -> bool:
        """Tell whether SIGCHLD is ignored by ``process`` (SigIgn in ``/proc/PID/status``)."""
        try:
            with open(f'{self._proc}/{process.pid}/status', 'rb') as status:
                for line in status:
                    if line.startswith(b'SigIgn:'):
                        return bool(int(line[7:], 16) & _SIGCHLD_BIT)
        except OSError:
            pass  # it has ended: what it ignored does not matter any more
        return False

    def _read(self, process: Process) -> None:
        try:
            line = self._line(process)
        except ProcessLookupError:
            self.gone.append(process)
            return
        if line == process.raw:
            process.reaped_before = process.reaped_cpu
        else:
            name = process.name
            stat.update(process, line)
            if process.name != name and self._is_sampler(process):
                self._samplers[process.pid] = process
                return
            process.resident = 0 if process.ended else self._resident(process)
            if process.shares_memory:
                process.shares_memory = self._is_held(process) or self._runs_in_memory_of_parent(process)
        self._read_clock(process)

    def _resident(self, process: Process) -> int:
        try:
            if process.memory_handle is not None:
                return stat.resident(os.pread(process.memory_handle, _STAT_BYTES, 0))
            handle = os.open(f'{self._proc}/{process.pid}/statm', os.O_RDONLY | os.O_CLOEXEC)
            try:
                return stat.resident(os.pread(handle, _STAT_BYTES, 0))
            finally:
                os.close(handle)
        except (ProcessLookupError, FileNotFoundError):
            return 0  # it has ended since its stat file was read

    def _take_in(self, process: Process) -> None:
        """Make ``process``, of which only the stat file was read so far, a member."""
        if process.handle is not None:
            try:
                handle = os.open(f'{self._proc}/{process.pid}/statm', os.O_RDONLY | os.O_CLOEXEC)
            except (FileNotFoundError, ProcessLookupError):
                pass  # it has ended: its stat file tells at the next sample
            else:
                process.memory_handle = handle
        process.resident = 0 if process.ended else self._resident(process)
        self._read_clock(process)
        self.members[process.pid] = process

    def _read_clock(self, process: Process) -> None:
        try:
            process.own_cpu = self._clock(process.pid)
        except OSError:
            pass  # no such clock here, or the process has just gone: the ticks stand

    def _forget(self, process: Process) -> None:
        self._close(process)
        process.ended = True
        process.resident = process.threads = 0
        if process is self.root:
            self.root_gone = True
        del self.members[process.pid]

    def _refresh_samplers(self) -> None:
        for pid, process in list(self._samplers.items()):
            self.members.pop(pid, None)
            try:
                line = self._line(process)
            except ProcessLookupError:
                self._close(process)
                del self._samplers[pid]
                if process.parent in self.members:
                    self.foreign_cpu += process.own_cpu + process.reaped_cpu
                continue
            stat.update(process, line)
            self._read_clock(process)

    def _admit_new(self) -> None:
        names = set(os.listdir(self._proc))
        new = names - self._names
        self._names = names
        waiting: dict[int, list[Process]] = {}
        for name in new:
            if name.isdecimal() and int(name) not in self.members and int(name) != self._own_pid:
                process = self._open(name)
                if process is not None:
                    waiting.setdefault(self._family_parent(process), []).append(process)
        found = [parent for parent in self.members if parent in waiting]
        for parent in found:  # grows while it is walked: a new process may have new children
            for process in waiting.pop(parent):
                if self._is_sampler(process):
                    self._samplers[process.pid] = process
                    continue
                self._take_in(process)
                process.shares_memory = self._runs_in_memory_of_parent(process)
                if process.pid in waiting:
                    found.append(process.pid)
        for strangers in waiting.values():
            for process in strangers:
                self._close(process)

    def _family_parent(self, process: Process) -> int:
        """Return the pid of the member through which a new ``process`` may belong to the tree, else its parent's.

        One that was forked by a descendant which ended before it was seen has another parent already: the launcher,
        which adopts nobody else's; or init or an ancestor of the root, and then its process group or session tells,
        where that is led by a member.
        """
        parent = process.parent
        if parent in self.members:
            return parent
        if parent == self._launcher:
            return self.root.pid if self._adopters else parent
        if parent in self._adopters:
            for leader in (process.group, process.session):
                if leader in self.members:
                    return leader
        return parent

    def _open(self, name: str) -> Process | None:
        """Return the process with that pid, or None where it is gone or hidden (mount option hidepid of proc(5))."""
        try:
            handle = os.open(f'{self._proc}/{name}/stat', os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return None
        process = Process(int(name))
        process.handle = handle
        try:
            stat.update(process, os.pread(handle, _STAT_BYTES, 0))
        except ProcessLookupError:
            os.close(handle)
            return None
        process.reaped_before = 0.0
        if handle >= self._most_handles:
            self._close(process)
        return process

    def _line(self, process: Process) -> bytes:
        """Return what the stat file of ``process`` says now.

        :raises ProcessLookupError: if it is gone.
        """
        if process.handle is not None:
            return os.pread(process.handle, _STAT_BYTES, 0)
        try:
            handle = os.open(f'{self._proc}/{process.pid}/stat', os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise ProcessLookupError(process.pid) from None
        try:
            line = os.pread(handle, _STAT_BYTES, 0)
        finally:
            os.close(handle)
        if stat.start(line) != process.start:
            raise ProcessLookupError(process.pid)  # another process has got the pid
        return line

    def _close(self, process: Process) -> None:
        for handle in (process.handle, process.memory_handle):
            if handle is not None:
                os.close(handle)
        process.handle = process.memory_handle = None

    def _is_sampler(self, process: Process) -> bool:
        """Tell whether ``process`` is some tracker's sampler; asked once an image, a name changing with execve(2)."""
        if process.pid == self._own_pid:
            return True
        try:
            with open(f'{self._proc}/{process.pid}/cmdline', 'rb') as cmdline:
                return _MARK in cmdline.read(_STAT_BYTES)
        except OSError:
            return False  # another user's, or gone

    def _runs_in_memory_of_parent(self, process: Process) -> bool:
        """Tell whether ``process`` is a vfork(2) child that has not called execve(2) yet.

        One that was forked has a copy of the page tables without most file pages, so its resident size is another; and
        where both are the same all the same, it has touched nothing and adds no page of its own either.
        """
        parent = self.members.get(process.parent)
        return (
            parent is not None
            and process.resident == parent.resident
            and process.virtual == parent.virtual
            and stat.image(process.raw) == stat.image(parent.raw)
        )

    def _is_held(self, process: Process) -> bool:
        """Tell whether ``process`` is the root and has not become the program that is to be tracked yet."""
        return process is self.root and stat.image(process.raw) == self._held_image

    def _find_ancestors(self, root: Process) -> tuple[int, ...]:
        ancestors = []
        pid = root.parent
        while pid > _INIT:
            process = self._open(str(pid))
            if process is None:
                break
            self._close(process)
            ancestors.append(pid)
            pid = process.parent
        return tuple(ancestors)
