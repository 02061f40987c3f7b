"""The driver's functions: called by the runtime inside its own calls they count once, called by the program each."""

from __future__ import annotations

import pytest

from support.cuda.cuda_comparison import assert_told_truly, names_told
from support.cuda.probed_program import probed

NESTED = {'CUDA_STAND_IN_NESTED': '1'}
DRIVER = """
    cu_init; cu_alloc a 10; cu_alloc b 20; cu_free a
    cu_launch _Z4axpyfPfS_ default 2 3 5 7 11 13; repeat 4 { cu_launch_ex plain per_thread 1 2 3 4 5 6 }
    cu_launch plain default 0 1 1 1 1 1; cu_sync default; cu_device_sync
"""


def test_what_the_runtime_calls_inside_is_counted_once():
    seen = probed(
        """
            stream s; alloc a 1000; alloc_managed b 70; alloc_pitch c 10 10; alloc_async d 30 s; free a; free_async d s
            launches 1000 axpy s 2 1 1 256 1 1; launch_ex gemm default 1 2 3 4 5 6; launch_compiled gemm s 1 1 1 1 1 1
            launch_cooperative plain legacy 1 1 1 2 1 1; sync s; device_sync; churn 100 4096
        """,
        environment=NESTED,
    )
    assert seen.truth.device.launches == 1003
    assert_told_truly(seen)


def test_a_call_that_fails_inside_the_driver_has_failed_once():
    seen = probed(
        'repeat 3 { fail_alloc }; fail_free; alloc a 600; alloc b 600',
        environment=NESTED | {'CUDA_STAND_IN_MEMORY': '1000'},
    )
    assert seen.truth.failures == {('cudaMalloc', 2): 4, ('cudaFree', 1): 1}
    assert_told_truly(seen)


@pytest.mark.parametrize('environment', [{}, NESTED], ids=['runtime only', 'driver inside'])
def test_calls_of_the_driver_itself_are_counted(environment: dict[str, str]):
    seen = probed(DRIVER, environment=environment)
    assert seen.truth.failures == {('cuLaunchKernel', 1): 1}
    assert_told_truly(seen)
    assert names_told(seen.process) == {'plain': 4, 'axpy(float, float*, float*)': 1}


def test_calls_of_both_are_counted_together():
    script = f'launches 50 gemm default 1 1 1 8 1 1; alloc x 1000; {DRIVER}; sync default; free b; free x'
    seen = probed(script, environment=NESTED)
    assert_told_truly(seen)
    assert (seen.process.launches, seen.process.memory_leaked) == (55, 0)


def test_a_call_of_the_driver_after_a_failed_one_of_the_runtime_is_counted():
    failing = (
        'fail_alloc',
        'fail_free',
        'fail_launch',
        'set_device 9',
        'sync unknown',
        'launch axpy unknown 1 1 1 1 1 1',
    )
    calls = ('cu_alloc a 10', 'cu_launch plain default 1 1 1 1 1 1', 'cu_sync default', 'cu_free a')
    seen = probed('; '.join(f'{fails}; {call}' for call in calls for fails in failing), environment=NESTED)
    truth = seen.truth.device
    assert (truth.allocations, truth.launches, truth.synchronisations, truth.frees) == (6, 6, 6, 1)
    assert sum(seen.truth.failures.values()) == 4 * 6
    assert_told_truly(seen)


def test_threads_that_call_both_at_once_are_counted_each_for_itself():
    seen = probed(
        """
            threads 2 { repeat 200 { alloc a 10; cu_alloc b 20; launch axpy default 1 1 1 2 1 1; fail_alloc; free a
                        cu_launch plain default 1 1 1 4 1 1; sync default; cu_sync default; cu_free b } }
        """,
        environment=NESTED,
    )
    process = seen.process
    assert (process.launches, process.allocations, process.frees, process.synchronisations) == (800, 800, 800, 800)
    assert (process.memory_leaked, process.failures[0].count) == (0, 400)


@pytest.mark.parametrize('environment', [{}, NESTED], ids=['runtime only', 'driver inside'])
def test_launches_of_the_driver_that_look_like_those_inside_the_runtime_are_counted(environment: dict[str, str]):
    seen = probed(
        """
            repeat 300 { launch axpy default 1 1 1 2 1 1; cu_launch plain default 1 1 1 2 1 1
                         launch axpy default 1 1 1 2 1 1; launch gemm default 1 1 1 2 1 1 }
            launches 500 axpy default 1 1 1 2 1 1; repeat 100 { cu_launch plain default 1 1 1 2 1 1 }
        """,
        environment=environment,
    )
    assert seen.process.launches == 1800
    assert_told_truly(seen)
