"""What a probe has in the kernel and in the memory of programs: there while it looks, and gone afterwards."""

from __future__ import annotations

import ctypes
import os
import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.cuda_probe.libraries import find_functions

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_INSTRUCTION = 4
"""Bytes in which a breakpoint shows: x86-64's has one, aarch64's four."""
_BPF = {'x86_64': 321, 'aarch64': 280}
_NO_SUCH_ID = 2  # ENOENT
_COMMANDS = {'prog_id': 13, 'map_id': 14, 'link_id': 30}
"""What makes a descriptor of an ID, see bpf(2)."""

_libc = ctypes.CDLL(None, use_errno=True)


class KernelObject(NamedTuple):
    """A program, a map or a link of BPF; no other ever gets its number."""

    kind: str
    number: int

    @property
    def exists(self) -> bool:
        """Whether it is still in the kernel."""
        attributes = ctypes.create_string_buffer(struct.pack('<III', self.number, 0, 0))
        command = ctypes.c_long(_COMMANDS[self.kind])
        handle = _libc.syscall(_BPF[os.uname().machine], command, attributes, ctypes.c_ulong(12))
        if handle >= 0:
            os.close(handle)
            return True
        assert ctypes.get_errno() == _NO_SUCH_ID, os.strerror(ctypes.get_errno())
        return False


def objects_of(pid: int) -> set[KernelObject]:
    """Return what a probing process has in the kernel."""
    return set(_objects(pid))


def _objects(pid: int) -> Iterator[KernelObject]:
    for path in Path(f'/proc/{pid}/fdinfo').iterdir():
        try:
            lines = dict(re.findall(r'^(\w+):\s*(\d+)$', path.read_text(), re.MULTILINE))
        except FileNotFoundError:  # closed meanwhile
            continue
        # A link tells also the program that it is of.
        yield from (KernelObject(kind, int(lines[kind])) for kind in _COMMANDS if kind in lines)


def has_breakpoint(pid: int, library: Path, function: str) -> bool:
    """Tell whether a function of a library is not, in the memory of a process, what it is in the file."""
    (offset,) = find_functions(str(library), [function])[function]
    with open(library, 'rb') as file:
        file.seek(offset)
        original = file.read(_LONGEST_INSTRUCTION)
    with open(f'/proc/{pid}/mem', 'rb') as memory:
        memory.seek(_address(pid, library, offset))
        return memory.read(_LONGEST_INSTRUCTION) != original


def _address(pid: int, library: Path, offset: int) -> int:
    for line in Path(f'/proc/{pid}/maps').read_text().splitlines():
        addresses, _, begin, _, _, *path = line.split(maxsplit=5)
        start, end = (int(address, 16) for address in addresses.split('-'))
        if path == [str(library)] and 0 <= offset - int(begin, 16) < end - start:
            return start + offset - int(begin, 16)
    raise AssertionError(f'{library} is not in the memory of process {pid}')
