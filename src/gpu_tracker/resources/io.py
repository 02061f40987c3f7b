"""I/O: bytes read and written, page faults and context switches; part of the result where it is asked for. Linux only.

Bytes come from ``/proc/PID/io``, see proc_pid_io(5). The kernel adds those of a child to its parent's when that waits
for it. So the sum over all members is exact, as CPU time is, whatever comes and goes between two samples, but for what
no member has waited for. What of it is the root's own its threads tell, in ``/proc/PID/task/TID/io``: from the first
child on that it has waited for, what threads do that end between two samples counts for its descendants.

Context switches are not in that file, and the counters of a process that has ended are lost but to who waits for it. So
they are known where the kernel tells them of all: to the command line of its command with wait4(2), and to a process of
itself with getrusage(2).
"""

from __future__ import annotations

import os
import time

from gpu_tracker.processes import stat
from gpu_tracker.resources import COUNTER, FIRST, GROUPS, Column, Resource
from gpu_tracker.resources.rates import MaximalRate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol

    from gpu_tracker import usage
    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.process import Process
    from gpu_tracker.resources import Message
    from gpu_tracker.resources.context import Context
    from gpu_tracker.totals import Group, Totals
    from gpu_tracker.units import Units

    Counters = tuple[int, ...]
    """The values of :data:`BYTES` of one process."""

    class Reader(Protocol):
        """Reads them."""

        def own(self, process: Process) -> Counters | None:
            """Return those of the threads of ``process``, children that it has waited for left out; None: unknown."""

        def has_waited(self, process: Process, faults: int) -> bool:
            """Tell whether ``process`` has waited for a child since the page faults of those were ``faults``."""

        def read(self, process: Process) -> Counters | None:
            """Return those of ``process``; None where it is gone.

            :raises PermissionError: where they may not be read.
            """

        def forget(self, process: Process) -> None:
            """Let go of what is kept open for a process that is gone."""


BYTES = ('read', 'written', 'cancelled', 'read_by_calls', 'written_by_calls')
"""Bytes from and to storage, those among the latter that never got there since the file was removed or cut before, and
bytes that went through calls such as read(2) and write(2), also where memory, a pipe or a terminal has served them."""
_FIELDS = (b'\nread_bytes: ', b'\nwrite_bytes: ', b'\ncancelled_write_bytes: ', b'rchar: ', b'\nwchar: ')
_RATES = ('read', 'written', 'read_by_calls', 'written_by_calls')
_FAULTS = ('minor_page_faults', 'major_page_faults')
_NONE = (0,) * len(BYTES)
_MOST_BYTES = 512
_SPARE_HANDLES = 128
"""Descriptors that are left for all else; files past that are opened anew for each reading."""
_NO_FILES = 'This system keeps no account of I/O that can be read here (/proc/PID/io): it is unknown (N/A).'
_UNREADABLE = (
    'I/O of processes that belong to another user cannot be read: it is unknown (N/A) for every group that has had one.'
)


