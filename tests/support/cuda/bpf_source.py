"""What the C text of the probe says: its enums, its structures as formats of Python's struct module, its maps."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import gpu_tracker.cuda_probe

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDER = Path(gpu_tracker.cuda_probe.__file__).parent / 'bpf'
SOURCE = (_FOLDER / 'layout.h').read_text()

_PLAIN = re.sub(r'//[^\n]*', '', SOURCE)
_NUMBERS = {'u8': 'B', 'u16': 'H', 'u32': 'I', 's32': 'i', 'u64': 'Q', 'char': 's'}
_TYPES = {
    'u8': ctypes.c_uint8,
    'u16': ctypes.c_uint16,
    'u32': ctypes.c_uint32,
    's32': ctypes.c_int32,
    'u64': ctypes.c_uint64,
    'char': ctypes.c_char,
}
_DEFINED = {name: int(value) for name, value in re.findall(r'#define (\w+) (\d+)\n', _PLAIN)}


class Map(NamedTuple):
    """A hash table."""

    key: str
    value: str
    """Their types."""
    entries: int


def enum(name: str) -> dict[str, int]:
    """Return the names of an enum with their numbers."""
    words = re.search(rf'enum {name} {{(.*?)}}', _PLAIN, re.DOTALL)[1].split(',')
    numbers: dict[str, int] = {}
    following = 0
    for word in filter(None, map(str.strip, words)):
        symbol, _, number = word.partition('=')
        following = int(number) if number else following
        numbers[symbol.strip()] = following
        following += 1
    return numbers


def form(name: str) -> str:
    """Return how a type is laid out, as :func:`plain` gives a format; what is called padding is no field."""
    if not name.startswith('struct '):
        return _NUMBERS[name]
    fields = list(_fields(name))
    laid_out = type(name, (ctypes.Structure,), {'_fields_': [(field, kind) for field, kind, _ in fields]})
    told, at = '', 0
    for field, _, code in fields:
        where = getattr(laid_out, field)
        told += 'x' * (where.offset - at) + ('x' * where.size if field == 'padding' else code)
        at = where.offset + where.size
    return told + 'x' * (ctypes.sizeof(laid_out) - at)


def plain(format_: str) -> str:
    """Return a format with each of its numbers written out, without the byte order."""
    return re.sub(r'(\d+)([a-rt-z])', lambda found: found[2] * int(found[1]), format_.lstrip('<'), flags=re.IGNORECASE)


def maps() -> dict[str, Map]:
    """Return the hash tables by name."""
    found = re.findall(r'^HASH\((\w+), ([\w ]+), ([\w ]+), (\d+)\)', _PLAIN, re.MULTILINE)
    return {name: Map(key, value, int(entries)) for name, key, value, entries in found}


def rings() -> dict[str, int]:
    """Return the bytes of the rings by name."""
    return {name: int(size) for name, size in re.findall(r'^RING\((\w+), (\d+)\)', _PLAIN, re.MULTILINE)}


def _fields(name: str) -> Iterator[tuple[str, type, str]]:
    body = re.search(rf'\n{name} {{ *\n(.*?)\n}};', _PLAIN, re.DOTALL)[1]
    for kind, names in re.findall(r'(\w+) ([\w, \[\]]+);', body):
        for field, length in re.findall(r'(\w+)(?:\[(\w+)\])?', names):
            if length:
                number = _DEFINED.get(length) or int(length)
                yield field, _TYPES[kind] * number, f'{number}{_NUMBERS[kind]}'
            else:
                yield field, _TYPES[kind], _NUMBERS[kind]
