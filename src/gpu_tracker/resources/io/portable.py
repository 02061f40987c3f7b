"""I/O on other systems than Linux: what psutil knows of each process, and what that adds up to over a tree."""

from __future__ import annotations

import sys

from gpu_tracker.resources import FIRST, GROUPS, Resource
from gpu_tracker.resources.io.groups import FAULTS, RATES, UNREADABLE, Io
from gpu_tracker.resources.io.readers import BYTES
from gpu_tracker.resources.rates import MaximalRate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpu_tracker.processes import ProcessTree
    from gpu_tracker.processes.process import Process
    from gpu_tracker.resources import Message
    from gpu_tracker.totals import Group

_FIGURES = len(BYTES) + len(FAULTS)


class PortableIo(Resource):
    """I/O where every process has its own figures alone, as psutil returns them.

    They are taken at samples: what a process does after its last one is missing, as is one that no sample has seen.

    :param read: Returns the values of :data:`BYTES` and the page faults of a process so far, None for each that this
        system does not keep; None for all where the process is gone. Raises PermissionError.
    """

    columns = Io.columns

    def __init__(self, tree: ProcessTree, read: Callable[[int], Sequence[int | None] | None]) -> None:
        self._tree = tree
        self._read = read
        self._seen: dict[Process, tuple[list[int], list[int]]] = {}
        """The first and the last figures of each member; those of one that has come later count from 0 on."""
        self._of_gone = [0] * _FIGURES
        self._is_kept = [True] * _FIGURES
        self._unknown: set[Group] = set()
        """The groups of which something could not be read."""
        self._messages: list[Message] = []
        self._rates = {group: [MaximalRate() for _ in RATES] for group in GROUPS}
        self._used: dict[Group, list[int]] = dict.fromkeys(GROUPS, self._of_gone)

    def sample(self, now: float, kind: str) -> None:
        """Read the figures of all members and add them up; they count from the first sample on."""
        root = self._tree.root
        for process in self._tree.gone:
            if process is not root and process in self._seen:
                self._of_gone = [sum(pair) for pair in zip(self._of_gone, self._since(process), strict=True)]
                del self._seen[process]
        for process in self._tree.members.values():
            try:
                found = self._read(process.pid)
            except PermissionError:
                found = None
                self._messages += [] if self._unknown else [('warning', UNREADABLE)]
                self._unknown |= {'combined', 'main' if process is root else 'descendants'}
            if found is not None:
                self._is_kept = [kept and value is not None for kept, value in zip(self._is_kept, found, strict=True)]
                last = [value or 0 for value in found]
                first = last if kind == FIRST else [0] * _FIGURES
                self._seen[process] = self._seen.get(process, (first, last))[0], last
        main = self._since(root) if root in self._seen else [0] * _FIGURES
        others = [self._since(process) for process in self._seen if process is not root]
        descendants = [sum(values) for values in zip(self._of_gone, *others, strict=True)]
        combined = [sum(pair) for pair in zip(main, descendants, strict=True)]
        self._used = {'main': main, 'descendants': descendants, 'combined': combined}
        for group in GROUPS:
            for name, rate in zip(RATES, self._rates[group], strict=True):
                rate.add(now, self._used[group][BYTES.index(name)])

    def row(self) -> Sequence[float | None]:
        """Return the bytes of the three groups so far, then their page faults; None for what is not kept here."""
        known = [self._known(group) for group in GROUPS]
        return [size for values in known for size in values[: len(BYTES)]] + [
            count for values in known for count in values[len(BYTES) :]
        ]

    def totals(self) -> dict[str, object]:
        """Return the same as :meth:`Io.totals`."""
        return {
            group: {
                'bytes': self._known(group)[: len(BYTES)],
                'rates': [
                    rate.largest() if self._known(group)[BYTES.index(name)] is not None else None
                    for name, rate in zip(RATES, self._rates[group], strict=True)
                ],
                'faults': self._known(group)[len(BYTES) :],
                'switches': [None, None],
            }
            for group in GROUPS
        }

    def _since(self, process: Process) -> list[int]:
        first, last = self._seen[process]
        return [max(0, now - before) for before, now in zip(first, last, strict=True)]

    def take_messages(self) -> list[Message]:
        """Return the warning that some process may not be read, once."""
        messages, self._messages = self._messages, []
        return messages

    def _known(self, group: Group) -> list[int | None]:
        if group in self._unknown:
            return [None] * _FIGURES
        return [value if kept else None for value, kept in zip(self._used[group], self._is_kept, strict=True)]


class PsutilFigures:
    """What psutil has of a process: bytes through calls (Windows), page faults (macOS)."""

    def __init__(self) -> None:
        import psutil  # noqa: PLC0415 - only where it is used: on Linux nothing needs it

        self._psutil = psutil

    def __call__(self, pid: int) -> list[int | None] | None:
        """Return the values of ``BYTES``, then minor and major page faults; None where the process is gone.

        :raises PermissionError: where they may not be read.
        """
        try:
            process = self._psutil.Process(pid)
            memory = process.memory_info()
            read = written = None
            if sys.platform == 'win32':  # elsewhere they count blocks, or calls, or are not there
                counters = process.io_counters()
                read, written = counters.read_bytes, counters.write_bytes
        except self._psutil.AccessDenied as error:
            raise PermissionError(pid) from error
        except self._psutil.Error:
            return None
        # macOS counts all page faults, and beside them the pages that were read in. Windows has one sum of both.
        faults, from_storage = getattr(memory, 'pfaults', None), getattr(memory, 'pageins', None)
        minor = None if faults is None or from_storage is None else max(0, faults - from_storage)
        return [None, None, None, read, written, minor, from_storage]