class Io(Resource):
    """Folds the counters of a tree's members.

    :param reader: Reads the counters of one process.
    :param monotonic: The clock of the samples; None: reading takes no time.
    """

    columns = (
        *(Column(f'{group}_io_{name}', 'bytes', COUNTER) for group in GROUPS for name in BYTES),
        *(Column(f'{group}_{name}', 'count', COUNTER) for group in GROUPS for name in _FAULTS),
    )

    def __init__(self, tree: ProcessTree, reader: Reader, monotonic: Callable[[], float] | None = None) -> None:
        self._tree = tree
        self._reader = reader
        self._monotonic = monotonic
        self._changes = -1
        self._last: dict[Process, Counters] = {}
        """What each member had when it was last read."""
        self._kept = _NONE
        """What members had that somebody outside the tree has waited for, or nobody."""
        self._start = self._whole_start = _NONE
        self._own_offset: Counters | None = None
        """The root's own bytes that its threads' counters do not have; None before it has waited for a child."""
        self._reaped_faults_at_start = 0
        self._own_before: Counters | None = None
        self._bytes = dict.fromkeys(GROUPS, _NONE)
        self._faults_start: dict[str, Counters] = dict.fromkeys(GROUPS, (0, 0))
        self._faults: dict[str, Counters] = dict.fromkeys(GROUPS, (0, 0))
        self._kept_faults: Counters = (0, 0)
        self._rates = {group: [MaximalRate() for _ in _RATES] for group in GROUPS}
        self._unknown: set[str] = set()
        """The groups of which something could not be read."""
        self._is_unreadable = False
        self._messages: list[Message] = []

    def sample(self, now: float, kind: str) -> None:
        """Read the counters of all members and add them up; they count from the first sample on."""
        tree, root = self._tree, self._tree.root
        if tree.changes != self._changes:
            self._changes = tree.changes
            self._part_with_gone()
        own = self._own_of_root()  # before the sum that it is a part of
        of_all = self._bytes_of_all()
        whole = self._last.get(root, _NONE)
        faults = self._faults_now()
        if kind == FIRST:
            self._start, self._whole_start, self._faults_start = of_all, whole, faults
            self._reaped_faults_at_start = root.reaped_faults
            self._own_before = own
        main = self._main_now(own, whole)
        combined = _larger(_larger(self._bytes['combined'], _less(of_all, self._start)), main)
        self._bytes = {'main': main, 'descendants': _less(combined, main), 'combined': combined}
        read_at = now if self._monotonic is None else self._monotonic()
        for group in GROUPS:
            self._faults[group] = _larger(self._faults[group], _less(faults[group], self._faults_start[group]))
            for name, rate in zip(_RATES, self._rates[group], strict=True):
                rate.add(read_at, self._bytes[group][BYTES.index(name)], now)

    def _main_now(self, own: Counters | None, whole: Counters) -> Counters:
        """Return what the root has had itself since the first sample.

        As long as it has waited for no child its counters tell, which have those of all threads that have ended.
        """
        main = self._bytes['main']
        root = self._tree.root
        if self._own_offset is None and not self._reader.has_waited(root, self._reaped_faults_at_start):
            self._own_before = self._own_of_root()  # after the whole: nothing is in both
            return _larger(main, _less(whole, self._whole_start))
        if self._own_offset is None:
            if own is None or self._own_before is None:
                self._unknown |= {'main', 'descendants'}
                return main
            self._own_offset = _less(main, self._own_before)
        return main if own is None else _larger(main, _sum([self._own_offset, own]))

    def row(self) -> Sequence[float | None]:
        """Return the bytes of the three groups so far, then their page faults."""
        sizes = [size for group in GROUPS for size in self._known(group, self._bytes[group])]
        return sizes + [count for group in GROUPS for count in self._known_faults(group)]

    def totals(self) -> dict[str, object]:
        """Return for each group ``bytes``, ``rates`` a second in bytes, ``faults`` and ``switches``."""
        return {
            group: {
                'bytes': self._known(group, self._bytes[group]),
                'rates': self._known(group, [rate.largest() for rate in self._rates[group]]),
                'faults': self._known_faults(group),
                'switches': [None, None],
            }
            for group in GROUPS
        }

    def take_messages(self) -> list[Message]:
        """Return the warning that some process may not be read, once."""
        messages, self._messages = self._messages, []
        return messages

    def _bytes_of_all(self) -> Counters:
        """Return what the members have had since they exist, and what is left of those that are gone."""
        members = list(self._tree.members.values())  # parents before their children
        missing: set[Process] = set()
        is_steady = False
        while not is_steady:  # who has waited for one that is gone since the refresh has its counters now
            gone = {process for process in members if process not in missing and not self._read_one(process)}
            missing |= gone
            is_steady = not gone
        return _sum([self._kept, *[self._last[process] for process in self._last if process not in missing]])

    def _own_of_root(self) -> Counters | None:
        try:
            return self._reader.own(self._tree.root)
        except PermissionError:
            return None  # which the reading of the whole has told

    def _read_one(self, process: Process) -> bool:
        """Read the counters of ``process``; tell whether it is still there."""
        try:
            counters = self._reader.read(process)
        except PermissionError:
            if not process.ended:  # else it could be read while it ran, or not, which was told then
                if not self._is_unreadable:
                    self._is_unreadable = True
                    self._messages.append(('warning', _UNREADABLE))
                self._unknown |= {'combined', 'descendants'} | ({'main'} if process is self._tree.root else set())
            return True
        if counters is not None:
            self._last[process] = counters
        return counters is not None

    def _part_with_gone(self) -> None:
        """Take note of where the counters of members that are gone have gone to."""
        tree = self._tree
        gone = {process.pid: process for process in tree.gone}
        for process in gone.values():
            counters = self._last.pop(process, _NONE)
            self._reader.forget(process)
            heir: Process | None = process
            while heir is not None and heir is not tree.root and heir.parent not in tree.members:
                heir = gone.get(heir.parent)
            if heir is None or heir is tree.root or tree.ignores_children(tree.members[heir.parent]):
                self._kept = _sum([self._kept, counters])
                own, reaped = _faults(process)
                self._kept_faults = _sum([self._kept_faults, own if process is not tree.root else (0, 0), reaped])

    def _faults_now(self) -> dict[str, Counters]:
        """Return the page faults of the three groups, of whoever was waited for as well."""
        main: Counters = (0, 0)
        of_descendants = self._kept_faults
        for process in self._tree.members.values():
            own, reaped = _faults(process)
            if process is self._tree.root:
                main, own = own, (0, 0)
            of_descendants = _sum([of_descendants, own, reaped])
        return {'main': main, 'descendants': of_descendants, 'combined': _sum([main, of_descendants])}

    def _known(self, group: str, values: Sequence[float | None]) -> list[float | None]:
        return [None] * len(values) if group in self._unknown else list(values)

    def _known_faults(self, group: str) -> list[int | None]:
        return list(self._faults[group])


