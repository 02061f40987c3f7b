"""I/O: bytes read and written, page faults and context switches; part of the result where it is asked for.

Bytes come from ``/proc/PID/io``, see proc_pid_io(5). The kernel adds those of a child to its parent's when that waits
for it. So the sum over all members is exact, as CPU time is, whatever comes and goes between two samples. What of it is
the root's own its threads tell, in ``/proc/PID/task/TID/io``: where it has waited for children, the last moments of
threads that have ended are missing there, and count for its descendants. Elsewhere psutil says less.

Context switches are not in that file, and the counters of a process that has ended are lost but to who waits for it. So
they are known where the kernel tells them of all: to the command line of its command with wait4(2), and to a process of
itself with getrusage(2).
"""

from __future__ import annotations

import os
import sys

from gpu_tracker.processes import stat
from gpu_tracker.resources.rates import MaximalRate
from gpu_tracker.resources.resource import COUNTER, FIRST, GROUPS, Column, Resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Protocol

    from gpu_tracker import usage
    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.process import Process
    from gpu_tracker.resources.context import Context
    from gpu_tracker.resources.resource import Message
    from gpu_tracker.result import Totals, Units

    Counters = tuple[int, ...]
    """The values of :data:`BYTES` of one process."""

    class Reader(Protocol):
        """Reads them."""

        def own(self, process: Process) -> Counters | None:
            """Return those of the threads of ``process``, children that it has waited for left out; None: unknown."""

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
_SPARE_HANDLES = 128
"""Descriptors that are left for all else; files past that are opened anew for each reading."""
_UNREADABLE = (
    'I/O of processes that belong to another user cannot be read: it is unknown (N/A) for every group that has had one.'
)


class Io(Resource):
    """Folds the counters of a tree's members.

    :param reader: Reads the counters of one process.
    :param knows_faults: The members' page faults are known.
    """

    columns = (
        *(Column(f'{group}_io_{name}', 'bytes', COUNTER) for group in GROUPS for name in BYTES),
        *(Column(f'{group}_{name}', 'count', COUNTER) for group in GROUPS for name in _FAULTS),
    )

    def __init__(self, tree: ProcessTree, reader: Reader, *, knows_faults: bool = True) -> None:
        self._tree = tree
        self._reader = reader
        self._knows_faults = knows_faults
        self._changes = -1
        self._last: dict[Process, Counters] = {}
        """What each member had when it was last read."""
        self._kept = _NONE
        """What members had that somebody outside the tree has waited for, or nobody."""
        self._start = self._whole_start = _NONE
        self._own_start: Counters | None = None
        self._reaped_faults_at_start = 0
        self._root_has_waited = False
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
        of_all = self._bytes_of_all()
        whole = self._last.get(root, _NONE)
        own = self._own_of_root()
        faults = self._faults_now()
        if not self._root_has_waited:
            tree.refresh_root()  # a child that it has waited for since the refresh is in its counters already
        if kind == FIRST:
            self._start, self._whole_start, self._own_start, self._faults_start = of_all, whole, own, faults
            self._reaped_faults_at_start = root.reaped_faults
        self._root_has_waited = self._root_has_waited or root.reaped_faults != self._reaped_faults_at_start
        combined = _larger(self._bytes['combined'], _less(of_all, self._start))
        main = self._bytes['main']
        if not self._root_has_waited:
            main = _larger(main, _less(whole, self._whole_start))
        elif own is None or self._own_start is None:
            self._unknown |= {'main', 'descendants'}
        else:
            main = _larger(main, _less(own, self._own_start))
        self._bytes = {'main': main, 'descendants': _less(combined, main), 'combined': combined}
        for group in GROUPS:
            self._faults[group] = _larger(self._faults[group], _less(faults[group], self._faults_start[group]))
            for name, rate in zip(_RATES, self._rates[group], strict=True):
                rate.add(now, self._bytes[group][BYTES.index(name)])

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
        missing = [process for process in members if not self._read_one(process)]
        if missing:  # since the tree was refreshed: who has waited for them has their counters now
            for process in members:
                if process not in missing:
                    self._read_one(process)
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
        return list(self._faults[group]) if self._knows_faults else [None, None]


