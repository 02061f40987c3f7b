"""Which GPUs count in sums: integrated ones, and those of a driver that does not work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.gpus.model import Gpu, GpuProcess, GpuReading
from gpu_tracker.resources.gpu.figures import GpuFigures
from support.gpus.run_gpus import FakeRunGpus

if TYPE_CHECKING:
    from collections.abc import Iterable

SECOND = 1_000_000
CARD = Gpu(0, 'GPU-n', 'Card', memory_total=1000, vendor='nvidia')
INTEGRATED = Gpu(0, 'intel-0', 'Laptop', vendor='intel', is_integrated=True)
OURS = frozenset({2})
SUMS = ('count', 'expected', 'capacity', 'system', 'main', 'descendants', 'combined', 'max_sum', 'mean_sum')


class Machine:
    """A card and an integrated GPU of which nothing is known but its processes."""

    def __init__(self, *gpus: Gpu, **options) -> None:
        self.backend = FakeRunGpus(*(gpus or (CARD, INTEGRATED)))
        self.figures = GpuFigures(self.backend, options.pop('uuids', None), wall_clock=lambda: 10.0, **options)
        self.backend.present = {'GPU-n': 50.0, 'intel-0': None}

    def read(self, on_card: Iterable[GpuProcess] = (), on_integrated: Iterable[GpuProcess] = (), used=100):
        self.backend.readings = {
            'GPU-n': GpuReading(CARD, memory_used=used, processes=tuple(on_card)),
            'intel-0': GpuReading(INTEGRATED, processes=tuple(on_integrated)),
        }
        self.figures.read(1, OURS, 0)

    def sums(self) -> tuple[object, ...]:
        totals = self.figures.totals()
        return tuple(totals[name] for name in SUMS)

    @property
    def devices(self) -> list[str]:
        return [device['uuid'] for device in self.figures.totals()['devices']]


def test_an_integrated_gpu_does_not_count_beside_a_card() -> None:
    machine = Machine()
    machine.read([GpuProcess(1, 60), GpuProcess(2, 20)], [GpuProcess(99, 5)])
    assert machine.sums() == (1, 1, 1000, 100, 60, 20, 80, 50.0, 50.0)
    assert machine.devices == ['GPU-n']
    assert machine.figures.row() == (60, 20, 80, 100, 50.0, 50.0)
    assert [reading.uuid for reading in machine.figures.devices(1.0)] == ['GPU-n']


@pytest.mark.parametrize('process', [GpuProcess(1, None), GpuProcess(1, 0)])
def test_a_tracked_process_without_known_memory_on_it_changes_nothing(process: GpuProcess) -> None:
    machine = Machine()
    machine.read([GpuProcess(1, 60)], [process])
    assert machine.sums() == (1, 1, 1000, 100, 60, 0, 60, 50.0, 50.0)


def test_it_counts_once_a_tracked_process_has_memory_on_it() -> None:
    machine = Machine()
    machine.read([GpuProcess(1, 60)], used=700)
    machine.read([GpuProcess(1, 60)], [GpuProcess(1, 7), GpuProcess(2, 8)])
    machine.read([GpuProcess(1, 60)])
    assert machine.sums() == (2, 2, None, None, 67, 8, 75, None, None)
    assert machine.devices == ['GPU-n', 'intel-0']
    assert machine.figures.row() == (60, 0, 60, None, None, None)
    assert [reading.uuid for reading in machine.figures.devices(1.0)] == ['GPU-n', 'intel-0']


def test_it_counts_for_the_whole_run_where_its_figures_are_known() -> None:
    known = INTEGRATED._replace(memory_total=500)
    machine = Machine(CARD, known)
    machine.backend.readings = {
        'GPU-n': GpuReading(CARD, memory_used=100, processes=()),
        'intel-0': GpuReading(known, memory_used=300, processes=()),
    }
    machine.backend.present = {'GPU-n': 50.0, 'intel-0': 25.0}
    machine.figures.read(1, OURS, 0)
    assert machine.sums() == (1, 1, 1000, 100, 0, 0, 0, 50.0, 50.0)
    machine.backend.readings['intel-0'] = GpuReading(known, memory_used=30, processes=(GpuProcess(2, 8),))
    machine.figures.read(1, OURS, 0)
    assert machine.sums() == (2, 2, 1500, 400, 0, 8, 8, 75.0, 75.0)


def test_it_counts_where_its_brand_was_chosen() -> None:
    machine = Machine(INTEGRATED, counts_integrated=True)
    machine.read()
    assert machine.sums() == (1, 1, None, None, 0, 0, 0, None, None)
    assert not machine.figures.are_all_left_out


def test_it_counts_where_its_uuid_was_given() -> None:
    machine = Machine(uuids=('intel-0',))
    machine.read([GpuProcess(1, 60)])
    assert machine.sums() == (2, 1, None, None, 60, 0, 60, None, None)


def test_a_machine_with_an_integrated_gpu_alone_has_none_that_counts() -> None:
    machine = Machine(INTEGRATED)
    machine.read(on_integrated=[GpuProcess(99, 5)])
    assert machine.sums() == (0, 0, 0, 0, 0, 0, 0, 0.0, 0.0)
    assert machine.figures.are_all_left_out


def test_without_the_gpus_of_a_driver_that_does_not_work_no_sum_is_known() -> None:
    machine = Machine(CARD, is_complete=False)
    machine.read([GpuProcess(1, 60)])
    assert machine.sums() == (None,) * len(SUMS)
    assert machine.figures.row() == (None,) * 6
    (device,) = machine.figures.totals()['devices']
    assert (device['uuid'], device['capacity'], device['combined']) == ('GPU-n', 1000, 60)


def test_the_utilization_of_given_gpus_is_known_without_those_of_a_driver_that_does_not_work() -> None:
    machine = Machine(CARD, is_complete=False, uuids=('GPU-n',))
    machine.read([GpuProcess(1, 60)])
    assert machine.sums() == (None, 1, None, None, None, None, None, 50.0, 50.0)


def test_processes_found_in_proc_are_ours_in_a_container_too() -> None:
    card = CARD._replace(vendor='amd', uuid='GPU-a')
    backend = FakeRunGpus(card)
    reading = GpuReading(card, memory_used=10**9, processes=(GpuProcess(4000, 0),))
    backend.readings = {'GPU-a': reading}
    figures = GpuFigures(backend, None, in_initial_pid_namespace=False, pid_exists={1}.__contains__)
    figures.read(1, OURS, 0)
    assert (figures.totals()['main'], figures.totals()['combined']) == (0, 0)
