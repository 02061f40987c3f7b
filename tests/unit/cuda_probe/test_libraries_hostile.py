"""Whatever a probed program has in the place of a library: reading it ends, and takes little memory."""

from __future__ import annotations

import os
import struct
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.cuda_probe.libraries import find_functions
from support.cuda.compiled_files import library

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ['cudaMalloc', 'cudaFree', 'cudaSetDevice']
SECTIONS_AT, SECTION_NUMBER = 40, 60
"""Where the header of an ELF file says where the headers of its sections are, and how many."""
SECTION, KIND_AT, SIZE_AT = 64, 4, 32
SYMBOLS, STRINGS = 2, 3
HUGE = 1 << 50

places = st.one_of(st.integers(0, 63), st.integers(64, 1023), st.integers(-2100, -1), st.integers(0, 1 << 14))
"""Anywhere, and rather in the headers: of the file and its segments at its begin, of its sections at its end."""
values = st.one_of(
    st.binary(min_size=1, max_size=8),
    st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1]).map(struct.Struct('<Q').pack),
)


@pytest.fixture(scope='session')
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library(tmp_path_factory.mktemp('hostile') / 'a.so')


def sections(contents: bytes) -> dict[int, int]:
    """Return where the header of the last section of each kind stands."""
    (begin,) = struct.unpack_from('<Q', contents, SECTIONS_AT)
    (count,) = struct.unpack_from('<H', contents, SECTION_NUMBER)
    headers = range(begin, begin + count * SECTION, SECTION)
    return {struct.unpack_from('<I', contents, at + KIND_AT)[0]: at for at in headers}


@given(st.lists(st.tuples(places, values), max_size=6), st.one_of(st.just(1 << 20), st.integers(0, 1 << 14)))
def test_damaged_and_cut_files_are_read_without_an_exception(
    whole: Path, changes: list[tuple[int, bytes]], length: int
) -> None:
    contents = bytearray(whole.read_bytes())
    for at, value in changes:
        begin = at % len(contents)
        contents[begin : begin + len(value)] = value
    damaged = whole.with_name('damaged')
    damaged.write_bytes(contents[:length])
    for name, found in find_functions(str(damaged), NAMES).items():
        assert name in NAMES
        assert len(found) <= 64


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_exception(whole: Path, contents: bytes) -> None:
    made = whole.with_name('made')
    for begin in (b'', b'\x7fELF\x02\x01\x01', whole.read_bytes()[:64]):
        made.write_bytes(begin + contents)
        assert find_functions(str(made), NAMES) == {}


def test_a_table_of_names_that_claims_the_whole_of_a_huge_file_takes_little_memory(whole: Path) -> None:
    contents = bytearray(whole.read_bytes())
    struct.pack_into('<Q', contents, sections(contents)[STRINGS] + SIZE_AT, HUGE)
    assert peak_of_reading(whole.with_name('huge-names'), contents, 1 << 25) < 1 << 24


def test_a_table_of_symbols_that_claims_the_whole_of_a_huge_file_takes_little_memory(whole: Path) -> None:
    contents = bytearray(whole.read_bytes())
    struct.pack_into('<Q', contents, sections(contents)[SYMBOLS] + SIZE_AT, HUGE)
    assert peak_of_reading(whole.with_name('huge-symbols'), contents, 1 << 22) < 1 << 23


def test_endless_sections_end(whole: Path) -> None:
    contents = bytearray(whole.read_bytes())
    struct.pack_into('<H', contents, SECTION_NUMBER, 0)  # then the first section has the number as its size
    (begin,) = struct.unpack_from('<Q', contents, SECTIONS_AT)
    struct.pack_into('<Q', contents, begin + SIZE_AT, HUGE)
    assert peak_of_reading(whole.with_name('endless'), contents, 1 << 25) < 1 << 24


def peak_of_reading(path: Path, contents: bytes, size: int) -> int:
    """Return the bytes that it takes to read a file that goes on with zeros up to a size."""
    path.write_bytes(contents)
    os.truncate(path, size)
    tracemalloc.start()
    try:
        assert 'cudaFree' in find_functions(str(path), NAMES)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
