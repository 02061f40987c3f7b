"""One process as it was last read."""

from __future__ import annotations


class Process:
    """One process as it was last read; its reader updates it in place at each sample.

    Plain attributes in slots, because a thousand of these are updated at every sample.
    """

    __slots__ = (
        'command_line',
        'ended',
        'faults',
        'faults_before',
        'files',
        'forked',
        'group',
        'handle',
        'huge',
        'image',
        'is_twin',
        'mark',
        'mark_faults',
        'mark_resident',
        'memory_handle',
        'most',
        'name',
        'own_cpu',
        'parent',
        'pid',
        'programs',
        'raw',
        'read_cpu',
        'reaped_cpu',
        'reaped_faults',
        'relative',
        'resident',
        'resident_before',
        'session',
        'shares_memory',
        'stack',
        'start',
        'threads',
        'user',
    )

    def __init__(self, pid: int) -> None:  # noqa: PLR0915 - one line a field
        self.pid = pid
        self.start: float = 0.0
        """When it started, on the reader's own scale: (pid, start) is its identity."""
        self.parent = 0
        """The pid of its parent, which changes when the parent ends."""
        self.group = 0
        self.session = 0
        self.user = 0
        """The user that owns its files in /proc: root if the process may not be read."""
        self.name = b''
        self.command_line = b''
        """Its words, a NUL behind each; cut if it is long, empty if unknown."""
        self.ended = False
        """It has ended. If its parent has not reaped it yet, its times and page faults are final."""
        self.own_cpu = 0.0
        """CPU seconds of all its threads since it started."""
        self.read_cpu: float | None = None
        """Its CPU seconds when the other figures were read."""
        self.reaped_cpu = 0.0
        """CPU seconds of the children that it has reaped, and of theirs."""
        self.threads = 0
        self.resident = 0
        """Resident bytes, huge pages included."""
        self.resident_before = 0
        """Resident bytes at the previous sample."""
        self.files = 0
        """The resident bytes that belong to files and shared memory."""
        self.huge = 0
        """Bytes of huge pages from MAP_HUGETLB or hugetlbfs, which the kernel counts apart."""
        self.faults = 0
        """Page faults since it started. Without a new one, its memory cannot have grown."""
        self.faults_before = 0
        """Page faults at the previous sample."""
        self.reaped_faults = 0
        """Page faults of the children that it has reaped, and of theirs."""
        self.mark: int | None = None
        """The most bytes that it had for certain when its high-water mark (VmHWM) was last read."""
        self.most = 0
        """The most bytes it may have had by then: the mark leaves out huge pages."""
        self.mark_faults = -1
        """Its page faults at that time."""
        self.mark_resident = 0
        """Its resident bytes at that time, also if it has called execve(2) since."""
        self.programs = 0
        """The number of calls of execve(2) that were seen."""
        self.image: tuple[bytes, ...] | None = None
        """What identifies its program image, see :func:`.stat.image`."""
        self.stack = b''
        """The address of its stack, which execve(2) changes; empty if the reader may not see it."""
        self.forked = False
        """It is a copy of another member and has not called execve(2)."""
        self.relative: Process | None = None
        """The member of which it is a copy."""
        self.shares_memory = False
        """It runs in its parent's memory, between vfork(2) and execve(2), or is a command that is still held back."""
        self.is_twin = False
        """It shares its memory with its parent, and both run: clone(2) with CLONE_VM."""
        self.raw = b''
        """What it was read from, for fields that are parsed only if needed."""
        self.handle: int | None = None
        self.memory_handle: int | None = None
        """The descriptors that the reader keeps open for it."""
