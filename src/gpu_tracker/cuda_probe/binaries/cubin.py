"""The kernels of a cubin: an ELF file with the machine code of one SM version.

Learned from what ptxas 12.9, 13.0 and 13.5 write and cuobjdump says of it. Kernel K has its code in ``.text.K``, its
shared memory in ``.nv.shared.K``, its constant memory in ``.nv.constant<bank>.K``. Registers and stack stand in
``.nv.info``, by symbol; the high byte of the ``sh_info`` of ``.text.K`` has the registers as well, but from sm_90 on no
longer.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.cuda_probe.binaries.elf64 import EM_CUDA, SHT_SYMTAB, STT_FUNC, Elf
from gpu_tracker.cuda_probe.binaries.region import NotReadableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpu_tracker.cuda_probe.binaries.elf64 import Section
    from gpu_tracker.cuda_probe.binaries.region import Region

_KERNEL = 0x10  # STO_CUDA_ENTRY in st_other: a kernel, not a function that kernels call
_FLAGS_WITH_SM_HIGHER = (
    8  # from this ABI version on, e_flags has the SM version in its second byte, before in its first
)
_RESERVED_SHARED = '.nv.shared.reserved.0'
_RESERVED_SHARED_SIZE = 1024
_SIZED = 4  # EIFMT_SVAL: the attribute's size stands in the header, its value behind it
_STACK = 0x12  # EIATTR_MIN_STACK_SIZE
_REGISTERS = 0x2F  # EIATTR_REGCOUNT
_ATTRIBUTE = struct.Struct('<BBH')
_OF_SYMBOL = struct.Struct('<II')
_MOST_ATTRIBUTES = 64 << 20  # bytes
_CONSTANT_OF_KERNEL = re.compile(r'\.nv\.constant\d+\.(.+)', re.DOTALL)


class KernelVariant(NamedTuple):
    """A kernel compiled for one SM version; sizes in bytes, None where the code does not contain it.

    ``sm`` is the SM version (90 for sm_90) and ``feature`` what follows it (``a`` in sm_90a, ``f`` in sm_100f).
    ``registers`` are those of a thread, ``code_size`` is that of the machine code with its padding, ``static_shared``
    is the shared memory of a block that the source declares, and ``reserved_shared`` what the system adds to it (1024
    from sm_90 on): cuobjdump shows the sum of both, ptxas the first. ``constant`` is the constant memory of the kernel
    itself, its arguments included, ``module_constant`` what the source declares as ``__constant__`` for all kernels of
    the module. ``stack`` is that of a thread.
    """

    sm: int
    feature: str
    registers: int | None
    code_size: int | None
    static_shared: int | None
    reserved_shared: int | None
    constant: int | None
    module_constant: int | None
    stack: int | None


class Kernel(NamedTuple):
    """A kernel: its mangled ``symbol`` in the device code, its ``name`` for people, and each SM version of it."""

    symbol: str
    name: str
    variants: tuple[KernelVariant, ...]


class Cubin:
    """One cubin; raises NotReadableError where it is none."""

    def __init__(self, region: Region) -> None:
        self._elf = Elf(region)
        if self._elf.machine != EM_CUDA:
            raise NotReadableError('not a cubin')

    @property
    def sm(self) -> int:
        """The SM version for which this was compiled."""
        return self._elf.flags >> (8 if self._elf.abi >= _FLAGS_WITH_SM_HIGHER else 0) & 0xFF

    def symbols(self) -> Iterator[str]:
        """Yield the mangled names of the kernels; nothing else of the cubin is read for it."""
        for _, name in self._kernels():
            yield name

    def _kernels(self) -> Iterator[tuple[int, str]]:
        """Yield each kernel's number in the symbol table and its name."""
        for table in self._elf.of_kind(SHT_SYMTAB):
            names = self._elf.names(table.link)
            for symbol in self._elf.symbols(table):
                if symbol.other & _KERNEL and symbol.kind == STT_FUNC and (name := names.at(symbol.name_at)):
                    yield symbol.number, name

    def variants(self, wanted: frozenset[str] | None, sm: int, feature: str) -> dict[str, KernelVariant]:
        """Return the figures of the kernels ``wanted``, of all where that is None."""
        sections = {section.name: section for section in self._elf.sections()}
        constants: dict[str, int] = {}
        for name, section in sections.items():
            if of_kernel := _CONSTANT_OF_KERNEL.fullmatch(name):
                constants[of_kernel[1]] = constants.get(of_kernel[1], 0) + section.size
        attributes = self._attributes(sections.get('.nv.info'))
        declared = sections.get('.nv.constant3')
        found = {}
        for number, name in self._kernels():
            if wanted is not None and name not in wanted:
                continue
            code = sections.get(f'.text.{name}')
            shared = sections.get(f'.nv.shared.{name}')
            shared_size = shared.size if shared else 0
            reserved = _RESERVED_SHARED_SIZE if self._reserves(sections, shared_size) else 0
            found[name] = KernelVariant(
                sm=sm,
                feature=feature,
                registers=attributes.get((_REGISTERS, number), _registers_in_header(code)),
                code_size=code.size if code else None,
                static_shared=shared_size - reserved,
                reserved_shared=reserved,
                constant=constants.get(name, 0),
                module_constant=declared.size if declared else 0,
                stack=attributes.get((_STACK, number)),
            )
        return found

    @staticmethod
    def _reserves(sections: dict[str, Section], shared: int) -> bool:
        """Return whether the shared memory of the kernels includes what the system reserves: ptxas -v leaves it out."""
        return _RESERVED_SHARED in sections and shared >= _RESERVED_SHARED_SIZE

    def _attributes(self, section: Section | None) -> dict[tuple[int, int], int]:
        """Return the values of ``.nv.info`` by attribute and number of the symbol."""
        contents = self._elf.contents(section, _MOST_ATTRIBUTES) if section else b''
        values = {}
        at = 0
        while at + _ATTRIBUTE.size <= len(contents):
            form, attribute, size = _ATTRIBUTE.unpack_from(contents, at)
            at += _ATTRIBUTE.size
            if form != _SIZED:
                continue
            if size == _OF_SYMBOL.size and at + size <= len(contents):
                symbol, value = _OF_SYMBOL.unpack_from(contents, at)
                values[attribute, symbol] = value
            at += size
        return values


def _registers_in_header(code: Section | None) -> int | None:
    return (code.info >> 24 or None) if code else None
