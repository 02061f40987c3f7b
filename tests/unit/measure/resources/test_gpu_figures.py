from __future__ import annotations

import pytest

from gpu_tracker.gpus.model import Gpu, GpuProcess, GpuReading, Unseen
from gpu_tracker.resources.gpu.figures import NO_GPUS, UNKNOWN, GpuFigures, unknown_uuids, without_the_last
from support.gpus.gpu_readings import capable, sampled

SECOND = 1_000_000


class FakeBackend:
    """GPUs whose next readings a test sets."""

    compute_files = frozenset()

    def __init__(self, *gpus: Gpu) -> None:
        self._gpus = gpus
        self.readings: dict[str, GpuReading] = {}
        self.present: dict[str, float | None] = {}
        self.peaks: dict[tuple[str, int], int] = {}
        self.unseen_on = Unseen()

    def gpus(self) -> tuple[Gpu, ...]:
        return self._gpus

    def follow(self, members: frozenset[int]) -> None:
        pass

    def read(self, uuid: str) -> GpuReading:
        return self.readings[uuid]

    def processes(self, uuid: str) -> list[GpuProcess] | None:
        return self.readings[uuid].processes

    def unseen(self, uuid: str) -> Unseen:
        return self.unseen_on

    def utilization(self, uuid: str) -> float | None:
        return self.present.get(uuid)

    def peak_memory(self, uuid: str, pid: int) -> int | None:
        return self.peaks.get((uuid, pid))

    def take_messages(self) -> list[tuple[str, str]]:
        return []

    def close(self) -> None:
        pass


A, B = capable(0, 'a', 'GPU', 1000), capable(1, 'b', 'GPU', 2000)
NOBODY = frozenset[int]()


def test_utilization_of_two_gpus_over_time() -> None:
    backend = FakeBackend(A, B)
    figures = GpuFigures(backend, None, wall_clock=lambda: 10.0)
    backend.readings = {
        'a': sampled(0, [], [(9 * SECOND, 100.0), (10 * SECOND, 90.0)]),
        'b': sampled(0, [], [(10 * SECOND, 80.0)]),
    }
    figures.read(1, NOBODY, None)
    assert figures.totals()['max_sum'] is None
    backend.readings = {
        'a': sampled(0, [], [(11 * SECOND, 10.0), (12 * SECOND, 50.0)]),
        'b': sampled(0, [], [(11 * SECOND, 0.0)]),
    }
    figures.read(1, NOBODY, 10 * SECOND)
    assert (figures.totals()['max_sum'], figures.totals()['mean_sum']) == (10.0, 10.0)
    backend.readings = {'a': sampled(0, [], []), 'b': sampled(0, [], [(12 * SECOND, 20.0)])}
    figures.read(1, NOBODY, 10 * SECOND)
    assert (figures.totals()['max_sum'], figures.totals()['mean_sum']) == (70.0, 40.0)


def test_a_run_too_short_for_a_sample_has_the_utilization_of_now() -> None:
    backend = FakeBackend(A, B)
    backend.readings = {'a': sampled(0, [], []), 'b': sampled(0, [], [])}
    backend.present = {'a': 30.0, 'b': 12.0}
    figures = GpuFigures(backend, None)
    figures.read(1, NOBODY, 0)
    assert (figures.totals()['max_sum'], figures.totals()['mean_sum']) == (42.0, 42.0)


def test_one_gpu_of_unknown_utilization_makes_the_sum_unknown() -> None:
    backend = FakeBackend(A, B)
    backend.readings = {'a': sampled(0, [], []), 'b': sampled(0, [], None)}
    backend.present = {'a': 30.0, 'b': None}
    figures = GpuFigures(backend, None)
    figures.read(1, NOBODY, 0)
    assert (figures.totals()['max_sum'], figures.totals()['mean_sum']) == (None, None)


def test_a_gpu_whose_samples_have_ceased_is_asked_for_its_utilization_of_now() -> None:
    clock = [10.0]
    backend = FakeBackend(A)
    figures = GpuFigures(backend, None, wall_clock=lambda: clock[0])
    backend.readings = {'a': sampled(0, [], [(9 * SECOND, 0.0), (10 * SECOND, 20.0)])}
    figures.read(1, NOBODY, 0)
    backend.readings = {'a': sampled(0, [], [])}
    backend.present = {'a': 60.0}
    clock[0] = 12.0
    figures.read(1, NOBODY, 0)
    assert figures.totals()['mean_sum'] == 20.0
    clock[0] = 12.5
    figures.read(1, NOBODY, 0)
    assert (figures.totals()['max_sum'], figures.totals()['mean_sum']) == (60.0, 40.0)


