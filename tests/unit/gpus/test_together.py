from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.errors import GpuError
from gpu_tracker.gpus.model import Gpu, GpuActivity, GpuProcess, GpuReading, Unseen
from gpu_tracker.gpus.together import open_together
from gpu_tracker.resources.gpu.figures import GpuFigures
from support.gpus.run_gpus import FakeRunGpus
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.gpus.backend import RunGpus

SECOND = 1_000_000
SILENT = (
    'warning',
    'The driver of AMD GPUs has not answered for 0.01 s; what its GPUs are part of is unknown until it does.',
)
BROKEN = GpuError('It does not work.', 'broken')


def nvidia() -> FakeRunGpus:
    found = FakeRunGpus(Gpu(0, 'GPU-n', memory_total=1000), files=frozenset({'/dev/nvidia-uvm'}))
    found.readings = {'GPU-n': GpuReading(Gpu(0, 'GPU-n'), memory_used=100, processes=(GpuProcess(1, 60),))}
    found.present = {'GPU-n': 30.0}
    found.joules = {'GPU-n': 5.0}
    return found


def amd() -> FakeRunGpus:
    found = FakeRunGpus(Gpu(0, 'GPU-a', memory_total=500, vendor='amd'), files=frozenset({'/dev/kfd'}))
    found.readings = {'GPU-a': GpuReading(Gpu(0, 'GPU-a'), memory_used=40, processes=(GpuProcess(2, 20),))}
    found.present = {'GPU-a': 10.0}
    found.joules = {'GPU-a': 7.0}
    return found


class Opened:
    """Two drivers, opened together; the reports on them."""

    def __init__(
        self, first: Callable[[], FakeRunGpus | None], other: FakeRunGpus | GpuError, timeout: float = 30.0
    ) -> None:
        self.reports: list[str] = []

        def open_other() -> FakeRunGpus:
            if isinstance(other, GpuError):
                raise other
            return other

        openers = {'nvidia': first, 'amd': open_other}
        self.gpus: RunGpus | None = open_together(
            openers, self.reports.append, opening_timeout=timeout, timeout=timeout
        )


def test_the_gpus_of_two_drivers_are_those_of_one() -> None:
    one, two = nvidia(), amd()
    together = Opened(lambda: one, two).gpus
    assert together is not None
    assert [(gpu.vendor, gpu.number, gpu.uuid) for gpu in together.gpus()] == [
        ('nvidia', 0, 'GPU-n'),
        ('amd', 0, 'GPU-a'),
    ]
    assert together.compute_files == {'/dev/nvidia-uvm'}
    assert (together.read('GPU-n').memory_used, together.read('GPU-a').memory_used) == (100, 40)
    assert together.processes('GPU-a') == [GpuProcess(2, 20)]
    two.unseen_on = {'GPU-a': Unseen(frozenset({3}), has_others=True)}
    assert (together.unseen('GPU-n'), together.unseen('GPU-a')) == (Unseen(), Unseen(frozenset({3}), has_others=True))
    assert (together.utilization('GPU-n'), together.utilization('GPU-a')) == (30.0, 10.0)
    assert (together.energy('GPU-n'), together.energy('GPU-a')) == (5.0, 7.0)
    one.activities = {'GPU-n': [GpuActivity(None, None, 1.0, sm=30.0)]}
    two.activities = {'GPU-a': [GpuActivity(problem='none')]}
    assert together.activity('GPU-n') == [GpuActivity(None, None, 1.0, sm=30.0)]
    assert together.activity('GPU-a') == [GpuActivity(problem='none')]
    two.peaks = {('GPU-a', 2): 33}
    assert (together.peak_memory('GPU-a', 2), together.peak_memory('GPU-n', 1)) == (33, None)
    together.follow(frozenset({1, 2}))
    assert (one.members, two.members) == ({1, 2}, {1, 2})
    one.messages, two.messages = [('info', 'one')], [('info', 'two')]
    assert together.take_messages() == [('info', 'one'), ('info', 'two')]
    together.close()
    assert (one.is_closed, two.is_closed) == (True, True)


def test_a_driver_that_is_alone_is_left_as_it_is() -> None:
    two = amd()
    opened = Opened(lambda: None, two)
    assert opened.gpus is two
    assert opened.reports == []


