"""Fatbins: what nvcc puts into ``.nv_fatbin``, code for several SM versions behind one another.

Learned from what fatbinary 13.0 and 13.5 write. A fatbin is a header and entries; an entry is a header, 64 bytes or
more, and a payload. With ``--concat`` one entry holds several cubins that are compressed together, and their table.
Payloads are LZ4 blocks (``--compress-mode=speed``) or zstd frames (``size``, ``balance``).
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.cuda_probe.binaries.region import NotReadableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_tracker.cuda_probe.binaries.region import Region

MAGIC = b'\x50\xed\x55\xba'
_HEADER = struct.Struct('<4sHHQ')  # magic, version, size of this header, size of all entries
# kind, version, size of this header, size of the payload with padding, size of the payload as compressed, where in this
# header its options stand, code version (two numbers), SM version, name (where, length), flags, -, unpacked size
_ENTRY = struct.Struct('<HHIQIIHHIIIQQQ')
_TABLE = struct.Struct('<II')  # entries, bytes
_PTX = 1
_CUBIN = 2
_CUBINS_TOGETHER = 0x100
_LZ4 = 0x2000
_ZSTD = 0x8000
_FEATURES = {0x100000: 'a', 0x200000: 'f'}  # sm_90a, sm_100f
_ALIGNMENT = 8
_PIECE = 1 << 16
_LARGEST_GAP = 64 << 20  # bytes
_MOST_ENTRIES = 1 << 12  # of one fatbin; nvcc writes one for each -gencode
_LARGEST_ENTRY_HEADER = 1 << 16
LARGEST_PAYLOAD = 256 << 20
"""Bytes: more than any cubin seen unpacks to, so a larger claim is taken for a broken file."""


class Packing(Enum):
    """How an entry of a fatbin is compressed."""

    NONE = 'not compressed'
    LZ4 = 'LZ4'
    ZSTD = 'zstd'


class Payload(NamedTuple):
    """The bytes of one entry: where they stand in the section, and what they unpack to."""

    offset: int
    size: int
    packing: Packing
    unpacked_size: int


class Image(NamedTuple):
    """One cubin: a part of a payload."""

    sm: int
    feature: str
    payload: Payload
    start: int
    size: int


class Fatbin(NamedTuple):
    """One fatbin: its cubins, whether it has PTX, and whether it is cut short."""

    images: tuple[Image, ...]
    has_ptx: bool
    cut: bool


def fatbins(region: Region) -> Iterator[Fatbin]:
    """Yield the fatbins of a section or file."""
    at = 0
    while at < region.size:
        header = region.read(at, _HEADER.size)
        if len(header) < _HEADER.size:
            return
        magic, _, header_size, size = _HEADER.unpack(header)
        if magic != MAGIC or header_size < _HEADER.size:
            at = _next_magic(region, at + (_ALIGNMENT if magic == MAGIC else 0))
            continue
        yield _read_fatbin(region, at + header_size, size)
        at += header_size + size
        at += -at % _ALIGNMENT


def _next_magic(region: Region, at: int) -> int:
    """Return where the next fatbin begins from ``at`` on: linkers leave gaps."""
    end = min(region.size, at + _LARGEST_GAP)
    while at < end:
        piece = region.read(at, _PIECE)
        found = piece.find(MAGIC)
        if found >= 0:
            return at + found
        if len(piece) < _PIECE:
            break
        at += _PIECE - len(MAGIC) + 1
    return region.size


def _read_fatbin(region: Region, at: int, size: int) -> Fatbin:
    images: list[Image] = []
    has_ptx = False
    end = min(at + size, region.size)
    cut = end < at + size
    for _ in range(_MOST_ENTRIES):
        if at >= end:
            break
        fields = region.read(at, _ENTRY.size)
        if len(fields) < _ENTRY.size:
            cut = True
            break
        entry = _ENTRY.unpack(fields)
        kind, _, header_size, padded = entry[:4]
        if header_size < _ENTRY.size or at + header_size + padded > end:
            cut = True
            break
        payload = _payload(at + header_size, entry)
        if kind == _CUBIN:
            images.append(Image(entry[8], _feature(entry[11]), payload, 0, payload.unpacked_size))
        elif kind == _CUBINS_TOGETHER:
            options = region.read(at, min(header_size, _LARGEST_ENTRY_HEADER))[entry[5] :]
            images.extend(_cubins_together(options, payload))
        has_ptx = has_ptx or kind == _PTX
        at += header_size + padded
    return Fatbin(tuple(images), has_ptx, cut)


def _payload(offset: int, entry: tuple[int, ...]) -> Payload:
    padded, compressed, flags, unpacked_size = entry[3], entry[4], entry[11], entry[13]
    if flags & _ZSTD:
        packing = Packing.ZSTD
    elif flags & _LZ4:
        packing = Packing.LZ4
    else:
        return Payload(offset, padded, Packing.NONE, padded)
    return Payload(offset, min(compressed, padded), packing, unpacked_size)


def _cubins_together(options: bytes, payload: Payload) -> Iterator[Image]:
    """Yield the cubins of one entry; each stands in the table as an entry, with its offset instead of a header size."""
    if len(options) < _TABLE.size:
        return
    count, size = _TABLE.unpack_from(options)
    table = options[_TABLE.size : size]
    for number in range(min(count, len(table) // _ENTRY.size)):
        entry = _ENTRY.unpack_from(table, number * _ENTRY.size)
        if entry[0] == _CUBIN:
            yield Image(entry[8], _feature(entry[11]), payload, entry[2], entry[3])


def _feature(flags: int) -> str:
    return ''.join(letter for bit, letter in _FEATURES.items() if flags & bit)


def unpacked(packed: bytes, packing: Packing, size: int) -> bytes:
    """Return the ``size`` bytes that ``packed`` holds.

    Raises NotReadableError where it does not hold them, where they are more than LARGEST_PAYLOAD, and where the package
    that can undo this compression is not installed.
    """
    if packing is Packing.NONE:
        return packed
    if not 0 < size <= LARGEST_PAYLOAD:
        raise NotReadableError(f'an entry has the invalid unpacked size of {size} bytes')
    contents = _from_lz4(packed, size) if packing is Packing.LZ4 else _from_zstd(packed, size)
    if len(contents) != size:
        raise NotReadableError(f'an entry unpacks to {len(contents)} bytes instead of {size}')
    return contents


def _from_lz4(packed: bytes, size: int) -> bytes:
    try:
        from lz4 import block  # noqa: PLC0415 - an extra, needed by few programs
    except ImportError:
        raise NotReadableError('compressed with LZ4: install the Python package lz4') from None
    try:
        contents: bytes = block.decompress(packed, uncompressed_size=size)
    except (block.LZ4BlockError, MemoryError) as error:
        raise NotReadableError(f'LZ4: {error}') from None
    return contents


def _from_zstd(packed: bytes, size: int) -> bytes:
    try:
        import zstandard  # noqa: PLC0415 - an extra, needed by few programs
    except ImportError:
        raise NotReadableError('compressed with zstd: install the Python package zstandard') from None
    try:
        # The frame's own word decides how much is allocated: it is checked before that happens.
        claimed = zstandard.frame_content_size(packed)
        if claimed not in {size, -1}:
            raise NotReadableError(f'a zstd frame has {claimed} bytes instead of {size}')
        contents: bytes = zstandard.ZstdDecompressor().decompress(packed, max_output_size=size)
    except (zstandard.ZstdError, MemoryError) as error:
        raise NotReadableError(f'zstd: {error}') from None
    return contents
