"""The stand-in for CUDA tells the truth: what other tests compare a probe with is compared with literal figures."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.cuda_probe.cuda_api import FUNCTIONS
from support.cuda_stand_in import DeviceTruth, stand_in
from support.programs import need_program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.cuda_stand_in import Ran


@pytest.fixture
def run() -> Callable[..., Ran]:
    return stand_in().run


def readelf(*words: str | Path) -> str:
    need_program('readelf')
    return subprocess.run(['readelf', '-W', *map(str, words)], check=True, capture_output=True, text=True).stdout


def test_a_program_knows_what_it_has_launched_allocated_and_synchronised(run: Callable[..., Ran]) -> None:
    ran = run("""
        stream s
        alloc a 1000; alloc b 500; free a
        repeat 3 { launch gemm s 2 3 1 32 2 1; sync s }
        launches 1000 axpy default 4 1 1 64 1 1
        memcpy 100; device_sync
    """)
    assert ran.returncode == 0
    assert ran.truth.device == DeviceTruth(
        launches=1003,
        threads=3 * 384 + 1000 * 256,
        allocations=2,
        frees=1,
        allocated=1500,
        freed=1000,
        current=500,
        maximum=1500,
        synchronisations=4,
        copies=1,
    )
    assert ran.truth.leaked == 500
    assert ran.truth.streams == 2
    assert {name: kernel.launches for name, kernel in ran.truth.kernels.items()} == {'gemm': 3, 'axpy': 1000}


def test_every_way_to_allocate_and_to_launch_counts(run: Callable[..., Ran]) -> None:
    truth = run("""
        stream_flags s; stream_priority t; destroy_stream t
        alloc_managed a 10; alloc_async b 20 s; alloc_pitch c 100 3; allocs 2 5
        free_async b s; free_all; free_null; churn 10 4096
        launch plain s 1 1 1 1 1 1; launch_ex plain s 1 1 1 1 1 1; launch_cooperative plain s 1 1 1 1 1 1
        launch_compiled plain s 1 1 1 1 1 1; launch_handle plain s 1 1 1 1 1 1; launch_graph s
    """).truth
    assert truth.device == DeviceTruth(
        launches=5,
        threads=5,
        allocations=15,
        frees=15,
        allocated=10 + 20 + 512 * 3 + 2 * 5 + 10 * 4096,
        freed=10 + 20 + 512 * 3 + 2 * 5 + 10 * 4096,
        maximum=4096,
        graphs=1,
    )
    assert truth.failures == {}


def test_calls_fail_with_the_numbers_of_the_real_ones(run: Callable[..., Ran]) -> None:
    truth = run(
        'repeat 2 { fail_alloc }; alloc a 1001; fail_free; fail_launch; set_device 9; sync unknown; launch axpy unknown'
        ' 1 1 1 1 1 1; launch axpy default 1 1 1 2048 1 1',
        environment={'CUDA_STAND_IN_MEMORY': '1000'},
    ).truth
    assert truth.failures == {
        ('cudaMalloc', 2): 3,
        ('cudaFree', 1): 1,
        ('cudaLaunchKernel', 9): 2,
        ('cudaSetDevice', 101): 1,
        ('cudaStreamSynchronize', 400): 1,
        ('cudaLaunchKernel', 400): 1,
    }
    assert truth.devices == {}


def test_queries_answer_first_that_it_is_not_ready(run: Callable[..., Ran]) -> None:
    truth = run(
        'event e; stream s; launch axpy s 1 1 1 1 1 1; record e s; repeat 5 { query e }; repeat 5 { query_stream s }',
        environment={'CUDA_STAND_IN_NOT_READY': '3'},
    ).truth
    assert truth.not_ready == {'cudaEventQuery': 3, 'cudaStreamQuery': 3}
    assert truth.failures == {}


def test_each_device_has_memory_of_its_own_and_each_thread_begins_with_the_first(run: Callable[..., Ran]) -> None:
    truth = run("""
        set_device 2; alloc a 700
        threads 3 { alloc b 10; launch axpy default 1 1 1 1 1 1; set_device 1; device_sync }
        launch axpy default 1 1 1 1 1 1
    """).truth
    assert truth.devices == {
        0: DeviceTruth(launches=3, threads=3, allocations=3, allocated=30, current=30, maximum=30),
        1: DeviceTruth(synchronisations=3),
        2: DeviceTruth(launches=1, threads=1, allocations=1, allocated=700, current=700, maximum=700),
    }


def test_counts_of_many_threads_are_exact(run: Callable[..., Ran]) -> None:
    truth = run('threads 8 { launches 20000 axpy default 1 1 1 2 1 1; churn 2000 8; alloc a 1 }').truth
    assert (truth.device.launches, truth.device.threads) == (160000, 320000)
    assert (truth.device.allocations, truth.device.frees, truth.leaked) == (16008, 16000, 8)
    assert truth.failures == {}


def test_threads_with_their_own_default_streams_have_different_ones(run: Callable[..., Ran]) -> None:
    own = run('default_stream own; threads 3 { launch axpy default 1 1 1 1 1 1; sync default }')
    shared = run('threads 3 { launch axpy default 1 1 1 1 1 1; launch axpy legacy 1 1 1 1 1 1 }')
    assert own.truth.streams == 3
    assert shared.truth.streams == 1


def test_each_process_tells_its_own_truth_through_fork_and_exec(run: Callable[..., Ran]) -> None:
    ran = run("""
        alloc a 100
        fork { free a; alloc b 7; exec { alloc c 9; exit 3 } }
        reap
        free a
    """)
    assert (ran.truth.end, ran.truth.leaked, ran.truth.failures) == ('end', 0, {})
    before, after = ran.children
    assert (before.end, before.leaked, before.failures) == ('exec', 7, {('cudaFree', 1): 1})
    assert (after.end, after.code, after.leaked, after.pid) == ('exit', 3, 9, before.pid)


def test_a_program_may_end_in_the_middle_and_may_crash(run: Callable[..., Ran]) -> None:
    left = run('alloc a 5; exit 7; alloc b 5')
    crashed = run('alloc a 5; crash; alloc b 5')
    assert (left.returncode, left.truth.end, left.truth.leaked) == (7, 'exit', 5)
    assert (crashed.returncode, crashed.truth.end, crashed.truth.leaked) == (-11, 'crash', 5)


def test_a_program_waits_and_does_what_it_is_told() -> None:
    with stand_in().started('alloc a 5; wait; alloc b 6; obey; free a') as running:
        running.wait_until_waiting()
        assert running.truths()[0].leaked == 5
        running.go_on()
        running.wait_until_waiting()
        running.tell('alloc c 7; launch axpy default 1 1 1 1 1 1')
        assert running.truths()[0].leaked == 18
        running.go_on()
        assert running.finish().truth.leaked == 13


def test_freed_addresses_are_given_again_and_reset_devices_forget(run: Callable[..., Ran]) -> None:
    truth = run('alloc a 10; device_reset; free a; alloc b 10').truth
    assert truth.failures == {('cudaFree', 1): 1}
    assert (truth.leaked, truth.device.maximum) == (10, 10)


def test_the_environment_can_change(run: Callable[..., Ran]) -> None:
    ran = run(
        'setenv CUDA_STAND_IN_MEMORY 10; exec { alloc a 11; unsetenv CUDA_STAND_IN_MEMORY; exec { alloc a 11;'
        ' putenv CUDA_STAND_IN_MEMORY 10; exec { alloc a 11 } } }'
    )
    assert [truth.failures for truth in ran.processes] == [{}, {('cudaMalloc', 2): 1}, {}, {('cudaMalloc', 2): 1}]


SCRIPT = 'alloc a 9; launch axpy default 1 1 1 1 1 1; sync default; device_sync; free a; fail_alloc'
TRUTH = DeviceTruth(launches=1, threads=1, allocations=1, frees=1, allocated=9, freed=9, maximum=9, synchronisations=2)


@pytest.mark.parametrize('nested', ['0', '1'], ids=['runtime only', 'driver inside'])
@pytest.mark.parametrize('kind', ['linked', 'static', 'stripped', 'late'])
def test_each_kind_of_program_works_with_and_without_the_driver(kind: str, nested: str) -> None:
    chosen = stand_in()
    program = {
        'linked': chosen.program,
        'static': lambda: chosen.program(static=True),
        'stripped': lambda: chosen.program(static=True, stripped=True),
        'late': lambda: chosen.program(late=True),
    }[kind]()
    script = f'load; {SCRIPT}' if kind == 'late' else SCRIPT
    truth = chosen.run(script, program=program, environment={'CUDA_STAND_IN_NESTED': nested}).truth
    assert truth.device == TRUTH
    assert truth.failures == {('cudaMalloc', 2): 1}


def test_a_program_may_call_the_driver_itself(run: Callable[..., Ran]) -> None:
    truth = run("""
        cu_init; cu_alloc a 10; cu_alloc b 20; cu_free a
        cu_launch saxpy default 2 1 1 4 1 1; cu_launch_ex saxpy default 1 1 1 1 1 1; cu_launch saxpy default 0 1 1 1 1 1
        cu_sync default; cu_device_sync
    """).truth
    assert truth.device == DeviceTruth(
        launches=2,
        threads=9,
        allocations=2,
        frees=1,
        allocated=30,
        freed=10,
        current=20,
        maximum=30,
        synchronisations=2,
    )
    assert truth.failures == {('cuLaunchKernel', 1): 1}


def test_programs_have_the_runtime_where_they_say() -> None:
    chosen = stand_in()
    assert 'libcudart.so.12' in readelf('-d', chosen.program())
    assert 'libcudart' not in readelf('-d', chosen.program(late=True))
    assert 'libcudart' not in readelf('-d', chosen.program(static=True))
    assert ' cudaMalloc\n' in readelf('-s', chosen.program(static=True))
    assert 'cudaMalloc\n' not in readelf('-s', chosen.program(static=True, stripped=True))
    assert 'cudaMalloc\n' not in readelf('-s', chosen.program(late=True))


def test_symbols_have_the_version_of_the_runtime_as_the_real_ones() -> None:
    assert ' cudaMalloc@@libcudart.so.12\n' in readelf('--dyn-syms', stand_in().runtime)
    assert ' __cudaLaunchKernel_ptsz@@libcudart.so.13\n' in readelf('--dyn-syms', stand_in(version=13).runtime)


@pytest.mark.skipif(os.uname().machine != 'x86_64', reason='this machine is not x86-64')
@pytest.mark.parametrize(
    ('branch_tracking', 'first'), [(False, b'\x55'), (True, b'\xf3\x0f\x1e\xfa')], ids=['push', 'endbr64']
)
def test_functions_begin_with_the_instruction_that_is_asked_for(first: bytes, *, branch_tracking: bool) -> None:
    chosen = stand_in(branch_tracking=branch_tracking)
    probed = {function.symbol for function in FUNCTIONS}
    for library in (chosen.runtime, chosen.driver):
        contents = library.read_bytes()
        rows = [line.split() for line in readelf('--dyn-syms', library).splitlines()]
        functions = {row[7].partition('@')[0]: int(row[1], 16) for row in rows if len(row) == 8 and row[3] == 'FUNC'}
        begins = {name: contents[address : address + len(first)] for name, address in functions.items()}
        assert {name: begin for name, begin in begins.items() if name in probed and begin != first} == {}
        assert len(probed & set(begins)) >= 5
