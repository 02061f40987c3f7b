"""One process as it was last seen."""

from __future__ import annotations


class PeakReading:
    """What a process was like when its high-water mark was last read, and what had changed since the time before."""

    __slots__ = (
        'dropped_files',
        'faults',
        'grown',
        'higher',
        'inherited',
        'is_new_peak',
        'last_peak',
        'mark',
        'new_faults',
        'of_files',
        'raw',
        'resident',
        'resident_before',
    )

    def __init__(self) -> None:
        self.raw = b''
        self.mark = 0
        """The mark as the kernel has it, without huge pages."""
        self.last_peak = 0
        """The mark that was a new peak last."""
        self.is_new_peak = True
        """The mark is higher than that, and by more than its usual inexactness."""
        self.inherited = 0
        """What it had by its first mark and no page fault had brought, of one that was forked."""
        self.higher = 0
        """Bytes by which it is higher than at the reading before."""
        self.faults = -1
        """Page faults since it started."""
        self.new_faults = 0
        """Those among them since the reading before."""
        self.resident = 0
        """Resident bytes, a little later than in ``Process.resident``."""
        self.resident_before = 0
        """The same at the reading before."""
        self.grown = 0
        """Anonymous bytes that had come since ``Process.resident`` was read."""
        self.of_files = 0
        """Resident bytes of files, shared memory segments among them."""
        self.dropped_files = 0
        """How many fewer these were than at the reading before."""


class Process:
    """One process as it was last seen; its reader updates it in place at each sample.

    Plain attributes in slots, because a thousand of these are updated at every sample.
    """

    __slots__ = (
        'anonymous',
        'anonymous_before',
        'anonymous_least',
        'born',
        'ended',
        'faults',
        'first_anonymous',
        'forked',
        'group',
        'handle',
        'has_copies',
        'has_given_back',
        'huge',
        'image',
        'inherited',
        'is_twin',
        'is_young',
        'is_zombie',
        'left',
        'memory_handle',
        'name',
        'own_cpu',
        'parent',
        'peak',
        'peak_reading',
        'pid',
        'programs',
        'raw',
        'read_cpu',
        'reaped_cpu',
        'reaped_faults',
        'reaped_later',
        'relative',
        'resident',
        'session',
        'shares_memory',
        'stack',
        'start',
        'threads',
        'unreadable',
        'virtual',
    )

    def __init__(self, pid: int) -> None:  # noqa: PLR0915 - one line a field
        self.pid = pid
        self.start: float = 0.0
        """When it started, on the reader's own scale: (pid, start) is its identity."""
        self.born = 0.0
        """When its program image began, in seconds on the reader's clock: at its start, or at its last execve(2)."""
        self.stack = b''
        """Where its stack was when that was last seen, which execve(2) changes; empty where it may not be seen."""
        self.is_twin = False
        """It shares its memory with its parent, and both run: clone(2) with CLONE_VM."""
        self.is_young = False
        """It is sampled between the points of the grid as well."""
        self.parent = 0
        """The pid of its parent, which changes when that one ends."""
        self.group = 0
        self.session = 0
        self.name = b''
        self.ended = False
        """It has ended, and its parent has not reaped it yet: times are final and there is no memory any more."""
        self.is_zombie = False
        """It was last read as a zombie, so that its times and page faults are final, also when it is gone by now."""
        self.left = False
        """It is gone; a whole refresh has still to find that out."""
        self.own_cpu = 0.0
        """CPU seconds of all its threads since it started."""
        self.read_cpu: float | None = None
        """The same when its other figures were read."""
        self.reaped_cpu = 0.0
        """CPU seconds of the children that it has waited for, and of theirs."""
        self.threads = 0
        self.resident = 0
        """Resident bytes."""
        self.anonymous = 0
        """Those among them that belong to no file and no shared memory segment, where that is known."""
        self.anonymous_before = 0
        """The same at the sample on the grid before."""
        self.anonymous_least = 0
        """The least of the same at that sample and at the early ones since."""
        self.first_anonymous = 0
        """The same when it was first seen, of one that was forked: what it has inherited at most."""
        self.inherited = 0
        """Anonymous bytes that it has from its parent by fork(2), as far as the sizes of both show it."""
        self.image: tuple[bytes, ...] | None = None
        """What identifies its program image, as far as that was needed."""
        self.huge = 0
        """Bytes of huge pages from MAP_HUGETLB or hugetlbfs, when its mark was last read; counted in both above."""
        self.virtual = 0
        self.faults = 0
        """Page faults since it started; without a new one neither its memory nor its peak can have grown."""
        self.reaped_faults = 0
        """Page faults of the children that it has waited for, and of theirs."""
        self.reaped_later: tuple[float, int] | None = None
        """Its CPU time and page faults of such children, as read since everything was read last."""
        self.programs = 0
        """Grows with each execve(2) that has been noticed."""
        self.peak: int | None = None
        """The high-water mark of its resident bytes when that was last read."""
        self.peak_reading = PeakReading()
        self.forked = False
        """It is a copy of another member and has not called execve(2): pages may be those of that one."""
        self.has_copies = False
        """Some member was forked from it, or from a copy of it, so that its pages may be that one's as well."""
        self.has_given_back = False
        """It was seen to give back anonymous memory, so that its page faults say nothing of copies."""
        self.relative: Process | None = None
        """The member of which it is such a copy."""
        self.shares_memory = False
        """It runs in its parent's memory, between vfork and exec; its resident bytes are the parent's.

        A command that is held back until the sampler watches it does so too.
        """
        self.unreadable = False
        """What it has mapped may not be read, because it is another user's, as far as is known."""
        self.raw = b''
        """What it was read from, for what is parsed only where needed."""
        self.handle: int | None = None
        self.memory_handle: int | None = None
        """The descriptors that the reader keeps open for it."""
