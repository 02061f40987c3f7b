"""Processes with memory that a test sets, as the kernel reports it: a tree, and the files of its members.

Memory comes in units of about a megabyte. Each is anonymous or a part of a file, and any number of processes may have
it.
"""

from __future__ import annotations

from collections import Counter

from gpu_tracker.processes.process import Process
from gpu_tracker.processes.stat import PAGE_SIZE
from gpu_tracker.resources.ram.files import Extent
from gpu_tracker.resources.ram.pages import Pages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FAULTS = 240
"""Page faults that one megabyte takes."""
MB = FAULTS * PAGE_SIZE
"""Bytes of one megabyte here: up to six processes may have equal shares of it."""
Megabyte = tuple[int, int]
"""The inode of a file and the place in it; of anonymous memory 0 and a number."""


class Memory:
    """What the kernel knows of the memory of one process."""

    def __init__(self, parent: int) -> None:
        self.parent = parent
        self.has: set[Megabyte] = set()
        self.huge = 0
        """Private huge pages, in megabytes."""
        self.mark = 0
        self.faults = self.reaped_faults = self.programs = 0
        self.forked_from: int | None = None
        self.ended = False


class Tree:
    """A tree of processes; the first one is its root. Negative pids are outside.

    :meth:`refresh` reads the members, as a sampler does.
    """

    root_gone = root_is_copy = may_miss_orphans = False
    begun = foreign_cpu = 0.0
    listings = 0
    counts_reaped_faults = True

    def __init__(self) -> None:
        self.memory: dict[int, Memory] = {}
        self.members: dict[int, Process] = {}
        self.gone: list[Process] = []
        self.changes = 0
        self._next = 0

    @property
    def root(self) -> Process:
        """The first process."""
        return next(iter(self.members.values()))

    def start(self, pid: int, megabytes: int = 0, *, parent: int = 0) -> Memory:
        """Start a program."""
        self.memory[pid] = Memory(parent)
        self.get(pid, megabytes)
        return self.memory[pid]

    def get(self, pid: int, megabytes: int) -> None:
        """Let a process get anonymous memory."""
        self._add(pid, [(0, self._next + place) for place in range(megabytes)])
        self._next += megabytes

    def map(self, pid: int, inode: int, first: int, megabytes: int) -> None:
        """Let a process read a part of a file."""
        self._add(pid, [(inode, first + place) for place in range(megabytes)])

    def free(self, pid: int, megabytes: int, inode: int = 0) -> None:
        """Let a process give back the anonymous memory that it got last, or that of a file."""
        memory = self.memory[pid]
        memory.has -= set(sorted([one for one in memory.has if one[0] == inode])[-megabytes:] if megabytes else ())

    def fork(self, pid: int, child: int) -> None:
        """Start a copy of a process: it shares all its anonymous memory, and has no page of a file yet."""
        memory = self.start(child, parent=pid)
        memory.forked_from = pid
        memory.has = {one for one in self.memory[pid].has if one[0] == 0}
        memory.mark = len(memory.has) * MB

    def write(self, pid: int, megabytes: int) -> None:
        """Let a process write to memory that it shares: it gets copies."""
        having = self._having()
        memory = self.memory[pid]
        shared = sorted(one for one in memory.has if one[0] == 0 and having[one] > 1)[:megabytes]
        memory.has -= set(shared)
        self.get(pid, len(shared))

    def execute(self, pid: int, megabytes: int) -> None:
        """Let a process become another program."""
        memory = self.memory[pid]
        memory.has, memory.mark, memory.forked_from = set(), 0, None
        memory.programs += 1
        self.get(pid, megabytes)

    def end(self, pid: int) -> None:
        """Let a process end. It is a zombie until it is reaped."""
        memory = self.memory[pid]
        memory.has, memory.ended, memory.huge = set(), True, 0

    def reap(self, pid: int) -> None:
        """Let the parent of a process that has ended wait for it."""
        memory = self.memory.pop(pid)
        if memory.parent in self.memory:
            self.memory[memory.parent].reaped_faults += memory.faults + memory.reaped_faults

    def refresh(self) -> None:
        """Read all members."""
        self.changes += 1
        self.gone = [process for pid, process in self.members.items() if pid not in self.memory]
        for process in self.gone:
            process.ended = True
            process.resident = process.files = process.huge = 0
            del self.members[process.pid]
        for pid, memory in self.memory.items():
            if pid > 0:
                self._read(self.members.setdefault(pid, Process(pid)), memory)

    def refresh_root(self) -> None:
        """Read the root alone."""
        self._read(self.root, self.memory[self.root.pid])

    def bytes_of(self, pids: Iterable[int]) -> int:
        """Return the bytes that the processes really have together."""
        having = set().union(*[self.memory[pid].has for pid in pids])
        return (len(having) + sum(self.memory[pid].huge for pid in pids)) * MB

    def private_of(self, pids: Iterable[int]) -> int:
        """Return the bytes that one of the processes has and no other process."""
        having = self._having()
        return sum(MB * (having[one] == 1) for pid in pids for one in self.memory[pid].has)

    def pages(self, pid: int) -> Pages:
        """Return what the sums of all mappings of a process are."""
        memory, having = self.memory[pid], self._having()
        shares = {one: MB // having[one] for one in memory.has}
        private = sum(MB for one in memory.has if having[one] == 1)
        return Pages(
            private=private + memory.huge * MB,
            shared=len(memory.has) * MB - private,
            anonymous=sum(MB for inode, _ in memory.has if not inode),
            anonymous_share=sum(share for (inode, _), share in shares.items() if not inode),
            file_share=sum(share for (inode, _), share in shares.items() if inode),
            private_huge=memory.huge * MB,
        )

    def extents(self, pid: int) -> list[Extent]:
        """Return each megabyte of a file as a mapping."""
        having = self._having()
        return [
            Extent((b'08:01', b'%d' % inode), place * MB, (place + 1) * MB, size=MB,
                   share=MB // having[inode, place], private=MB * (having[inode, place] == 1))
            for inode, place in sorted(self.memory[pid].has) if inode
        ]  # fmt: skip

    def ignores_children(self, process: Process) -> bool:
        """Return that nobody does."""
        return False

    def _add(self, pid: int, megabytes: list[Megabyte]) -> None:
        memory = self.memory[pid]
        memory.faults += FAULTS * len(set(megabytes) - memory.has)
        memory.has |= set(megabytes)
        memory.mark = max(memory.mark, len(memory.has) * MB)

    def _having(self) -> Counter[Megabyte]:
        return Counter(one for memory in self.memory.values() for one in memory.has)

    def _read(self, process: Process, memory: Memory) -> None:
        if process.programs != memory.programs:
            process.mark, process.programs = None, memory.programs
        process.resident_before, process.faults_before = process.resident, process.faults
        process.parent, process.ended = memory.parent, memory.ended
        process.faults, process.reaped_faults = memory.faults, memory.reaped_faults
        process.files = sum(MB for inode, _ in memory.has if inode)
        process.huge = 0 if memory.ended else process.huge
        process.resident = len(memory.has) * MB + process.huge
        process.forked = memory.forked_from in self.members
        process.relative = None if memory.forked_from is None else self.members.get(memory.forked_from)


class Files:
    """The files of the processes; reading them costs CPU time."""

    def __init__(self, tree: Tree, cost: float = 0.0) -> None:
        self._tree = tree
        self.cost = cost
        """CPU seconds for all pages of a process; ten times as much as for its mark."""
        self.spent = 0.0
        self.read: list[tuple[str, int]] = []
        self.huge = 0
        """Transparent huge pages that programs have got so far."""
        self.forbidden: set[int] = set()
        self.when_read: list[Callable[[], object]] = []
        """What happens after each reading of pages: the first one after the first of them."""
        self.when_marked: Callable[[], object] = lambda: None
        """What happens after each reading of a mark."""

    def cpu_time(self) -> float:
        """Return the CPU seconds that all readings have cost."""
        return self.spent

    def pages(self, pid: int) -> Pages | None:
        """Return the sums over all mappings."""
        found = self._tree.pages(pid) if self._is_there('pages', pid, self.cost) else None
        if self.when_read:
            self.when_read.pop(0)()
        return found

    def extents(self, pid: int) -> list[Extent] | None:
        """Return the mapped parts of files."""
        return self._tree.extents(pid) if self._is_there('extents', pid, self.cost) else None

    def huge_pages(self) -> int:
        """Return the count of transparent huge pages."""
        return self.huge

    def resident(self, pid: int) -> tuple[int, int]:
        """Return the resident bytes, and those of files."""
        memory = self._tree.memory.get(pid)
        has = () if memory is None else memory.has
        return len(has) * MB, sum(MB for inode, _ in has if inode)

    def mark(self, pid: int) -> tuple[int, int, int] | None:
        """Return the mark, the resident bytes, and those of huge pages."""
        if not self._is_there('mark', pid, self.cost / 10, forbidden=()):
            return None
        memory = self._tree.memory[pid]
        self.when_marked()
        return memory.mark, len(memory.has) * MB, memory.huge * MB

    def _is_there(self, name: str, pid: int, cost: float, forbidden: Iterable[int] | None = None) -> bool:
        self.read.append((name, pid))
        self.spent += cost
        if pid in (self.forbidden if forbidden is None else forbidden):
            raise PermissionError(pid)
        return pid in self._tree.memory and not self._tree.memory[pid].ended
