"""A process tree and memory files with figures that a test sets, and a clock of CPU time that they cost."""

from __future__ import annotations

from gpu_tracker.processes import stat
from gpu_tracker.processes.process import Process

MEGABYTE = 1 << 20
_ENTRY = """\
{low:x}-{high:x} rw-{kind} 00000000 {device} {inode}
Rss: {size} kB
Pss: {pss} kB
Shared_Clean: {shared_clean} kB
Shared_Dirty: {shared_dirty} kB
Private_Clean: {private_clean} kB
Private_Dirty: {private_dirty} kB
Referenced: 0 kB
Anonymous: {anonymous} kB
Shared_Hugetlb: 0 kB
Private_Hugetlb: {huge} kB
"""
_SHARED_ADDRESS = 1 << 40
_FILE_ADDRESS = 1 << 41
_HUGE_ADDRESS = 1 << 42


class FakeProcess(Process):
    """A process with what the kernel knows of its memory: megabytes, and bytes for the high-water mark.

    ``leaving`` is what no mapping has any more, and the kernel still counts.
    """

    __slots__ = ('__weakref__', 'files', 'huge_pages', 'leaving', 'mapped', 'mark', 'private', 'shared')

    def __init__(self, pid: int) -> None:
        super().__init__(pid)
        self.private = self.shared = self.files = self.mapped = self.huge_pages = self.leaving = self.mark = 0

    @property
    def small_pages(self) -> int:
        """Bytes that the kernel counts as resident: all but the huge pages."""
        return (self.private + self.shared + self.leaving + self.mapped) * MEGABYTE

    @property
    def small_anonymous(self) -> int:
        """Those among them that belong to no file."""
        return (self.private - self.files + self.shared + self.leaving) * MEGABYTE


class FakeTree:
    """Members that a test puts in; the first one is the root."""

    def __init__(self) -> None:
        self.members: dict[int, FakeProcess] = {}
        self.changes = 0
        self.gone: list[FakeProcess] = []
        self.given_to_strangers: int | None = 0
        self.ignoring: set[int] = set()
        """The pids of those that ignore SIGCHLD."""

    @property
    def memory_changes(self) -> int:
        return self.changes

    def put(
        self,
        pid: int,
        private: int,
        shared: int = 0,
        *,
        files: int = 0,
        mapped: int = 0,
        parent: int = 0,
        family: int = 0,
        faults: int = 1,
    ) -> FakeProcess:
        """Add a process or change it: megabytes of private memory, and of what the whole fork family shares.

        :param files: Megabytes of the private memory that belong to a file of its own.
        :param mapped: Megabytes beside these of the one file that is the same for all who have it.
        :param family: The pid of the first one of its fork family: where that is another one, it is a copy of that.
        :param faults: Page faults that it has had in addition.
        """
        self.changes += 1
        self.gone = []
        is_new = pid not in self.members
        process = self.members.setdefault(pid, FakeProcess(pid))
        fields = ['0'] * 50
        fields[25] = str(family or pid)
        process.raw = f'{pid} (x) {" ".join(fields)}'.encode()
        process.parent = parent or process.parent
        process.private, process.shared, process.files, process.mapped = private, shared, files, mapped
        process.resident = process.small_pages + process.huge
        process.anonymous = process.small_anonymous + process.huge
        process.mark = max(process.mark, process.small_pages)
        process.faults += faults
        if is_new and family in self.members and family != pid:
            self._fork(process, self.members[family])
        return process

    def end(self, pid: int) -> FakeProcess:
        """Take a process away, for which its parent has waited."""
        self.changes += 1
        process = self.members[pid]
        self.end_unread(pid)
        self.gone = [self.members.pop(pid)]
        if process.parent in self.members and process.parent not in self.ignoring:
            self.members[process.parent].reaped_faults += process.faults + process.reaped_faults
        return process

    def end_unread(self, pid: int) -> FakeProcess:
        """Let a process have ended, and have no memory any more; it is still among the members."""
        self.changes += 1
        process = self.members[pid]
        process.ended = True
        process.resident = process.anonymous = process.huge = 0
        return process

    def become_zombie(self, pid: int) -> FakeProcess:
        """Let a process have ended, which nobody has waited for yet: its page faults are final."""
        process = self.end_unread(pid)
        process.is_zombie = True
        return process

    def execute(self, pid: int, private: int) -> FakeProcess:
        """Let a process become another program with so many megabytes, whose mark begins anew."""
        process = self.members[pid]
        process.programs += 1
        process.mark = 0
        process.forked = process.has_copies = False
        process.relative = None
        process.inherited = process.first_anonymous = 0
        return self.put(pid, private, parent=process.parent, family=1000 * process.programs + pid)

    def ignores_children(self, process: Process) -> bool:
        """Tell whether a process ignores SIGCHLD."""
        return process.pid in self.ignoring

    def _fork(self, process: FakeProcess, relative: FakeProcess) -> None:
        """Take note of a copy of another member as the process tree does when it first sees it."""
        process.forked = True
        process.relative = relative
        process.first_anonymous = process.anonymous
        process.inherited = min(process.anonymous, max(relative.anonymous, relative.anonymous_before))
        relative.has_copies = True

    @property
    def root(self) -> FakeProcess:
        """The first process."""
        return next(iter(self.members.values()))


