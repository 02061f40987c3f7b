"""What the probe counts, against what the program itself knows that it has called: each function, and its failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.cuda.cuda_comparison import assert_agree, assert_told_truly, names_told, names_true
from support.cuda.probed_program import probed, probing
from support.cuda_stand_in import StandIn, stand_in

if TYPE_CHECKING:
    from pathlib import Path

ALL_FUNCTIONS = """
    stream s; stream_flags t; stream_priority u
    alloc a 1000; alloc_managed b 2000; alloc_pitch c 100 3; alloc_async d 4000 s; allocs 3 50; alloc nothing 0
    free a; free_async d s; free_null
    launch axpy default 2 3 5 7 11 13; launch gemm s 2147483647 1 1 1024 1 1; launch gemm legacy 1 1 1 1 1 1
    launch_compiled reduce t 1 65535 1 1 8 4; launch_ex plain u 3 5 7 2 4 8; launch_cooperative axpy s 2 3 4 5 6 7
    launches 500 axpy t 4 1 1 64 1 1
    event e; record e s; query e; wait_event e; record_flags e t; wait_event e; query_stream s; destroy_event e
    memcpy 100; memcpy_async 100 s; sync default; sync per_thread; syncs 20 s; device_sync; destroy_stream u
"""
CORE = """
    stream s; alloc a 1000; alloc b 500; free a; fail_alloc; fail_free; fail_launch; free_null
    launches 1000 axpy s 2 1 1 256 1 1; launch_ex gemm default 1 2 3 4 5 6; sync s; memcpy 10; device_sync
