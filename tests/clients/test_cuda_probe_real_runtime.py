"""NVIDIA's own runtime, and programs of its compiler: without a GPU each of their calls fails, and that is told."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest

from gpu_tracker.cuda_probe.cuda_api import FUNCTIONS, Library
from gpu_tracker.cuda_probe.libraries import find_functions
from support.cuda.compiled_files import offsets
from support.cuda.cuda_comparison import assert_agree
from support.cuda.cuda_toolkit import toolkit
from support.cuda.probed_program import opened
from support.cuda_stand_in import stand_in
from support.cuda_stand_in.running import started

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_tracker.cuda_probe.cuda_report import CudaReport, ProcessReport

RUNTIME = {function.symbol for function in FUNCTIONS if function.library == Library.RUNTIME}
NOT_IN_ALL = {'__cudaGetKernel', 'cudaGraphAddNode_v2'}
"""The first is there from 12.9 on, the second from 12.3 on and before 13."""
PUSH = 0x55
"""``push %rbp``, which the kernel does itself where a probe stands on it, in place of stepping through it."""

# Says each of its calls with what it has answered.
PROGRAM = """
#include <cstdio>

template <typename T> __global__ void scale(T factor, T *values)
{
    __shared__ T row[64];
    row[threadIdx.x] = values[threadIdx.x];
    __syncthreads();
    values[threadIdx.x] = factor * row[63 - threadIdx.x];
}

namespace physics {
__global__ void step(double *values) { values[blockIdx.x] += 1.0; }
}

#define SAY(function, ...) std::printf("%s %d\\n", #function, (int)function(__VA_ARGS__))

