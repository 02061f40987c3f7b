"""The files that the probe is attached to, each once, whatever it is called."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.cuda_probe.calls import FUNCTIONS, Function, Library
from gpu_tracker.cuda_probe.engine.attaching import ProbePoint
from gpu_tracker.cuda_probe.libraries.code_files import find_functions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from gpu_tracker.cuda_probe.engine.attaching import Attacher
    from gpu_tracker.cuda_probe.libraries.code_files import CodeFile, FileOnDisk

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
