"""Where a program keeps the handles by which it launches its kernels.

What nvcc 12.9 and later compile asks the runtime once for a handle of each kernel (``__cudaGetKernel``) and launches
by that: the address that ``cudaLaunchKernel`` is given is then no function's. The handle stays in a static variable of
the kernel's stub, whose name tells the kernel: ``_ZZ25__device_stub__Z5plainPfiPfiE8__handle``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.cuda_probe.binaries.elf64 import LONGEST_NAME, SHT_SYMTAB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_tracker.cuda_probe.binaries.elf64 import Elf, Section

_HANDLE = re.compile(rb'\0(_ZZL?(\d{1,5})__device_stub_[^\0]*)E8__handle(?=[\0.])')
_STUB = '__device_stub_'
_PIECE = 1 << 22
_MOST_HANDLES = 1 << 20
_STT_OBJECT = 1
# A kernel of C is c_kernel, its stub's name has the C++ one: _Z8c_kernelPi
_OUTERMOST = re.compile(r'_Z([1-9]\d{0,3})')


class LaunchHandle(NamedTuple):
    """One handle: its ``address`` as the file counts them, and the mangled name of its kernel."""

    address: int
    kernel: str


def launch_handles(elf: Elf) -> list[LaunchHandle]:
    """Return the handles that the symbols of a program tell of: none of a stripped one."""
    found = []
    for table in elf.of_kind(SHT_SYMTAB):
        names = dict(_names(elf, table))
        for symbol in elf.symbols(table) if names else ():
            kernel = names.get(symbol.name_at)
            if kernel is not None and symbol.kind == _STT_OBJECT:
                found.append(LaunchHandle(symbol.value, kernel))
    return found


def _names(elf: Elf, table: Section) -> Iterator[tuple[int, str]]:
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
