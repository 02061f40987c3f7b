"""NVIDIA's own compiler, runtime and cuobjdump, which need no GPU to build programs and to take them apart.

Looked for in this order: the folder that the variable GPU_TRACKER_CUDA names (a toolkit's, or ``nvidia/cu13`` among an
environment's packages); what ``pip install --group cuda`` has put into .venv-cuda; nvcc on PATH or in /usr/local/cuda.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARIABLE = 'GPU_TRACKER_CUDA'
_ENVIRONMENT = Path(__file__).resolve().parents[3] / '.venv-cuda'
_USUAL = Path('/usr/local/cuda')


class Toolkit(NamedTuple):
    """A toolkit that can build programs."""

    nvcc: Path
    cuobjdump: Path
    runtime_library: Path
    """The real libcudart, with the version in its name."""

    def build(self, source_text: str, folder: Path, *options: str, output: str = 'program') -> Path:
        """Compile CUDA C++ and return the result's path; for one GPU generation, if the options do not say otherwise.

        The runtime's archive is linked in. With ``-cudart=shared`` its library is, and is found by the result without
        LD_LIBRARY_PATH.
        """
        path = folder / output
        source = folder / f'{output}.cu'
        source.write_text(source_text)
        generation = () if _names_a_generation(options) else ('-arch=sm_80',)
        folders = ('-L', str(self._folder_to_link_from(folder)), '-Xlinker', f'-rpath={self.runtime_library.parent}')
        command = [str(self.nvcc), *generation, *options, *folders, '-o', str(path), str(source)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, f'{" ".join(command)}: {done.stdout}{done.stderr}'
        return path

    def _folder_to_link_from(self, folder: Path) -> Path:
        """Return a folder with the library under the name by which it is linked, which a wheel leaves out."""
        links = folder / 'libraries-to-link'
        links.mkdir(exist_ok=True)
        for path in (self.runtime_library, *self.runtime_library.parent.glob('*.a')):
            link = links / (path.name if path.suffix == '.a' else 'libcudart.so')
            if not link.exists():
                link.symlink_to(path)
        return links


def _names_a_generation(options: tuple[str, ...]) -> bool:
    return any(option.startswith(('-arch', '--gpu-architecture', '-gencode', '--generate-code')) for option in options)


def _roots() -> Iterator[Path]:
    named = os.environ.get(_VARIABLE)
    if named:
        yield Path(named)
        return
    yield from sorted(_ENVIRONMENT.glob('lib/python3*/site-packages/nvidia/cu13'))
    nvcc = shutil.which('nvcc')
    if nvcc:
        yield Path(nvcc).resolve().parent.parent
    yield _USUAL


def _toolkit_in(root: Path) -> Toolkit | None:
    nvcc, cuobjdump = root / 'bin' / 'nvcc', root / 'bin' / 'cuobjdump'
    libraries = [path for folder in ('lib', 'lib64') for path in sorted((root / folder).glob('libcudart.so.*'))]
    if not libraries or not nvcc.exists() or not cuobjdump.exists():
        return None
    return Toolkit(nvcc, cuobjdump, libraries[0])


@functools.cache
def find_toolkit() -> Toolkit | None:
    """Return the first toolkit with all three; None where there is none that runs."""
    if shutil.which('g++') is None:
        return None
    return next(filter(None, map(_toolkit_in, _roots())), None)


def toolkit() -> Toolkit:
    """Return the toolkit; skip the test if there is none."""
    found = find_toolkit()
    if found is None:
        needs = f"needs g++ and NVIDIA's nvcc, cuobjdump and libcudart in .venv-cuda, or {_VARIABLE}"
        pytest.skip(needs)
    return found
