"""The I/O of a tree of processes, from the counters of each."""

from __future__ import annotations

from gpu_tracker.processes import stat
from gpu_tracker.resources import COUNTER, FIRST, GROUPS, WHOSE, Column, Resource
from gpu_tracker.resources.io.readers import BYTES, NONE, IoFiles, summed
from gpu_tracker.resources.rates import MaximalRate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Protocol

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.process import Process
    from gpu_tracker.resources import Message
    from gpu_tracker.resources.io.readers import Counters

    class Reader(Protocol):
        """Reads them."""

        def own(self, process: Process) -> Counters | None:
            """Return those of the threads of ``process``, children that it has waited for left out; None: unknown."""

        def has_waited(self, process: Process, faults: int) -> bool:
            """Return whether ``process`` has waited for a child since the page faults of those were ``faults``."""

        def read(self, process: Process) -> Counters | None:
            """Return those of ``process``; None where it is gone.

            :raises PermissionError: where they may not be read.
            """

        def forget(self, process: Process) -> None:
            """Let go of what is kept open for a process that is gone."""


RATES = ('read', 'written', 'read_by_calls', 'written_by_calls')
FAULTS = ('minor_page_faults', 'major_page_faults')
FIELDS: dict[str, tuple[str, ...]] = {
    'bytes': BYTES,
    'rates': tuple(f'max_{name}_per_second' for name in RATES),
    'faults': FAULTS,
    'switches': ('voluntary_context_switches', 'involuntary_context_switches'),
}
"""The fields of the result by the parts of the totals that have their values."""
_MEANINGS = {
    'read': 'read from storage',
    'written': 'written to storage',
    'cancelled': 'written to files that were removed or cut before storage had them',
    'read_by_calls': 'read by calls',
    'written_by_calls': 'written by calls',
}
_NO_FILES = 'This system keeps no account of I/O that can be read here (/proc/PID/io): it is unknown (N/A).'
UNREADABLE = (
    'I/O of processes that belong to another user cannot be read: it is unknown (N/A) for every group that has had one.'
)


