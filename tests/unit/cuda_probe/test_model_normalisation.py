"""Processes that together use more than a GPU has are scaled down to it."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.cuda_probe.model.physical_gpus import normalised
from gpu_tracker.cuda_probe.model.window import Capacity, DeviceUse
from support.cuda.cuda_events import GPU, allocation, launch, use, window

NEVER = DeviceUse(
    process=1,
    device=0,
    gpu=GPU,
    busy=0,
    active=0.0,
    used_cores=0.0,
    used_cores_normalised=0.0,
    launches=0,
    threads=0,
    spans=0,
    forced_spans=0,
    memory_current=0,
    memory_max=0,
    memory_leaked=None,
    memory_current_normalised=None,
    memory_max_normalised=None,
)


def cores(*uses):
    return [use.used_cores_normalised for use in uses]


def memory(*uses):
    return [(use.memory_current_normalised, use.memory_max_normalised) for use in uses]


def test_processes_that_fit_are_left_as_they_are():
    seen = window(*(launch(0, threads=400, process=process) for process in (1, 2)), now=100).devices
    assert cores(*seen) == [400.0, 400.0]


def test_processes_that_do_not_fit_are_scaled_by_the_same_factor():
    seen = window(launch(0, threads=1000), launch(0, threads=1000, process=2), launch(50, process=2, stream=5), now=100)
    assert [use.used_cores for use in seen.devices] == [1000.0, 1050.0]
    assert cores(*seen.devices) == pytest.approx([1000 * 1000 / 2050, 1050 * 1000 / 2050])


def test_streams_of_one_process_are_scaled_down_too():
    seen = use(launch(0, 0, threads=800), launch(0, 5, threads=800), now=100)
    assert (seen.used_cores, seen.used_cores_normalised) == (1600.0, 1000.0)


def test_memory_that_fits_is_left_as_it_is():
    seen = window(allocation(1, 600 << 20), allocation(2, 400 << 20, process=2)).devices
    assert memory(*seen) == [(600 << 20,) * 2, (400 << 20,) * 2]


def test_memory_that_does_not_fit_is_scaled_by_one_factor_its_most_too():
    seen = window(allocation(1, 2 << 30), allocation(2, 1 << 30), allocation(3, 1 << 30, process=2)).devices
    assert memory(*seen) == [(512 << 20, 1 << 30), (512 << 20, 512 << 20)]
    assert [(use.memory_current, use.memory_max) for use in seen] == [(1 << 30, 2 << 30), (1 << 30, 1 << 30)]


def test_other_gpus_do_not_matter():
    uses = [NEVER._replace(gpu='A', used_cores=8.0), NEVER._replace(gpu='B', used_cores=8.0, used_cores_normalised=8.0)]
    seen = normalised(uses, {'A': Capacity(4, 10), 'B': Capacity(9, None)})
    assert cores(*seen) == [4.0, 8.0]
    assert memory(*seen) == [(0, 0), (None, None)]


def test_one_process_on_one_gpu_by_two_numbers_is_added_up():
    uses = [NEVER._replace(device=device, used_cores=8.0) for device in (0, 1)]
    assert cores(*normalised(uses, {GPU: Capacity(8, None)})) == [4.0, 4.0]


def test_what_is_not_known_stays_so():
    unplaced = NEVER._replace(gpu=None, used_cores=None, used_cores_normalised=None, memory_current=5)
    assert normalised([unplaced], {GPU: Capacity(8, 1)}) == (unplaced,)
    unknown = unplaced._replace(gpu=GPU)
    assert normalised([unknown], {}) == (unknown,)
    assert normalised([unknown], {GPU: Capacity(None, None)}) == (unknown,)


def factor(most, together):
    return min(Fraction(1), Fraction(most) / Fraction(together)) if together else Fraction(1)


figures = st.tuples(st.sampled_from(['A', 'B', None]), st.floats(0, 1e6), st.integers(0, 10**12))


@given(st.lists(figures, max_size=6), st.integers(1, 10**5), st.integers(1, 10**11))
def test_no_gpu_is_used_beyond_what_it_has_and_proportions_stay(drawn, most_cores, most_memory):
    uses = [
        NEVER._replace(gpu=gpu, used_cores=used, used_cores_normalised=used, memory_current=held, memory_max=held)
        for gpu, used, held in drawn
    ]
    seen = normalised(uses, {'A': Capacity(most_cores, most_memory), 'B': Capacity(most_cores, most_memory)})
    for gpu in ('A', 'B'):
        mine = [(before, after) for before, after in zip(uses, seen, strict=True) if before.gpu == gpu]
        cores_factor = factor(most_cores, sum(before.used_cores for before, _ in mine))
        memory_factor = factor(most_memory, sum(before.memory_current for before, _ in mine))
        assert sum(after.used_cores_normalised for _, after in mine) <= most_cores * (1 + 1e-9)
        assert sum(after.memory_current_normalised for _, after in mine) <= most_memory
        for before, after in mine:
            assert after.used_cores_normalised == pytest.approx(before.used_cores * float(cores_factor))
            assert after.memory_current_normalised == int(before.memory_current * memory_factor)
