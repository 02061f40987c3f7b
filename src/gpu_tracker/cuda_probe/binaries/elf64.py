"""The headers, sections and symbols of 64-bit little-endian ELF files, elf(5).

Host files and cubins are both read with this. A large library has tens of thousands of cubins and a million symbols, so
nothing is read before it is asked for, and tables are read piece by piece. The files are those of the probed programs:
what they claim of themselves is read within bounds.
"""

from __future__ import annotations

import functools
import itertools
import re
import struct
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.cuda_probe.binaries.region import NotReadableError, PartOfRegion

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from gpu_tracker.cuda_probe.binaries.region import Region

MAGIC = b'\x7fELF'
EM_X86_64 = 62
EM_CUDA = 190
SHT_SYMTAB = 2
SHT_NOTE = 7
SHT_NOBITS = 8
SHT_DYNSYM = 11
STT_FUNC = 2

_PT_LOAD = 1
_PF_X = 1
_CLASS_64 = 2
_LITTLE_ENDIAN = 1
_UNNUMBERED = 0xFFFF  # SHN_XINDEX, PN_XNUM: the number stands in section 0
_HEADER = struct.Struct('<16sHHIQQQIHHHHHH')
_SECTION = struct.Struct('<IIQQQQIIQQ')
_SEGMENT = struct.Struct('<IIQQQQQQ')
_SYMBOL = struct.Struct('<IBBHQQ')

_MOST_SECTIONS = 1 << 18
_MOST_SEGMENTS = 1 << 12
_MOST_NAMES = 64 << 20  # bytes; the names of a host library are read one by one
_MOST_OF_A_KIND = 16  # a file has one symbol table of each kind, and a few notes
_MOST_TABLE = 1 << 28  # bytes of symbols, and of their names: eleven million
_MOST_OFFSETS = 64  # of a name in a string table: it may stand there more than once, as the end of longer ones
_SECTIONS_AT_ONCE = 1 << 10
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
    """One part of the file that is loaded into memory; ``is_code`` where it is executable."""

    address: int
    offset: int
    size: int
    is_code: bool

    def offset_of(self, address: int) -> int | None:
        """Return where in the file that stands which is loaded at ``address``, None where it is outside."""
        return address - self.address + self.offset if 0 <= address - self.address < self.size else None