class FakeFiles:
    """Answers for the processes of a tree; each reading costs CPU time."""

    def __init__(self, tree: FakeTree, cost: float = 0.0) -> None:
        self._tree = tree
        self.cost = cost
        self.spent = 0.0
        self.read: list[str] = []
        self.forbidden: set[int] = set()
        self.replaced: dict[int, tuple[bytes, ...]] = {}
        """Program images that processes have got since the tree was refreshed."""
        self.faulted: dict[int, int] = {}
        """Page faults that processes have had since then."""

    def cpu_time(self) -> float:
        """Return the CPU seconds that all readings have cost."""
        return self.spent

    def image(self, pid: int) -> tuple[bytes, ...] | None:
        """Return the program image that a process has now."""
        process = self._tree.members.get(pid)
        return None if process is None else self.replaced.get(pid, stat.image(process.raw))

    def faults(self, pid: int) -> int | None:
        """Return the page faults of a process."""
        process = self._tree.members.get(pid)
        return None if process is None else process.faults + self.faulted.get(pid, 0)

    def huge_pages(self) -> int:
        """Return that the machine has mapped no transparent huge page."""
        return 0

    def smaps(self, pid: int) -> bytes | None:
        """Return private mappings, one that the fork family shares, one of the file that all share, and huge pages."""
        process = self._charge('smaps', pid, self.cost)
        if process is None:
            return None
        anonymous, files = (process.private - process.files) << 10, process.files << 10
        shared, mapped, huge = process.shared << 10, process.mapped << 10, process.huge_pages << 10
        sharers, mappers = self._sharers(process)
        text = _entry(pid << 30, anonymous, pss=anonymous, private_dirty=anonymous, anonymous=anonymous)
        text += _entry(_FILE_ADDRESS, files, pss=files, private_clean=files, inode=pid)
        text += _entry(_SHARED_ADDRESS, shared, pss=shared // sharers, shared_dirty=shared, anonymous=shared)
        text += _entry(_FILE_ADDRESS, mapped, pss=mapped // mappers, shared_clean=mapped, inode=1)
        return (text + _entry(_HUGE_ADDRESS, huge, huge=huge)).encode()

    def smaps_rollup(self, pid: int) -> bytes | None:
        """Return the sums of the same."""
        process = self._charge('smaps_rollup', pid, self.cost)
        if process is None:
            return None
        private, files, shared, mapped = (
            megabytes << 10 for megabytes in (process.private, process.files, process.shared, process.mapped)
        )
        sharers, mappers = self._sharers(process)
        pss_anonymous = private - files + shared // sharers
        sizes = {
            'Pss': pss_anonymous + files + mapped // mappers,
            'Pss_Anon': pss_anonymous,
            'Shared_Clean': mapped,
            'Shared_Dirty': shared,
            'Private_Clean': files,
            'Private_Dirty': private - files,
            'Anonymous': private - files + shared,
            'Private_Hugetlb': process.huge_pages << 10,
        }
        return ''.join(f'{name}: {size} kB\n' for name, size in sizes.items()).encode()

    def peak(self, pid: int) -> int | None:
        """Return the high-water mark."""
        found = self.marks(pid)
        return None if found is None else found[0]

    def marks(self, pid: int) -> tuple[int, int, int, int] | None:
        """Return the high-water mark, the resident and the anonymous bytes, and huge pages beside these."""
        process = self._charge('peak', pid, self.cost / 10)
        if process is None:
            return None
        resident, anonymous = process.resident - process.huge, process.anonymous - process.huge
        return process.mark, resident, anonymous, process.huge_pages * MEGABYTE

    def resident(self, pid: int) -> tuple[int, int]:
        """Return the resident and the anonymous bytes."""
        process = self._tree.members.get(pid)
        return (0, 0) if process is None or process.ended else (process.small_pages, process.small_anonymous)

    def _charge(self, name: str, pid: int, cost: float) -> FakeProcess | None:
        self.read.append(name)
        self.spent += cost
        if pid in self.forbidden and name != 'peak':
            raise PermissionError(pid)
        process = self._tree.members.get(pid)
        return None if process is None or process.ended else process

    def _sharers(self, process: FakeProcess) -> tuple[int, int]:
        """Return how many have what ``process`` shares with its family, and with all who have mapped the file.

        What nobody in the tree shares with it a process outside does.
        """
        family = [other for other in self._tree.members.values() if _image(other) == _image(process) and other.shared]
        mappers = [other for other in self._tree.members.values() if other.mapped]
        return max(2, len(family)), max(2, len(mappers))


def _image(process: FakeProcess) -> bytes:
    return process.raw.partition(b')')[2]


def _entry(low: int, size: int, *, inode: int = 0, **sizes: int) -> str:
    """Return what smaps says of a mapping of so many kilobytes."""
    none = dict.fromkeys(
        ('pss', 'shared_clean', 'shared_dirty', 'private_clean', 'private_dirty', 'anonymous', 'huge'), 0
    )
    return _ENTRY.format(
        low=low,
        high=low + (size << 10),
        kind='s' if inode == 1 else 'p',
        device='08:01' if inode else '00:00',
        inode=inode,
        size=0 if 'huge' in sizes else size,
        **(none | sizes),
    )