int main()
{
    void *memory = nullptr, *managed = nullptr;
    size_t pitch;
    cudaStream_t stream = nullptr;
    cudaEvent_t event = nullptr;
    std::puts("waiting");
    std::fflush(stdout);
    std::getchar();
    SAY(cudaSetDevice, 0);
    for (int times = 0; times < 5; times++)
        SAY(cudaMalloc, &memory, 1000);
    SAY(cudaMallocManaged, &managed, 100);
    SAY(cudaMallocPitch, &managed, &pitch, 10, 10);
    SAY(cudaMallocAsync, &managed, 100, stream);
    for (int times = 0; times < 20; times++) {
        scale<float><<<2, 64, 0, stream>>>(2.0f, (float *)memory);
        std::printf("cudaLaunchKernel %d\\n", (int)cudaGetLastError());
    }
    for (int times = 0; times < 3; times++) {
        physics::step<<<4, 1>>>((double *)memory);
        std::printf("cudaLaunchKernel %d\\n", (int)cudaGetLastError());
    }
    cudaStreamCreate(&stream);
    SAY(cudaStreamSynchronize, stream);
    SAY(cudaStreamQuery, stream);
    cudaEventCreate(&event);
    SAY(cudaEventRecord, event, stream);
    SAY(cudaEventSynchronize, event);
    SAY(cudaEventQuery, event);
    SAY(cudaMemcpy, memory, memory, 0, cudaMemcpyDeviceToHost);
    SAY(cudaDeviceSynchronize);
    SAY(cudaFree, memory);
    SAY(cudaEventDestroy, event);
    SAY(cudaStreamDestroy, stream);
    SAY(cudaDeviceReset);
}
"""


class Seen(NamedTuple):
    """What a program says of its calls, and what a probe has seen of them."""

    answers: Counter[tuple[str, int]]
    report: CudaReport

    @property
    def process(self) -> ProcessReport:
        """The only process."""
        (process,) = self.report.processes
        return process

    @property
    def failures(self) -> dict[tuple[str, int], int]:
        """Failed calls that were seen."""
        return {(failure.function, failure.error): failure.count for failure in self.process.failures}


def seen(program: Path, *libraries: Path, folder: Path | None = None) -> Seen:
    """Run a program that sees no GPU, probed.

    :param folder: Where it finds libraries before its own.
    """
    variables = {'CUDA_VISIBLE_DEVICES': '', **({} if folder is None else {'LD_LIBRARY_PATH': str(folder)})}
    named = [str(library) for library in libraries]
    with opened(libraries=named) as probe, started([str(program)], variables) as running:
        running.wait_until_waiting()
        probe.follow(running.pid)
        probe.start()
        said, _ = running.process.communicate(b'\n')
        assert running.process.returncode == 0
        probe.close()
        calls = [line.split() for line in said.decode().splitlines()]
        return Seen(Counter((function, int(answer)) for function, answer in calls), probe.report())


def test_all_functions_of_the_real_runtime_are_found_where_its_symbols_say() -> None:
    library = toolkit().runtime_library
    found = find_functions(str(library), RUNTIME)
    assert found == offsets(library, *RUNTIME)
    assert RUNTIME - set(found) <= NOT_IN_ALL


@pytest.mark.skipif(os.uname().machine != 'x86_64', reason='this machine is not x86-64')
def test_functions_of_the_real_runtime_begin_with_an_instruction_that_costs_little() -> None:
    contents = toolkit().runtime_library.read_bytes()
    found = find_functions(str(toolkit().runtime_library), RUNTIME)
    assert {contents[offset] for places in found.values() for offset in places} == {PUSH}


@pytest.mark.parametrize('linking', ['shared', 'static'])
def test_failed_calls_of_the_real_runtime_are_told_by_function_and_error(tmp_path: Path, linking: str) -> None:
    told = seen(toolkit().build(PROGRAM, tmp_path, f'-cudart={linking}'))
    assert told.failures == {call: count for call, count in told.answers.items() if call[1] != 0}
    ((error, name),) = {(failure.error, failure.error_name) for failure in told.process.failures}
    assert (error, name) in {(35, 'cudaErrorInsufficientDriver'), (100, 'cudaErrorNoDevice')}
    assert told.failures['cudaLaunchKernel', error] == 23
    assert told.failures['cudaMalloc', error] == 5
    assert len(told.failures) == 17
    assert (told.process.launches, told.process.allocations, told.process.synchronisations) == (0, 0, 0)


def test_each_kind_of_launch_fails_once_in_the_real_runtime() -> None:
    library = toolkit().runtime_library
    script = f"""
        wait; load {library}; fail_alloc; free_null; device_sync; set_device 0; memcpy 10; query_stream default
        launches 9 axpy default 1 1 1 1 1 1; launch_ex axpy default 1 1 1 1 1 1
        launch_cooperative axpy default 1 1 1 1 1 1; launch_compiled axpy default 1 1 1 1 1 1
        default_stream own; launches 3 axpy default 1 1 1 1 1 1; sync default
    """
    program = stand_in().program(late=True)
    late = stand_in().started(script, program=program, environment={'CUDA_VISIBLE_DEVICES': ''})
    with opened(libraries=[str(library)]) as probe, late as running:
        running.wait_until_waiting()
        probe.follow(running.pid)
        probe.start()
        running.go_on()
        ran = running.finish()
        probe.close()
    assert sum(ran.truth.failures.values()) >= 21
    assert_agree(probe.report(), ran.processes)


def test_kernels_of_a_compiled_program_have_their_names_and_figures(tmp_path: Path) -> None:
    program = toolkit().build(PROGRAM, tmp_path, '-cudart=shared')
    library = stand_in(version=int(toolkit().runtime_library.name.split('.')[2])).runtime
    told = seen(program, library, folder=library.parent)
    usage = subprocess.run([toolkit().cuobjdump, '-res-usage', program], check=True, capture_output=True, text=True)
    registers = {symbol: int(count) for symbol, count in re.findall(r'Function (\w+):\s+REG:(\d+)', usage.stdout)}
    assert [(kernel.name, kernel.launches, kernel.mean_threads) for kernel in told.process.kernels] == [
        ('void scale<float>(float, float*)', 20, 128.0),
        ('physics::step(double*)', 3, 4.0),
    ]
    for kernel, shared in zip(told.process.kernels, (256, 0), strict=True):
        (variant,) = kernel.variants
        assert kernel.file == str(program)
        assert (variant.sm, variant.registers, variant.static_shared_bytes) == (80, registers[kernel.symbol], shared)
        assert variant.code_size_bytes
    assert told.failures == {}
    assert (told.process.memory_max, told.process.memory_leaked) == (5 * 1000 + 100 + 10 * 512 + 100, 0)


def test_of_a_stripped_program_with_the_runtime_linked_in_it_is_told_why_nothing_is_seen(tmp_path: Path) -> None:
    program = toolkit().build(PROGRAM, tmp_path, '-cudart=static', '-Xlinker', '--strip-all')
    report = seen(program).report
    assert report.processes == ()
    (note,) = report.notes
    assert note == (
        f'{program} has the CUDA runtime linked in, without its symbols: of its calls only those are seen that it '
        "makes of the driver, by the driver's names."
    )
