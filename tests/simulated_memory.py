"""A process tree and memory files with figures that a test sets, and a clock of CPU time that they cost."""

from __future__ import annotations

from gpu_tracker.process_tree.process import Process

MEGABYTE = 1 << 20
_ENTRY = """\
{low:x}-{high:x} rw-p 00000000 00:00 0
Pss: {private} kB
Shared_Clean: 0 kB
Shared_Dirty: {shared} kB
Private_Clean: 0 kB
Private_Dirty: {private} kB
Referenced: 0 kB
Anonymous: {anonymous} kB
"""


class FakeProcess(Process):
    """A process with what the kernel knows of its memory: megabytes, and bytes for the high-water mark."""

    __slots__ = ('mark', 'private', 'shared')

    def __init__(self, pid: int) -> None:
        super().__init__(pid)
        self.private = self.shared = self.mark = 0


class FakeTree:
    """Members that a test puts in; the first one is the root."""

    def __init__(self) -> None:
        self.members: dict[int, FakeProcess] = {}
        self.changes = 0
        self.gone: list[FakeProcess] = []

    def put(
        self, pid: int, private: int, shared: int = 0, *, parent: int = 0, family: int = 0, faults: int = 1
    ) -> FakeProcess:
        """Add a process or change it: megabytes of private memory, and of what the whole fork family shares."""
        self.changes += 1
        self.gone = []
        process = self.members.setdefault(pid, FakeProcess(pid))
        fields = ['0'] * 50
        fields[25] = str(family or pid)
        process.raw = f'{pid} (x) {" ".join(fields)}'.encode()
        process.parent = parent
        process.private = private
        process.shared = shared
        process.resident = process.anonymous = (private + shared) * MEGABYTE
        process.mark = max(process.mark, process.resident)
        process.faults += faults
        return process

    def end(self, pid: int) -> None:
        """Take a process away."""
        self.changes += 1
        self.gone = [self.members.pop(pid)]
        self.gone[0].ended = True

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

    def cpu_time(self) -> float:
        """Return the CPU seconds that all readings have cost."""
        return self.spent

    def _charge(self, name: str, pid: int, cost: float) -> FakeProcess | None:
        self.read.append(name)
        self.spent += cost
        if pid in self.forbidden and name != 'peak':
            raise PermissionError(pid)
        return self._tree.members.get(pid)

    def smaps(self, pid: int) -> bytes | None:
        """Return one private mapping, and one that the family shares."""
        process = self._charge('smaps', pid, self.cost)
        if process is None:
            return None
        private, shared = process.private << 10, process.shared << 10
        low = 1 << 40
        text = _ENTRY.format(
            low=pid << 30, high=(pid << 30) + (private << 10), shared=0, private=private, anonymous=private
        )
        text += _ENTRY.format(low=low, high=low + (shared << 10), shared=shared, private=0, anonymous=shared)
        return text.encode()

    def smaps_rollup(self, pid: int) -> bytes | None:
        """Return sums, each shared page being shared by two."""
        process = self._charge('smaps_rollup', pid, self.cost)
        if process is None:
            return None
        pss = (process.private << 10) + (process.shared << 9)
        sizes = (pss, 0, process.shared << 10, 0, process.private << 10)
        names = ('Pss', 'Shared_Clean', 'Shared_Dirty', 'Private_Clean', 'Private_Dirty')
        return ''.join(f'{name}: {size} kB\n' for name, size in zip(names, sizes, strict=True)).encode()

    def peak(self, pid: int) -> int | None:
        """Return the high-water mark."""
        found = self.marks(pid)
        return None if found is None else found[0]

    def marks(self, pid: int) -> tuple[int, int, int] | None:
        """Return the high-water mark, and the resident and the anonymous bytes."""
        process = self._charge('peak', pid, self.cost / 10)
        if process is None:
            return None
        return process.mark, process.resident, process.anonymous

    def resident(self, pid: int) -> tuple[int, int]:
        """Return the resident and the anonymous bytes."""
        process = self._tree.members.get(pid)
        return (0, 0) if process is None else (process.resident, process.anonymous)
