"""The headers, sections and symbols of 64-bit little-endian ELF files, elf(5).

Host files and cubins are both read with this. pyelftools needs about fifty times as long for a cubin, and a large
library has tens of thousands of them and a million symbols.
"""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.cuda_probe.binaries.region import NotReadableError, PartOfRegion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_tracker.cuda_probe.binaries.region import Region

MAGIC = b'\x7fELF'
EM_CUDA = 190
SHT_SYMTAB = 2
SHT_NOTE = 7
SHT_NOBITS = 8
SHT_DYNSYM = 11
STT_FUNC = 2

_PT_LOAD = 1
_CLASS_64 = 2
_LITTLE_ENDIAN = 1
_UNNUMBERED = 0xFFFF  # SHN_XINDEX, PN_XNUM: the number stands in section 0
_HEADER = struct.Struct('<16sHHIQQQIHHHHHH')
_SECTION = struct.Struct('<IIQQQQIIQQ')
_SEGMENT = struct.Struct('<IIQQQQQQ')
_SYMBOL = struct.Struct('<IBBHQQ')

_MOST_SECTIONS = 1 << 18
_MOST_NAMES = 64 << 20  # bytes; the names of a host library are read one by one
_MOST_OF_A_KIND = 16  # a file has one symbol table of each kind, and a few notes
_SYMBOLS_AT_ONCE = 1 << 16
LONGEST_NAME = 1 << 14


class Section(NamedTuple):
    """One section header."""

    name: str
    kind: int
    offset: int
    size: int
    link: int
    info: int


class Segment(NamedTuple):
    """One part of the file that is loaded into memory."""

    address: int
    offset: int
    size: int


class Symbol(NamedTuple):
    """One entry of a symbol table; ``number`` is its place in it, ``name_at`` the place of its name."""

    number: int
    name_at: int
    kind: int
    other: int
    section: int
    value: int


class Elf:
    """One ELF file; raises NotReadableError where it is none, or not one of 64 bits."""

    def __init__(self, region: Region) -> None:
        self.region = region
        header = region.read(0, _HEADER.size)
        if not header.startswith(MAGIC) or len(header) < _HEADER.size:
            raise NotReadableError('not an ELF file')
        if header[4] != _CLASS_64 or header[5] != _LITTLE_ENDIAN:
            raise NotReadableError('an ELF file, but not a 64-bit little-endian one')
        self.abi = header[8]
        fields = _HEADER.unpack(header)
        self.machine: int = fields[2]
        self._segments_at: int = fields[5]
        self._sections_at: int = fields[6]
        self.flags: int = fields[7]
        self._segments: int = fields[10]
        self._headers = self._section_headers(fields[12])
        self._names_in: int = fields[13]
        if self._names_in == _UNNUMBERED and self._headers:
            self._names_in = self._headers[0][6]

    def _section_headers(self, count: int) -> list[tuple[int, ...]]:
        """Return the raw section headers, as many as are there whole."""
        if not self._sections_at:
            return []
        if not count:
            first = self.region.read(self._sections_at, _SECTION.size)
            count = _SECTION.unpack(first)[5] if len(first) == _SECTION.size else 0
        table = self.region.read(self._sections_at, min(count, _MOST_SECTIONS) * _SECTION.size)
        return list(_SECTION.iter_unpack(table[: len(table) // _SECTION.size * _SECTION.size]))

    def sections(self) -> list[Section]:
        """Return all sections with their names."""
        names = self.names(self._names_in)
        return [
            Section(names.at(header[0]), header[1], header[4], header[5], header[6], header[7])
            for header in self._headers
        ]

    def of_kind(self, kind: int) -> list[Section]:
        """Return the first sections of one type without their names, which costs much less."""
        found = (header for header in self._headers if header[1] == kind)
        return [
            Section('', kind, header[4], header[5], header[6], header[7])
            for header in itertools.islice(found, _MOST_OF_A_KIND)
        ]

    def contents(self, section: Section, most: int = _MOST_NAMES) -> bytes:
        """Return the bytes of a section, none of one that has no bytes in the file."""
        if section.kind == SHT_NOBITS:
            return b''
        return self.region.read(section.offset, min(section.size, most))

    def names(self, number: int) -> Names:
        """Return the string table that is section ``number``, an empty one where there is none."""
        return Names(self._names_region(number).read(0, _MOST_NAMES))

    def symbols(self, table: Section) -> Iterator[Symbol]:
        """Yield the symbols of a symbol table, reading it piece by piece."""
        at_once = _SYMBOLS_AT_ONCE * _SYMBOL.size
        numbers = itertools.count()
        for offset in range(0, min(table.size, self.region.size), at_once):
            piece = self.region.read(table.offset + offset, min(at_once, table.size - offset))
            for name_at, info, other, section, value, _ in _SYMBOL.iter_unpack(
                piece[: len(piece) // _SYMBOL.size * _SYMBOL.size]
            ):
                yield Symbol(next(numbers), name_at, info & 0xF, other, section, value)

    def names_of(self, table: Section) -> Region:
        """Return the names of a symbol table, unread."""
        return self._names_region(table.link)

    def _names_region(self, number: int) -> Region:
        if not 0 <= number < len(self._headers):
            return PartOfRegion(self.region, 0, 0)
        header = self._headers[number]
        return PartOfRegion(self.region, header[4], 0 if header[1] == SHT_NOBITS else header[5])

    def symbol_name(self, table: Section, number: int) -> str | None:
        """Return the name of symbol ``number`` without reading all names, None where there is none."""
        entry = self.region.read(table.offset + number * _SYMBOL.size, _SYMBOL.size)
        if len(entry) < _SYMBOL.size:
            return None
        text = self.names_of(table).read(_SYMBOL.unpack(entry)[0], LONGEST_NAME)
        return text.partition(b'\0')[0].decode(errors='backslashreplace') or None

    def segments(self) -> list[Segment]:
        """Return what is loaded into memory."""
        table = self.region.read(self._segments_at, self._segments * _SEGMENT.size)
        return [
            Segment(address=fields[3], offset=fields[2], size=fields[5])
            for fields in _SEGMENT.iter_unpack(table[: len(table) // _SEGMENT.size * _SEGMENT.size])
            if fields[0] == _PT_LOAD
        ]


class Names:
    """A string table."""

    def __init__(self, contents: bytes) -> None:
        self._contents = contents

    def at(self, offset: int) -> str:
        """Return the text at ``offset``, cut at LONGEST_NAME bytes; empty past the end."""
        end = self._contents.find(b'\0', offset, offset + LONGEST_NAME)
        if end < 0:
            end = min(len(self._contents), offset + LONGEST_NAME)
        return self._contents[offset:end].decode(errors='backslashreplace')