"""


def test_literal_figures_are_told():
    process = probed(
        'alloc a 1000; alloc b 500; free a; launches 1000 axpy default 2 1 1 256 1 1; sync default'
    ).process
    assert (process.launches, process.mean_threads, process.streams, process.synchronisations) == (1000, 512, 1, 1)
    assert (process.allocations, process.frees, process.allocated, process.freed) == (2, 1, 1500, 1000)
    assert (process.memory_current, process.memory_max, process.memory_leaked) == (0, 1500, 500)
    assert [device.ordinal for device in process.devices] == [0]


@pytest.mark.parametrize('default_stream', ['shared', 'own'])
def test_each_function_is_counted(default_stream: str):
    seen = probed(f'default_stream {default_stream}; {ALL_FUNCTIONS}')
    assert seen.truth.device.launches == 506
    assert_told_truly(seen)


def test_a_kernel_that_is_launched_by_a_handle_has_its_name_too():
    seen = probed('repeat 3 { launch_handle axpy default 1 1 1 8 1 1 }')
    (kernel,) = seen.process.kernels
    assert (seen.process.launches, kernel.launches, kernel.mean_threads) == (3, 3, 8)
    assert names_told(seen.process) == names_true(seen.truth)
    assert kernel.address != seen.truth.kernels['axpy'].address


def test_kernels_have_their_names_while_the_program_runs_and_afterwards():
    names = {
        'axpy(float, float*, float*)': 7,
        'gemm(float const*, float const*, float*, int)': 5,
        'void reduce<float>(float*, int)': 3,
        'plain': 1,
    }
    script = """
        launches 7 axpy default 1 1 1 8 1 1; launches 5 gemm default 1 1 1 8 1 1; launches 3 reduce default 1 1 1 1 1 1
        launch plain default 1 1 1 1 1 1; wait
    """
    with probing(script) as (probe, running):
        running.go_on()
        running.wait_until_waiting()
        report = probe.report()
        assert_agree(report, running.truths())
        assert names_told(report.processes[0]) == names_true(running.truths()[0]) == names
        assert {kernel.file for kernel in report.processes[0].kernels} == {str(stand_in().program())}
        running.finish()
        probe.close()
        assert names_told(probe.report().processes[0]) == names


@pytest.mark.parametrize('default_stream', ['shared', 'own'])
def test_failed_calls_are_counted_by_function_and_error_and_as_nothing_else(default_stream: str):
    script = f"""
        default_stream {default_stream}
        repeat 3 {{ fail_alloc }}; fail_free; repeat 2 {{ fail_launch }}; set_device 9; sync unknown
        query_stream unknown
        launch axpy unknown 1 1 1 1 1 1; launch_ex axpy unknown 1 1 1 1 1 1; launch_graph unknown
        launch_cooperative axpy default 0 1 1 1 1 1; alloc_managed a 0; alloc_async a 5 unknown
        alloc a 1001; alloc b 900; event e; record e unknown; destroy_stream unknown
    """
    seen = probed(script, environment={'CUDA_STAND_IN_MEMORY': '1000'})
    assert len(seen.truth.failures) == 14
    assert_told_truly(seen)
    assert seen.process.launches == 0
    assert {failure.error: failure.error_name for failure in seen.process.failures} == {
        1: 'cudaErrorInvalidValue',
        2: 'cudaErrorMemoryAllocation',
        9: 'cudaErrorInvalidConfiguration',
        101: 'cudaErrorInvalidDevice',
        400: 'cudaErrorInvalidResourceHandle',
    }


FAILING = 'launches 500 axpy default 1 1 1 2 1 1; sync default; launches 500 axpy default 1 1 1 2 1 1'


@pytest.mark.parametrize('engine', ['uprobe.session', 'uprobe.multi'])
@pytest.mark.parametrize('good', [5, 100, 700])
def test_launches_that_begin_to_fail_are_seen_after_63_of_them(engine: str, good: int):
    seen = probed(FAILING, engine=engine, environment={'CUDA_STAND_IN_LAUNCHES': str(good)})
    assert seen.report.engine == engine
    assert seen.truth.failures == {('cudaLaunchKernel', 719): 1000 - good}
    (failed,) = seen.process.failures
    assert seen.process.launches + failed.count == 1000
    unseen = 63 if engine == 'uprobe.session' and good > 8 else 0
    assert 0 <= seen.process.launches - good <= unseen


def test_failures_that_do_not_look_like_the_launches_before_are_all_seen():
    seen = probed(
        """
            stream s; launches 300 axpy s 1 1 1 2 1 1; launch axpy unknown 1 1 1 2 1 1
            launches 300 axpy default 1 1 1 2 1 1; destroy_stream s; launch axpy s 1 1 1 2 1 1
            launches 100 gemm default 1 1 1 8 1 1; launch gemm default 1 1 1 2048 1 1
            launches 100 gemm default 1 1 1 8 1 1
        """,
        engine='uprobe.session',
    )
    assert_told_truly(seen)
    assert (seen.process.launches, sum(failure.count for failure in seen.process.failures)) == (800, 3)


def test_memory_that_could_not_be_freed_is_still_in_use():
    seen = probed('stream s; alloc_async a 70 s; destroy_stream s; free_async a s; free_null; fail_free; wait')
    assert seen.truth.failures == {('cudaFreeAsync', 400): 1, ('cudaFree', 1): 1}
    assert_agree(seen.report, [seen.truth])
    assert seen.process.memory_leaked == 70
    again = probed('stream s; alloc_async a 70 s; destroy_stream s; free_async a s; free a')
    assert_told_truly(again)
    assert (again.process.frees, again.process.memory_leaked) == (1, 0)


def test_addresses_that_are_given_again_are_new_allocations():
    seen = probed('repeat 50 { alloc a 100; alloc b 300; free a; alloc c 200; free b; free c }; alloc d 50')
    assert_told_truly(seen)
    assert seen.process.memory_leaked == 50


def test_what_a_query_answers_that_is_not_ready_is_no_failure():
    script = (
        'event e; stream s; launch axpy s 1 1 1 1 1 1; record e s; repeat 5 { query e }; repeat 5 { query_stream s }'
    )
    seen = probed(script, environment={'CUDA_STAND_IN_NOT_READY': '3'})
    assert seen.truth.not_ready == {'cudaEventQuery': 3, 'cudaStreamQuery': 3}
    assert_told_truly(seen)
    assert seen.process.failures == ()


def test_arrays_and_memory_in_three_dimensions_are_memory_of_the_gpu():
    seen = probed(
        """
            alloc_3d a 100 3 7; alloc_3d flat 600 2 0; alloc_array b 32 100 20; alloc_array row 8 50 0
            alloc_3d_array c 16 10 20 30; cu_alloc_array d 4 64 32; free a; free_array c; cu_free_array d
        """
    )
    assert_told_truly(seen)
    assert seen.process.allocated == 512 * 21 + 1024 * 2 + 8 * 2000 + 2 * 50 + 4 * 6000 + 16 * 2048
    assert seen.process.memory_leaked == 1024 * 2 + 8 * 2000 + 2 * 50


def test_page_locked_memory_of_the_host_is_no_memory_of_a_gpu():
    seen = probed('alloc_host a 5000; host_alloc b 300; free_host a; alloc_host c 40; alloc d 7; wait')
    assert_agree(seen.report, [seen.truth])
    process = seen.process
    assert (process.host_allocations, process.host_memory_max, process.host_memory_current) == (3, 5300, 0)
    assert (process.allocations, process.memory_max) == (1, 7)


@pytest.mark.parametrize('kind', ['static', 'late'])
def test_programs_with_the_runtime_linked_in_and_those_that_load_it_count_the_same(kind: str):
    script = f'load; {CORE}' if kind == 'late' else CORE
    assert_told_truly(probed(script, program=stand_in().program(static=kind == 'static', late=kind == 'late')))


def test_functions_that_begin_with_another_instruction_count_the_same():
    seen = probed(CORE, fake=stand_in(branch_tracking=True), environment={'CUDA_STAND_IN_NESTED': '1'})
    assert_told_truly(seen)


@pytest.mark.parametrize('engine', ['uprobe.multi', 'perf'])
def test_the_engines_of_older_kernels_count_the_same(tmp_path: Path, engine: str):
    # A library of its own: each function takes time to be detached from, when this has long ended.
    seen = probed(CORE, engine=engine, with_driver=False, fake=StandIn(tmp_path))
    assert seen.report.engine == engine
    assert_told_truly(seen)