class Io(Resource):
    """Folds the counters of a tree's members.

    :param reader: Reads the counters of one process.
    :param monotonic: The clock of the samples; None: reading takes no time.
    """

    columns = (
        *(
            Column(f'{group}_io_{name}', 'bytes', COUNTER, f'bytes {_MEANINGS[name]} by {WHOSE[group]}')
            for group in GROUPS
            for name in BYTES
        ),
        *(
            Column(f'{group}_{name}', 'count', COUNTER, f'{name.replace("_", " ")} of {WHOSE[group]}')
            for group in GROUPS
            for name in FAULTS
        ),
    )

    def __init__(
        self,
        tree: ProcessTree,
        reader: Reader,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        self._tree = tree
        self._reader = reader
        self._monotonic = monotonic
        self._changes = -1
        self._last: dict[Process, Counters] = {}
        """What each member had when it was last read; zeros where it may not be read."""
        self._kept = NONE
        """What members had that somebody outside the tree has waited for, or nobody."""
        self._start = self._whole_start = NONE
        self._of_ended_threads: Counters | None = None
        """What the root has had itself beyond its threads' counters, at least; negative where those began above 0."""
        self._has_waited = False
        """Whether the root has waited for a child since the first sample."""
        self._reaped_faults_at_start = 0
        self._bytes = dict.fromkeys(GROUPS, NONE)
        self._faults_start: dict[str, Counters] = dict.fromkeys(GROUPS, (0, 0))
        self._faults: dict[str, Counters] = dict.fromkeys(GROUPS, (0, 0))
        self._kept_faults: Counters = (0, 0)
        self._rates = {group: [MaximalRate() for _ in RATES] for group in GROUPS}
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
        whole = self._last.get(root, NONE)
        faults = self._faults_now()
        if kind == FIRST:
            self._start, self._whole_start, self._faults_start = of_all, whole, faults
            self._reaped_faults_at_start = root.reaped_faults
        main = self._main_now(own, whole)
        combined = _larger(_larger(self._bytes['combined'], _less(of_all, self._start)), main)
        self._bytes = {'main': main, 'descendants': _less(combined, main), 'combined': combined}
        read_at = now if self._monotonic is None else self._monotonic()
        for group in GROUPS:
            self._faults[group] = _larger(self._faults[group], _less(faults[group], self._faults_start[group]))
            for name, rate in zip(RATES, self._rates[group], strict=True):
                rate.add(read_at, self._bytes[group][BYTES.index(name)], now)

    def _main_now(self, own: Counters | None, whole: Counters) -> Counters:
        """Return what the root has had itself since the first sample.

        As long as it has waited for no child its counters tell, which have those of all threads that have ended. What
        the others have is read after that: the difference is too small where the root reads or writes in between, and
        never shrinks otherwise, so that the largest one found is right.
        """
        main = self._bytes['main']
        root = self._tree.root
        self._has_waited = self._has_waited or self._reader.has_waited(root, self._reaped_faults_at_start)
        if not self._has_waited:
            main = _larger(main, _less(whole, self._whole_start))
            own = self._own_of_root()  # after the whole: nothing is in both
            if own is not None:
                found = _less(main, own)
                self._of_ended_threads = _larger(self._of_ended_threads or found, found)
            return main
        if self._of_ended_threads is None:
            self._unknown |= {'main', 'descendants'}
            return main
        return main if own is None else _larger(main, summed([self._of_ended_threads, own]))

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
        if missing:
            by_pid = {process.pid: process for process in missing}
            for process in missing:
                if self._is_inherited(process, by_pid):
                    self._last.pop(process, None)
        return summed([self._kept, *[self._last[process] for process in self._last if process not in missing]])

    def _own_of_root(self) -> Counters | None:
        try:
            return self._reader.own(self._tree.root)
        except PermissionError:
            return None  # which the reading of the whole has reported

    def _read_one(self, process: Process) -> bool:
        """Read the counters of ``process``; return whether it is still there."""
        try:
            counters = self._reader.read(process)
        except PermissionError:
            self._last.setdefault(process, NONE)
            if not process.ended:  # else it could be read while it ran, or not, which was reported then
                if not self._is_unreadable:
                    self._is_unreadable = True
                    self._messages.append(('warning', UNREADABLE))
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
            counters = self._last.pop(process, NONE)
            self._reader.forget(process)
            if not self._is_inherited(process, gone):
                self._kept = summed([self._kept, counters])
                own, reaped = _faults(process)
                self._kept_faults = summed([self._kept_faults, own if process is not tree.root else (0, 0), reaped])

    def _is_inherited(self, process: Process, gone: Mapping[int, Process]) -> bool:
        """Return whether a member that is still there has got the counters of one that is gone, by waiting for it.

        :param gone: All that are gone, by ID.
        """
        root, members = self._tree.root, self._tree.members
        while process is not root and process.parent in gone:
            process = gone[process.parent]
        if process is root or process.parent not in members:
            return False
        return not self._tree.ignores_children(members[process.parent])

    def _faults_now(self) -> dict[str, Counters]:
        """Return the page faults of the three groups, of whoever was waited for as well."""
        main: Counters = (0, 0)
        of_descendants = self._kept_faults
        for process in self._tree.members.values():
            own, reaped = _faults(process)
            if process is self._tree.root:
                main, own = own, (0, 0)
            of_descendants = summed([of_descendants, own, reaped])
        return {'main': main, 'descendants': of_descendants, 'combined': summed([main, of_descendants])}

    def _known(self, group: str, values: Sequence[float | None]) -> list[float | None]:
        return [None] * len(values) if group in self._unknown else list(values)

    def _known_faults(self, group: str) -> list[int | None]:
        return list(self._faults[group])


class UnknownIo(Io):
    """I/O on a system that keeps no account of it."""

    def __init__(self, tree: ProcessTree) -> None:
        super().__init__(tree, IoFiles(most_handles=0))
        self._unknown = set(GROUPS)
        self._messages = [('warning', _NO_FILES)]

    def sample(self, now: float, kind: str) -> None:
        """Read nothing."""

    def _known_faults(self, group: str) -> list[int | None]:
        del group
        return [None, None]


def _faults(process: Process) -> tuple[Counters, Counters]:
    """Return the minor and major page faults of ``process``, and those of the children that it has waited for."""
    if not process.raw:
        return (0, 0), (0, 0)
    return stat.all_faults(process.raw)


def _less(counters: Counters, others: Counters) -> Counters:
    return tuple([counter - other for counter, other in zip(counters, others, strict=True)])


def _larger(counters: Counters, others: Counters) -> Counters:
    return tuple(map(max, counters, others))