class IoFiles:
    """Reads ``/proc/PID/io``, kept open: a process that has ended tells its final figures to who has it open only.

    :param most_handles: Files with numbers from here on are closed again.
    """

    def __init__(self, proc: str = '/proc', most_handles: int | None = None) -> None:
        self._proc = proc
        if most_handles is None:
            import resource  # noqa: PLC0415 - not on every system

            most_handles = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE_HANDLES
        self._most_handles = most_handles
        self._handles: dict[Process, int] = {}
        self._threads: dict[int, int] = {}
        """The open files of the root's threads."""
        self._of_threads: dict[int, Counters] = {}
        """What each of them had when it was last read, those that have ended included."""

    def own(self, process: Process) -> Counters:
        """Return the counters of the threads of ``process``, which is always the same one.

        :raises PermissionError: where they may not be read.
        """
        folder = f'{self._proc}/{process.pid}/task'
        threads = [process.pid]
        if process.threads > 1:
            try:
                threads = [int(name) for name in os.listdir(folder)]
            except (FileNotFoundError, ProcessLookupError):
                pass  # it has just ended
        for thread in threads:
            try:
                handle = self._threads.get(thread)
                if handle is None:
                    handle = os.open(f'{folder}/{thread}/io', os.O_RDONLY | os.O_CLOEXEC)
                    self._threads[thread] = handle
                self._of_threads[thread] = _parsed(os.pread(handle, 512, 0))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
            if handle >= self._most_handles:
                os.close(self._threads.pop(thread))
        for thread in self._threads.keys() - set(threads):
            os.close(self._threads.pop(thread))
        return _sum([_NONE, *self._of_threads.values()])

    def read(self, process: Process) -> Counters | None:
        """Return the counters of ``process``; None where it is gone.

        :raises PermissionError: where they may not be read.
        """
        try:
            handle = self._handles.get(process)
            if handle is None:
                handle = os.open(f'{self._proc}/{process.pid}/io', os.O_RDONLY | os.O_CLOEXEC)
                self._handles[process] = handle
            content = os.pread(handle, 512, 0)
        except (FileNotFoundError, ProcessLookupError):
            return None
        if handle >= self._most_handles:
            self.forget(process)
        return _parsed(content)

    def forget(self, process: Process) -> None:
        """Close the file of ``process``."""
        handle = self._handles.pop(process, None)
        if handle is not None:
            os.close(handle)


class PortableIo:
    """Reads what psutil knows of a process: storage alone, but for Linux, and nothing on macOS."""

    def own(self, process: Process) -> Counters | None:
        """Return the counters of ``process`` where they leave out children; else None, as they do not on Linux."""
        return None if sys.platform == 'linux' else self.read(process)

    def read(self, process: Process) -> Counters | None:
        """Return the counters of ``process``; None where it is gone.

        :raises PermissionError: where they may not be read, or this system has none.
        """
        import psutil  # noqa: PLC0415 - elsewhere than on Linux

        try:
            counters = psutil.Process(process.pid).io_counters()
        except (AttributeError, psutil.AccessDenied):
            raise PermissionError(process.pid) from None
        except psutil.NoSuchProcess:
            return None
        of_calls = [getattr(counters, name, 0) for name in ('read_chars', 'write_chars')]
        return counters.read_bytes, counters.write_bytes, 0, *of_calls

    def forget(self, process: Process) -> None:
        """Do nothing: nothing is kept open."""


def open_resource(context: Context) -> Io:
    """Return the I/O of the tree."""
    if context.config['reader'] == 'proc':
        return Io(context.tree, IoFiles())
    return Io(context.tree, PortableIo(), knows_faults=False)


def settle(totals: Totals, switches: Mapping[str, tuple[int, int]]) -> None:
    """Add what the kernel has told at the end, in place.

    :param totals: See :meth:`Io.totals`.
    :param switches: Voluntary and involuntary context switches of the groups of which they are known.
    """
    for group, counts in switches.items():
        totals[group]['switches'] = list(counts)


def usage_of(totals: Totals, wanted: Units) -> dict[str, usage.IOUsage]:
    """Return the section ``io`` of the result."""
    from gpu_tracker import units, usage  # noqa: PLC0415 - the sampler needs none of it

    def of_group(group: str) -> usage.IOValues:
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
