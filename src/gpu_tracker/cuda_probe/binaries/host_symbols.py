"""Which function of a program or library begins at an address."""

from __future__ import annotations

import bisect
from array import array
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.cuda_probe.binaries.elf64 import SHT_DYNSYM, SHT_SYMTAB, STT_FUNC

if TYPE_CHECKING:
    from gpu_tracker.cuda_probe.binaries.elf64 import Elf, Section

_UNDEFINED = 0  # SHN_UNDEF
_BITS = 32
_MOST_SYMBOLS = 8_000_000
_MOST_ALIASES = 16


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