def test_a_process_of_unknown_memory_after_a_maximum_of_zero() -> None:
    backend = FakeBackend(A)
    figures = GpuFigures(backend, None)
    backend.readings = {'a': sampled(0, [], [])}
    figures.read(1, NOBODY, 0)
    assert figures.totals()['main'] == 0
    backend.readings = {'a': sampled(500, [GpuProcess(1, None)], [])}
    figures.read(1, NOBODY, 0)
    assert (figures.totals()['main'], figures.totals()['descendants']) == (None, 0)


def test_memory_that_was_not_reported_once_may_have_been_the_most() -> None:
    card, integrated = A._replace(vendor='amd'), B._replace(vendor='intel', is_integrated=True)
    backend = FakeBackend(card, integrated)
    figures = GpuFigures(backend, None)
    for memory in (300, None, 100):
        backend.readings = {'a': sampled(0, [GpuProcess(1, 50), GpuProcess(2, memory)], []), 'b': sampled(0, [], [])}
        figures.read(1, frozenset({2}), 0)
    totals = figures.totals()
    assert (totals['main'], totals['descendants'], totals['combined']) == (50, 300, 350)
    assert totals['missed'] == ['descendants', 'combined']
    assert [(gpu['combined'], gpu['missed']) for gpu in totals['devices']] == [(350, ['descendants', 'combined'])]
    assert figures.row()[:3] == (50, 100, 150)


def test_memory_on_an_integrated_gpu_that_is_not_reported_is_not_0() -> None:
    backend = FakeBackend(A._replace(vendor='intel', is_integrated=True))
    figures = GpuFigures(backend, None)
    backend.readings = {'a': sampled(0, [], [])}
    figures.read(1, frozenset({2}), 0)
    assert (figures.totals()['main'], figures.totals()['combined']) == (0, 0)
    backend.readings = {'a': sampled(0, [GpuProcess(2, None)], [])}
    figures.read(1, frozenset({2}), 0)
    assert (figures.totals()['main'], figures.totals()['descendants'], figures.totals()['combined']) == (0, None, None)
    backend.readings = {'a': sampled(0, [], [])}
    figures.read(1, NOBODY, 0)
    assert (figures.totals()['main'], figures.totals()['descendants'], figures.totals()['combined']) == (0, None, None)


def test_memory_on_an_integrated_gpu_that_is_not_reported_says_nothing_of_others() -> None:
    card, integrated = A._replace(vendor='nvidia'), B._replace(vendor='intel', is_integrated=True)
    backend = FakeBackend(card, integrated)
    figures = GpuFigures(backend, None)
    backend.readings = {'a': sampled(0, [GpuProcess(2, 70)], []), 'b': sampled(0, [GpuProcess(2, None)], [])}
    figures.read(1, frozenset({2}), 0)
    assert (figures.totals()['descendants'], figures.totals()['combined']) == (70, 70)


def test_a_doubt_is_told_when_it_lasts() -> None:
    backend = FakeBackend(A)
    figures = GpuFigures(backend, None, in_initial_pid_namespace=False, pid_exists={1}.__contains__)
    backend.readings = {'a': sampled(500, [GpuProcess(4000, 500)], [])}
    for _ in range(19):
        figures.read(1, NOBODY, 0)
        assert figures.take_messages(last=False) == []
    figures.read(1, NOBODY, 0)
    assert [level for level, _ in figures.take_messages(last=False)] == ['warning']
    assert figures.take_messages(last=True) == []
    assert (figures.totals()['main'], figures.totals()['system']) == (None, 500)


def test_a_doubt_that_has_passed_is_not_told() -> None:
    backend = FakeBackend(A)
    figures = GpuFigures(backend, None, in_initial_pid_namespace=False, pid_exists={1}.__contains__)
    backend.readings = {'a': sampled(500, [GpuProcess(4000, 500)], [])}
    figures.read(1, NOBODY, 0)
    backend.readings = {'a': sampled(700, [GpuProcess(4000, 500), GpuProcess(1, 200)], [])}
    figures.read(1, NOBODY, 0)
    assert figures.take_messages(last=True) == []
    assert figures.totals()['main'] == 200


