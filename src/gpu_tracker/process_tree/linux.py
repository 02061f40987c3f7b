"""The process tree read from ``/proc``, at the least cost a process.

A process whose CPU clock stands still has not run since the sample before, so that nothing else of it is read: this
costs a fifth of reading its stat file. Once a second everything is read, because some of it can change from outside:
the kernel may reclaim memory of a process that sleeps. Processes that are new are found by listing ``/proc`` and
opening only pids that were not there at the listing before.
"""

from __future__ import annotations

import time

from gpu_tracker.process_tree import stat
from gpu_tracker.process_tree.files import ProcessFiles
from gpu_tracker.process_tree.orphans import Orphans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.process_tree.process import Process

_LONGEST_UNREAD = 1.0
"""Seconds after which a process is read again even though it has not run."""
_COMPARISONS = 3
"""How often two processes are compared that may share their memory: it may change between the two readings."""


def cpu_clock(pid: int) -> float:
    """Return the CPU seconds of all threads of ``pid``, ended ones included, to the nanosecond.

    The number of a process' CPU clock is its pid, inverted, above three bits that say which clock (clock_getres(2),
    "Dynamic clocks" in the kernel's posix-timers.h). A zombie still has one. stat(5) has the same in 10 ms ticks.

    :raises OSError: if the process is gone, or the kernel has no such clocks.
    """
    return time.clock_gettime(~pid << 3 | 2)


