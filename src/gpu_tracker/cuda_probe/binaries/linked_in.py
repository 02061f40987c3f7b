"""Programs that have the CUDA runtime linked in and their symbols stripped: there is nothing to attach to in them."""

from __future__ import annotations

from gpu_tracker.cuda_probe.binaries import elf64
from gpu_tracker.cuda_probe.binaries.code_index import SECTIONS
from gpu_tracker.cuda_probe.binaries.region import NotReadableError, OpenFile

_REGISTERS = b'__cudaRegisterFatBinary\0'
"""Every program with kernels calls it at its start; stripped, it has the name only where a library has the function."""
_MOST_NAMES = 1 << 28


def hides_runtime(path: str) -> bool:
    """Tell whether a program has kernels and the runtime, and no name of the runtime's functions."""
    try:
        file = elf64.Elf(OpenFile(path))
        if not any(section.name in SECTIONS for section in file.sections()):
            return False
        tables = [*file.of_kind(elf64.SHT_DYNSYM), *file.of_kind(elf64.SHT_SYMTAB)]
        return not any(_REGISTERS in file.names_of(table).read(0, _MOST_NAMES) for table in tables)
    except (OSError, NotReadableError):
        return False  # gone, or no program
