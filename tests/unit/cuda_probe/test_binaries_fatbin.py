from __future__ import annotations

import gc
import sys

import pytest

from gpu_tracker.cuda_probe.binaries.cubin import Kernel, KernelVariant
from gpu_tracker.cuda_probe.binaries.cuda_binary import CudaBinary, read_binary
from gpu_tracker.cuda_probe.binaries.region import MemoryRegion
from support.cuda.cubins import (
    LZ4,
    PLAIN,
    PTX,
    ZSTD,
    MadeKernel,
    cubin,
    cubins_together,
    elf,
    entry,
    fatbin,
    program,
)

SUM_75 = cubin(MadeKernel('_Z3sumPf', registers=12), sm=75)
SUM_90 = cubin(MadeKernel('_Z3sumPf', registers=16), sm=90)


def binary_of(contents: bytes) -> CudaBinary:
    return CudaBinary(MemoryRegion(contents))


def registers_of(binary: CudaBinary, symbol: str) -> list[tuple[int, int | None]]:
    return [(variant.sm, variant.registers) for variant in binary.kernels[symbol].variants]


def test_a_kernel_has_a_variant_for_each_sm_version() -> None:
    binary = binary_of(program(fatbin(entry(SUM_90, 90), entry(SUM_75, 75))))
    assert registers_of(binary, '_Z3sumPf') == [(75, 12), (90, 16)]
    assert binary.kernels['_Z3sumPf'].name == 'sum(float*)'
    assert binary.problem is None


@pytest.mark.parametrize('flags', [PLAIN, LZ4, ZSTD])
def test_compressed_code_is_read_like_any_other(flags: int) -> None:
    binary = binary_of(program(fatbin(entry(SUM_75, 75, flags=flags))))
    assert registers_of(binary, '_Z3sumPf') == [(75, 12)]


@pytest.mark.parametrize('flags', [PLAIN, LZ4, ZSTD])
def test_cubins_that_are_compressed_together_are_told_apart(flags: int) -> None:
    binary = binary_of(program(fatbin(cubins_together((75, SUM_75), (90, SUM_90), flags=flags))))
    assert registers_of(binary, '_Z3sumPf') == [(75, 12), (90, 16)]


def test_the_letter_of_an_sm_version_is_told() -> None:
    binary = binary_of(program(fatbin(entry(SUM_90, 90), entry(SUM_90, 90, flags=PLAIN | 0x100000))))
    assert [(v.sm, v.feature) for v in binary.kernels['_Z3sumPf'].variants] == [(90, ''), (90, 'a')]


def test_fatbins_stand_behind_one_another_with_gaps() -> None:
    other = cubin(MadeKernel('_Z5otherv'))
    binary = binary_of(program(fatbin(entry(SUM_90)) + bytes(40) + fatbin() + fatbin(entry(other)) + bytes(24)))
    assert sorted(binary.kernels) == ['_Z3sumPf', '_Z5otherv']
    assert len(binary.kernels) == 2


def test_kernels_that_several_fatbins_hold_alike_count_once() -> None:
    binary = binary_of(program(fatbin(entry(SUM_90)) + fatbin(entry(SUM_75, 75)) + fatbin(entry(SUM_90))))
    assert registers_of(binary, '_Z3sumPf') == [(75, 12), (90, 16)]


def test_linked_code_hides_what_it_was_linked_from() -> None:
    unlinked = cubin(MadeKernel('_Z3sumPf', registers=255), MadeKernel('_Z4onlyv'))
    binary = binary_of(program(fatbin(entry(SUM_90)), fatbin(entry(unlinked))))
    assert registers_of(binary, '_Z3sumPf') == [(90, 16)]
    assert registers_of(binary, '_Z4onlyv') == [(90, 10)]


def test_a_fatbin_and_a_cubin_are_read_as_files(tmp_path) -> None:
    (tmp_path / 'sum.fatbin').write_bytes(fatbin(entry(SUM_75, 75)))
    (tmp_path / 'sum.cubin').write_bytes(SUM_90)
    assert registers_of(read_binary(tmp_path / 'sum.fatbin'), '_Z3sumPf') == [(75, 12)]
    assert registers_of(read_binary(tmp_path / 'sum.cubin'), '_Z3sumPf') == [(90, 16)]


def test_functions_that_are_no_kernels_are_left_out() -> None:
    binary = binary_of(cubin(MadeKernel('_Z6helperi', kind=(0x12, 0)), MadeKernel('_Z3sumPf')))
    assert list(binary.kernels) == ['_Z3sumPf']


def test_all_figures_of_a_kernel() -> None:
    kernel = MadeKernel('copy', registers=24, code=0xE00, shared=1024 + 512, constants=((0, 536), (2, 32)), stack=40)
    assert binary_of(cubin(kernel, sm=90, reserves=True, declared=1024)).kernels['copy'] == Kernel(
        'copy',
        'copy',
        (
            KernelVariant(
                sm=90,
                feature='',
                registers=24,
                code_size=0xE00,
                static_shared=512,
                reserved_shared=1024,
                constant=568,
                module_constant=1024,
                stack=40,
            ),
        ),
    )


