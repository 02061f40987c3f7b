from __future__ import annotations

import pytest

from gpu_tracker.gpus import constraints
from gpu_tracker.gpus.constraints import ANY, CLAIMED, Limits, Rejection, rejection, status_of
from support.gpus.brief_gpus import GB, SEEN, UNSEEN, claim, gpu, lost, mig, split, used

DRAWS = SEEN._replace(computes=False)
UNIFIED = {'memory_total': None, 'memory_used': None, 'memory_free': None, 'is_list_complete': False}
"""Of a GPU without memory of its own, some of whose processes may not be listed."""


def why(gpu, **limits) -> str | None:
    found = rejection(gpu, ANY._replace(**limits))
    return None if found is None else found.text


def lasts(gpu, **limits) -> bool:
    return rejection(gpu, ANY._replace(**limits)).is_lasting


def test_a_fifth_of_the_memory_may_be_in_use() -> None:
    assert why(used(0, 2)) is None
    assert why(used(0, 2.1)) == '21.0 % of its memory is in use; at most 20 % may be'
    assert why(used(0, 2.1), max_used_percent=21) is None
    assert not lasts(used(0, 9))


def test_no_limit_on_memory_looks_neither_at_memory_nor_at_processes() -> None:
    assert why(used(0, 10), max_used_percent=100) is None
    assert why(gpu(memory_total=None, memory_used=None, processes=(SEEN,)), max_used_percent=100) is None


def test_without_memory_of_its_own_a_gpu_is_free_while_nothing_computes_on_it() -> None:
    unified = {'memory_total': None, 'memory_used': None, 'memory_free': None}
    assert why(gpu(**unified)) is None
    assert why(gpu(**unified, processes=(DRAWS,))) is None
    assert why(gpu(**unified, processes=(SEEN,))) == 'a process computes on it'
    two = (SEEN, DRAWS, UNSEEN)
    assert why(gpu(**unified, processes=two)) == '2 processes compute on it'
    assert why(gpu(**unified, processes=None)) == 'neither its memory nor its processes are reported'
    assert lasts(gpu(**unified, processes=None))


