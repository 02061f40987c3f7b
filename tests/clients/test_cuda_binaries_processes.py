"""Names of what real processes launch."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.binaries.cache import BinaryCache
from gpu_tracker.cuda_probe.binaries.kernel_names import KernelAt, KernelNames
from support.cuda.cuda_launching import launching, runtime
from support.cuda.cuda_toolkit import toolkit
from support.programs import need_program
from support.tracked_program import as_root

if TYPE_CHECKING:
    from pathlib import Path

KERNELS = """
template <class T> __global__ void scaled(T *a) { __shared__ T row[64]; row[threadIdx.x] = *a; *a = row[1] * 2; }
namespace { __global__ void hidden(int *a) { *a = 1; } }
static __global__ void alone(int *a) { *a = 2; }
extern "C" __global__ void in_c(int *a) { *a = 3; }
int main() {
    scaled<float><<<1, 64>>>(0);
    hidden<<<1, 1>>>(0);
    alone<<<1, 1>>>(0);
    in_c<<<1, 1>>>(0);
    cudaDeviceSynchronize();
}
"""
NAMES = ['void scaled<float>(float*)', '(anonymous namespace)::hidden(int*)', 'alone(int*)', 'in_c']

# A program without any CUDA code, as far as its file tells, that calls the runtime all the same.
PLAIN = """
#include <stdio.h>
int __cudaGetKernel(void **handle, const void *function);
int cudaDeviceSynchronize(void);
static void hidden(int *a) { *a = 1; }
void shown(int *a) { *a = 2; }
int main(void) {
    void *handle;
    __cudaGetKernel(&handle, (void *)hidden);
    __cudaGetKernel(&handle, (void *)shown);
    return cudaDeviceSynchronize();
}
"""


def compiled(folder: Path, *options: str) -> Path:
    need_program('gcc')
    library = runtime(folder)
    (folder / 'plain.c').write_text(PLAIN)
    program = folder / 'plain'
    words = ['gcc', *options, '-o', str(program), str(folder / 'plain.c'), str(library), f'-Wl,-rpath={folder}']
    subprocess.run(words, check=True)
    return program


def with_kernels(folder: Path, *options: str) -> Path:
    tools = toolkit()
    runtime(folder)
    link = ('-cudart=none', f'-L{folder}', '-lruntime', '-Xlinker', f'-rpath={folder}')
    return tools.build(KERNELS, folder, '-arch=sm_80', *options, *link)


@pytest.mark.parametrize('options', [(), ('-no-pie',)], ids=['anywhere', 'at its place'])
def test_functions_have_names(tmp_path: Path, options: tuple[str, ...]) -> None:
    program = compiled(tmp_path, *options)
    with launching([str(program)], kernels=2) as (process, (hidden, shown)):
        names = KernelNames(process.pid, BinaryCache())
        assert names.at(hidden.function) == KernelAt('hidden', 'hidden', str(program), None)
        assert names.at(shown.function) == KernelAt('shown', 'shown', str(program), None)


def test_in_a_stripped_program_places_have_numbers(tmp_path: Path) -> None:
    program = compiled(tmp_path, '-rdynamic')
    listed = subprocess.run(['nm', str(program)], check=True, capture_output=True, text=True).stdout
    place = int(re.search(r'(\w+) t hidden\n', listed)[1], 16)
    subprocess.run(['strip', str(program)], check=True)
    with launching([str(program)], kernels=2) as (process, (hidden, shown)):
        names = KernelNames(process.pid, BinaryCache())
        assert names.at(hidden.function) == KernelAt(None, f'plain+{place:#x}', str(program), None)
        assert names.at(shown.function).name == 'shown'
        assert names.at(shown.handle) == KernelAt(None, f'{shown.handle:#x}', None, None)


def test_names_outlive_their_process_where_its_maps_were_remembered(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    with launching([str(program)], kernels=2) as (process, (hidden, _)):
        names, late = (KernelNames(process.pid, BinaryCache()) for _ in range(2))
        assert names.remember_maps()
    assert names.at(hidden.function).name == 'hidden'
    assert late.at(hidden.function) == KernelAt(None, f'{hidden.function:#x}', None, None, is_unread=True)
    assert not names.remember_maps()


def test_names_of_a_program_whose_file_was_replaced_are_still_its_own(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    with launching([str(program)], kernels=2) as (process, (hidden, _)):
        program.unlink()
        shutil.copy('/bin/sh', program)
        name = KernelNames(process.pid, BinaryCache()).at(hidden.function).name
    assert name == 'hidden' if os.geteuid() == 0 else name.startswith('plain+')


@as_root
def test_names_are_found_in_a_mount_namespace_of_its_own_and_after_its_end(tmp_path: Path) -> None:
    outside, inside = tmp_path / 'outside', tmp_path / 'inside'
    outside.mkdir()
    inside.mkdir()
    with_kernels(outside)
    script = 'mount -t tmpfs none "$1" && cp "$2"/program "$2"/libruntime.so "$1" && exec "$1"/program'
    words = ['unshare', '--mount', 'sh', '-c', script, 'sh', str(inside), str(outside)]
    with launching(words, kernels=4) as (process, launched):
        names = KernelNames(process.pid, BinaryCache())
        assert names.at(launched[0].function).name == NAMES[0]
        assert not (inside / 'program').exists()
    found = [names.at(one.function) for one in launched]
    assert [at.name for at in found] == NAMES
    assert [at.file for at in found] == [str(inside / 'program')] * 4


@pytest.mark.parametrize('options', [(), ('-O2', '-Xcompiler=-O2')], ids=['as it comes', 'optimised'])
def test_kernels_have_names_and_figures_by_function_and_by_handle(tmp_path: Path, options: tuple[str, ...]) -> None:
    program = with_kernels(tmp_path, *options)
    with launching([str(program)], kernels=4) as (process, launched):
        names = KernelNames(process.pid, BinaryCache())
        by_handle = [names.at(one.handle) for one in launched]
        by_function = [names.at(one.function) for one in launched]
        assert names.problems == {}
    assert [at.name for at in by_handle] == NAMES
    assert [at.name for at in by_function] == NAMES
    assert [at.kernel for at in by_handle] == [at.kernel for at in by_function]
    scaled = by_function[0]
    assert (scaled.symbol, scaled.file) == ('_Z6scaledIfEvPT_', str(program))
    assert scaled.kernel is not None
    (variant,) = scaled.kernel.variants
    assert (variant.sm, variant.static_shared) == (80, 256)
    assert names.at(launched[0].handle) == by_handle[0]
