"""Cubins and fatbins put together by hand, in the forms that ptxas and fatbinary write."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from lz4 import block
from zstandard import ZstdCompressor

KERNEL = 0x12, 0x10  # global function; STO_CUDA_ENTRY
FUNCTION = 0x12, 0
PTX, CUBIN, CUBINS_TOGETHER = 1, 2, 0x100
PLAIN, LZ4, ZSTD = 0x11, 0x2011, 0x8011

_NOBITS = 8


@dataclass(frozen=True)
class MadeKernel:
    """What a cubin says of one kernel; ``shared`` with what the system reserves."""

    symbol: str
    registers: int = 10
    code: int = 256
    shared: int = 0
    constants: tuple[tuple[int, int], ...] = ((0, 360),)
    stack: int = 0
    kind: tuple[int, int] = KERNEL


def cubin(
    *kernels: MadeKernel, sm: int = 90, abi: int = 8, reserves: bool = False, declared: int = 0, old: bool = False
) -> bytes:
    """Return a cubin; an ``old`` one has registers in the section header alone."""
    symbols = b'\0' * 24
    names = b'\0'
    attributes = b''
    sections: list[tuple[str, int, bytes, int, int, int]] = []  # name, type, contents, size, link, info
    for number, kernel in enumerate(kernels, 1):
        symbols += struct.pack('<IBBHQQ', len(names), *kernel.kind, 0, 0, kernel.code)
        names += kernel.symbol.encode() + b'\0'
        attributes += struct.pack('<BBHII', 4, 0x12, 8, number, kernel.stack)
        if not old:
            attributes += struct.pack('<BBHII', 4, 0x2F, 8, number, kernel.registers)
        attributes += struct.pack('<BBH', 3, 0x1B, 255)  # one without a value behind it
        in_header = kernel.registers << 24 if old else 0
        sections.append((f'.text.{kernel.symbol}', 1, bytes(kernel.code), kernel.code, 0, in_header | number))
        sections.append((f'.nv.shared.{kernel.symbol}', _NOBITS, b'', kernel.shared, 0, 0))
        sections.extend(
            (f'.nv.constant{bank}.{kernel.symbol}', 1, bytes(size), size, 0, 0) for bank, size in kernel.constants
        )
    sections.append(('.nv.info', 0x70000000, attributes, len(attributes), 0, 0))
    if declared:
        sections.append(('.nv.constant3', 1, bytes(declared), declared, 0, 0))
    if reserves:
        sections.append(('.nv.shared.reserved.0', _NOBITS, b'', 0, 0, 0))
    flags = sm << 8 | 0x6000004 if abi >= 8 else sm | sm << 16 | 0x500
    return elf(sections, symbols, names, machine=190, abi=abi, flags=flags)


def elf(
    sections: list[tuple[str, int, bytes, int, int, int]],
    symbols: bytes = b'',
    names: bytes = b'\0',
    machine: int = 62,
    abi: int = 0,
    flags: int = 0,
) -> bytes:
    """Return a 64-bit ELF file of these sections (name, type, contents, size, link, info) and this symbol table."""
    every = [
        ('', 0, b'', 0, 0, 0),
        ('.shstrtab', 3, b'', 0, 0, 0),
        ('.strtab', 3, names, len(names), 0, 0),
        ('.symtab', 2, symbols, len(symbols), 2, 0),
        *sections,
    ]
    section_names = b''
    places = []
    for name, *_ in every:
        places.append(len(section_names))
        section_names += name.encode() + b'\0'
    every[1] = ('.shstrtab', 3, section_names, len(section_names), 0, 0)
    body = b''
    headers = b''
    for place, (_, kind, contents, size, link, info) in zip(places, every, strict=True):
        headers += struct.pack('<IIQQQQIIQQ', place, kind, 0, 0, 64 + len(body), size, link, info, 1, 0)
        body += contents
    ident = b'\x7fELF' + bytes([2, 1, 1, 0x41, abi]) + bytes(7)
    header = struct.pack(
        '<16sHHIQQQIHHHHHH', ident, 2, machine, 1, 0, 0, 64 + len(body), flags, 64, 56, 0, 64, len(every), 1
    )
    return header + body + headers


def entry(contents: bytes, sm: int = 90, kind: int = CUBIN, flags: int = PLAIN, options: bytes = b'') -> bytes:
    """Return one entry of a fatbin with its payload, compressed as ``flags`` say."""
    packed = contents
    if flags & 0x2000:
        packed = block.compress(contents, store_size=False)
    elif flags & 0x8000:
        packed = ZstdCompressor().compress(contents)
    sizes = (len(packed), len(contents)) if packed is not contents else (0, 0)
    padding = bytes(-len(packed) % 8)
    header = _entry_header(kind, 64 + len(options), len(packed + padding), sizes[0], sm, flags, sizes[1], bool(options))
    return header + options + packed + padding


def cubins_together(*cubins: tuple[int, bytes], flags: int = ZSTD) -> bytes:
    """Return one entry that holds several cubins, each given with its SM version."""
    table = b''
    contents = b''
    for sm, made in cubins:
        table += _entry_header(CUBIN, len(contents), len(made), 0, sm, PLAIN, 0, has_options=False)
        contents += made
    options = struct.pack('<II', len(cubins), 8 + len(table)) + table
    return entry(contents, 0, CUBINS_TOGETHER, flags, options)


def _entry_header(
    kind: int, header: int, size: int, compressed: int, sm: int, flags: int, unpacked: int, has_options: bool
) -> bytes:
    return struct.pack(
        '<HHIQIIHHIIIQQQ',
        *(kind, 0x101, header, size, compressed, 64 * has_options, 8, 1, sm, 0, 0, flags, 0, unpacked),
    )


def fatbin(*entries: bytes) -> bytes:
    """Return a fatbin."""
    contents = b''.join(entries)
    return struct.pack('<4sHHQ', b'\x50\xed\x55\xba', 1, 16, len(contents)) + contents


def program(code: bytes, linked_from: bytes = b'') -> bytes:
    """Return a program that has fatbins, and those that it was linked from."""
    return elf(
        [
            ('.nv_fatbin', 1, code, len(code), 0, 0),
            ('__nv_relfatbin', 1, linked_from, len(linked_from), 0, 0),
        ]
    )
