"""Names of kernels from what a process passed to ``cudaLaunchKernel``: an address, or the runtime's handle."""

from __future__ import annotations

import bisect
import os
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gpu_tracker.cuda_probe.binaries.demangling import demangle
from gpu_tracker.cuda_probe.binaries.program_file import FileIdentity, identity_of, name_in_c
from gpu_tracker.cuda_probe.binaries.region import LivingProcess, mappings_of, words_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_tracker.cuda_probe.binaries.cache import BinaryCache
    from gpu_tracker.cuda_probe.binaries.cubin import Kernel
    from gpu_tracker.cuda_probe.binaries.program_file import ProgramFile
    from gpu_tracker.cuda_probe.binaries.region import MappedPart

_MOST_REMEMBERED = 1 << 16

Value = TypeVar('Value')


class KernelAt(NamedTuple):
    """What a launch's address is.

    ``symbol`` is the mangled name of the function there, None where the program has no symbol for it (a stripped one);
    ``name`` is for people, at least ``libfoo.so+0x1234`` or the bare number. ``file`` is the file's path as the process
    sees it, None where the address is in none. ``kernel`` has the figures of the device code, None where they are not
    known. ``is_unread`` where there is no name because the program had ended before its files could be read.
    """

    symbol: str | None
    name: str
    file: str | None
    kernel: Kernel | None
    is_unread: bool = False


def _remember(values: dict[int, Value], address: int, value: Value) -> None:
    values[address] = value
    if len(values) > _MOST_REMEMBERED:
        del values[next(iter(values))]


class _MappedFile(NamedTuple):
    mapping: MappedPart
    identity: FileIdentity | None
    file: ProgramFile | None
    """Kept open where it has kernels, so that it can be read when the process and its mount namespace have ended."""