class UnknownIo(Io):
    """I/O on systems that do not tell it."""

    def __init__(self, tree: ProcessTree) -> None:
        super().__init__(tree, IoFiles(most_handles=0))
        self._unknown = set(GROUPS)
        self._messages = [('warning', _NO_FILES)]

    def sample(self, now: float, kind: str) -> None:
        """Read nothing."""

    def _known_faults(self, group: str) -> list[int | None]:
        del group
        return [None, None]


class IoFiles:
    """Reads ``/proc/PID/io``, kept open: a process that has ended tells its final figures to who has it open only.

    :param most_handles: Files with numbers from here on are closed again.
    """

    def __init__(self, proc: str = '/proc', most_handles: int | None = None) -> None:
        self._proc = proc
        self._most_handles = _limit_of_handles() if most_handles is None else most_handles
        self._handles: dict[Process, int] = {}
        self._threads: dict[int, int] = {}
        """The open files of the root's threads."""
        self._of_threads: dict[int, Counters] = {}
        """What each of those had when it was last read."""
        self._of_ended = _NONE
        """What threads had that have ended."""

    def own(self, process: Process) -> Counters:
        """Return the counters of the threads of ``process``, which is always the same one."""
        threads = [process.pid]
        if process.threads > 1:
            try:
                threads = [int(name) for name in os.listdir(f'{self._proc}/{process.pid}/task')]
            except (FileNotFoundError, ProcessLookupError):
                pass  # it has just ended
        for thread in self._of_threads.keys() - set(threads):
            self._end_thread(thread)
        for thread in threads:
            self._read_thread(process, thread)
        return _sum([self._of_ended, *self._of_threads.values()])

    def has_waited(self, process: Process, faults: int) -> bool:
        """Tell whether ``process`` has waited for a child since the page faults of those were ``faults``.

        Asked after its counters were read: a child that it has waited for since the tree was refreshed is in these.
        """
        line = self._stat(process)
        return process.reaped_faults != faults if line is None else sum(stat.all_faults(line)[1]) != faults

    def read(self, process: Process) -> Counters | None:
        """Return the counters of ``process``; None where it is gone, or has ended before it was first read.

        :raises PermissionError: where they may not be read.
        """
        try:
            handle = self._handles.get(process)
            if handle is None:
                handle = os.open(f'{self._proc}/{process.pid}/io', os.O_RDONLY | os.O_CLOEXEC)
                self._handles[process] = handle
            content = os.pread(handle, _MOST_BYTES, 0)
        except (FileNotFoundError, ProcessLookupError):
            return None
        except PermissionError:
            line = self._stat(process)
            if line is None or stat.is_ending(line):
                return None  # nobody may open the file of a process that has ended
            raise
        if handle >= self._most_handles:
            self.forget(process)
        return _parsed(content)

    def forget(self, process: Process) -> None:
        """Close the file of ``process``."""
        handle = self._handles.pop(process, None)
        if handle is not None:
            os.close(handle)

    def _read_thread(self, process: Process, thread: int) -> None:
        handle = self._threads.get(thread)
        try:
            if handle is None:
                path = f'{self._proc}/{process.pid}/task/{thread}/io'
                handle = self._threads[thread] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._of_threads[thread] = _parsed(os.pread(handle, _MOST_BYTES, 0))
        except (FileNotFoundError, ProcessLookupError, PermissionError):  # it has just ended, or is ending
            self._end_thread(thread)
            return
        if handle >= self._most_handles:
            os.close(self._threads.pop(thread))

    def _end_thread(self, thread: int) -> None:
        """Close the file of a thread that has ended; another one may get its ID."""
        self._of_ended = _sum([self._of_ended, self._of_threads.pop(thread, _NONE)])
        handle = self._threads.pop(thread, None)
        if handle is not None:
            os.close(handle)

    def _stat(self, process: Process) -> bytes | None:
        try:
            with open(f'{self._proc}/{process.pid}/stat', 'rb') as file:
                return file.read()
        except OSError:
            return None  # it is gone