class Symbol(NamedTuple):
    """One entry of a symbol table; ``number`` is its index in it, ``name_at`` the offset of its name."""

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
            raise NotReadableError('an ELF file that is not 64-bit little-endian')
        self.abi = header[8]
        fields = _HEADER.unpack(header)
        self.machine: int = fields[2]
        self._segments_at: int = fields[5]
        self._sections_at: int = fields[6]
        self.flags: int = fields[7]
        self._segments: int = fields[10]
        self._sections = self._section_count(fields[12])
        self._names_in: int = fields[13]
        if self._names_in == _UNNUMBERED and (first := self._section_header(0)):
            self._names_in = first[6]

    def _section_count(self, count: int) -> int:
        """Return how many section headers there are, given how many the file's header counts.

        :raises NotReadableError: The file ends before the last of them.
        """
        if not self._sections_at:
            return 0
        if not count:
            first = self.region.read(self._sections_at, _SECTION.size)
            count = _SECTION.unpack(first)[5] if len(first) == _SECTION.size else 0
        count = min(count, _MOST_SECTIONS)
        if self._sections_at + count * _SECTION.size > self.region.size:
            raise NotReadableError('a truncated ELF file')
        return count

    def _section_header(self, number: int) -> tuple[int, ...] | None:
        """Return the raw header of section ``number``, None where there is none."""
        if number < len(self._first_headers):
            return self._first_headers[number]
        return next(iter(self._headers_from(number, 1)), None)

    def _section_headers(self) -> Iterator[tuple[int, ...]]:
        """Yield the raw section headers, reading them piece by piece."""
        yield from self._first_headers
        for first in range(_SECTIONS_AT_ONCE, self._sections, _SECTIONS_AT_ONCE):
            yield from self._headers_from(first, _SECTIONS_AT_ONCE)

    @functools.cached_property
    def _first_headers(self) -> list[tuple[int, ...]]:
        """The first section headers: all that most files have."""
        return list(self._headers_from(0, _SECTIONS_AT_ONCE))

    def _headers_from(self, number: int, most: int) -> Iterator[tuple[int, ...]]:
        count = max(0, min(most, self._sections - number))
        table = self.region.read(self._sections_at + number * _SECTION.size, count * _SECTION.size)
        return _SECTION.iter_unpack(_whole(table, _SECTION))

    def sections(self) -> list[Section]:
        """Return all sections with their names."""
        names = self.names(self._names_in)
        return [
            Section(names.at(header[0]), header[1], header[4], header[5], header[6], header[7])
            for header in self._section_headers()
        ]

    def of_kind(self, kind: int) -> list[Section]:
        """Return the first sections of one type without their names, which costs much less."""
        found = (header for header in self._section_headers() if header[1] == kind)
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
        """Yield the symbols of a symbol table."""
        numbers = itertools.count()
        for piece in self._symbol_pieces(table):
            for name_at, info, other, section, value, _ in _SYMBOL.iter_unpack(piece):
                yield Symbol(next(numbers), name_at, info & 0xF, other, section, value)

    def symbols_named(self, table: Section, names: Collection[str]) -> Iterator[tuple[str, Symbol]]:
        """Yield the symbols of a table that have one of the names, each with its name.

        The names are searched for in the string table, and then only numbers are compared: a library may have a million
        symbols.
        """
        wanted = _offsets_of(self.names_of(table), names)
        first = 0
        for piece in self._symbol_pieces(table) if wanted else ():
            name_offsets = memoryview(piece).cast('I')[:: _SYMBOL.size // 4].tolist()
            for number, name_at in enumerate(name_offsets):
                if name_at in wanted:
                    _, info, other, section, value, _ = _SYMBOL.unpack_from(piece, number * _SYMBOL.size)
                    yield wanted[name_at], Symbol(first + number, name_at, info & 0xF, other, section, value)
            first += len(name_offsets)

    def _symbol_pieces(self, table: Section) -> Iterator[bytes]:
        """Yield the entries of a symbol table, many at once."""
        part = PartOfRegion(self.region, table.offset, min(table.size, _MOST_TABLE))
        for begin in range(0, part.size, _SYMBOLS_AT_ONCE * _SYMBOL.size):
            yield _whole(part.read(begin, _SYMBOLS_AT_ONCE * _SYMBOL.size), _SYMBOL)

    def names_of(self, table: Section) -> Region:
        """Return the names of a symbol table, unread."""
        return self._names_region(table.link)

    def _names_region(self, number: int) -> Region:
        header = self._section_header(number)
        if header is None or header[1] == SHT_NOBITS:
            return PartOfRegion(self.region, 0, 0)
        return PartOfRegion(self.region, header[4], header[5])

    def symbol_name(self, table: Section, number: int) -> str | None:
        """Return the name of symbol ``number`` without reading all names, None where there is none."""
        entry = self.region.read(table.offset + number * _SYMBOL.size, _SYMBOL.size)
        if len(entry) < _SYMBOL.size:
            return None
        text = self.names_of(table).read(_SYMBOL.unpack(entry)[0], LONGEST_NAME)
        return text.partition(b'\0')[0].decode(errors='backslashreplace') or None

    def segments(self) -> list[Segment]:
        """Return what is loaded into memory."""
        table = self.region.read(self._segments_at, min(self._segments, _MOST_SEGMENTS) * _SEGMENT.size)
        return [
            Segment(address=fields[3], offset=fields[2], size=fields[5], is_code=bool(fields[1] & _PF_X))
            for fields in _SEGMENT.iter_unpack(_whole(table, _SEGMENT))
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


def _whole(table: bytes, entry: struct.Struct) -> bytes:
    """Return the entries of a table that are there whole."""
    return table[: len(table) // entry.size * entry.size]


def _offsets_of(strings: Region, names: Collection[str]) -> dict[int, str]:
    """Return where in a string table which of the names stands; linkers let a name share the end of another."""
    if not names:
        return {}
    # All of CUDA's names begin alike, so that this is a search for two letters: an alternation takes 100 times as long.
    begins = b'|'.join(sorted({re.escape(name[:2].encode()) for name in names}))
    any_name = re.compile(rb'(%b)(?=(\w*)\0)' % begins)
    at_once = _SYMBOLS_AT_ONCE * _SYMBOL.size
    longest = max(map(len, names)) + 1
    counts = dict.fromkeys(names, 0)
    offsets: dict[int, str] = {}
    for begin in range(0, min(strings.size, _MOST_TABLE), at_once):
        for match in any_name.finditer(strings.read(begin, at_once + longest)):
            name, offset = (match[1] + match[2]).decode(), begin + match.start()
            if name in counts and offset not in offsets and counts[name] < _MOST_OFFSETS:
                counts[name] += 1
                offsets[offset] = name
    return offsets