def test_what_processes_have_counts_where_a_gpu_with_memory_of_its_own_does_not_report_it() -> None:
    card = gpu(memory_total=None, memory_used=None, memory_free=None, processes=(DRAWS._replace(memory=GB),))
    card = card._replace(gpu=card.gpu._replace(vendor='intel'))
    assert why(card) is None
    full = card._replace(processes=(DRAWS._replace(memory=GB), DRAWS._replace(memory=GB // 2)))
    assert why(full) == 'its processes have 1.5 GB of its memory, and it does not report how much there is'
    assert not lasts(full)
    assert status_of(full) == constraints.IN_USE
    assert why(full._replace(gpu=full.gpu._replace(is_integrated=True))) is None


def test_where_processes_of_others_cannot_be_seen_a_gpu_that_does_not_report_its_memory_is_in_use() -> None:
    reason = 'it does not report its memory, and processes of other users or containers cannot be seen from here'
    assert why(gpu(**UNIFIED)) == reason
    assert why(gpu(**UNIFIED, processes=(DRAWS,))) == reason
    assert lasts(gpu(**UNIFIED))
    assert why(gpu(**UNIFIED, processes=(SEEN,))) == 'a process computes on it'
    assert why(used(0, 2)._replace(is_list_complete=False)) is None


def test_least_free_memory() -> None:
    assert why(used(0, 2), min_free=8 * GB) is None
    assert why(used(0, 2), min_free=8 * GB + 1) == '8.0 GB of its memory are free; 8 GB must be'
    assert why(used(0, 1.5), min_free=9 * GB) == '8.5 GB of its memory are free; 9 GB must be'
    assert not lasts(used(0, 1.5), min_free=10 * GB)
    assert lasts(used(0, 1.5), min_free=11 * GB)
    unified = gpu(memory_total=None, memory_used=None, memory_free=None)
    assert why(unified, min_free=GB) == 'its free memory is not reported'
    assert lasts(unified, min_free=GB)


def test_utilization() -> None:
    assert why(gpu(utilization=30.0), max_used_percent=20) is None
    assert why(gpu(utilization=30.0), max_utilization=30) is None
    assert why(gpu(utilization=31.0), max_utilization=30) == 'its utilization is 31 %; at most 30 % may be'
    assert not lasts(gpu(utilization=31.0), max_utilization=30)
    assert why(gpu(utilization=None), max_utilization=30) == 'its utilization is not reported'
    assert lasts(gpu(utilization=None), max_utilization=30)


def test_temperature_is_that_of_the_whole_gpu() -> None:
    assert why(gpu(temperature=70.0), max_temperature=70) is None
    assert why(gpu(temperature=71.0), max_temperature=70) == 'it has 71 °C; at most 70 °C may be'
    assert why(gpu(temperature=None), max_temperature=70) == 'its temperature is not reported'
    part = split(0, mig(0, 'MIG-a'), temperature=71.0).mig_devices[0]
    assert why(part, max_temperature=70) == 'it has 71 °C; at most 70 °C may be'
    assert why(part, max_temperature=71) is None


def test_a_gpu_out_of_reach() -> None:
    assert why(lost(0)) == 'lost'
    assert lasts(lost(0))


def test_a_gpu_in_mig_mode_is_not_used_whole() -> None:
    assert why(split(0, mig(0, 'MIG-a'))) == 'in MIG mode; its MIG devices are chosen by UUID'
    assert why(split(0)) == 'in MIG mode without MIG devices'
    assert why(split(0, mig(0, 'MIG-a')).mig_devices[0]) is None


def test_a_claim_is_told_last_and_has_its_words_made_later() -> None:
    assert rejection(gpu(claim=claim('GPU-0')), ANY) == Rejection(CLAIMED, '')
    assert why(used(0, 9)._replace(claim=claim('GPU-0'))) == '90.0 % of its memory is in use; at most 20 % may be'
    assert not lasts(gpu(claim=claim('GPU-0')))


@pytest.mark.parametrize(
    ('shown', 'expected'),
    [
        (gpu(), constraints.FREE),
        (gpu()._replace(is_claim_known=False), constraints.UNKNOWN),
        (used(0, 3, SEEN._replace(memory=2 * GB))._replace(is_claim_known=False), constraints.IN_USE),
        (used(0, 2, SEEN), constraints.IN_USE),
        (used(0, 3, SEEN._replace(memory=2 * GB)), constraints.IN_USE),
        (used(0, 3, SEEN, UNSEEN), constraints.IN_USE_UNSEEN),
        (used(0, 8, SEEN._replace(memory=6 * GB)), constraints.IN_USE),
        (
            used(0, 8, SEEN._replace(memory=6 * GB - 1)),
            constraints.IN_USE_UNSEEN,
        ),  # the rest is somebody's who is not seen
        (used(0, 8, SEEN._replace(memory=None)), constraints.IN_USE),
        (used(0, 3), constraints.IN_USE_UNSEEN),
        (used(0, 3)._replace(processes=None), constraints.IN_USE_UNSEEN),
        (gpu(processes=(DRAWS,), **UNIFIED), constraints.IN_USE_UNSEEN),
        (gpu(processes=(SEEN,), **UNIFIED), constraints.IN_USE),
        (gpu(claim=claim('GPU-0')), constraints.CLAIMED),
        (used(0, 3, SEEN._replace(memory=2 * GB))._replace(claim=claim('GPU-0')), constraints.IN_USE),
        (split(0, mig(0, 'MIG-a')), constraints.SPLIT),
        (lost(0), constraints.UNREADABLE),
    ],
)
def test_status(shown, expected) -> None:
    assert status_of(shown) == expected


def test_free_is_what_can_be_chosen_without_further_wishes() -> None:
    assert Limits() == ANY
    assert ANY == (None, None, None, None, ())


IDLE_PROGRAM = SEEN._replace(pid=300, memory=8 * GB, is_idle_program=True)


def test_a_gpu_that_only_an_idle_program_uses_is_free() -> None:
    occupied = used(0, 8, IDLE_PROGRAM)
    assert why(occupied) is None
    assert why(occupied, min_free=9 * GB) is None
    assert why(occupied._replace(utilization=100.0), max_utilization=5) is None
    assert why(used(0, 8, IDLE_PROGRAM._replace(memory=None))) is None
    assert status_of(occupied) == constraints.FREE


def test_a_gpu_that_somebody_uses_beside_an_idle_program_is_not_free() -> None:
    assert why(used(0, 9, IDLE_PROGRAM, SEEN)) == '90.0 % of its memory is in use; at most 20 % may be'
    not_listed = used(0, 9.5, IDLE_PROGRAM._replace(memory=5 * GB))
    assert why(not_listed) == '45.0 % of its memory is in use; at most 20 % may be'
