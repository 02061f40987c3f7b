"""The files that the probe is attached to: each once, whatever it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.cuda_probe.calls import FUNCTIONS, Function, Library
from gpu_tracker.cuda_probe.engine.attaching import Place
from gpu_tracker.cuda_probe.libraries.symbols import find_functions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_tracker.cuda_probe.engine.attaching import Attacher
    from gpu_tracker.cuda_probe.libraries.mapped import CodeFile, FileOnDisk

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


class AttachedFiles:
    """Attaches to files, and remembers them.

    :param attacher: What attaches in the kernel; it is closed with this.
    """

    def __init__(self, attacher: Attacher) -> None:
        self._attacher = attacher
        self._known: dict[FileOnDisk, _Known] = {}

    def is_new(self, file: CodeFile) -> bool:
        """Tell whether a file has not been looked at.

        An attached file keeps its inode; that of any other may be another file's by now.
        """
        known = self._known.get(file.identity)
        return known is None or (not known.functions and known.modified != file.modified)

    def attach(self, file: CodeFile) -> int:
        """Attach to what a file has of the probed functions, once; return how many these are.

        :raises OSError: It cannot be read, or the kernel has refused it; the next call tries again.
        """
        if not self.is_new(file):
            return self._known[file.identity].functions
        places = _places(file)
        if places:
            self._attacher.attach(file.path, places)
        self._known[file.identity] = _Known(len(places), file.modified)
        return len(places)

    def attach_all(self, files: Iterable[CodeFile]) -> tuple[Refused, ...]:
        """Attach to files; return those that could not be.

        :raises OSError: None could be, and this is why the first could not.
        """
        refused: list[Refused] = []
        is_attached = False
        for file in files:
            try:
                is_attached |= self.attach(file) > 0
            except OSError as error:
                refused.append(Refused(file, error))
        if refused and not is_attached:
            raise refused[0].error
        return tuple(refused)

    def close(self) -> None:
        """Detach from all."""
        self._attacher.close()


def _places(file: CodeFile) -> list[Place]:
    symbols = {symbol: function for library in file.libraries for symbol, function in _BY_SYMBOL[library].items()}
    found = find_functions(file.path, symbols)
    taken: dict[int, Function] = {}  # two names of one function: the first of the table
    for symbol, function in symbols.items():
        for offset in found.get(symbol, ()):
            taken.setdefault(offset, function)
    return [Place(offset, function) for offset, function in sorted(taken.items())]