def test_older_cubins_have_their_sm_version_and_registers_elsewhere() -> None:
    binary = binary_of(cubin(MadeKernel('copy', registers=34, shared=2048), sm=80, abi=7, old=True))
    (variant,) = binary.kernels['copy'].variants
    assert (variant.sm, variant.registers, variant.static_shared, variant.reserved_shared) == (80, 34, 2048, 0)


def test_registers_that_are_not_told_are_unknown() -> None:
    binary = binary_of(cubin(MadeKernel('copy', registers=0), old=True))
    assert binary.kernels['copy'].variants[0].registers is None


def test_the_program_may_call_a_static_kernel_by_another_name() -> None:
    made = cubin(
        MadeKernel('_Z5plainv'),
        MadeKernel('__nv_static_22__a70b1d3b_5_st_cu_main__ZN5outer2stEPi'),
        MadeKernel('_ZN39_GLOBAL__N__1d7b55bd_7_prog_cu_4d11ce8d6hiddenEPd'),
    )
    binary = binary_of(made)
    hosts = ['_Z5plainv', '_ZL5plainv', '_ZN5outerL2stEPi', '_ZN12_GLOBAL__N_16hiddenEPd', '_Z7nothingv']
    assert [kernel and kernel.name for kernel in map(binary.kernel_of, hosts)] == [
        'plain()',
        'plain()',
        'outer::st(int*)',
        '(anonymous namespace)::hidden(double*)',
        None,
    ]


def test_of_two_kernels_with_one_name_in_the_program_none_is_guessed() -> None:
    made = cubin(
        MadeKernel('_ZN39_GLOBAL__N__1d7b55bd_7_prog_cu_4d11ce8d6hiddenEPd'),
        MadeKernel('_ZN39_GLOBAL__N__22222222_7_more_cu_333333336hiddenEPd'),
    )
    assert binary_of(made).kernel_of('_ZN12_GLOBAL__N_16hiddenEPd') is None


def test_a_program_without_cuda_code_has_no_kernels_and_no_problem() -> None:
    binary = binary_of(elf([]))
    assert dict(binary.kernels) == {}
    assert binary.problem is None
    assert '_Z3sumPf' not in binary.kernels
    with pytest.raises(KeyError):
        binary.kernels['_Z3sumPf']


def test_code_that_is_only_ptx_is_told() -> None:
    binary = binary_of(program(fatbin(entry(b'.version 9.0', kind=PTX))))
    assert binary.problem == 'not readable: it has only PTX, which the driver compiles when the program runs'


@pytest.mark.parametrize(
    ('contents', 'problem'),
    [
        (b'', 'not readable: not an ELF file'),
        (b'#!/bin/sh\n' * 20, 'not readable: not an ELF file'),
        (b'\x7fELF\1\1\1' + bytes(80), 'not readable: an ELF file that is not 64-bit little-endian'),
        (fatbin(entry(b'no cubin')), 'not readable: not an ELF file'),
        (fatbin(entry(elf([]))), 'not readable: not a cubin'),
        (fatbin(entry(SUM_90))[:-8], 'not readable: its code is cut short'),
        (fatbin(entry(SUM_90))[:40], 'not readable: its code is cut short'),
    ],
)
def test_what_is_wrong_with_a_file_is_told(contents: bytes, problem: str) -> None:
    assert binary_of(contents).problem == problem


def test_one_damaged_fatbin_does_not_hide_the_others() -> None:
    damaged = bytearray(fatbin(entry(SUM_75, 75, flags=ZSTD)))
    damaged[90:120] = bytes(30)
    binary = binary_of(program(bytes(damaged) + fatbin(entry(SUM_90))))
    assert registers_of(binary, '_Z3sumPf') == [(90, 16)]
    assert binary.problem is not None
    assert binary.problem.startswith('not readable: ')


@pytest.mark.parametrize('flags', [LZ4, ZSTD])
@pytest.mark.parametrize('claim', [0, 8, 1 << 40])
def test_a_false_claim_of_the_unpacked_size_is_refused(flags: int, claim: int) -> None:
    made = bytearray(fatbin(entry(SUM_90, flags=flags)))
    made[16 + 56 : 16 + 64] = claim.to_bytes(8, 'little')
    binary = binary_of(bytes(made))
    assert dict(binary.kernels) == {}
    assert binary.problem is not None


@pytest.mark.parametrize(
    ('flags', 'package', 'problem'),
    [
        (LZ4, 'lz4', 'not readable: compressed with LZ4: install the Python package lz4'),
        (ZSTD, 'zstandard', 'not readable: compressed with zstd: install the Python package zstandard'),
    ],
)
def test_a_missing_package_is_named(monkeypatch, flags: int, package: str, problem: str) -> None:
    contents = fatbin(entry(SUM_90, flags=flags))
    monkeypatch.setitem(sys.modules, package, None)
    assert binary_of(contents).problem == problem


def test_a_file_that_cannot_be_opened_is_a_problem(tmp_path) -> None:
    assert read_binary(tmp_path / 'none').problem == 'not readable: No such file or directory'
    assert read_binary('/dev/zero').problem == 'not readable: not a regular file'


def test_kernels_can_be_kept_without_the_rest(tmp_path) -> None:
    (tmp_path / 'sum.cubin').write_bytes(SUM_90)
    kernels = read_binary(tmp_path / 'sum.cubin').kernels
    gc.collect()
    assert [kernel.name for kernel in kernels.values()] == ['sum(float*)']
