"""One process as it was last seen."""

from __future__ import annotations


class PeakReading:
    """What a process was like when its high-water mark was last read, and what had changed since the time before."""

    __slots__ = ('dropped_files', 'faults', 'grown', 'new_faults', 'of_files', 'raw', 'resident', 'resident_before')

    def __init__(self) -> None:
        self.raw = b''
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
        'ended',
        'faults',
        'forked',
        'group',
        'handle',
        'memory_handle',
        'name',
        'owed',
        'own_cpu',
        'parent',
        'peak',
        'peak_reading',
        'pid',
        'programs',
        'raw',
        'reaped_before',
        'reaped_cpu',
        'reaped_faults',
        'reaped_faults_before',
        'resident',
        'session',
        'shares_memory',
        'start',
        'threads',
        'virtual',
    )

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.start: float = 0.0
        """When it started, on the reader's own scale: (pid, start) is its identity."""
        self.parent = 0
        """The pid of its parent, which changes when that one ends."""
        self.group = 0
        self.session = 0
        self.name = b''
        self.ended = False
        """It has ended, and its parent has not reaped it yet: times are final and there is no memory any more."""
        self.own_cpu = 0.0
        """CPU seconds of all its threads since it started."""
        self.reaped_cpu = 0.0
        """CPU seconds of the children that it has waited for, and of theirs."""
        self.reaped_before = 0.0
        """The same when CPU times were last added up."""
        self.owed = 0.0
        """CPU seconds of children that are gone and have not turned up in ``reaped_cpu`` yet."""
        self.threads = 0
        self.resident = 0
        """Resident bytes."""
        self.anonymous = 0
        """Those among them that belong to no file and no shared memory segment, where that is known."""
        self.virtual = 0
        self.faults = 0
        """Page faults since it started; without a new one neither its memory nor its peak can have grown."""
        self.reaped_faults = 0
        """Page faults of the children that it has waited for, and of theirs."""
        self.reaped_faults_before = 0
        """The same when CPU times were last added up."""
        self.programs = 0
        """Grows with each execve(2) that has been noticed."""
        self.peak: int | None = None
        """The high-water mark of its resident bytes when that was last read."""
        self.peak_reading = PeakReading()
        self.forked = False
        """It is a copy of its parent and has not called execve(2): pages may be those of its parent."""
        self.shares_memory = False
        """It runs in its parent's memory, between vfork and exec; its resident bytes are the parent's."""
        self.raw = b''
        """What it was read from, for what is parsed only where needed."""
        self.handle: int | None = None
        self.memory_handle: int | None = None
        """The descriptors that the reader keeps open for it."""
