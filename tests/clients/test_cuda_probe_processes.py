"""What the probe counts of threads, children and programs that end in all ways, against what each of them knows."""

from __future__ import annotations

import pytest

from support.cuda.cuda_comparison import assert_agree, assert_told_truly
from support.cuda.probed_program import probed, probing


def test_allocations_and_launches_of_many_threads_are_counted_with_the_exact_maximum():
    seen = probed("""
        alloc a 123
        threads 4 {
            repeat 100 { alloc b 300; alloc c 70; launch axpy default 1 1 1 2 1 1; free b; sync default; free c }
            alloc d 11; launches 1000 gemm legacy 1 1 1 8 1 1
        }
        free a
    """)
    assert seen.truth.device.launches == 4400
    assert_told_truly(seen)


def test_threads_that_free_and_allocate_the_same_addresses_at_the_same_time_are_counted_exactly():
    process = probed('threads 4 { churn 20000 512; launches 5000 axpy default 1 1 1 2 1 1; alloc a 9 }').process
    assert (process.allocations, process.frees) == (80_004, 80_000)
    assert (process.allocated, process.freed) == (80_000 * 512 + 36, 80_000 * 512)
    assert process.memory_leaked == 36
    assert 512 <= process.memory_max <= 4 * 512 + 36  # which of the threads had memory at once is not known
    assert (process.launches, process.mean_threads) == (20_000, 2)


def test_memory_that_another_thread_is_given_before_the_free_has_returned_is_counted_exactly():
    process = probed('threads 3 { churn 200 512 }', environment={'CUDA_STAND_IN_LINGER': '500'}).process
    assert (process.allocations, process.frees, process.memory_leaked) == (600, 600, 0)
    assert process.memory_max <= 3 * 512


def test_threads_that_ended_before_others_began_are_counted_too():
    assert_told_truly(probed('repeat 30 { threads 2 { alloc a 10; launch axpy per_thread 1 1 1 1 1 1 } }'))


def test_children_are_counted_each_for_itself():
    seen = probed("""
        alloc a 100; launch axpy default 1 1 1 4 1 1
        repeat 3 {
            fork { free a; alloc b 7; launches 10 gemm default 1 1 1 8 1 1; fork { alloc c 5; free c; sync default } }
        }
        free a; reap
    """)
    assert len(seen.ran.processes) == 7
    assert_told_truly(seen)
    assert seen.process.memory_leaked == 0
    assert sorted(process.memory_leaked or 0 for process in seen.report.processes) == [0, 0, 0, 0, 7, 7, 7]


def test_a_process_that_becomes_another_program_is_two():
    seen = probed("""
        alloc a 100; launches 3 axpy default 1 1 1 4 1 1
        exec { alloc b 50; free b; fail_alloc; exec { set_device 1; launch gemm default 1 1 1 4 1 1; exit 3 } }
    """)
    assert [process.pid for process in seen.report.processes] == [seen.ran.pid] * 3
    assert_told_truly(seen)
    assert [process.memory_leaked for process in seen.report.processes] == [100, 0, 0]


def test_threads_that_fork_and_that_become_another_program_are_no_trouble():
    seen = probed("""
        alloc a 3
        threads 2 { fork { alloc a 5; threads 2 { launch axpy default 1 1 1 1 1 1 } }; launch axpy legacy 1 1 1 1 1 1 }
        reap; threads 1 { set_device 1; alloc b 7; exec { alloc c 9; launch gemm default 1 1 1 1 1 1 } }
    """)
    assert len(seen.ran.processes) == 4
    assert_told_truly(seen)


def test_children_that_become_another_program_and_programs_that_never_call_are_no_trouble():
    seen = probed('fork { exec { alloc a 4 } }; fork { exec { exec { exit 0 } } }; fork { }; reap; alloc b 5')
    assert_told_truly(seen)
    assert len(seen.report.processes) == 2


@pytest.mark.parametrize(('end', 'code'), [('exit 7', 7), ('crash', -11)])
def test_what_a_program_has_done_until_it_ends_in_the_middle_is_told(end: str, code: int):
    seen = probed(f"""
        alloc a 500; fork {{ alloc c 9; launch gemm default 1 1 1 4 1 1; {end}; alloc d 1 }}; reap
        launches 100 axpy default 1 1 1 4 1 1; {end}; alloc b 500
    """)
    assert (seen.ran.returncode, seen.truth.leaked) == (code, 500)
    assert_told_truly(seen)


def test_a_program_that_is_killed_has_leaked_what_it_had():
    with probing('alloc a 500; alloc b 70; free a; launches 5 axpy default 1 1 1 1 1 1; wait') as (probe, running):
        running.go_on()
        running.wait_until_waiting()
        running.process.kill()
        running.process.wait()
        probe.close()
        (process,) = probe.report().processes
    assert (process.ended, process.memory_leaked, process.launches) == (True, 70, 5)
    assert (process.allocations, process.frees, process.memory_max) == (2, 1, 570)


def test_a_running_program_has_memory_in_use_and_has_leaked_nothing_yet():
    script = 'alloc a 500; alloc b 70; fork { alloc c 3 }; reap; wait; free a; launch axpy default 1 1 1 1 1 1'
    with probing(script) as (probe, running):
        running.go_on()
        running.wait_until_waiting()
        assert_agree(probe.report(), running.truths())
        (process,) = [process for process in probe.report().processes if process.pid == running.pid]
        assert (process.ended, process.memory_current, process.memory_leaked) == (False, 570, None)
        running.go_on()
        ran = running.finish()
        assert_agree(probe.report(), ran.processes)
        probe.close()
        assert_agree(probe.report(), ran.processes)


def test_what_was_done_before_the_probe_is_in_no_figure():
    script = (
        'alloc a 500; launches 9 axpy default 1 1 1 1 1 1; wait; free a; alloc b 70; launch gemm default 1 1 1 1 1 1'
    )
    with probing(script, from_start=False) as (probe, running):
        running.go_on()
        running.finish()
        probe.close()
        (process,) = probe.report().processes
    assert (process.launches, process.allocations, process.frees, process.memory_leaked) == (1, 1, 0, 70)
    assert process.memory_max == 70
    (note,) = probe.report().notes
    assert note == (
        f'Process {process.pid} ran before the probe: what it had done until then is not reported, and memory that it '
        'had allocated counts neither as in use nor as freed. Which GPU a thread uses is known when it chooses one.'
    )