def test_a_driver_that_does_not_open_is_reported_and_the_other_is_read() -> None:
    def fail() -> FakeRunGpus:
        raise BROKEN

    two = amd()
    opened = Opened(fail, two)
    assert opened.gpus is two
    assert opened.reports == ['It does not work.']
    one = nvidia()
    opened = Opened(lambda: one, BROKEN)
    assert opened.gpus is one
    assert opened.reports == ['It does not work.']


def test_no_driver_that_works() -> None:
    with pytest.raises(GpuError, match=r'^It does not work\.$'):
        Opened(lambda: None, BROKEN)


def test_a_driver_that_hangs_when_it_is_opened_is_left_out() -> None:
    one, two = nvidia(), amd()
    one.may_answer.clear()
    opened = Opened(lambda: one, two, timeout=1.0)
    one.may_answer.set()
    assert opened.reports == ['The driver of NVIDIA GPUs has not answered for 1 seconds.']
    assert opened.gpus is two


def test_a_driver_that_hangs_leaves_its_own_gpus_unread_until_it_answers() -> None:
    one, two = nvidia(), amd()
    together = Opened(lambda: one, two, timeout=0.01).gpus
    assert together is not None
    two.may_answer.clear()
    for _ in range(3):
        assert together.read('GPU-a') == GpuReading(Gpu(0, 'GPU-a', memory_total=500, vendor='amd'), NO_ANSWER)
        assert together.processes('GPU-a') is None
        assert eventually(lambda: together.read('GPU-n').memory_used) == 100
    assert together.take_messages().count(SILENT) == 1
    two.may_answer.set()
    assert eventually(lambda: together.read('GPU-a').memory_used) == 40
    two.may_answer.clear()
    together.read('GPU-a')
    assert SILENT in together.take_messages()
    two.may_answer.set()


NO_ANSWER = 'its driver does not answer'


def test_a_driver_that_fails_leaves_its_own_gpus_unread() -> None:
    one, two = nvidia(), amd()
    together = Opened(lambda: one, two).gpus
    assert together is not None
    two.failure = ValueError('odd')
    assert together.read('GPU-a').memory_used is None
    two.failure = None
    assert together.read('GPU-a').memory_used is None
    assert together.read('GPU-n').memory_used == 100
    assert together.take_messages() == [
        ('warning', 'The GPUs of AMD can no longer be read (ValueError: odd); their figures are incomplete.')
    ]


PERCENT = st.floats(0, 100).map(lambda percent: round(percent, 1))
BYTES = st.integers(0, 2**40)


@st.composite
def drivers(draw: st.DrawFn) -> list[list[tuple[int, int | None, int | None, float | None]]]:
    """Return, for two drivers, the GPUs of each: capacity, bytes in use, bytes of the process, utilization."""
    figures = st.tuples(BYTES, st.none() | BYTES, st.none() | BYTES, st.none() | PERCENT)
    return [draw(st.lists(figures, min_size=1, max_size=3)) for _ in range(2)]


@given(drivers())
def test_a_sum_over_vendors_is_that_over_all_gpus_or_unknown(described) -> None:
    backends = []
    for vendor, gpus in zip('na', described, strict=True):
        backend = FakeRunGpus(*(Gpu(i, f'{vendor}{i}', memory_total=gpu[0]) for i, gpu in enumerate(gpus)))
        for i, (_, used, own, percent) in enumerate(gpus):
            uuid = f'{vendor}{i}'
            processes = () if own is None else (GpuProcess(7, own),)
            backend.readings[uuid] = GpuReading(Gpu(i, uuid), memory_used=used, processes=processes)
            backend.present[uuid] = percent
        backends.append(backend)
    one, two = backends
    together = Opened(lambda: one, two).gpus
    assert together is not None
    figures = GpuFigures(together, None, wall_clock=lambda: 10.0)
    figures.read(7, frozenset(), 0)
    totals = figures.totals()
    everything = [gpu for gpus in described for gpu in gpus]
    capacities, used, own, percents = ([gpu[i] for gpu in everything] for i in range(4))
    assert (totals['count'], totals['expected']) == (len(everything), len(everything))
    assert totals['capacity'] == sum(capacities)
    of_run = sum(size or 0 for size in own)
    assert totals['system'] == (None if None in used else max(sum(used), of_run))
    assert totals['combined'] == totals['main'] == of_run
    assert totals['mean_sum'] == (None if None in percents else pytest.approx(sum(percents)))
    assert [device['uuid'] for device in totals['devices']] == [gpu.uuid for gpu in together.gpus()]