class LinuxProcessTree:
    """See :class:`~gpu_tracker.process_tree.ProcessTree`.

    :param launcher: A process that adopts the root's orphans: its new children belong to the tree.
    :param held: The root is still a copy of its launcher, whose memory is not the root's own, and will call execve(2).
    :param proc: The folder to read.
    :param clock: Tells the CPU seconds of a pid; where it raises OSError the ticks of stat(5) stand.
    :param monotonic: Tells the time.
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
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = ProcessFiles(proc)
        self._clock = clock
        self._monotonic = monotonic
        self._own_pid = own_pid
        self._names: set[str] = set()
        self._newest: bytes | None = None
        self._samplers: dict[int, Process] = {}
        root = self._files.open(str(root_pid))
        if root is None:
            raise ProcessLookupError(root_pid)
        self.root = root
        self.root_gone = False
        self.members: dict[int, Process] = {}
        self.begun = monotonic()
        self._all_read = self.begun
        self._take_in(root)
        self.gone: list[Process] = []
        self.foreign_cpu = 0.0
        self.listings = 0
        self.changes = 0
        self._held_image = stat.image(root.raw) if held else None
        root.shares_memory = held
        self._orphans: Orphans | None = None  # those that are there already are found through their parents alone
        self._admit_new()
        self._orphans = Orphans(root, launcher, self._files)

    @property
    def samplers(self) -> dict[int, Process]:
        """Those samplers that members have started and that still run, by pid."""
        return self._samplers

    def refresh(self) -> None:
        """Read every member again and take in those that are new."""
        self.begun = self._monotonic()
        everything = self.begun - self._all_read >= _LONGEST_UNREAD
        if everything:
            self._all_read = self.begun
        self.gone = []
        ended: set[int] = set()
        """Whose children have another parent now, without having run themselves."""
        clock = self._clock
        for process in self.members.values():
            try:
                cpu: float | None = clock(process.pid)
            except OSError:
                cpu = None
            if cpu != process.own_cpu or everything or process.shares_memory or process.parent in ended:
                self._read(process, cpu)
                if process.ended:
                    ended.add(process.pid)
        if self._samplers:
            self._refresh_samplers()
        for process in self.gone:
            self._forget(process)
        self._admit_new()

    def refresh_root(self) -> None:
        """Read the root alone again."""
        if not self.root_gone:
            self.gone = []
            self._read(self.root, self._cpu(self.root))
            for process in self.gone:
                self._forget(process)
            self.gone = []

    def ignores_children(self, process: Process) -> bool:
        """Tell whether SIGCHLD is ignored by ``process``."""
        return self._files.ignores_children(process)

    def _read(self, process: Process, cpu: float | None) -> None:
        """Read ``process``, whose CPU clock has just said ``cpu``: read after the file, it would hide a change."""
        try:
            line = self._files.line(process)
        except ProcessLookupError:
            process.ended = True
            self.gone.append(process)
            self.changes += 1
            return
        if line != process.raw or process.shares_memory:
            self.changes += 1
            name = process.name
            before = process.own_cpu
            stat.update(process, line)
            process.own_cpu = max(before, process.own_cpu)
            shared = process.shares_memory
            if shared and process.name == name and not process.ended:  # a zombie has no image that could tell
                process.shares_memory = self._is_held(process) or self._runs_in_memory_of_parent(process)
            if process.name != name or process.shares_memory != shared:
                process.forked = process.shares_memory = False
                process.programs += 1
                is_sampler = self._is_sampler(process)
                if is_sampler:
                    self._samplers[process.pid] = process
                    return
                if is_sampler is None and (name or stat.has_no_arguments(line) or self._has_moved_on(process)):
                    _put_off(process)
            self._read_memory(process)
            if process.shares_memory and process is not self.root:
                process.threads = 0
        if cpu is not None and cpu != process.own_cpu:
            process.own_cpu = cpu
            self.changes += 1

    def _read_memory(self, process: Process) -> None:
        memory = b'' if process.ended else self._files.memory(process)
        process.resident, process.anonymous = stat.resident(memory) if memory else (0, 0)

    def _cpu(self, process: Process) -> float | None:
        try:
            return self._clock(process.pid)
        except OSError:
            return None  # no such clock here, or the process has just gone: the ticks stand

    def _take_in(self, process: Process) -> None:
        """Make ``process``, of which only the stat file was read so far, a member."""
        cpu = self._cpu(process)
        self._files.open_memory(process)
        self._read_memory(process)
        if cpu is not None:
            process.own_cpu = cpu
        self.members[process.pid] = process

    def _forget(self, process: Process) -> None:
        self.changes += 1
        self._files.close(process)
        process.ended = True
        process.resident = process.anonymous = process.threads = 0
        if process is self.root:
            self.root_gone = True
        del self.members[process.pid]
        self._names.discard(str(process.pid))  # so that one which has got its pid already is looked at
        self._newest = None

    def _refresh_samplers(self) -> None:
        self.changes += 1
        for pid, process in list(self._samplers.items()):
            self.members.pop(pid, None)
            try:
                line = self._files.line(process)
            except ProcessLookupError:
                self._files.close(process)
                del self._samplers[pid]
                if process.parent in self.members:
                    self.foreign_cpu += process.own_cpu + process.reaped_cpu
                continue
            cpu = self._cpu(process)
            stat.update(process, line)
            process.own_cpu = process.own_cpu if cpu is None else cpu

    def _admit_new(self) -> None:
        newest = self._files.newest()
        if newest is not None and newest == self._newest:
            return  # nothing was started since the listing before
        self._newest = newest
        self.listings += 1
        names = self._files.names()
        new = names - self._names
        self._names = names
        waiting: dict[int, list[Process]] = {}
        for name in new:
            if name.isdecimal() and int(name) not in self.members and int(name) != self._own_pid:
                process = self._files.open(name)
                if process is not None:
                    waiting.setdefault(self._parent_in_tree(process), []).append(process)
        found = [parent for parent in self.members if parent in waiting]
        for parent in found:  # grows while it is walked: a new process may have new children
            admitted = filter(self._admit, waiting.pop(parent))
            found += [process.pid for process in admitted if process.pid in waiting]
        for strangers in waiting.values():
            for process in strangers:
                self._files.close(process)

    def _admit(self, process: Process) -> bool:
        """Make a new ``process`` a member, unless it is a sampler; tell which."""
        is_sampler = self._is_sampler(process)
        if is_sampler:
            self._samplers[process.pid] = process
            return False
        self.changes += 1
        self._take_in(process)
        process.forked = self._is_copy_of_parent(process)
        process.shares_memory = process.forked and self._runs_in_memory_of_parent(process)
        if is_sampler is None or (process.forked and not process.shares_memory and self._has_moved_on(process)):
            _put_off(process)
        if process.shares_memory:
            process.threads = 0
        return True

    def _parent_in_tree(self, process: Process) -> int:
        """Return the pid of the member through which a new ``process`` may belong to the tree, else its parent's."""
        if process.parent in self.members or self._orphans is None:
            return process.parent
        return self._orphans.member_for(process, self.members, self.gone)

    def _is_sampler(self, process: Process) -> bool | None:
        """Tell whether ``process`` is some tracker's sampler; asked once an image, a name changing with execve(2)."""
        return process.pid == self._own_pid or self._files.is_sampler(process)

    def _has_moved_on(self, process: Process) -> bool:
        """Tell whether ``process`` has called execve(2), or has ended, since its stat file was read."""
        try:
            return stat.image(self._files.line(process)) != stat.image(process.raw)
        except ProcessLookupError:
            return True

    def _is_copy_of_parent(self, process: Process) -> bool:
        """Tell whether ``process`` was forked by its parent and neither has called execve(2) since."""
        parent = self.members.get(process.parent)
        return parent is not None and stat.image(process.raw) == stat.image(parent.raw)

    def _runs_in_memory_of_parent(self, process: Process) -> bool:
        """Tell whether ``process`` is a vfork(2) child that has not called execve(2) yet.

        Its parent's thread waits for it, and can be woken up by nothing else. That may be so for another reason, so the
        sizes of both are compared too. They are read again, one after the other, because other threads of the parent
        may allocate and free meanwhile. One that was forked has a copy of the page tables without most file pages, so
        that its sizes are mostly others.
        """
        parent = self.members.get(process.parent)
        if parent is None or not self._is_copy_of_parent(process) or not self._files.waits_uninterruptibly(parent):
            return False
        return any(self._files.memory(process) == self._files.memory(parent) != b'' for _ in range(_COMPARISONS))

    def _is_held(self, process: Process) -> bool:
        """Tell whether ``process`` is the root and has not become the program that is to be tracked yet."""
        return process is self.root and stat.image(process.raw) in (self._held_image, stat.NO_IMAGE)


def _put_off(process: Process) -> None:
    """Count nothing of ``process`` until it is read again: what it will be, a sampler perhaps, cannot be told yet."""
    process.name = b''
    process.shares_memory = True
