"""Where functions begin in ELF files, whatever their versions: what the kernel attaches to is an offset in a file.

Names are looked for in the string table as it stands, since files may have a million symbols.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from elftools.elf.sections import Section

_FUNCTION = 2  # STT_FUNC
_ENTRY_BYTES = 24  # of Elf64_Sym: name (4), info, other, section (2), value (8), size (8)
_MOST_NAMES = 64
"""A name may stand in a string table more than once, as the end of longer ones."""


class _Segments:
    """Where a file's parts are in memory."""

    def __init__(self, file: ELFFile) -> None:
        self._loaded = [
            (segment['p_vaddr'], segment['p_vaddr'] + segment['p_filesz'], segment['p_offset'])
            for segment in file.iter_segments()
            if segment['p_type'] == 'PT_LOAD'
        ]

    def offset_of(self, address: int) -> int | None:
        for begin, end, offset in self._loaded:
            if begin <= address < end:
                return int(address - begin + offset)
        return None


def find_functions(path: str, names: Collection[str]) -> Mapping[str, frozenset[int]]:
    """Return the offsets in the file at which functions of these names begin; names without one are left out.

    A file that is no 64-bit ELF file has none.

    :raises OSError: The file cannot be read.
    """
    found: dict[str, set[int]] = {}
    with open(path, 'rb') as stream:
        try:
            with mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as contents:
                for name, offset in _functions(ELFFile(stream), contents, names):
                    found.setdefault(name, set()).add(offset)
        except (ELFError, ValueError):
            return {}  # another kind of file, or a damaged one
    return {name: frozenset(offsets) for name, offsets in found.items()}


def _functions(file: ELFFile, contents: mmap.mmap, names: Collection[str]) -> Iterator[tuple[str, int]]:
    if file.elfclass != 64:  # noqa: PLR2004 - bits
        return
    segments = _Segments(file)
    for section in file.iter_sections():
        if section['sh_type'] in {'SHT_SYMTAB', 'SHT_DYNSYM'}:
            strings = file.get_section(section['sh_link'])
            for name, address in _symbols(contents, section, strings, names):
                offset = segments.offset_of(address)
                if offset is not None:
                    yield name, offset


def _symbols(
    contents: mmap.mmap, section: Section, strings: Section, names: Collection[str]
) -> Iterator[tuple[str, int]]:
    begin, size = section['sh_offset'], section['sh_size'] // _ENTRY_BYTES * _ENTRY_BYTES
    wanted = {
        place: name
        for name in names
        for place in _places(contents, name.encode(), strings['sh_offset'], strings['sh_size'])
    }
    if not wanted or begin + size > len(contents):
        return
    table = contents[begin : begin + size]
    name_places = memoryview(table).cast('I')[:: _ENTRY_BYTES // 4].tolist()
    for number, place in enumerate(name_places):
        if place in wanted:
            at = number * _ENTRY_BYTES
            info, defined_in = table[at + 4], int.from_bytes(table[at + 6 : at + 8], 'little')
            if info & 0xF == _FUNCTION and defined_in:
                yield wanted[place], int.from_bytes(table[at + 8 : at + 16], 'little')


def _places(contents: mmap.mmap, name: bytes, begin: int, size: int) -> Iterator[int]:
    """Yield where in a string table ``name`` stands, from its begin; linkers let it share the end of another."""
    ended, at, end = name + b'\0', begin, begin + size
    for _ in range(_MOST_NAMES):
        at = contents.find(ended, at, end)
        if at < 0:
            return
        yield at - begin
        at += 1
