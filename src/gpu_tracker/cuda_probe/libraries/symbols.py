"""Where functions begin in ELF files, whatever their versions: what the kernel attaches to is an offset in a file.

Names are looked for in the string table as it stands, since files may have a million symbols. Files are read piece by
piece and never mapped: a mapped file that somebody shortens kills its reader with SIGBUS. They are those of the probed
programs, so what they say of themselves is taken with bounds.
"""

from __future__ import annotations

import os
import re
import stat
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from elftools.common.exceptions import ELFError
from elftools.common.utils import struct_parse
from elftools.elf.elffile import ELFFile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from elftools.construct import Construct

_FUNCTION = 2  # STT_FUNC: others of code are resolvers, which are called once, when a library is loaded
_EXECUTABLE = 1  # PF_X
_ENTRY_BYTES = 24  # of Elf64_Sym: name (4), info, other, section (2), value (8), size (8)
_PIECE_BYTES = _ENTRY_BYTES << 16
_MOST_HEADERS = 4_096  # of sections, and of segments
_MOST_TABLE_BYTES = 1 << 28  # of symbols, and of their names: eleven million
_MOST_PLACES = 64
"""A name may stand in a string table more than once, as the end of longer ones."""
_MOST_OFFSETS = 64
"""A function has one for each of its versions; static ones of the same name stand beside."""
_DAMAGED = ELFError, ValueError, OverflowError, OSError


class _Segment(NamedTuple):
    """A part of the file that is mapped as code."""

    begin: int
    end: int
    offset: int


class _Part(NamedTuple):
    """A part of the file."""

    offset: int
    size: int


def find_functions(path: str, names: Collection[str]) -> Mapping[str, frozenset[int]]:
    """Return the offsets in the file at which functions of these names begin; names without one are left out.

    Anything but a 64-bit ELF file has none.

    :raises OSError: The file cannot be opened.
    """
    found: dict[str, set[int]] = {}
    # A FIFO in the place of the file would have its reader wait for ever.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY), 'rb') as stream:
        if not names or not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            return {}
        try:
            for name, offset in _functions(stream, names):
                offsets = found.setdefault(name, set())
                if len(offsets) < _MOST_OFFSETS:
                    offsets.add(offset)
        except _DAMAGED:
            return {}  # another kind of file, or a damaged one
    return {name: frozenset(offsets) for name, offsets in found.items()}


def _functions(stream: IO[bytes], names: Collection[str]) -> Iterator[tuple[str, int]]:
    file = ELFFile(stream)
    if file.elfclass != 64 or not file.little_endian:  # noqa: PLR2004 - bits
        return
    code = [
        _Segment(header['p_vaddr'], header['p_vaddr'] + header['p_filesz'], header['p_offset'])
        for header in _headers(file, file.structs.Elf_Phdr, file['e_phoff'], file.num_segments())
        if header['p_type'] == 'PT_LOAD' and header['p_flags'] & _EXECUTABLE
    ]
    sections = list(_headers(file, file.structs.Elf_Shdr, file['e_shoff'], file.num_sections()))
    for kind in ('SHT_SYMTAB', 'SHT_DYNSYM'):
        table = next((section for section in sections if section['sh_type'] == kind), None)
        if table is None or table['sh_link'] >= len(sections):
            continue
        for name, address in _symbols(stream, _part(table), _part(sections[table['sh_link']]), names):
            for segment in code:
                if segment.begin <= address < segment.end:
                    yield name, address - segment.begin + segment.offset


def _headers(file: ELFFile, form: Construct, begin: int, count: int) -> Iterator[Mapping[str, Any]]:
    """Yield the headers of a table, without what pyelftools would read of each section and segment itself."""
    for number in range(min(count, _MOST_HEADERS)):
        yield struct_parse(form, file.stream, stream_pos=begin + number * form.sizeof())


def _part(section: Mapping[str, Any]) -> _Part:
    return _Part(section['sh_offset'], min(section['sh_size'], _MOST_TABLE_BYTES))


def _symbols(stream: IO[bytes], table: _Part, strings: _Part, names: Collection[str]) -> Iterator[tuple[str, int]]:
    wanted = _places(stream, strings, names)
    if not wanted:
        return
    for piece in _pieces(stream, table, 0):
        whole = piece[: len(piece) // _ENTRY_BYTES * _ENTRY_BYTES]
        name_places = memoryview(whole).cast('I')[:: _ENTRY_BYTES // 4].tolist()
        for number, place in enumerate(name_places):
            if place in wanted:
                at = number * _ENTRY_BYTES
                info, defined_in = whole[at + 4], int.from_bytes(whole[at + 6 : at + 8], 'little')
                if info & 0xF == _FUNCTION and defined_in:
                    yield wanted[place], int.from_bytes(whole[at + 8 : at + 16], 'little')


def _places(stream: IO[bytes], strings: _Part, names: Collection[str]) -> dict[int, str]:
    """Return what names stand where in a string table; linkers let a name share the end of another."""
    tails = {name: [tail for tail in names if name.endswith(tail)] for name in names}
    any_of_them = re.compile(b'(%b)\\0' % b'|'.join(re.escape(name.encode()) for name in names))
    counts = dict.fromkeys(names, 0)
    places: dict[int, str] = {}
    for number, piece in enumerate(_pieces(stream, strings, max(map(len, names)) + 1)):
        for match in any_of_them.finditer(piece):
            for name in tails[match[1].decode()]:
                place = number * _PIECE_BYTES + match.end(1) - len(name)
                if place not in places and counts[name] < _MOST_PLACES:
                    counts[name] += 1
                    places[place] = name
    return places


def _pieces(stream: IO[bytes], part: _Part, overlap: int) -> Iterator[bytes]:
    """Yield a part of the file piece by piece, each with the first bytes of the next."""
    for begin in range(0, part.size, _PIECE_BYTES):
        stream.seek(part.offset + begin)
        piece = stream.read(min(_PIECE_BYTES + overlap, part.size - begin))
        if not piece:
            return
        yield piece
