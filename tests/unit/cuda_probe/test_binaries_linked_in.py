"""Programs with the CUDA runtime linked in and stripped are told from those that load it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.binaries.program_file import hides_runtime
from support.cuda.compiled_files import compiled, library, stripped

if TYPE_CHECKING:
    from pathlib import Path

KERNELS = '__attribute__((section(".nv_fatbin"), used)) static char kernels[100] = {1};\n'
LINKED_IN = 'static void __cudaRegisterFatBinary(void) {}\nint main(void) { __cudaRegisterFatBinary(); }\n'
LOADED = 'void __cudaRegisterFatBinary(void);\nint main(void) { __cudaRegisterFatBinary(); }\n'


@pytest.mark.parametrize(
    ('source', 'strips', 'hides'),
    [
        (KERNELS + LINKED_IN, True, True),
        (KERNELS + LINKED_IN, False, False),
        (KERNELS + LOADED, True, False),
        (LINKED_IN, True, False),
    ],
    ids=['linked in and stripped', 'linked in', 'a library, stripped', 'without kernels'],
)
def test_a_runtime_is_hidden_where_it_is_linked_in_and_stripped(
    tmp_path: Path, source: str, *, strips: bool, hides: bool
) -> None:
    library(tmp_path / 'libruntime.so', 'void __cudaRegisterFatBinary(void) {}')
    program = compiled(tmp_path / 'program', source, '-Wl,--no-as-needed', f'-L{tmp_path}', '-lruntime')
    assert hides_runtime(str(stripped(program) if strips else program)) is hides


def test_what_is_no_program_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / 'text').write_text('#!/bin/sh\n')
    assert not hides_runtime(str(tmp_path / 'text'))
    assert not hides_runtime(str(tmp_path / 'gone'))
    assert not hides_runtime(str(tmp_path))
