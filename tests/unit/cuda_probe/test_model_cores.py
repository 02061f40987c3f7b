"""Used cores, and the kernels' parts of the time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.cuda_probe.model.span import KernelTimes, Span
from gpu_tracker.cuda_probe.model.window import Capacity, Losses
from support.cuda.cuda_events import GPU, KERNEL, STREAM, launch, limits, statistics, sync, use, window

OTHER = KERNEL + 64


def test_used_cores_are_the_duration_times_the_mean_threads_by_the_window():
    assert use(launch(10, threads=100), launch(20, threads=300), sync(60), now=100).used_cores == 0.5 * 200


def test_a_span_fills_no_more_cores_than_the_gpu_has():
    assert use(launch(10, threads=5000), sync(60), now=100).used_cores == 0.5 * 1000


def test_spans_side_by_side_add_up():
    seen = use(launch(0, threads=100), launch(50, STREAM, threads=600), sync(100), sync(100, STREAM), now=100)
    assert seen.used_cores == 100 + 0.5 * 600


def test_only_the_part_of_a_span_in_the_window_counts():
    made = statistics(launch(60, threads=500))
    assert made.get_and_flush(100).devices[0].used_cores == 0.4 * 500
    made.consume([sync(120)])
    assert made.get_and_flush(200).devices[0].used_cores == 0.2 * 500


def test_a_gpu_without_spans_uses_no_cores():
    assert use(sync(10), launch(2000)).used_cores == 0.0


@pytest.mark.parametrize('capacities', [{}, {GPU: Capacity(None, 5)}])
def test_where_the_cores_are_not_known_used_cores_are_not(capacities):
    seen = use(launch(10), sync(60), now=100, capacities=capacities)
    assert (seen.gpu, seen.used_cores, seen.used_cores_normalised, seen.active) == (GPU, None, None, 0.5)


def test_where_the_gpu_is_not_known_used_cores_are_not():
    seen = use(launch(10), sync(60), now=100, placed=lambda process, device: None)
    assert (seen.gpu, seen.used_cores, seen.active) == (None, None, 0.5)


def test_a_gpu_that_becomes_known_is_asked_for_no_more():
    answers, asked = [None, None, GPU], []

    def placed(process, device):
        asked.append((process, device))
        return answers.pop(0)

    made = statistics(launch(0, threads=50), placed=placed)
    seen = [made.get_and_flush(now).devices[0] for now in (100, 200, 300)]
    assert [(use.gpu, use.used_cores) for use in seen] == [(None, None), (GPU, 50.0), (GPU, 50.0)]
    assert asked == [(1, 0)] * 3


def test_each_gpu_has_its_own_cores():
    seen = window(
        *(launch(0, threads=5000, device=device) for device in (0, 1)),
        now=100,
        placed=lambda process, device: f'GPU-{device}',
        capacities={'GPU-0': Capacity(10, None), 'GPU-1': Capacity(20, None)},
    )
    assert [(use.gpu, use.used_cores) for use in seen.devices] == [('GPU-0', 10.0), ('GPU-1', 20.0)]


def test_a_spans_time_is_shared_by_launches():
    made = [launch(0, kernel=KERNEL), launch(1, kernel=OTHER), launch(2, kernel=KERNEL), launch(3, kernel=KERNEL)]
    assert window(*made, sync(80)).kernels == {(1, KERNEL): 60, (1, OTHER): 20}


def test_the_kernels_of_streams_side_by_side_have_the_time_of_each():
    assert window(launch(0), launch(0, STREAM), sync(50), sync(50, STREAM)).kernels == {(1, KERNEL): 100}


def test_a_kernels_time_goes_on_in_the_next_window():
    made = statistics(launch(60))
    assert made.get_and_flush(100).kernels == {(1, KERNEL): 40}
    made.consume([sync(130)])
    assert made.get_and_flush(200).kernels == {(1, KERNEL): 30}
    assert made.get_and_flush(300).kernels == {}


def test_more_kernels_than_have_room_are_told_together():
    made = [launch(0, kernel=1), launch(1, kernel=2), launch(2, kernel=3), launch(3, kernel=3), launch(4, kernel=1)]
    seen = window(*made, sync(50), bounds=limits(kernels=1))
    assert seen.kernels == {(1, 1): 20, (1, 0): 30}
    assert seen.dropped.kernel_launches == 3


def test_a_kernel_that_had_room_keeps_it():
    made = [launch(0, kernel=1), sync(10), launch(20, kernel=2), sync(30), launch(40, kernel=1), sync(45)]
    seen = window(*made, bounds=limits(kernels=1))
    assert (seen.kernels, seen.dropped.kernel_launches) == ({(1, 1): 15, (1, 0): 10}, 1)


@given(st.dictionaries(st.integers(1, 9), st.integers(1, 50), min_size=1), st.integers(0, 10**6))
def test_parts_add_up_to_the_span_and_are_fair_to_the_nanosecond(launches, duration):
    times = KernelTimes(99, Losses())
    times.share(Span(5, 5 + duration, sum(launches.values()), 1, launches))
    parts = times.take()
    assert sum(parts.values()) == duration
    for kernel, count in launches.items():
        assert abs(parts[kernel] - duration * count / sum(launches.values())) < 1
