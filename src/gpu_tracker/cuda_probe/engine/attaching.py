"""Attachment of the probe to functions of files, by one link for all or by perf events; each file once."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gpu_tracker.cuda_probe.cuda_api import FUNCTIONS, Function, Library, What
from gpu_tracker.cuda_probe.engine import libbpf
from gpu_tracker.cuda_probe.libraries import find_functions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from gpu_tracker.cuda_probe.libraries import CodeFile, FileOnDisk

_MANY_FILES = 1_024
_MOST_REFUSALS = 1_024
_BY_SYMBOL: dict[Library, dict[str, Function]] = {library: {} for library in Library}
for _function in FUNCTIONS:
    _BY_SYMBOL[_function.library][_function.symbol] = _function


class Refused(NamedTuple):
    """A file that could not be attached to."""

    file: CodeFile
    error: OSError


class _Known(NamedTuple):
    functions: int
    modified: int
    handles: list[int]
    since: int
    is_kept: bool
    """Attached to from the start: who uses it may be yet to come."""


class AttachedFiles:
    """Attaches to files, and remembers them.

    :param attacher: What attaches in the kernel; it is closed with this.
    """

    def __init__(self, attacher: Attacher) -> None:
        self._attacher = attacher
        self._known: dict[FileOnDisk, _Known] = {}
        self._refusals: dict[CodeFile, tuple[int | None, str | None]] = {}
        """By file as it was and as it was reached: through another process it may be attached to."""

    def is_new(self, file: CodeFile) -> bool:
        """Return whether a file is not known, or was changed since.

        An attached file keeps its inode; that of any other may be another file's by now.
        """
        known = self._known.get(file.identity)
        return known is None or (not known.functions and known.modified != file.modified)

    def since(self, file: CodeFile) -> int:
        """Return when a file was attached to, in nanoseconds of the monotonic clock."""
        return self._known[file.identity].since

    def attach(self, file: CodeFile, *, is_kept: bool = False) -> int:
        """Attach to what a file has of the probed functions, once; return how many these are.

        :param is_kept: Stay attached also while nobody uses it.
        :raises OSError: It cannot be read, or the kernel has refused it.
        """
        if not self.is_new(file):
            return self._known[file.identity].functions
        if file in self._refusals:  # programs load libraries by the thousand, and each time all are asked for
            raise OSError(*self._refusals[file])
        try:
            points = _points(file)
            handles = self._attacher.attach(file.path, points) if points else []
        except OSError as error:
            self._remember(file, error)
            raise
        self._known[file.identity] = _Known(len(points), file.modified, handles, time.monotonic_ns(), is_kept)
        return len(points)

    def attach_all(self, files: Iterable[CodeFile]) -> tuple[Refused, ...]:
        """Attach to files; return those that could not be.

        :raises OSError: None could be, and this is why the first could not.
        """
        refused: list[Refused] = []
        is_attached = False
        for file in files:
            try:
                is_attached |= self.attach(file, is_kept=True) > 0
            except OSError as error:
                refused.append(Refused(file, error))
        if refused and not is_attached:
            raise refused[0].error
        return tuple(refused)

    def has_many(self) -> bool:
        """Return whether it is worth searching for files that nobody uses any more."""
        return self.temporary() > _MANY_FILES

    def temporary(self) -> int:
        """Return how many files are remembered that need not be."""
        return sum(not known.is_kept for known in self._known.values())

    def release(self, used: Collection[FileOnDisk]) -> None:
        """Detach from files that nobody uses any more, and forget them: containers come and go, each with its own."""
        unused = [file for file, known in self._known.items() if not known.is_kept and file not in used]
        self._attacher.detach([handle for file in unused for handle in self._known.pop(file).handles])

    def close(self) -> None:
        """Detach from all."""
        self._attacher.detach([handle for known in self._known.values() for handle in known.handles])
        self._known.clear()

    def _remember(self, file: CodeFile, error: OSError) -> None:
        if len(self._refusals) >= _MOST_REFUSALS:
            self._refusals.clear()
        self._refusals[file] = error.errno, error.strerror


def _points(file: CodeFile) -> list[ProbePoint]:
    symbols = {symbol: function for library in file.libraries for symbol, function in _BY_SYMBOL[library].items()}
    found = find_functions(file.path, symbols)
    taken: dict[int, Function] = {}  # two names of one function: the first of the table
    for symbol, function in symbols.items():
        for offset in found.get(symbol, ()):
            taken.setdefault(offset, function)
    return [ProbePoint(offset, function) for offset, function in sorted(taken.items())]


SESSION = 'uprobe.session'
MULTI = 'uprobe.multi'
PERF = 'perf'
KINDS = (SESSION, MULTI, PERF)
"""How the probe can be attached, the cheapest first."""
_MOST_LINKS = 1 << 16
_UPROBES = '/sys/bus/event_source/devices/uprobe'
_AT_ENTRY_ONLY = {What.CHANGE_LIBRARIES}


class ProbePoint(NamedTuple):
    """Where a function begins in a file."""

    offset: int
    """Bytes from the file's begin."""
    function: Function


