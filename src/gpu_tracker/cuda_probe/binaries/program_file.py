"""A file that programs have mapped: its functions, its launch handles, its kernels, and what earlier runs found in it.

What nvcc 12.9 and later compile asks the runtime once for a handle of each kernel (``__cudaGetKernel``) and launches
by that: the address that ``cudaLaunchKernel`` is given is then no function's. The handle stays in a static variable of
the kernel's stub, whose name contains the kernel's: ``_ZZ25__device_stub__Z5plainPfiPfiE8__handle``.
"""

from __future__ import annotations

import bisect
import json
import re
from array import array
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.cuda_probe.binaries import elf64
from gpu_tracker.cuda_probe.binaries.cubin import Kernel, KernelVariant
from gpu_tracker.cuda_probe.binaries.cuda_binary import SECTIONS, CudaBinary
from gpu_tracker.cuda_probe.binaries.elf64 import LONGEST_NAME, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC
from gpu_tracker.cuda_probe.binaries.region import NotReadableError, OpenFile

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from gpu_tracker.cuda_probe.binaries.elf64 import Elf, Section

_UNDEFINED = 0  # SHN_UNDEF
_BITS = 32
_MOST_SYMBOLS = 8_000_000
_MOST_ALIASES = 16
_HANDLE = re.compile(rb'\0(_ZZL?(\d{1,5})__device_stub_[^\0]*)E8__handle(?=[\0.])')
_STUB = '__device_stub_'
_PIECE = 1 << 22
_MOST_HANDLES = 1 << 20
_STT_OBJECT = 1
# A kernel of C is c_kernel, its stub's name has the C++ one: _Z8c_kernelPi
_OUTERMOST = re.compile(r'_Z([1-9]\d{0,3})')


class _Table(NamedTuple):
    section: Section
    functions: array[int]
    """Address above ``HostSymbols.first``, and the number of the symbol in the lower 32 bits; sorted."""


class HostSymbols:
    """The functions of one file, by address: 8 bytes for each are kept, and no names.

    Reads the symbol tables when it is made: about 1 s for a million symbols.
    """

    def __init__(self, elf: Elf) -> None:
        self._elf = elf
        addresses = [segment.address for segment in elf.segments()]
        self._first = min(addresses, default=0)
        # What strip removes is .symtab, where static functions stand; .dynsym has those that a library offers.
        self._tables = [self._read(table) for kind in (SHT_SYMTAB, SHT_DYNSYM) for table in elf.of_kind(kind)]

    def _read(self, table: Section) -> _Table:
        found = array('Q')
        for symbol in self._elf.symbols(table):
            above = symbol.value - self._first
            if (
                symbol.kind == STT_FUNC
                and symbol.section != _UNDEFINED
                and 0 <= above < 1 << _BITS
                and len(found) < _MOST_SYMBOLS
            ):
                found.append(above << _BITS | symbol.number)
        return _Table(table, array('Q', sorted(found)))

    def beginning_at(self, address: int) -> list[str]:
        """Return the mangled names of the functions that begin at ``address``, as the file counts addresses."""
        above = address - self._first
        names = []
        for table in self._tables:
            if not 0 <= above < 1 << _BITS:
                continue
            begin = bisect.bisect_left(table.functions, above << _BITS)
            end = bisect.bisect_left(table.functions, above + 1 << _BITS)
            for entry in table.functions[begin : min(end, begin + _MOST_ALIASES)]:
                name = self._elf.symbol_name(table.section, entry & (1 << _BITS) - 1)
                if name is not None and name not in names:
                    names.append(name)
        return names


class LaunchHandle(NamedTuple):
    """One handle: its ``address`` as the file counts them, and the mangled name of its kernel."""

    address: int
    kernel: str


def launch_handles(elf: Elf) -> list[LaunchHandle]:
    """Return the handles that are among the symbols of a program: none of a stripped one."""
    found = []
    for table in elf.of_kind(SHT_SYMTAB):
        names = dict(_handle_names(elf, table))
        for symbol in elf.symbols(table) if names else ():
            kernel = names.get(symbol.name_at)
            if kernel is not None and symbol.kind == _STT_OBJECT:
                found.append(LaunchHandle(symbol.value, kernel))
    return found


def _handle_names(elf: Elf, table: Section) -> Iterator[tuple[int, str]]:
    """Yield where the name of each handle begins in the table of names, and its kernel."""
    names = elf.names_of(table)
    at = 0
    count = 0
    while at < names.size and count < _MOST_HANDLES:
        piece = names.read(at, _PIECE + LONGEST_NAME)
        for handle in _HANDLE.finditer(piece):
            stub = handle[1].decode(errors='backslashreplace')
            begin = stub.index(_STUB)
            yield at + handle.start(1), stub[begin + len(_STUB) : begin + int(handle[2])]
            count += 1
        at += _PIECE


def name_in_c(symbol: str) -> str | None:
    """Return the name that a kernel has if it is one of C, from its stub's; None where it cannot be one."""
    length = _OUTERMOST.match(symbol)
    return symbol[length.end() : length.end() + int(length[1])] if length else None


_FORM = 1  # raised when what is written here, or how a figure is found, changes


class Findings:
    """The functions and kernels of one file that somebody has asked for."""

    def __init__(self) -> None:
        self.functions: dict[int, tuple[str, ...]] = {}
        """The mangled names of the functions that begin at an address, as the file counts addresses."""
        self.kernels: dict[str, Kernel | None] = {}
        """The kernel that the program launches as a function, by the function's mangled name; None: it has none."""
        self.changed = False
        """Whether anything was added since they were kept."""

    def as_json(self) -> str:
        """Return the text that ``findings_from`` reads."""
        content = {
            'form': _FORM,
            'functions': {f'{address:x}': names for address, names in self.functions.items()},
            'kernels': self.kernels,  # tuples become lists
        }
        return json.dumps(content, separators=(',', ':'))


