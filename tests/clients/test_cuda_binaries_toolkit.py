"""Programs that nvcc builds, against what cuobjdump says of them."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.binaries.cuda_binary import read_binary
from support.cuda.cuda_toolkit import toolkit

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_tracker.cuda_probe.binaries.cubin import KernelVariant

SOURCE = """
__constant__ float factors[256];
__global__ void plain(float *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = a[i] * 2 + factors[i % 256];
}
template <typename T, int N> __global__ void turned(T *a) {
    __shared__ T row[N];
    row[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = row[N - 1 - threadIdx.x];
}
namespace outer { namespace { __global__ void hidden(double *a) { a[threadIdx.x] = sin(a[threadIdx.x]); } } }
static __global__ void alone(int *a, int i) {
    int copy[64];
    for (int j = 0; j < 64; j++) copy[j] = a[j];
    a[0] = copy[i] + copy[a[1] & 63];
}
extern "C" __global__ void in_c(int *a) {
    extern __shared__ int given[];
    given[threadIdx.x] = a[threadIdx.x];
    a[0] = given[a[1]];
}
__noinline__ __device__ int called(int x) {
    __shared__ int some[32];
    some[threadIdx.x & 31] = x;
    __syncthreads();
    return some[(x * 7) & 31] * x;
}
__global__ void calling(int *a) { __shared__ int mine[8]; mine[threadIdx.x] = called(a[1]); a[0] = mine[3]; }
int main() {
    plain<<<1, 1>>>(0, 1);
    turned<float, 128><<<1, 128>>>(0);
    turned<double, 64><<<1, 64>>>(0);
    outer::hidden<<<1, 1>>>(0);
    alone<<<1, 1>>>(0, 1);
    in_c<<<1, 1, 4>>>(0);
    calling<<<1, 1>>>(0);
}
"""

TWO_VERSIONS = ('-gencode=arch=compute_80,code=sm_80', '-gencode=arch=compute_90a,code=[sm_90a,compute_90a]')

NAMES = {
    'alone(int*, int)',
    'calling(int*)',
    'in_c',
    'outer::(anonymous namespace)::hidden(double*)',
    'plain(float*, int)',
    'void turned<double, 64>(double*)',
    'void turned<float, 128>(float*)',
}

Figures = tuple[str, int, int, int, int, int]  # SM version, registers, stack, shared, constant, declared constant


def figures_of(path: Path) -> dict[str, set[Figures]]:
    """Return what the package says of a file's kernels, in cuobjdump's words."""
    binary = read_binary(path)
    assert binary.problem is None
    return {
        symbol: {
            (
                f'{v.sm}{v.feature}',
                v.registers,
                v.stack,
                v.static_shared + v.reserved_shared,
                v.constant,
                v.module_constant,
            )
            for v in kernel.variants
        }
        for symbol, kernel in binary.kernels.items()
    }


def told_by_cuobjdump(path: Path) -> dict[str, set[Figures]]:
    words = [str(toolkit().cuobjdump), '-res-usage', str(path)]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    told: dict[str, set[Figures]] = {}
    sm = symbol = ''
    declared = 0
    for line in said.splitlines():
        if found := re.match(r'arch = sm_(\w+)', line):
            sm = found[1]
        elif 'GLOBAL:' in line:
            declared = sum(map(int, re.findall(r'CONSTANT\[3\]:(\d+)', line)))
        elif found := re.match(r' Function (.+):$', line):
            symbol = found[1]
        elif found := re.match(r'  REG:(\d+) STACK:(\d+) SHARED:(\d+)', line):
            constant = sum(map(int, re.findall(r'CONSTANT\[\d+\]:(\d+)', line)))
            figures = (sm, *map(int, found.groups()), constant, declared)
            if 'CONSTANT' in line:  # a function that kernels call has no arguments there
                told.setdefault(symbol, set()).add(figures)
    return told


def by_name(path: Path) -> dict[str, tuple[KernelVariant, ...]]:
    return {kernel.name: kernel.variants for kernel in read_binary(path).kernels.values()}


def names_in(path: Path) -> set[str]:
    return set(by_name(path))


def build(tmp_path: Path, *options: str, output: str = 'program') -> Path:
    return toolkit().build(SOURCE, tmp_path, '-cudart=shared', *TWO_VERSIONS, *options, output=output)


@pytest.mark.parametrize('mode', ['none', 'size', 'speed', 'balance'])
def test_all_ways_of_compressing_are_read(tmp_path: Path, mode: str) -> None:
    program = build(tmp_path, f'--compress-mode={mode}')
    figures = figures_of(program)
    assert figures == told_by_cuobjdump(program)
    assert {sm for variants in figures.values() for sm, *_ in variants} == {'80', '90a'}
    assert names_in(program) == NAMES


def test_a_linked_program_has_the_figures_of_its_linked_code(tmp_path: Path) -> None:
    program = build(tmp_path, '-rdc=true')
    assert figures_of(program) == told_by_cuobjdump(program)
    assert names_in(program) == NAMES


def test_a_stripped_library_still_has_its_kernels(tmp_path: Path) -> None:
    library = build(tmp_path, '-shared', '-Xcompiler=-fPIC', '--compress-mode=size', output='libkernels.so')
    subprocess.run(['strip', str(library)], check=True)
    assert figures_of(library) == told_by_cuobjdump(library)
    assert names_in(library) == NAMES


def test_a_fatbin_and_an_object_file_are_read(tmp_path: Path) -> None:
    made = build(tmp_path, '-fatbin', output='kernels.fatbin')
    assert figures_of(made) == told_by_cuobjdump(made)
    relocatable = build(tmp_path, '-dc', output='kernels.o')
    assert names_in(relocatable) == NAMES


def test_the_code_size_and_shared_memory_of_a_cubin_are_those_that_the_assembler_tells(tmp_path: Path) -> None:
    cubin = toolkit().build(SOURCE, tmp_path, '-cubin', '-arch=sm_90', output='kernels.cubin')
    listed = subprocess.run([str(toolkit().cuobjdump), '-elf', str(cubin)], check=True, capture_output=True, text=True)
    sizes = {
        found[2]: int(found[1], 16)
        for found in re.finditer(
            r'^ +\w+ +\w+ +(\w+) +0 +\w+ +PROGBITS .*? \.text\.(\S+)$', listed.stdout, re.MULTILINE
        )
    }
    binary = read_binary(cubin)
    assert {symbol: kernel.variants[0].code_size for symbol, kernel in binary.kernels.items()} == sizes
    shared = {kernel.name: kernel.variants[0].static_shared for kernel in binary.kernels.values()}
    assert shared == dict.fromkeys(NAMES, 0) | {
        'calling(int*)': 160,  # and that of the function that it calls
        'void turned<double, 64>(double*)': 512,
        'void turned<float, 128>(float*)': 512,
    }


def test_cubins_compressed_together_are_read(tmp_path: Path) -> None:
    together = build(tmp_path, '-fatbin', '--compress-mode=size', '--concat', output='together.fatbin')
    apart = build(tmp_path, '-fatbin', '--compress-mode=none', output='apart.fatbin')
    # cuobjdump 13.5 takes both cubins for the last one's SM version. A file's name is in its unnamed namespaces' names.
    assert by_name(together) == by_name(apart)