class Attacher(Protocol):
    """Attaches the two programs, and detaches them again."""

    def attach(self, path: str, points: Sequence[ProbePoint]) -> list[int]:
        """Attach to functions of a file, in every process that uses it, from now on and later.

        Return the descriptors by which it is attached: each has to be given to :meth:`detach`.

        :raises OSError: The kernel has refused it.
        """

    def detach(self, handles: list[int]) -> None:
        """Detach what has these descriptors."""


class SessionAttacher:
    """One link for both ends of the functions of a file: CAP_BPF and CAP_PERFMON do, from Linux 6.13 on.

    At the entry the program itself says whether the return matters: that would cost as much again.
    """

    def __init__(self, either: int) -> None:
        self._program = either
        self._links = 0

    def attach(self, path: str, points: Sequence[ProbePoint]) -> list[int]:
        """See :class:`Attacher`."""
        self._links += 1
        offsets, cookies = [point.offset for point in points], _cookies(points, self._links)
        return [libbpf.link_functions(self._program, path, offsets, cookies, at_both=True)]

    def detach(self, handles: list[int]) -> None:
        """See :class:`Attacher`. The kernel waits until no processor runs the program: 0.1 s a link at most."""
        _close(handles)


class MultiAttacher:
    """One link for all entries of a file and one for all returns: CAP_BPF and CAP_PERFMON do, from Linux 6.6 on."""

    def __init__(self, enter: int, leave: int) -> None:
        self._programs = enter, leave
        self._links = 0

    def attach(self, path: str, points: Sequence[ProbePoint]) -> list[int]:
        """See :class:`Attacher`. Returns come first: a call is counted when both its ends were seen."""
        enter, leave = self._programs
        self._links += 1
        with _undoing() as links:
            for program, chosen in ((leave, _returning(points)), (enter, points)):
                if chosen:
                    offsets, cookies = [point.offset for point in chosen], _cookies(chosen, self._links)
                    link = libbpf.link_functions(program, path, offsets, cookies, at_return=program == leave)
                    links.append(link)
        return links

    def detach(self, handles: list[int]) -> None:
        """See :class:`Attacher`. The kernel waits until no processor runs the programs: 0.1 s a link at most."""
        _close(handles)


class PerfAttacher:
    """A perf event for each entry and each return, on kernels before that; since 6.16 these take CAP_SYS_ADMIN.

    :raises OSError: The kernel has no uprobes.
    """

    def __init__(self, enter: int, leave: int) -> None:
        self._programs = enter, leave
        self._links = 0
        self._kind = int(_read(f'{_UPROBES}/type'))
        self._return_bit = int(_read(f'{_UPROBES}/format/retprobe').rpartition(':')[2])

    def attach(self, path: str, points: Sequence[ProbePoint]) -> list[int]:
        """See :class:`Attacher`."""
        enter, leave = self._programs
        self._links += 1
        with _undoing() as handles:
            for program, chosen in ((leave, _returning(points)), (enter, points)):
                for point, cookie in zip(chosen, _cookies(chosen, self._links), strict=True):
                    bit = self._return_bit
                    event = libbpf.open_uprobe(
                        self._kind, path, point.offset, at_return=program == leave, return_bit=bit
                    )
                    handles.append(event)
                    handles.append(libbpf.link_perf_event(program, event, cookie))
                    libbpf.enable_perf_event(event)
        return handles

    def detach(self, handles: list[int]) -> None:
        """See :class:`Attacher`.

        The kernel detaches events one by one, and waits each time until no processor runs the program: 0.1 s for each
        of a hundred. So a process that does nothing else holds them too, and the waiting is left to its end.
        """
        reader, writer = os.pipe()
        try:
            subprocess.run(
                ['/bin/sh', '-c', '{ cat <&3 >/dev/null 2>&1 & } 3<&0'],
                stdin=reader,
                pass_fds=handles,
                start_new_session=True,
                check=False,
            )
        except OSError:
            pass  # no process can be started: then it takes its time here
        os.close(reader)
        _close(handles)
        os.close(writer)


def _cookies(points: Sequence[ProbePoint], link: int) -> list[int]:
    """Return what the program gets at each call: which function that is, and of which link."""
    return [point.function.cookie | link % _MOST_LINKS << 48 for point in points]


def _returning(points: Sequence[ProbePoint]) -> list[ProbePoint]:
    return [point for point in points if point.function.what not in _AT_ENTRY_ONLY]


@contextlib.contextmanager
def _undoing() -> Iterator[list[int]]:
    """Give a list for what is opened inside, and close that where not all of it could be."""
    handles: list[int] = []
    try:
        yield handles
    except OSError:
        _close(handles)
        raise


def _close(handles: list[int]) -> None:
    while handles:
        os.close(handles.pop())


def _read(path: str) -> str:
    with open(path, encoding='ascii') as file:
        return file.read().strip()
