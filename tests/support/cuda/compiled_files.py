"""Small libraries and programs made by the machine's C compiler, and where readelf finds their functions."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

from support.programs import need_program

if TYPE_CHECKING:
    from pathlib import Path

LIBRARY = """
int cudaMalloc(void **to, unsigned long size) { return 0; }
int cudaFree(void *at) { return 0; }
int my_cudaFree(void *at) { return 1; }
int cudaFreeAsync;
static int cudaSetDevice(int device) { return device; }
int (*use)(int) = cudaSetDevice;
"""
WITHOUT_ENDBR64 = ['-fcf-protection=none'] * (os.uname().machine == 'x86_64')
"""Some systems' compilers begin each function with it otherwise."""
PROGRAM = """
static int cudaMalloc(void **to, unsigned long size) { return 0; }
int cudaFree(void *at) { return 0; }
int main(void) { return cudaMalloc(0, 0) + cudaFree(0); }
"""


def compiled(path: Path, source: str, *options: str) -> Path:
    """Compile C; skip the test if nothing can."""
    need_program('cc', 'readelf', 'strip')
    words = ['cc', '-x', 'c', '-O0', '-w', *WITHOUT_ENDBR64, *options, '-o', os.fspath(path), '-']
    subprocess.run(words, input=source, text=True, check=True, capture_output=True)
    return path


def library(path: Path, source: str = LIBRARY, *options: str) -> Path:
    """Compile a shared library."""
    return compiled(path, source, '-shared', '-fPIC', '-nostdlib', *options)


def stripped(path: Path) -> Path:
    """Remove from a file what it does not need to run."""
    subprocess.run(['strip', os.fspath(path)], check=True)
    return path


def offsets(path: Path, *names: str) -> dict[str, set[int]]:
    """Return where functions begin in a file: what readelf says of its symbols and of its parts."""
    told = subprocess.run(['readelf', '-Wls', os.fspath(path)], check=True, capture_output=True, text=True).stdout
    parts = [
        (int(virtual, 16), int(virtual, 16) + int(size, 16), int(offset, 16))
        for offset, virtual, size in re.findall(r'^  LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)', told, re.MULTILINE)
    ]
    found: dict[str, set[int]] = {}
    for value, name in re.findall(r'^ +\d+: (\w+) +\d+ FUNC +\w+ +\w+ +\d+ ([^@\s]+)', told, re.MULTILINE):
        if name in names:
            address = int(value, 16)
            found.setdefault(name, set()).update(
                address - begin + offset for begin, end, offset in parts if begin <= address < end
            )
    return found