class KernelNames:
    """Names of the kernels of one process, for as long as it runs the same program.

    Files that are mapped when ``remember_maps`` or ``at`` is called can be asked for after the process has ended.
    """

    def __init__(self, pid: int, cache: BinaryCache, proc: str = '/proc') -> None:
        self._pid = pid
        self._cache = cache
        self._proc = proc
        self._process = LivingProcess(pid, proc)
        self._mapped: list[_MappedFile] = []
        self._handles: dict[int, tuple[_MappedFile, str]] = {}
        self._known: dict[int, KernelAt] = {}
        self._misses: dict[int, int] = {}

    @property
    def problems(self) -> dict[str, str]:
        """What kernels could not be read, in words, by the path of the file."""
        return {
            part.mapping.path: part.file.problem
            for part in self._mapped
            if part.mapping.path is not None and part.file is not None and part.file.problem is not None
        }

    def remember_maps(self) -> bool:
        """Take down what the process has mapped now; returns False, and changes nothing, where it has ended.

        Costs some milliseconds for a process with hundreds of libraries.
        """
        with self._cache.lock:
            if not self._process.is_there():
                return False
            try:
                mappings = mappings_of(self._proc, self._pid)
            except OSError:
                return False
            if not mappings:
                return False
            known = {part.mapping: part for part in self._mapped}
            current = [
                known.get(mapping) or self._mapped_file(mapping) for mapping in mappings if mapping.path is not None
            ]
            # What was unloaded since is still asked for, as long as nothing else has its addresses.
            ends = [mapping.end for mapping in mappings]
            gone = [
                part
                for mapping, part in known.items()
                if (i := bisect.bisect_right(ends, mapping.start)) == len(ends) or mappings[i].start >= mapping.end
            ]
            files = sorted([*gone, *current], key=lambda part: part.mapping.start)
            if any(mapping not in known for mapping in mappings if mapping.path is not None):
                self._misses.clear()
            self._mapped = files[:_MOST_REMEMBERED]
            return True

    def at(self, address: int) -> KernelAt:
        """Return what is at ``address``; what is found once is remembered."""
        with self._cache.lock:
            known = self._known.get(address)
            if known is not None:
                return known
            times = self._misses.get(address, 0) + 1
            # Maps and handles change, and reading them costs: they are read for the first, second, fourth ... question.
            found = self._find_anew(address) if times.bit_count() == 1 else None
            if found is None:
                _remember(self._misses, address, times)
                return self._without_name(address)
            self._misses.pop(address, None)
            _remember(self._known, address, found)
            return found

    def _find_anew(self, address: int) -> KernelAt | None:
        found = self._find(address)
        return self._find(address) if found is None and self.remember_maps() else found

    def _find(self, address: int) -> KernelAt | None:
        return self._function_at(address) or self._by_handle(address)

    def _function_at(self, address: int) -> KernelAt | None:
        """Return the function that begins at ``address``."""
        part = self._mapped_at(address)
        file = part and self._opened(part)
        if not part or not file:
            return None
        offset = file.address_at(address - part.mapping.start + part.mapping.offset)
        functions = () if offset is None else file.functions_at(offset)
        for function in functions:  # a function can have several names, of which one is the kernel's
            if kernel := file.kernel_of(function):
                return KernelAt(function, kernel.name, part.mapping.path, kernel)
        return KernelAt(functions[0], demangle(functions[0]), part.mapping.path, None) if functions else None

    def _by_handle(self, address: int) -> KernelAt | None:
        """Return the kernel whose handle is ``address``."""
        if address not in self._handles:
            self._read_handles()
        if address not in self._handles:
            return None
        part, symbol = self._handles[address]
        for function in (symbol, name_in_c(symbol)):
            if part.file and function and (kernel := part.file.kernel_of(function)):
                return KernelAt(function, kernel.name, part.mapping.path, kernel)
        return KernelAt(symbol, demangle(symbol), part.mapping.path, None)

    def _read_handles(self) -> None:
        """Read all handles that the process has by now; a kernel has one from its first launch on."""
        handles = {}
        bases: dict[FileIdentity, int] = {}
        for part in self._mapped:
            if part.file is None or part.file.identity in bases:
                continue
            in_file = part.file.address_at(part.mapping.offset)
            if in_file is None:
                continue
            base = bases[part.file.identity] = part.mapping.start - in_file
            for handle in part.file.launch_handles():
                handles[base + handle.address] = (part, handle.kernel)
        try:
            words = words_at(self._proc, self._pid, sorted(handles))
        except OSError:
            return  # it has ended, or may not be read: what was read before stays
        for at, value in words.items():
            if value:
                self._handles[value] = handles[at]

    def _mapped_at(self, address: int) -> _MappedFile | None:
        number = bisect.bisect_right(self._mapped, address, key=lambda part: part.mapping.start) - 1
        return self._mapped[number] if number >= 0 and address < self._mapped[number].mapping.end else None

    def _mapped_file(self, mapping: MappedPart) -> _MappedFile:
        """Open a file through the process while that lives, and by its name here after that."""
        if not self._cache.file_systems.answers(mapping, f'{self._proc}/{self._pid}'):
            return _MappedFile(mapping, None, None)
        for path in self._paths(mapping):
            try:
                status = os.stat(path)
                if path != mapping.path or (status.st_dev, status.st_ino) == (mapping.device, mapping.inode):
                    return _MappedFile(mapping, identity_of(status), self._cache.file_with_kernels(path))
            except OSError:
                continue  # a device, a file that only its owner reads, or the process has ended meanwhile
        return _MappedFile(mapping, None, None)

    def _paths(self, mapping: MappedPart) -> Iterator[str]:
        """Return where the file may be: through the process, and where this process has that name, if it has it."""
        yield mapping.reached_through(f'{self._proc}/{self._pid}')
        if mapping.path is not None and not mapping.deleted:
            yield mapping.path

    def _opened(self, part: _MappedFile) -> ProgramFile | None:
        if part.file is not None or part.identity is None:
            return part.file
        for path in self._paths(part.mapping):
            try:
                if identity_of(os.stat(path)) == part.identity:
                    return self._cache.file(path)
            except OSError:
                continue  # the process has ended, or was in another mount namespace
        return None

    def _without_name(self, address: int) -> KernelAt:
        part = self._mapped_at(address)
        if part is None or part.mapping.path is None:
            return KernelAt(None, f'{address:#x}', None, None, is_unread=not self._mapped and self._process.has_ended())
        offset = address - part.mapping.start + part.mapping.offset
        file = self._opened(part)
        in_file = file.address_at(offset) if file else None
        name = f'{os.path.basename(part.mapping.path)}+{offset if in_file is None else in_file:#x}'
        return KernelAt(None, name, part.mapping.path, None, is_unread=file is None and self._process.has_ended())