def _limit_of_handles() -> int:
    import resource  # noqa: PLC0415 - not on every system

    try:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE_HANDLES
    except OSError:
        return 0  # some containers forbid the question


def open_resource(context: Context) -> Io:
    """Return the I/O of the tree."""
    if context.config['reader'] == 'proc':
        try:
            with open('/proc/self/io', 'rb') as file:
                _parsed(file.read())
            return Io(context.tree, IoFiles(), time.monotonic)
        except (OSError, ValueError):
            pass  # the kernel was built without, or container software shows another file
    return UnknownIo(context.tree)


def settle(totals: Totals, switches: Mapping[Group, tuple[int, int]]) -> None:
    """Add what the kernel has told at the end, in place.

    :param switches: Voluntary and involuntary context switches of the groups of which they are known.
    """
    for group, counts in switches.items():
        totals['io'][group]['switches'] = list(counts)


def usage_of(totals: Totals, wanted: Units) -> dict[str, usage.IOUsage]:
    """Return the section ``io`` of the result."""
    from gpu_tracker import units, usage  # noqa: PLC0415 - the sampler needs none of it

    def of_group(group: Group) -> usage.IOValues:
        found = totals['io'][group]
        sizes = [units.from_bytes(size, wanted.ram) for size in (*found['bytes'], *found['rates'])]
        values: list[Any] = [*sizes, *found['faults'], *found['switches']]
        return usage.IOValues(*values)

    return {'io': usage.IOUsage(wanted.ram, *map(of_group, GROUPS))}


def _faults(process: Process) -> tuple[Counters, Counters]:
    """Return the minor and major page faults of ``process``, and those of the children that it has waited for."""
    if not process.raw:
        return (0, 0), (0, 0)
    return stat.all_faults(process.raw)


def _parsed(content: bytes) -> Counters:
    return tuple([_number(content, field) for field in _FIELDS])


def _number(content: bytes, field: bytes) -> int:
    at = content.index(field) + len(field)
    return int(content[at : content.index(b'\n', at)])


def _sum(several: Sequence[Counters]) -> Counters:
    return tuple(map(sum, zip(*several, strict=True)))


def _less(counters: Counters, others: Counters) -> Counters:
    return tuple([counter - other for counter, other in zip(counters, others, strict=True)])


def _larger(counters: Counters, others: Counters) -> Counters:
    return tuple(map(max, counters, others))
