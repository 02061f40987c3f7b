"""What a wheel of this checkout has of the probe: its objects where there is clang, and no less of the rest without."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.tracked_program import IN_CI

CHECKOUT = Path(__file__).resolve().parents[2]
BPF = Path('src/gpu_tracker/cuda_probe/bpf')
OBJECTS = {'probe_x86_64.bpf.o', 'probe_aarch64.bpf.o'}
MACHINE_OF_BPF = 247
"""EM_BPF, elf.h."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a small copy: what the build reads, and of the package what the probe's object is made of."""
    if not IN_CI:
        pytest.importorskip('hatchling')
    copy = tmp_path / 'checkout'
    (copy / BPF).mkdir(parents=True)
    for name in ('pyproject.toml', 'hatch_build.py', 'README.rst', 'LICENSE', '.gitignore'):
        shutil.copy(CHECKOUT / name, copy / name)
    for source in (CHECKOUT / BPF).glob('*.[ch]'):
        shutil.copy(source, copy / BPF / source.name)
    (copy / 'src/gpu_tracker/__init__.py').touch()
    return copy


def require_clang() -> None:
    if shutil.which('clang') is None:
        (pytest.fail if IN_CI else pytest.skip)('needs clang')


def build(checkout: Path, kind: str = 'wheel', path: str | None = None) -> tuple[Path, str]:
    """Build the wheel or the sdist; return its path and what the build says."""
    folder = checkout.parent / 'built'
    done = subprocess.run(
        [sys.executable, '-m', 'hatchling', 'build', '-t', kind, '-d', str(folder)],
        cwd=checkout,
        env={**os.environ, 'PATH': path or os.environ['PATH'], 'SOURCE_DATE_EPOCH': '1700000000'},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    [built] = folder.iterdir()
    return built, done.stderr


def objects_in(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {Path(name).name: archive.read(name) for name in archive.namelist() if '.bpf.o' in name}


def folder_with(tmp_path: Path, clang: str | None) -> str:
    """Return a search path on which clang is that script, or is not."""
    folder = tmp_path / 'bin'
    folder.mkdir()
    if clang is not None:
        (folder / 'clang').write_text(clang)
        (folder / 'clang').chmod(0o755)
    return str(folder)


def test_with_clang_the_wheel_has_an_object_for_each_machine(checkout: Path) -> None:
    require_clang()
    wheel, said = build(checkout)
    objects = objects_in(wheel)
    assert set(objects) == OBJECTS
    for contents in objects.values():
        assert contents.startswith(b'\x7fELF')
        assert struct.unpack_from('<H', contents, 18) == (MACHINE_OF_BPF,)
        assert b'.BTF\0' in contents
        assert str(checkout).encode() not in contents
    assert wheel.name.endswith('-py3-none-any.whl')
    assert 'without' not in said


def test_without_clang_the_wheel_is_built_without_objects_and_says_so(checkout: Path, tmp_path: Path) -> None:
    for name in OBJECTS:
        (checkout / BPF / name).write_text('what an earlier build has left')
    wheel, said = build(checkout, path=folder_with(tmp_path, None))
    assert objects_in(wheel) == {}
    assert wheel.name.endswith('-py3-none-any.whl')
    assert 'gpu-tracker is built without its probe of CUDA calls: there is no clang\n' in said


def test_where_clang_fails_the_wheel_is_built_without_objects_and_says_why(checkout: Path, tmp_path: Path) -> None:
    clang = '#!/bin/sh\necho "warning: old" >&2; echo "probe.bpf.c:1:1: error: no such target bpf" >&2; exit 1\n'
    wheel, said = build(checkout, path=folder_with(tmp_path, clang))
    assert objects_in(wheel) == {}
    assert 'clang fails for x86_64: probe.bpf.c:1:1: error: no such target bpf\n' in said


def test_a_clang_that_fails_for_one_machine_leaves_no_object_of_the_other(checkout: Path, tmp_path: Path) -> None:
    for_arm = 'case "$*" in *TARGET_ARCH_arm64*) exit 3;; esac\n'
    clang = f'#!/bin/sh\n{for_arm}while [ "$1" != -o ]; do shift; done\n: >"$2"\n'
    wheel, said = build(checkout, path=folder_with(tmp_path, clang))
    assert objects_in(wheel) == {}
    assert list((checkout / BPF).glob('*.bpf.o*')) == []
    assert 'clang fails for aarch64: it ends with 3\n' in said


def test_the_source_distribution_has_what_the_objects_are_made_of_and_not_them(checkout: Path) -> None:
    (checkout / BPF / 'probe_x86_64.bpf.o').touch()
    built, _ = build(checkout, 'sdist')
    listed = subprocess.run(['tar', '-tzf', built], check=True, capture_output=True, text=True).stdout
    assert 'bpf/probe.bpf.c\n' in listed
    assert 'hatch_build.py\n' in listed
    assert '.bpf.o' not in listed
