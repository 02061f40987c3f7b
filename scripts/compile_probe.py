"""Compiles the kernel's part of the probe of CUDA calls for both machines, beside its source.

    python scripts/compile_probe.py

To be run after each change of the source, with clang and llvm-strip. The objects, and what they were made from, are
kept in the repository, so that nobody who installs gpu-tracker needs a compiler.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / 'src/gpu_tracker/cuda_probe/bpf'
SOURCE = 'probe.bpf.c'
TARGETS = {'x86_64': 'x86', 'aarch64': 'arm64'}
"""The kernel's word for each machine that there is an object for."""
RECORD = 'made_from.json'


def main() -> int:
    """Compile, and return the exit code."""
    for program in ('clang', 'llvm-strip'):
        if shutil.which(program) is None:
            sys.stderr.write(f'compile_probe.py: {program} is missing\n')
            return 1
    with tempfile.TemporaryDirectory() as made:
        for machine in TARGETS:
            path = Path(made) / object_name(machine)
            compile_object(machine, path)
            subprocess.run(['llvm-strip', '--strip-debug', str(path)], check=True)  # libbpf reads .BTF alone
        for machine in TARGETS:
            shutil.copyfile(Path(made) / object_name(machine), FOLDER / object_name(machine))
    record = {'compiler': compiler(), 'source_sha256': source_hash()}
    (FOLDER / RECORD).write_text(json.dumps(record, indent=1) + '\n')
    return 0


def object_name(machine: str) -> str:
    """Return the name of the object for a machine."""
    return f'probe_{machine}.bpf.o'


def compile_object(machine: str, path: Path, *options: str) -> None:
    """Compile the source for a machine, with debugging information.

    :param options: More of clang's.
    :raises subprocess.CalledProcessError: clang fails; it has said why.
    """
    made_for = ['-target', 'bpf', '-mcpu=v3', f'-D__TARGET_ARCH_{TARGETS[machine]}']
    # -g is what libbpf reads the maps' types from; no path of this machine is to be in it.
    how = ['-O2', '-g', '-w', '-fdebug-compilation-dir=.', *options]
    subprocess.run(['clang', *made_for, *how, '-c', SOURCE, '-o', str(path)], check=True, cwd=FOLDER)


def compiler() -> str:
    """Return what clang calls itself."""
    said = subprocess.run(['clang', '--version'], check=True, capture_output=True, text=True).stdout
    return said.splitlines()[0]


def source_hash() -> str:
    """Return the SHA-256 of all files that the objects are made from."""
    found = hashlib.sha256()
    for file in sorted(FOLDER.glob('*.[ch]')):
        found.update(f'{file.name}\n'.encode() + file.read_bytes())
    return found.hexdigest()


if __name__ == '__main__':
    sys.exit(main())