def test_each_process_has_its_memory_on_all_gpus_or_it_is_unknown() -> None:
    backend = FakeBackend(A, B)
    figures = GpuFigures(backend, None)
    on_a = [GpuProcess(1, 300), GpuProcess(3, None), GpuProcess(99, 50)]
    backend.readings = {'a': sampled(500, on_a, []), 'b': sampled(500, [GpuProcess(1, 70), GpuProcess(3, 5)], [])}
    figures.read(1, frozenset({2, 3}), 0)
    assert figures.by_process() == {1: 370, 2: 0, 3: None}
    backend.readings['b'] = sampled(500, None, [])
    figures.read(1, frozenset({2, 3}), 0)
    assert figures.by_process() is None


def test_the_memory_of_processes_is_unknown_if_the_driver_has_other_process_ids() -> None:
    backend = FakeBackend(A)
    figures = GpuFigures(backend, None, in_initial_pid_namespace=False, pid_exists={1}.__contains__)
    backend.readings = {'a': sampled(500, [GpuProcess(4000, 500)], [])}
    figures.read(1, NOBODY, 0)
    assert figures.by_process() is None


def test_a_root_that_has_ended_has_no_memory() -> None:
    backend = FakeBackend(A)
    figures = GpuFigures(backend, None)
    backend.readings = {'a': sampled(500, [GpuProcess(2, 300)], [])}
    figures.read(None, frozenset({2}), 0)
    assert (figures.totals()['main'], figures.totals()['descendants']) == (0, 300)


def test_the_peak_of_a_process_that_has_ended_stands_alone() -> None:
    backend = FakeBackend(A)
    figures = GpuFigures(backend, None)
    backend.readings = {'a': sampled(0, [], [])}
    figures.read(1, frozenset({2, 3}), 0)
    backend.readings = {'a': sampled(500, [GpuProcess(2, 300)], [])}
    backend.peaks = {('a', 2): 400}
    figures.read(1, frozenset({2, 3}), 0)
    assert figures.totals()['descendants'] == 400
    backend.readings = {'a': sampled(500, [GpuProcess(3, 350)], [])}
    backend.peaks = {('a', 2): 450, ('a', 3): 350}
    figures.read(1, frozenset({3}), 0)
    assert (figures.totals()['descendants'], figures.totals()['combined'], figures.totals()['main']) == (450, 450, 0)


def test_uuids_given_twice_count_once() -> None:
    backend = FakeBackend(A, B)
    backend.readings = {'a': sampled(0, [], []), 'b': sampled(0, [], [])}
    backend.present = {'a': 30.0, 'b': 5.0}
    figures = GpuFigures(backend, ('b', 'b'))
    figures.read(1, NOBODY, 0)
    assert (figures.totals()['expected'], figures.totals()['max_sum']) == (1, 5.0)


def test_unknown_uuids() -> None:
    assert unknown_uuids(('b',), (A, B)) is None
    assert unknown_uuids(('x', 'y'), (A,)) == 'UUIDs of GPUs of this machine (a)'
    assert unknown_uuids(('x',), ()) == 'UUIDs of GPUs of this machine (it has none)'
    assert unknown_uuids(('x',), (A, capable(1, None, None, None))) is None


def test_the_totals_always_have_the_same_keys() -> None:
    backend = FakeBackend()
    figures = GpuFigures(backend, None)
    assert figures.totals().keys() == UNKNOWN.keys() == NO_GPUS.keys()
    assert {name for name, value in UNKNOWN.items() if value is not None} == {'missed'}
    assert {name: value for name, value in NO_GPUS.items() if value != 0} == {'devices': [], 'missed': []}


