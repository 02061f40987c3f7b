from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tracker.cuda_probe.binaries.cuda_binary import CudaBinary
from gpu_tracker.cuda_probe.binaries.demangling import common_name, demangle
from gpu_tracker.cuda_probe.binaries.program_file import ProgramFile, findings_from
from gpu_tracker.cuda_probe.binaries.region import MemoryRegion
from support.cuda.cubins import LZ4, ZSTD, MadeKernel, cubin, cubins_together, entry, fatbin, program

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

CUBIN = cubin(MadeKernel('_Z3sumPf', constants=((0, 16),)), sm=90, reserves=True, declared=8)
FATBIN = fatbin(entry(CUBIN), entry(CUBIN, flags=LZ4), entry(CUBIN, flags=ZSTD), cubins_together((75, CUBIN)))
FILES = (CUBIN, FATBIN, program(FATBIN, FATBIN))

wrong_bytes = st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=8)), max_size=8)


def damaged(whole: bytes, changes: list[tuple[int, bytes]], length: int) -> bytes:
    contents = bytearray(whole)
    for at, value in changes:
        begin = at % len(contents)
        contents[begin : begin + len(value)] = value
    return bytes(contents[: length % (len(contents) + 1)])


def read_all(contents: bytes) -> None:
    binary = CudaBinary(MemoryRegion(contents))
    for symbol in binary.kernels:
        assert binary.kernels[symbol].symbol == symbol
    assert binary.problem is None or binary.problem.startswith('not readable: ')


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_exception(contents: bytes) -> None:
    read_all(contents)
    read_all(FATBIN[:4] + contents)
    read_all(CUBIN[:64] + contents)


@given(st.sampled_from(FILES), wrong_bytes, st.integers(0, 1 << 20))
def test_damaged_and_cut_files_are_read_without_an_exception(
    whole: bytes, changes: list[tuple[int, bytes]], length: int
) -> None:
    read_all(damaged(whole, changes, length))


@settings(max_examples=30)
@given(wrong_bytes, st.integers(0, 1 << 20))
def test_damaged_programs_have_no_functions(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, bytes]], length: int
) -> None:
    path: Path = tmp_path_factory.getbasetemp() / 'damaged'
    path.write_bytes(damaged(FILES[2], changes, length))
    file = ProgramFile(str(path))
    assert isinstance(file.functions_at(0), tuple)
    assert isinstance(file.launch_handles(), list)
    file.kernel_of('_Z3sumPf')
    file.address_at(0)


@given(st.text(alphabet='_ZNLISTEPi0123456789GOBA$.é', max_size=200))
def test_any_symbol_has_a_name(symbol: str) -> None:
    assert isinstance(demangle(symbol), str)
    assert isinstance(demangle(f'_Z{symbol}'), str)
    assert isinstance(common_name(symbol), str)


@given(st.text(max_size=100))
def test_any_text_may_stand_where_findings_are_kept(text: str) -> None:
    findings_from(text)
    findings_from(f'{{"form":1,"functions":{{}},"kernels":{text}}}')


def test_a_zstd_frame_that_claims_more_than_its_entry_is_not_unpacked() -> None:
    packed = bytearray(fatbin(entry(CUBIN, flags=ZSTD)))
    packed[16 + 56 : 16 + 64] = (len(CUBIN) - 1).to_bytes(8, 'little')
    problem = CudaBinary(MemoryRegion(bytes(packed))).problem
    assert problem == f'not readable: a zstd frame has {len(CUBIN)} bytes instead of {len(CUBIN) - 1}'
