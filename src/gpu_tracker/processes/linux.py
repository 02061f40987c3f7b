"""The process tree read from ``/proc``, at the least cost a process.

A process whose CPU clock stands still has not run since the sample before, so that nothing else of it is read: this
costs a fifth of reading its stat file. Once a second everything is read, because some of it can change from outside:
the kernel may reclaim memory of a process that sleeps. Of the processes that are new only those are opened whose pids
were given since the reading before.
"""

from __future__ import annotations

import time

from gpu_tracker.processes import stat
from gpu_tracker.processes.candidates import NewPids
from gpu_tracker.processes.files import ProcessFiles, has_same_memory
from gpu_tracker.processes.orphans import Orphans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.processes.process import Process

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
    """See :class:`~gpu_tracker.processes.ProcessTree`.

    :param launcher: A process that adopts the root's orphans: its new children belong to the tree.
    :param held: The root is still a copy of its launcher, whose memory is not the root's own, and will call execve(2).
    :param proc: The folder to read.
    :param clock: Returns the CPU seconds of a pid; where it raises OSError the ticks of stat(5) stand.
    :param monotonic: Returns the time.
    :param same_memory: Returns whether two pids share their memory; None where that is not known.
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
        same_memory: Callable[[int, int], bool | None] = has_same_memory,
    ) -> None:
        self._same_memory = same_memory
        self._files = ProcessFiles(proc)
        self._clock = clock
        self._monotonic = monotonic
        self._own_pid = own_pid
        self._samplers: dict[int, Process] = {}
        root = self._files.open(root_pid)
        if root is None:
            raise ProcessLookupError(root_pid)
        self._files.is_sampler(root)  # reads its command line
        self.root = root
        self.root_gone = False
        self.members: dict[int, Process] = {}
        self.begun = monotonic()
        self._all_read = self.begun
        self._take_in(root)
        self._new_pids = NewPids(self._files, None if self._cpu(root) is None else self._is_process, monotonic)
        self.gone: list[Process] = []
        self.foreign_cpu = 0.0
        self.listings = 0
        self.counts_reaped_faults = self.counts_reaped_time = True
        self.changes = 0
        self._held_image = stat.image(root.raw) if held else None
        root.shares_memory = held
        self._may_miss_orphans = False
        self._refreshes = 0
        self._orphans: Orphans | None = None  # those that are there already are found through their parents alone
        self._admit_new()
        self._started_before: list[int] = []
        """The new pids of the previous refresh."""
        self._ended = -2
        """The last refresh that saw the end of a descendant, or that a member had reaped one unseen."""
        self._orphans = Orphans(root, launcher, own_pid, self._files)
        self.changed_members = float('-inf')

    @property
    def samplers(self) -> dict[int, Process]:
        """The samplers that members have started and that still run, by pid."""
        return self._samplers

    @property
    def may_miss_orphans(self) -> bool:
        """Whether a process was seen that may be an orphan of the tree, and may as well be another program's."""
        return self._may_miss_orphans

    @property
    def root_is_copy(self) -> bool:
        """Whether the root has the program image of its parent: pages of both may be the same."""
        return self._orphans is not None and self._orphans.root_is_copy

    def refresh(self) -> None:
        """Read every member again, and take in new ones."""
        self.begun = self._monotonic()
        everything = self.begun - self._all_read >= _LONGEST_UNREAD
        if everything:
            self._all_read = self.begun
        self.gone = []
        ended: set[int] = set()
        """Their children have another parent now, without having run themselves."""
        clock = self._clock
        for process in self.members.values():
            try:
                cpu: float | None = clock(process.pid)
            except OSError:
                cpu = None
            process.resident_before, process.faults_before = process.resident, process.faults
            ran = cpu is None or cpu != process.read_cpu
            if ran or everything or process.shares_memory or process.parent in ended:
                had_ended = process.ended
                self._read(process, cpu)
                if process.ended:
                    ended.add(process.pid)
                    self._ended = self._ended if had_ended else self._refreshes
        if self._samplers:
            self._refresh_samplers()
        if self.gone:
            self._ended = self._refreshes
            self._part_with_gone()
        self._admit_new()
        self._refreshes += 1

    def _part_with_gone(self) -> None:
        """Forget those that are gone, and read again who may have reaped them after it was read.

        Children that have ended between their reading and that of their parent are gone as well: it has their times.
        """
        parted = 0
        while parted < len(self.gone):
            gone, parted = self.gone[parted:], len(self.gone)
            for process in gone:
                self._forget(process)
            receivers = {self.members[process.parent] for process in gone if process.parent in self.members}
            if any(process.parent not in self.members for process in gone):
                receivers = set(self.members.values())
            for process in receivers:
                self._read(process, self._cpu(process))
            pids = {process.pid for process in receivers}
            children = {process for process in self.members.values() if process.parent in pids}
            for process in children.difference(self.gone):
                if self._cpu(process) is None:
                    self._read(process, None)

    def refresh_root(self) -> None:
        """Read the root alone again."""
        if not self.root_gone:
            self.gone = []
            self._read(self.root, self._cpu(self.root))
            for process in self.gone:
                self._forget(process)
            self.gone = []

    def ignores_children(self, process: Process) -> bool:
        """Return whether SIGCHLD is ignored by ``process``."""
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
            name, stack, before, reaped = process.name, process.stack, process.own_cpu, process.reaped_faults
            stat.update(process, line)
            if process.reaped_faults != reaped:
                self._note_reaping()
            process.own_cpu = max(before, process.own_cpu)
            shared = process.shares_memory
            if shared and process.name == name and not process.ended:  # a zombie has no image that could tell
                process.shares_memory = self._is_held(process) or self._runs_in_memory_of_parent(process)
            if process.name != name or process.shares_memory != shared or process.stack != stack != b'':
                self._begin_image(process)
                is_sampler = self._is_sampler(process)
                if is_sampler:
                    self._samplers[process.pid] = process
                    return
                if is_sampler is None and (name or stat.has_no_arguments(line) or self._has_moved_on(process)):
                    _put_off(process)
            self._read_memory(process)
            if process.shares_memory and process is not self.root and not process.is_twin:
                process.threads = 0
        process.read_cpu = cpu
        if cpu is not None and cpu != process.own_cpu:
            process.own_cpu = cpu
            self.changes += 1

    def _note_reaping(self) -> None:
        """Take note that a member has reaped a child."""
        self._ended = self._refreshes
        self.changed_members = self.begun

    def _begin_image(self, process: Process) -> None:
        """Take note that ``process`` has called execve(2): it has inherited nothing, and its mark begins anew."""
        process.programs += 1
        process.forked = process.shares_memory = False
        process.relative = None
        process.image = None
        process.mark = None
        process.most = process.huge = 0

    def _is_process(self, pid: int) -> bool:
        """Distinguish a process from a thread, and from a number that nobody has: no other has such a clock."""
        try:
            self._clock(pid)
        except OSError:
            return False
        return True

    def _read_memory(self, process: Process) -> None:
        memory = b'' if process.ended else self._files.memory(process)
        if not memory:
            process.resident = process.files = process.huge = 0
            return
        resident, process.files = stat.resident(memory)
        process.resident = resident + process.huge

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
        process.read_cpu = cpu
        if cpu is not None:
            process.own_cpu = cpu
        process.image = stat.image(process.raw)
        self.members[process.pid] = process

    def _forget(self, process: Process) -> None:
        self._files.close(process)
        process.ended = True
        process.resident = process.files = process.threads = 0
        if process is self.root:
            self.root_gone = True
        self.members.pop(process.pid, None)  # it may have become a sampler since
        self._new_pids.forget(process.pid)  # so that one which has got its pid already is looked at

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
        started = list(self._new_pids.take())
        self.listings += bool(started)
        orphans = self._orphans
        if orphans is None:
            self._admit_all(started)
            return
        suspects, orphans.suspects = orphans.suspects, []
        self._admit_all(started)
        # An orphan appears when its parent has ended. If that came while processes were read, it shows one refresh
        # earlier or later.
        suspects += orphans.suspects
        if suspects and self._refreshes - self._ended <= 1:
            orphans.suspects = []
            orphans.are_expected = True
            self._admit_all([*self._started_before, *started])  # an orphan's children were nobody's before
            orphans.are_expected = False
            self._may_miss_orphans |= any(pid not in self.members for pid in suspects)
        self._started_before = started

    def _admit_all(self, started: list[int]) -> None:
        new = [pid for pid in started if pid not in self.members and pid != self._own_pid]
        while new:
            new = self._admit_those(new)

    def _admit_those(self, new: list[int]) -> list[int]:
        """Take in those of the ``new`` pids that belong to the tree; return those that have got another parent since.

        Whose parent ended while both were read was found below no member, and belongs to who has adopted it. Children
        of samplers are known as well: what starts a sampler ends at once, and a member may adopt the sampler.
        """
        waiting: dict[int, list[Process]] = {}
        for pid in self._of_concern(new):
            process = self._files.open(pid)
            if process is not None:
                waiting.setdefault(self._parent_in_tree(process), []).append(process)
        found = [parent for parent in (*self.members, *self._samplers) if parent in waiting]
        for parent in found:  # grows while it is walked: a new process may have new children
            children = waiting.pop(parent)
            for process in children:
                self._admit(process)
            found += [process.pid for process in children if process.pid in waiting]
        moved: list[int] = []
        for strangers in waiting.values():
            for process in strangers:
                self._files.close(process)
                if process.parent != self._files.parent(process.pid) is not None:
                    moved.append(process.pid)
        return moved

    def _of_concern(self, new: list[int]) -> list[int]:
        """Return the ``new`` pids that may belong to the tree, to spare reading all processes of the machine.

        They are below a member, a sampler, an adopter of orphans, or a process that has just ended.
        """
        children: dict[int, list[int]] = {}
        ended: set[int] = set()
        for pid in new:
            parent = self._files.parent(pid)
            if parent is None:
                ended.add(pid)
            else:
                children.setdefault(parent, []).append(pid)
        orphans = self._orphans
        found = [
            parent
            for parent in children
            if parent in self.members
            or parent in self._samplers
            or parent in ended
            or (orphans is not None and orphans.may_adopt(parent))
        ]
        n_known = len(found)
        for parent in found:  # grows while it is walked
            found += children.pop(parent, ())
        return found[n_known:]

    def _admit(self, process: Process) -> None:
        """Make a new ``process`` a member, unless it is a sampler or was started by one."""
        is_sampler = process.parent in self._samplers or self._is_sampler(process)
        if is_sampler:
            self._samplers[process.pid] = process
            return
        self.changes += 1
        self.changed_members = self.begun
        self._take_in(process)
        if process.ended or process.reaped_faults:
            self._ended = self._refreshes
        process.relative = self._relative_of(process)
        process.forked = process.relative is not None
        process.shares_memory = process.forked and self._runs_in_memory_of_parent(process)
        if is_sampler is None or (process.forked and not process.shares_memory and self._has_moved_on(process)):
            _put_off(process)
        if process.shares_memory and not process.is_twin:
            process.threads = 0

    def _parent_in_tree(self, process: Process) -> int:
        """Return the pid of the member through which a new ``process`` may belong to the tree, else its parent's."""
        if process.parent in self.members or self._orphans is None:
            return process.parent
        return self._orphans.member_for(process, self.members, self.gone)

    def _is_sampler(self, process: Process) -> bool | None:
        """Return whether ``process`` is some tracker's sampler; asked once an image, a name changing with execve(2)."""
        return process.pid == self._own_pid or self._files.is_sampler(process)

    def _has_moved_on(self, process: Process) -> bool:
        """Return whether ``process`` has called execve(2), or has ended, since its stat file was read."""
        try:
            return stat.image(self._files.line(process)) != stat.image(process.raw)
        except ProcessLookupError:
            return True

    def _relative_of(self, process: Process) -> Process | None:
        """Return the member of which a new ``process`` is a copy, by fork(2) without execve(2): mostly its parent."""
        if process.image == stat.NO_IMAGE:
            return None
        parent = self.members.get(process.parent)
        if parent is not None and self._image_of(parent) == process.image:
            return parent
        family = [m for m in self.members.values() if m is not process and self._image_of(m) == process.image]
        # Its parent has ended, which was a copy of one of these: of the largest, for all that is known.
        return max(family, key=lambda member: member.resident - member.files, default=None)

    def _image_of(self, process: Process) -> tuple[bytes, ...]:
        if process.image is None:
            process.image = stat.image(process.raw)
        return process.image

    def _is_copy_of_parent(self, process: Process) -> bool:
        """Return whether ``process`` was forked by its parent and neither has called execve(2) since."""
        parent = self.members.get(process.parent)
        return parent is not None and stat.image(process.raw) == stat.image(parent.raw)

    def _runs_in_memory_of_parent(self, process: Process) -> bool:
        """Return whether ``process`` has the same memory as its parent: by vfork(2), or by clone(2) with CLONE_VM.

        Their sizes are compared first: those of the parent have to be between two readings of the child's, because
        threads of either may allocate and free meanwhile. One that was forked has a copy of the page tables without
        most file pages, so that its sizes are mostly others. The thread that has called vfork waits for the child, and
        can be woken up by nothing else; of others the kernel is asked.
        """
        parent = self.members.get(process.parent)
        if parent is None or not self._is_copy_of_parent(process):
            return False
        if not any(self._has_sizes_of(process, parent) for _ in range(_COMPARISONS)):
            return False
        if self._files.waits_uninterruptibly(parent):
            return True
        process.is_twin = bool(self._same_memory(process.pid, parent.pid))
        return process.is_twin

    def _has_sizes_of(self, process: Process, parent: Process) -> bool:
        memory = self._files.memory
        readings = memory(process), memory(parent), memory(process)
        if b'' in readings:
            return False
        before, of_parent, after = map(stat.resident, readings)
        return all(min(ends) <= size <= max(ends) for size, *ends in zip(of_parent, before, after, strict=True))

    def _is_held(self, process: Process) -> bool:
        """Return whether ``process`` is the root and has not become the program that is to be tracked yet."""
        return process is self.root and stat.image(process.raw) in (self._held_image, stat.NO_IMAGE)


def _put_off(process: Process) -> None:
    """Count nothing of ``process`` until it is read again: what it will be, a sampler perhaps, cannot be known yet."""
    process.name = b''
    process.shares_memory = True
