"""Sums of the calls of a region that is called too often for a line each.

What a call adds is put into a queue, which threads, signal handlers and forks cannot harm; whoever finds a second over
adds the queue up and writes one line for each sum.
"""

from __future__ import annotations

import _thread
import sys
from _collections import deque  # type: ignore[import-not-found] # collections itself costs 2 ms

from gpu_tracker.regions import log, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Key = tuple['Name', int | None, int | None, tuple[log.LogFile, ...]]
    Ended = tuple['Sum', int, int, int | None, bool]

SINGLE_CALLS = 199
"""So many calls of a name get a line of their own in a process, however fast they come."""
SECOND = 1_000_000_000
"""Nanoseconds: a sum is of so long, and a call that begins so long after the one before gets a line of its own."""
OTHER_NAMES = '(other names)'
"""What the sums of all names beyond the limit are called."""

_MOST_NAMES = 1000
_MOST_SUMS = 1000
_MOST_QUEUED = 1000


class Name:
    """A name in one process: its text as a field, how often it was called, and when it was last."""

    __slots__ = ('calls', 'field', 'last_begin')

    def __init__(self, name: str) -> None:
        self.field = text.field(name, text.LONGEST_NAME)
        self.calls = 0
        self.last_begin = 0


class Sum:
    """What the calls of one name with one parent add up to; nanoseconds, but for the squares."""

    __slots__ = (
        'calls',
        'errors',
        'first',
        'id',
        'is_written',
        'key',
        'last',
        'longest',
        'shortest',
        'squares',
        'thread_cpu',
        'total',
    )

    def __init__(self, number: int, key: Key) -> None:
        self.id = number
        self.key = key
        self.first = self.shortest = sys.maxsize
        self.last = self.calls = self.total = self.longest = self.errors = 0
        self.squares = 0.0
        self.thread_cpu: int | None = 0
        self.is_written = False

    def add(self, start: int, stop: int, thread_cpu: int | None, *, failed: bool) -> None:
        """Add a call that has ended."""
        length = stop - start
        self.first = min(self.first, start)
        self.last = max(self.last, stop)
        self.calls += 1
        self.total += length
        self.shortest = min(self.shortest, length)
        self.longest = max(self.longest, length)
        self.squares += (length * 1e-9) ** 2
        self.thread_cpu = None if self.thread_cpu is None or thread_cpu is None else self.thread_cpu + thread_cpu
        self.errors += failed

    def write(self, process_id: int) -> None:
        """Write the line of the sum, and take no more calls."""
        self.is_written = True
        name, parent, thread, files = self.key
        thread_cpu = '-' if self.thread_cpu is None else self.thread_cpu
        line = (
            f'S\t{self.id}\t{"-" if parent is None else parent}\t{process_id}\t{"-" if thread is None else thread}'
            f'\t{name.field}\t{self.first}\t{self.last}\t{self.calls}\t{self.total}\t{self.shortest}\t{self.longest}'
            f'\t{self.squares!r}\t{thread_cpu}\t{self.errors}\n'
        ).encode('utf-8', 'replace')
        for file in files:
            file.write(line)


class Sums:
    """All sums of one process.

    :param process_id: Its ID.
    :param next_id: Returns another number for a line of the log.
    :param write_at_end: Writes the sums at the end of the process.
    """

    __slots__ = (
        '_ended',
        '_is_registered',
        '_lock',
        '_names',
        '_next_id',
        '_process_id',
        '_sums',
        '_write_at_end',
        'due',
    )

    def __init__(self, process_id: int, next_id: Callable[[], int], write_at_end: Callable[[], None]) -> None:
        self._process_id = process_id
        self._write_at_end = write_at_end
        self._next_id = next_id
        self._names: dict[str, Name] = {}
        self._sums: dict[Key, Sum] = {}
        self._ended: deque[Ended] = deque()
        self._lock = _thread.allocate_lock()
        self._is_registered = False
        self.due = 0
        """When the sums are next to be written; 0 where there are none."""

    def name(self, name: str) -> Name:
        """Return what is known of a name; of one beyond the limit, that of all such names."""
        known = self._names.get(name)
        if known is not None:
            return known
        if len(self._names) >= _MOST_NAMES:
            name = OTHER_NAMES
        return self._names.setdefault(name, Name(name))

    def begin(self, name: Name, parent: int | None, thread: int, files: tuple[log.LogFile, ...], now: int) -> Sum:
        """Return the sum that a call, which begins now, belongs to."""
        key: Key = (name, parent, thread, files)
        found = self._sums.get(key)
        if found is not None:
            return found
        if not self._is_registered and 'multiprocessing.util' in sys.modules:
            self._is_registered = True  # a worker of multiprocessing runs nothing else at its end
            sys.modules['multiprocessing.util'].Finalize(None, self._write_at_end, exitpriority=0)
        if len(self._sums) >= _MOST_SUMS:  # a thread for each call, or a recursion that goes deep
            key = (name, None, None, files)
        if not self.due:
            self.due = now + SECOND
        return self._sums.setdefault(key, Sum(self._next_id(), key))

    def end(self, ended: Ended) -> None:
        """Take a call that has ended, and write the sums where a second is over."""
        self._ended.append(ended)
        if ended[2] >= self.due:
            self.write(ended[2])
        elif len(self._ended) >= _MOST_QUEUED and self._lock.acquire(blocking=False):
            try:
                self._add_up()
            finally:
                self._lock.release()

    def write(self, now: int, *, wait: float = 0.0) -> None:
        """Write all sums that calls were added to, unless another thread does so for more than ``wait`` seconds."""
        if not (self._sums or self._ended) or not self._lock.acquire(timeout=wait):
            return
        try:
            self._add_up()
            for key, waiting in list(self._sums.items()):
                if waiting.calls:
                    self._sums.pop(key, None)
                    waiting.write(self._process_id)
            self.due = now + SECOND if self._sums or self._ended else 0
        finally:
            self._lock.release()

    def _add_up(self) -> None:
        """Empty the queue; whoever calls this has the lock."""
        ended = self._ended
        while ended:
            into, start, stop, thread_cpu, failed = ended.popleft()
            if into.is_written:
                into = self._sums.get(into.key) or self._sums.setdefault(into.key, Sum(self._next_id(), into.key))
            into.add(start, stop, thread_cpu, failed=failed)