def findings_from(text: str) -> Findings | None:
    """Return what ``as_json`` has written, None where the text is anything else."""
    findings = Findings()
    try:
        content = json.loads(text)
        if content['form'] != _FORM:
            return None
        for address, names in content['functions'].items():
            findings.functions[int(address, 16)] = tuple(_text(name) for name in names)
        for function, kernel in content['kernels'].items():
            findings.kernels[function] = None if kernel is None else _kernel(kernel)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None  # cut short by a crash, or written by another version
    return findings


def _kernel(fields: list[object]) -> Kernel:
    symbol, name, variants = fields
    if not isinstance(variants, list):
        raise TypeError
    return Kernel(_text(symbol), _text(name), tuple(_variant(variant) for variant in variants))


def _variant(fields: list[object]) -> KernelVariant:
    sm, feature, *figures = fields
    known = [figure if figure is None else _number(figure) for figure in figures]
    return KernelVariant(_number(sm), _text(feature), *known)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError
    return value


_NOTE_HEADER = 12
_BUILD_ID = 3  # NT_GNU_BUILD_ID
_MOST_NOTES = 1 << 16
_REGISTERS = b'__cudaRegisterFatBinary\0'
"""Every program with kernels calls it at its start; stripped, it has the name only where a library has the function."""
_MOST_NAMES = 1 << 28


class FileIdentity(NamedTuple):
    """The identity of a file: another one, or one that was written to since, has another."""

    device: int
    inode: int
    size: int
    modified: int
    """Nanoseconds since the epoch."""


def identity_of(status: os.stat_result) -> FileIdentity:
    """Return the identity of the file that has the ``status``."""
    return FileIdentity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class ProgramFile:
    """An open file; one that is no ELF file has no functions and no kernels."""

    def __init__(self, path: str) -> None:
        region = OpenFile(path)
        self.identity = identity_of(region.status)
        self._binary = CudaBinary(region)
        self._functions: HostSymbols | None = None
        self._handles: list[LaunchHandle] | None = None
        self._elf: elf64.Elf | None
        try:
            self._elf = elf64.Elf(region)
            self.has_kernels = any(section.name in SECTIONS for section in self._elf.sections())
            self._segments = self._elf.segments()
            self.build_id = _build_id(self._elf)
        except NotReadableError:  # a mapped file of data
            self._elf, self.has_kernels, self._segments, self.build_id = None, False, [], None
        self.findings = Findings()
        """What is known of the file; whoever has kept it from earlier puts it here."""

    def address_at(self, offset: int) -> int | None:
        """Return the address, as the file counts them, of what stands at ``offset``; None where nothing is loaded."""
        for segment in self._segments:
            if segment.offset <= offset < segment.offset + segment.size:
                return segment.address + offset - segment.offset
        return None

    def functions_at(self, address: int) -> tuple[str, ...]:
        """Return the mangled names of the functions that begin at ``address``."""
        known = self.findings.functions.get(address)
        if known is None:
            known = self._read_functions(address)
            self.findings.functions[address] = known
            self.findings.changed = True
        return known

    def _read_functions(self, address: int) -> tuple[str, ...]:
        if self._elf is None:
            return ()
        try:
            if self._functions is None:
                self._functions = HostSymbols(self._elf)
            return tuple(self._functions.beginning_at(address))
        except NotReadableError:  # a disk that fails: the address stays without a name
            return ()

    def kernel_of(self, function: str) -> Kernel | None:
        """Return the kernel that the program launches as ``function``, None where the file has none of that name."""
        if not self.has_kernels:
            return None
        if function not in self.findings.kernels:
            kernel = self._binary.kernel_of(function)
            if kernel is None and self._binary.problem is not None:
                return None  # a package may be installed by the next run
            self.findings.kernels[function] = kernel
            self.findings.changed = True
        return self.findings.kernels[function]

    @property
    def problem(self) -> str | None:
        """What of the kernels could not be read, in words; None where all could, or nothing was searched for."""
        return self._binary.problem_so_far

    def launch_handles(self) -> list[LaunchHandle]:
        """Return where the program keeps the handles by which it launches its kernels."""
        if self._handles is None:
            try:
                self._handles = launch_handles(self._elf) if self._elf is not None and self.has_kernels else []
            except NotReadableError:  # a disk that fails: the kernels stay without names
                self._handles = []
        return self._handles


def _build_id(elf: elf64.Elf) -> str | None:
    for section in elf.of_kind(elf64.SHT_NOTE):
        notes = elf.contents(section, _MOST_NOTES)
        at = 0
        while at + _NOTE_HEADER <= len(notes):
            name_size, size, kind = (int.from_bytes(notes[at + i : at + i + 4], 'little') for i in (0, 4, 8))
            begin = at + _NOTE_HEADER + name_size + -name_size % 4
            if kind == _BUILD_ID and notes[at + _NOTE_HEADER : at + _NOTE_HEADER + name_size] == b'GNU\0':
                return notes[begin : begin + size].hex() or None
            at = begin + size + -size % 4
    return None


def hides_runtime(path: str) -> bool:
    """Return whether a program has kernels and the runtime, and no name of the runtime's functions."""
    try:
        file = elf64.Elf(OpenFile(path))
        if not any(section.name in SECTIONS for section in file.sections()):
            return False
        tables = [*file.of_kind(elf64.SHT_DYNSYM), *file.of_kind(elf64.SHT_SYMTAB)]
        return not any(_REGISTERS in file.names_of(table).read(0, _MOST_NAMES) for table in tables)
    except (OSError, NotReadableError):
        return False  # gone, or no program
