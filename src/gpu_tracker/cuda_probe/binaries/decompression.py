"""Undoes what nvcc's ``--compress-mode`` does: LZ4 blocks (``speed``) and zstd frames (``size``, ``balance``)."""

from __future__ import annotations

from enum import Enum

from gpu_tracker.cuda_probe.binaries.region import NotReadableError

LARGEST_PAYLOAD = 256 << 20
"""Bytes: more than any cubin seen unpacks to, so a larger claim is taken for a broken file."""


class Packing(Enum):
    """How an entry of a fatbin is compressed."""

    NONE = 'not compressed'
    LZ4 = 'LZ4'
    ZSTD = 'zstd'


def unpacked(packed: bytes, packing: Packing, size: int) -> bytes:
    """Return the ``size`` bytes that ``packed`` holds.

    Raises NotReadableError where it does not hold them, where they are more than LARGEST_PAYLOAD, and where the package
    that can undo this compression is not installed.
    """
    if packing is Packing.NONE:
        return packed
    if not 0 < size <= LARGEST_PAYLOAD:
        raise NotReadableError(f'an entry claims to unpack to {size} bytes')
    contents = _from_lz4(packed, size) if packing is Packing.LZ4 else _from_zstd(packed, size)
    if len(contents) != size:
        raise NotReadableError(f'an entry unpacks to {len(contents)} bytes, not the {size} that it claims')
    return contents


def _from_lz4(packed: bytes, size: int) -> bytes:
    try:
        from lz4 import block  # noqa: PLC0415 - an extra, needed by few programs
    except ImportError:
        raise NotReadableError('compressed with LZ4, which needs the package lz4') from None
    try:
        contents: bytes = block.decompress(packed, uncompressed_size=size)
    except (block.LZ4BlockError, MemoryError) as error:
        raise NotReadableError(f'LZ4: {error}') from None
    return contents


def _from_zstd(packed: bytes, size: int) -> bytes:
    try:
        import zstandard  # noqa: PLC0415 - an extra, needed by few programs
    except ImportError:
        raise NotReadableError('compressed with zstd, which needs the package zstandard') from None
    try:
        # The frame's own word decides how much is allocated: it is checked before that happens.
        claimed = zstandard.frame_content_size(packed)
        if claimed not in {size, -1}:
            raise NotReadableError(f'a zstd frame of {claimed} bytes where {size} are expected')
        contents: bytes = zstandard.ZstdDecompressor().decompress(packed, max_output_size=size)
    except (zstandard.ZstdError, MemoryError) as error:
        raise NotReadableError(f'zstd: {error}') from None
    return contents
