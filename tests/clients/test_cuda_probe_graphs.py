"""CUDA graphs: what is only captured is not launched, and the kernels of a launched graph are."""

from __future__ import annotations

import pytest

from gpu_tracker.cuda_probe.limits import Limits
from support.cuda.cuda_comparison import assert_agree, assert_told_truly, names_told
from support.cuda.probed_program import probed, probing

CAPTURED = """
    stream s; stream t; launch axpy s 1 1 1 4 1 1
    capture s; launches 3 axpy s 2 1 1 256 1 1; launch gemm s 1 1 1 8 1 1; launch plain t 1 1 1 1 1 1; end_capture s g
    launch axpy s 1 1 1 4 1 1; instantiate x g
"""
BUILT = """
    stream s; graph g; node g axpy 1 1 1 2 1 1; node_any g gemm 1 1 1 3 1 1; node_v2 g axpy 1 1 1 5 1 1
    graph around; child around g; child around g; child_any around g; node around plain 1 1 1 7 1 1
    instantiate x around
"""


@pytest.mark.parametrize('environment', [{}, {'CUDA_STAND_IN_NESTED': '1'}], ids=['runtime only', 'driver inside'])
def test_what_is_captured_counts_when_it_is_launched(environment: dict[str, str]):
    seen = probed(f'{CAPTURED}; run x s 10; sync s', environment=environment)
    assert_told_truly(seen)
    assert seen.process.launches == 3 + 10 * 4
    assert seen.process.graph_launches == 10
    assert names_told(seen.process) == {
        'axpy(float, float*, float*)': 32,
        'gemm(float const*, float const*, float*, int)': 10,
        'plain': 1,
    }
    assert not any('graph' in note for note in seen.report.notes)


def test_a_graph_that_is_never_launched_counts_nothing():
    seen = probed(CAPTURED)
    assert_told_truly(seen)
    assert (seen.process.launches, seen.process.graph_launches, seen.process.kernels_total) == (3, 0, 2)


def test_other_streams_join_a_capture_by_its_events_and_leave_it_at_its_end():
    seen = probed(
        """
            stream s; stream t; stream u; event e; event done; record e u; stream_wait t e; launch plain t 1 1 1 1 1 1
            capture s; launch axpy s 1 1 1 2 1 1; record e s; stream_wait t e; launch axpy t 1 1 1 4 1 1
            record done t; stream_wait s done; launch axpy u 1 1 1 8 1 1; end_capture s g
            launch axpy t 1 1 1 16 1 1; instantiate x g; run x u 3; stream_wait u e; launch axpy u 1 1 1 32 1 1
        """
    )
    assert_told_truly(seen)
    assert seen.process.launches == 1 + 3 + 3 * 2


def test_a_capture_that_failed_has_launched_nothing():
    seen = probed('stream s; capture s; launches 5 axpy s 1 1 1 2 1 1; fail_capture s; launch axpy s 1 1 1 4 1 1')
    assert_told_truly(seen)
    assert (seen.process.launches, seen.process.failures[0].error_name) == (1, 'cudaErrorStreamCaptureInvalidated')


def test_graphs_that_are_built_of_nodes_and_of_other_graphs():
    seen = probed(f'{BUILT}; run x s 100')
    assert_told_truly(seen)
    assert seen.process.launches == 1000


def test_an_instantiated_graph_stays_as_it_is():
    seen = probed(
        f"""
            {BUILT}; run x s; node around gemm 1 1 1 9 1 1; run x s 2; instantiate y around; run y s 3
            clone other around; node other plain 1 1 1 11 1 1; instantiate z other; run z s 5; run y s; update x other
            run x s 7; capture s other; launch reduce s 1 1 1 13 1 1; end_capture s; instantiate w other; run w s
            graph open; capture s open; launch axpy s 1 1 1 17 1 1; end_capture s; instantiate v open; run v s
        """
    )
    assert_told_truly(seen)


def test_a_graph_that_is_launched_into_a_capture_is_part_of_that():
    seen = probed(f'{CAPTURED}; capture t; run x t 2; end_capture t outer; instantiate y outer; run y s 4')
    assert_told_truly(seen)
    assert (seen.process.launches, seen.process.graph_launches) == (3 + 4 * 2 * 4, 4)


def test_memory_that_a_capture_would_allocate_is_not_allocated():
    seen = probed('stream s; capture s; alloc_async a 1000 s; end_capture s g; alloc_async b 30 s')
    assert (seen.process.allocations, seen.process.memory_max) == (1, 30)


def test_graphs_that_are_made_anew_all_the_time_leave_no_kernel_out():
    seen = probed(
        """
            stream s; repeat 1000 { capture s; launches 4 axpy s 1 1 1 2 1 1; end_capture s g; instantiate x g
                                    run x s 2; destroy_executable x; destroy_graph g; pause 3 }
        """,
        limits=Limits(graphs=800),
    )
    assert_told_truly(seen)
    assert seen.process.launches == 8_000


def test_more_graphs_than_there_is_room_for_are_reported():
    seen = probed(
        'stream s; repeat 50 { capture s; launches 4 axpy s 1 1 1 2 1 1; end_capture s g; instantiate x g; run x s }',
        limits=Limits(graphs=20),
    )
    assert seen.process.graph_launches == 50
    (note,) = (note for note in seen.report.notes if 'limit "graphs"' in note)
    assert note.startswith('CUDA graphs whose kernels are not counted: ')


def test_graphs_of_which_nothing_is_known_are_in_a_note_and_in_no_other_figure():
    seen = probed('repeat 1500 { launch_graph default }; alloc a 10; default_stream own; launch_graph default')
    assert seen.truth.device.graphs == 1501
    assert_told_truly(seen)
    (note,) = (note for note in seen.report.notes if 'graph' in note)
    assert note == (
        'Launches of CUDA graphs with unknown kernels: 1,501. The graphs were made before the probe '
        'started, or in a way that the probe does not see. Their kernels are missing in all figures.'
    )


def test_a_graph_on_a_stream_is_a_span_until_it_is_waited_for():
    with probing(f'{CAPTURED}; sync s; wait; run x s 2; sync s') as (probe, running):
        running.go_on()
        running.wait_until_waiting()
        before = probe.report()
        assert_agree(before, running.truths())
        running.go_on()
        running.finish()
        probe.close()
        (process,) = probe.report().processes
        assert process.mean_threads == (4 + 1 + 4 + 2 * (3 * 512 + 8)) / (3 + 2 * 4)
        assert process.launch_to_sync_seconds > before.processes[0].launch_to_sync_seconds > 0
