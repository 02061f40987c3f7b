"""The kernel's part of the probe, which is kept compiled: made from the source beside it, and a part of every wheel."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.programs import need_program

if TYPE_CHECKING:
    from types import ModuleType

CHECKOUT = Path(__file__).resolve().parents[2]
BPF = Path('src/gpu_tracker/cuda_probe/bpf')
MACHINES = ('x86_64', 'aarch64')
MACHINE_OF_BPF = 247
"""EM_BPF, elf.h."""
PROGRAM_BITS = 1
"""SHT_PROGBITS, elf.h: what is loaded into the kernel, and the types of it."""
REMEDY = 'run python scripts/compile_probe.py'


@pytest.fixture(scope='module')
def script() -> ModuleType:
    """Return the program that compiles them."""
    found = importlib.util.spec_from_file_location('compile_probe', CHECKOUT / 'scripts/compile_probe.py')
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def sections(contents: bytes) -> dict[str, bytes]:
    """Return by name what a 64-bit ELF file has to be loaded; debugging information is left out."""
    table, count, names = struct.unpack_from('<Q', contents, 40)[0], *struct.unpack_from('<HH', contents, 60)
    heads = [struct.unpack_from('<IIQQQQ', contents, table + 64 * number) for number in range(count)]
    texts = contents[heads[names][4] :]
    named = [(texts[name : texts.index(b'\0', name)].decode(), kind, at, size) for name, kind, _, _, at, size in heads]
    return {
        name: contents[at : at + size]
        for name, kind, at, size in named
        if kind == PROGRAM_BITS and not name.startswith('.debug')
    }


def kept(machine: str) -> bytes:
    return (CHECKOUT / BPF / f'probe_{machine}.bpf.o').read_bytes()


@pytest.mark.parametrize('machine', MACHINES)
def test_the_object_for_each_machine(machine: str) -> None:
    contents = kept(machine)
    assert contents.startswith(b'\x7fELF')
    assert struct.unpack_from('<H', contents, 18) == (MACHINE_OF_BPF,)
    assert {'.BTF', '.BTF.ext', '.maps', 'license', 'uprobe', 'uretprobe'} <= sections(contents).keys()
    assert len(contents) < 200_000  # debugging information is left out
    assert b'/src/gpu_tracker' not in contents


def test_the_objects_are_made_from_the_source_as_it_is(script: ModuleType) -> None:
    record = json.loads((CHECKOUT / BPF / 'made_from.json').read_text())
    assert record['source_sha256'] == script.source_hash(), REMEDY


@pytest.mark.parametrize('machine', MACHINES)
def test_the_objects_are_what_the_source_compiles_to(script: ModuleType, machine: str, tmp_path: Path) -> None:
    need_program('clang')
    script.compile_object(machine, tmp_path / 'object')
    made = sections((tmp_path / 'object').read_bytes())
    assert made.keys() == sections(kept(machine)).keys()
    if json.loads((CHECKOUT / BPF / 'made_from.json').read_text())['compiler'] == script.compiler():
        assert made == sections(kept(machine)), REMEDY  # others make other code of the same source


@pytest.mark.parametrize('kind', ['wheel', 'sdist'])
def test_every_distribution_has_them_without_a_compiler(kind: str, tmp_path: Path) -> None:
    pytest.importorskip('hatchling', reason='needs the package hatchling')
    checkout, no_programs = tmp_path / 'checkout', tmp_path / 'bin'
    no_programs.mkdir()
    shutil.copytree(CHECKOUT / BPF, checkout / BPF)
    for name in ('pyproject.toml', 'README.rst', 'LICENSE', '.gitignore', 'src/gpu_tracker/__init__.py'):
        shutil.copy(CHECKOUT / name, checkout / name)
    done = subprocess.run(
        [sys.executable, '-m', 'hatchling', 'build', '-t', kind, '-d', str(tmp_path / 'built')],
        cwd=checkout,
        env={**os.environ, 'PATH': str(no_programs)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (built,) = (tmp_path / 'built').iterdir()
    if kind == 'wheel':
        assert built.name.endswith('-py3-none-any.whl')
        with zipfile.ZipFile(built) as archive:
            found = {Path(name).name: archive.read(name) for name in archive.namelist() if name.endswith('.bpf.o')}
        assert found == {f'probe_{machine}.bpf.o': kept(machine) for machine in MACHINES}
    else:
        listed = subprocess.run(['tar', '-tzf', built], check=True, capture_output=True, text=True).stdout
        for name in ('probe.bpf.c', 'probe_x86_64.bpf.o', 'probe_aarch64.bpf.o'):
            assert f'bpf/{name}\n' in listed
