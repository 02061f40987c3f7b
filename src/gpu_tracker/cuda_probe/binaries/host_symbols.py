"""The functions of a program or library by address, and the handles by which it launches kernels.

What nvcc 12.9 and later compile asks the runtime once for a handle of each kernel (``__cudaGetKernel``) and launches
by that: the address that ``cudaLaunchKernel`` is given is then no function's. The handle stays in a static variable of
the kernel's stub, whose name contains the kernel's: ``_ZZ25__device_stub__Z5plainPfiPfiE8__handle``.
"""

from __future__ import annotations

import bisect
import re
from array import array
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.cuda_probe.binaries.elf64 import LONGEST_NAME, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC

if TYPE_CHECKING:
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
