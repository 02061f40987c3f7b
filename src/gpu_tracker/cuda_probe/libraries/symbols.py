"""Where functions begin in ELF files, whatever their versions: what the kernel attaches to is an offset in a file."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from gpu_tracker.cuda_probe.binaries.elf64 import SHT_DYNSYM, SHT_SYMTAB, STT_FUNC, Elf
from gpu_tracker.cuda_probe.binaries.region import NotReadableError, OpenFile

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_MOST_OFFSETS = 64
"""A function has one for each of its versions; static ones of the same name stand beside."""
_MOST_CODE = 16
"""Segments of a file; it has one or two."""


def find_functions(path: str, names: Collection[str]) -> Mapping[str, frozenset[int]]:
    """Return the offsets in the file at which functions of these names begin; names without one are left out.

    Anything but a whole 64-bit ELF file has none.

    :raises OSError: The file cannot be opened.
    """
    found: dict[str, set[int]] = {}
    try:
        elf = Elf(OpenFile(path))
        code = [segment for segment in elf.segments() if segment.is_code][:_MOST_CODE]
        for table in (*elf.of_kind(SHT_SYMTAB)[:1], *elf.of_kind(SHT_DYNSYM)[:1]):
            for name, symbol in elf.symbols_named(table, names):
                # Others of code are resolvers, which are called once, when a library is loaded.
                offsets = found.setdefault(name, set())
                if symbol.kind == STT_FUNC and symbol.section and len(offsets) < _MOST_OFFSETS:
                    in_file = (segment.offset_of(symbol.value) for segment in code)
                    offsets.update(offset for offset in in_file if offset is not None)
    except NotReadableError:
        return {}  # another kind of file, or a damaged one
    except OSError as error:
        if error.errno == errno.EINVAL:
            return {}  # no regular file
        raise
    return {name: frozenset(offsets) for name, offsets in found.items() if offsets}
