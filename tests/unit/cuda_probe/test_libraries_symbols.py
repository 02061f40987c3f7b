"""Where functions begin in files that the machine's compiler has made."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.libraries import find_functions
from support.cuda.compiled_files import LIBRARY, PROGRAM, compiled, library, offsets, stripped

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ('cudaMalloc', 'cudaFree', 'cudaSetDevice', 'cudaFreeAsync', 'cudaMemcpy')

ENDBR64 = b'\xf3\x0f\x1e\xfa'
TWO_VERSIONS = """
int first(void *at) { return 1; }
int second(void *at) { return 2; }
__asm__(".symver first,cudaFree@VERSION_1");
__asm__(".symver second,cudaFree@@VERSION_2");
int cudaMalloc(void **to, unsigned long size) { return 0; }
"""
VERSIONS = 'VERSION_1 { global: cudaMalloc; };\nVERSION_2 { } VERSION_1;\n'

MANY_SECTIONS = """
__asm__(".altmacro\\n.macro one number\\n.section .s\\\\number,\\"a\\",@progbits\\n.byte 1\\n.endm\\n"
        ".set i,0\\n.rept 2500\\none %i\\n.set i,i+1\\n.endr\\n.text\\n");
int cudaFree(void *at) { return 0; }
"""

CHOSEN_WHEN_LOADED = """
int chosen(void *at) { return 1; }
int (*choose(void))(void *) { return chosen; }
int cudaFree(void *at) __attribute__((ifunc("choose")));
int cudaMalloc(void **to, unsigned long size) { return 0; }
"""


def found(path: Path) -> dict[str, set[int]]:
    return {name: set(places) for name, places in find_functions(str(path), NAMES).items()}


def first_bytes(path: Path, name: str) -> list[bytes]:
    contents = path.read_bytes()
    return sorted(contents[place : place + 4] for place in find_functions(str(path), [name])[name])


def test_functions_of_a_library_are_found_where_readelf_says(tmp_path: Path) -> None:
    path = library(tmp_path / 'a.so')
    assert found(path) == offsets(path, *NAMES)
    assert set(found(path)) == {'cudaMalloc', 'cudaFree', 'cudaSetDevice'}  # no variable, and the static one


def test_a_stripped_library_has_the_functions_that_it_offers(tmp_path: Path) -> None:
    path = stripped(library(tmp_path / 'a.so'))
    assert found(path) == offsets(path, *NAMES)
    assert set(found(path)) == {'cudaMalloc', 'cudaFree'}


def test_a_name_is_found_that_is_the_end_of_another(tmp_path: Path) -> None:
    path = stripped(library(tmp_path / 'a.so', 'int unsetenv(void) { return 0; }\nint setenv(void) { return 1; }\n'))
    both = offsets(path, 'setenv', 'unsetenv')
    assert {name: set(places) for name, places in find_functions(str(path), both).items()} == both
    assert set(both) == {'setenv', 'unsetenv'}
    assert set(find_functions(str(path), ['etenv', 'nsetenv'])) == set()


def test_both_versions_of_a_function_are_found(tmp_path: Path) -> None:
    (tmp_path / 'versions').write_text(VERSIONS)
    path = library(tmp_path / 'a.so', TWO_VERSIONS, f'-Wl,--version-script={tmp_path}/versions')
    expected = offsets(path, 'first', 'second')
    assert found(path)['cudaFree'] == expected['first'] | expected['second']
    assert found(stripped(path))['cudaFree'] == expected['first'] | expected['second']


def test_functions_are_found_behind_thousands_of_sections(tmp_path: Path) -> None:
    path = library(tmp_path / 'a.so', MANY_SECTIONS)
    told = subprocess.run(['readelf', '-h', path], check=True, capture_output=True, text=True).stdout
    assert int(re.search(r'Number of section headers: +(\d+)', told)[1]) > 2500
    assert found(path) == offsets(path, 'cudaFree')
    assert set(found(path)) == {'cudaFree'}


@pytest.mark.parametrize('options', [['-pie', '-fPIE'], ['-no-pie'], ['-static']])
def test_functions_inside_a_program_are_found(tmp_path: Path, options: list[str]) -> None:
    path = compiled(tmp_path / 'a', PROGRAM, *options)
    assert found(path) == offsets(path, *NAMES)
    assert set(found(path)) == {'cudaMalloc', 'cudaFree'}
    assert found(stripped(path)) == {}


def test_offsets_are_those_of_the_code_itself(tmp_path: Path) -> None:
    plain, shifted = library(tmp_path / 'a.so'), library(tmp_path / 'b.so', LIBRARY, '-Wl,-Ttext-segment=0x40000')
    assert first_bytes(plain, 'cudaFree') == first_bytes(shifted, 'cudaFree')


@pytest.mark.skipif(platform.machine() != 'x86_64', reason='this machine is not x86-64')
def test_functions_begin_behind_endbr64(tmp_path: Path) -> None:
    path = library(tmp_path / 'a.so', LIBRARY, '-fcf-protection=branch')
    begins = offsets(path, *NAMES)
    assert {path.read_bytes()[offset : offset + 4] for named in begins.values() for offset in named} == {ENDBR64}
    assert found(path) == {name: {offset + 4 for offset in named} for name, named in begins.items()}


def test_what_a_library_only_uses_is_not_there(tmp_path: Path) -> None:
    path = library(tmp_path / 'a.so', 'int cudaFree(void *); int cudaMalloc(void) { return cudaFree(0); }\n')
    assert set(found(path)) == {'cudaMalloc'}


def test_a_function_that_is_chosen_when_it_is_loaded_has_no_place(tmp_path: Path) -> None:
    path = library(tmp_path / 'a.so', CHOSEN_WHEN_LOADED)
    assert set(found(path)) == {'cudaMalloc'}


@pytest.mark.parametrize('contents', [b'', b'\x7f', b'#!/bin/sh\n', b'\x7fELF', b'\x7fELF\x02\x01\x01' + bytes(200)])
def test_other_files_have_no_functions(tmp_path: Path, contents: bytes) -> None:
    (tmp_path / 'a').write_bytes(contents)
    assert found(tmp_path / 'a') == {}


@pytest.mark.parametrize('part', [0.02, 0.5, 0.9])
def test_a_file_that_was_cut_has_no_functions(tmp_path: Path, part: float) -> None:
    path = library(tmp_path / 'a.so')
    os.truncate(path, int(path.stat().st_size * part))
    assert found(path) == {}


@pytest.mark.skipif(platform.machine() != 'x86_64', reason='this machine is not x86-64')
def test_a_file_of_32_bits_has_no_functions(tmp_path: Path) -> None:
    path = compiled(tmp_path / 'a.o', LIBRARY, '-c', '-m32')
    assert found(path) == {}


def test_nothing_is_waited_for_in_place_of_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / 'fifo')
    assert found(tmp_path / 'fifo') == {}
    with pytest.raises(IsADirectoryError):
        found(tmp_path)
    with pytest.raises(FileNotFoundError):
        found(tmp_path / 'none')