class OneGpuOfARun:
    """A GPU with the tracked process 1, read once a second."""

    def __init__(self, **options) -> None:
        self.backend = FakeBackend(A)
        self.now = 10.0
        self.figures = GpuFigures(self.backend, None, wall_clock=lambda: self.now, **options)

    def read(self, *processes: GpuProcess, used: int | None = 500, samples=()) -> dict:
        self.backend.readings = {'a': sampled(used, list(processes), list(samples))}
        return self._read()

    def fail(self) -> dict:
        self.backend.readings = {'a': GpuReading(A, 'is lost')}
        return self._read()

    def _read(self) -> dict:
        self.figures.read(1, frozenset({2}), 10 * SECOND)
        self.now += 1
        return self.figures.totals()

    def sizes(self) -> tuple[object, ...]:
        totals = self.figures.totals()
        [device] = totals['devices']
        assert device['missed'] == totals['missed']
        return totals['main'], totals['combined'], totals['system'], totals['missed']


def test_a_list_of_processes_that_cannot_be_read_after_nothing_was_seen_is_unknown() -> None:
    run = OneGpuOfARun()
    run.read()
    run.backend.readings = {'a': sampled(500, None, [])}
    run._read()
    assert run.sizes() == (None, None, 500, [])
    assert run.figures.totals()['devices'][0]['is_used'] is None


def test_what_was_seen_before_a_gpu_was_lost_is_a_lower_bound() -> None:
    run = OneGpuOfARun()
    run.read(GpuProcess(1, 300))
    run.fail()
    assert run.sizes() == (300, 300, 500, ['main', 'combined', 'system'])


def test_memory_that_is_reported_late_is_a_lower_bound() -> None:
    run = OneGpuOfARun()
    run.read(GpuProcess(1, None))
    assert run.sizes()[:2] == (None, None)
    run.read(GpuProcess(1, 300))
    assert run.sizes() == (300, 300, 500, ['main', 'combined'])


def test_a_driver_that_was_silent_for_a_while_leaves_lower_bounds() -> None:
    run = OneGpuOfARun()
    run.read(GpuProcess(1, 300))
    run.figures.miss()
    assert run.sizes() == (300, 300, 500, ['main', 'combined', 'system'])


def test_totals_whose_last_readings_are_missing() -> None:
    run = OneGpuOfARun()
    found = without_the_last(run.read(GpuProcess(1, 300)))
    assert (found['main'], found['descendants'], found['missed']) == (300, None, ['main', 'combined', 'system'])
    device = found['devices'][0]
    assert device['missed'] == ['main', 'combined', 'system']
    assert (device['is_used'], device['others']) == (True, None)
    assert without_the_last(UNKNOWN) == UNKNOWN


def test_a_gpu_whose_last_readings_are_missing_may_have_been_used() -> None:
    run = OneGpuOfARun()
    [device] = without_the_last(run.read())['devices']
    assert (device['is_used'], device['combined'], device['max_utilization']) == (None, None, None)


def test_maxima_of_utilization_are_lower_bounds_after_a_loss() -> None:
    run = OneGpuOfARun()
    run.read(GpuProcess(1, 300, utilization=40), samples=[(10 * SECOND, 5.0)])
    run.read(GpuProcess(1, 300, utilization=40), samples=[(11 * SECOND, 50.0)])
    [device] = run.fail()['devices']
    assert (device['max_utilization'], device['max_own_utilization']) == (50.0, 40.0)
    assert device['missed'] == ['main', 'combined', 'system', 'max_utilization', 'max_own_utilization']


def test_how_busy_the_gpus_in_use_are_is_unknown_if_it_is_unknown_which_are_in_use() -> None:
    run = OneGpuOfARun()
    run.read(samples=[(10 * SECOND, 5.0)])
    assert run.figures.row()[-1] == 0.0
    run.backend.readings = {'a': sampled(500, None, [(11 * SECOND, 50.0)])}
    run._read()
    assert run.figures.row()[-1] is None


def test_own_utilization_is_weighted_by_time_and_includes_idle_time() -> None:
    run = OneGpuOfARun()
    run.read(GpuProcess(1, 300, utilization=99))  # before the run: nothing says since when
    run.read(GpuProcess(1, 300, utilization=40), GpuProcess(2, 5, utilization=20), GpuProcess(9, 5, utilization=30))
    run.now += 1
    run.read(GpuProcess(1, 300, utilization=0))
    [device] = run.read()['devices']
    assert (device['own_utilization'], device['max_own_utilization']) == (60 / 4, 60.0)
    assert device['is_used'] is True


def test_own_utilization_of_a_moment_that_the_driver_does_not_report_is_left_out() -> None:
    run = OneGpuOfARun()
    run.read()
    run.read(GpuProcess(1, 300, utilization=40))
    run.read(GpuProcess(1, 300))
    [device] = run.fail()['devices']
    assert (device['own_utilization'], device['max_own_utilization']) == (40.0, 40.0)


def test_own_utilization_after_a_failed_list_is_of_the_time_since_the_last_known_one() -> None:
    run = OneGpuOfARun()
    run.read(GpuProcess(1, 300, utilization=0))
    run.read(GpuProcess(1, 300, utilization=0))
    run.fail()
    [device] = run.read(GpuProcess(1, 300, utilization=60))['devices']
    assert device['own_utilization'] == 40.0  # 1 s of 0 % and 2 s of 60 %


def test_own_utilization_in_a_container_with_other_process_ids_is_unknown() -> None:
    run = OneGpuOfARun(in_initial_pid_namespace=False, pid_exists={1}.__contains__)
    run.read(GpuProcess(4000, 500, utilization=50))
    [device] = run.read(GpuProcess(4000, 500, utilization=50))['devices']
    assert (device['own_utilization'], device['combined'], device['is_used'], device['others']) == (None,) * 4


@pytest.mark.parametrize(
    ('others_at', 'expected'),
    [([True, True], True), ([True, False], None), ([False, True], None), ([False, False], False)],
)
def test_another_process_counts_if_it_is_no_member_at_two_readings(
    others_at: list[bool], expected: bool | None
) -> None:
    run = OneGpuOfARun()
    for is_there in others_at:
        run.read(GpuProcess(1, 300), *([GpuProcess(9, 5)] if is_there else []))
    assert run.figures.totals()['devices'][0]['others'] is expected


def test_a_new_child_that_is_on_a_gpu_before_it_is_known_is_no_other_process() -> None:
    run = OneGpuOfARun()
    run.backend.readings = {'a': sampled(500, [GpuProcess(2, 5)], [])}
    run.figures.read(1, NOBODY, 10 * SECOND)
    run.read(GpuProcess(2, 5))
    assert run.figures.totals()['devices'][0]['others'] is False


def test_a_gpu_that_others_may_use_unseen() -> None:
    run = OneGpuOfARun()
    run.backend.unseen_on = Unseen(has_others=True)
    [device] = run.read(GpuProcess(1, 300))['devices']
    assert device['others'] is None


def test_a_gpu_without_samples_is_polled_between_readings() -> None:
    run = OneGpuOfARun()
    run.backend.present = {'a': 0.0}
    for reads, percent in ((True, 0.0), (False, 80.0), (False, 40.0)):
        run.backend.present = {'a': percent}
        if reads:
            run.backend.readings = {'a': sampled(500, [], None)}
            run._read()
        else:
            run.figures.poll_utilization(10 * SECOND)
            run.now += 1
    totals = run.figures.totals()
    assert run.figures.without_buffer == {'a'}
    assert (totals['mean_sum'], totals['max_sum']) == (60.0, 80.0)
    assert (totals['devices'][0]['utilization'], totals['devices'][0]['max_utilization']) == (60.0, 80.0)


def test_all_processes_together_have_at_least_what_the_run_has_if_the_memory_cannot_be_read() -> None:
    backend = FakeBackend(A)
    figures = GpuFigures(backend, None)
    backend.readings = {'a': sampled(40, [], [])}
    figures.read(1, NOBODY, 0)
    backend.readings = {'a': sampled(None, [GpuProcess(1, 300)], [])}
    figures.read(1, NOBODY, 0)
    totals = figures.totals()
    (device,) = totals['devices']
    assert [(found['system'], found['combined'], found['missed']) for found in (totals, device)] == [
        (300, 300, ['system']),
        (300, 300, ['system']),
    ]


def test_memory_that_was_never_read_stays_unknown_whatever_the_run_has() -> None:
    backend = FakeBackend(A)
    figures = GpuFigures(backend, None)
    backend.readings = {'a': sampled(None, [GpuProcess(1, 300)], [])}
    figures.read(1, NOBODY, 0)
    assert (figures.totals()['system'], figures.totals()['combined']) == (None, 300)
