"""The activity of GPUs, folded from readings that a test sets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpu_tracker.errors import GpuError
from gpu_tracker.gpus.model import Gpu, GpuActivity, GpuProcess, GpuReading
from gpu_tracker.resources.gpu_activity import Activity, ActivitySource, missed, usage_of
from gpu_tracker.units import Units
from support.gpus.run_gpus import FakeRunGpus

UNITS = Units('bytes', 'megabytes', 'seconds', None)
UNREAD = GpuActivity()
OURS = frozenset({10, 11})


class Machine:
    """Two GPUs, a and b, that are read by a run of some seconds."""

    def __init__(self, *, are_ours: bool = True) -> None:
        self.gpus = FakeRunGpus(Gpu(0, 'a'), Gpu(1, 'b'), Gpu(2))
        self.gpus.activities = {'a': [GpuActivity()], 'b': [GpuActivity()]}
        self.use({'a': [GpuProcess(10, 5)], 'b': []})
        self.source = ActivitySource(lambda: self.gpus, are_ours=are_ours)
        self.used: dict[str, bool | None] = {'a': True, 'b': False}
        self.seconds = 0.0

    def use(self, processes: dict[str, list[GpuProcess]]) -> None:
        self.gpus.readings = {
            uuid: GpuReading(Gpu(0, uuid), processes=tuple(on_it)) for uuid, on_it in processes.items()
        }

    def read(self, *of_a: GpuActivity, b: GpuActivity = UNREAD, seconds: float = 0.0) -> None:
        self.gpus.activities = {'a': list(of_a), 'b': [b]}
        self.seconds += seconds
        self.published = self.source.read(OURS)

    @property
    def totals(self) -> Any:
        devices = [{'uuid': uuid, 'is_used': is_used} for uuid, is_used in self.used.items()]
        return {'seconds': self.seconds, 'gpu': {'devices': devices}, 'gpu_activity': self.published}

    def section(self) -> Any:
        return usage_of(self.totals, UNITS).get('gpu_activity')

    def row(self) -> list[float | None]:
        reader: Any = SimpleNamespace(result=lambda: self.published)
        tree: Any = None
        return list(Activity(reader, self.source, tree).row())


def of(seconds: float, sm: float | None, **figures: float | None) -> GpuActivity:
    return GpuActivity(seconds=seconds, sm=sm, **figures)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_means_are_weighted_by_time_and_maxima_are_of_one_reading(machine: Machine) -> None:
    machine.read(of(1.0, 80.0, tensor=20.0, pcie_sent=4e6), seconds=1)
    machine.read(of(3.0, 40.0, tensor=0.0, pcie_sent=0.0), seconds=3)
    (gpu,) = machine.section()
    assert (gpu.index, gpu.vendor, gpu.uuid, gpu.gpu_instance, gpu.unit) == (0, 'nvidia', 'a', None, 'megabytes')
    assert (gpu.sm_mean_percent, gpu.sm_max_percent) == (50.0, 80.0)
    assert (gpu.tensor_mean_percent, gpu.tensor_max_percent) == (5.0, 20.0)
    assert gpu.pcie_sent_mean_per_second == 1.0
    assert gpu.problem is None
    assert missed(machine.totals) == []


def test_what_a_gpu_does_not_report_is_unknown_and_no_zero(machine: Machine) -> None:
    machine.read(of(1.0, 0.0), seconds=1)
    (gpu,) = machine.section()
    assert (gpu.sm_mean_percent, gpu.sm_max_percent) == (0.0, 0.0)
    assert (gpu.dram_mean_percent, gpu.dram_max_percent, gpu.nvlink_sent_mean_per_second) == (None, None, None)


def test_a_gpu_that_the_run_did_not_use_is_left_out(machine: Machine) -> None:
    machine.read(of(1.0, 10.0), b=of(1.0, 99.0), seconds=1)
    assert [gpu.uuid for gpu in machine.section()] == ['a']
    machine.used = {'a': False, 'b': None}
    assert [gpu.uuid for gpu in machine.section()] == ['b']


def test_there_is_no_section_if_the_gpus_in_use_are_unknown(machine: Machine) -> None:
    machine.read(of(1.0, 10.0), seconds=1)
    assert usage_of(machine.totals | {'gpu': {}}, UNITS) == {}


def test_there_is_no_section_if_the_driver_has_never_answered(machine: Machine) -> None:
    machine.read(of(1.0, 10.0), seconds=1)
    assert usage_of(machine.totals | {'gpu_activity': {}}, UNITS) == {}


def test_figures_of_a_part_of_the_run_are_not_taken_for_those_of_the_run(machine: Machine) -> None:
    machine.read(of(5.0, 80.0), seconds=9)
    (gpu,) = machine.section()
    assert (gpu.sm_mean_percent, gpu.sm_max_percent) == (None, None)
    assert gpu.problem == 'was read for 5.0 s of 9.0 s only'
    assert missed(machine.totals) == []


def test_a_run_without_two_samples_has_no_figures(machine: Machine) -> None:
    machine.read(GpuActivity(), seconds=0.05)
    (gpu,) = machine.section()
    assert (gpu.sm_mean_percent, gpu.problem) == (None, 'was read for 0.0 s of 0.1 s only')


def test_the_problem_says_why_figures_are_unknown(machine: Machine) -> None:
    machine.read(GpuActivity(problem='not permitted'), seconds=1)
    (gpu,) = machine.section()
    assert (gpu.sm_mean_percent, gpu.problem) == (None, 'not permitted')


def test_after_a_failed_reading_maxima_are_lower_bounds(machine: Machine) -> None:
    machine.read(of(1.0, 80.0), seconds=1)
    machine.read(GpuActivity(problem='lost'), seconds=1)
    machine.read(of(1.0, 60.0), seconds=1)
    (gpu,) = machine.section()
    assert (gpu.sm_mean_percent, gpu.sm_max_percent, gpu.problem) == (70.0, 80.0, 'lost')
    assert missed(machine.totals) == ['gpu_activity.sm_max_percent']


def test_the_largest_of_known_and_unknown_gpus_is_a_lower_bound(machine: Machine) -> None:
    machine.used = {'a': True, 'b': True}
    machine.read(of(1.0, 80.0), b=GpuActivity(problem='not permitted'), seconds=1)
    assert missed(machine.totals) == ['gpu_activity.sm_max_percent', 'gpu_activity.sm_mean_percent']


def test_of_a_divided_gpu_the_instances_count_that_the_run_was_seen_on(machine: Machine) -> None:
    parts = GpuActivity(1, seconds=1.0, sm=30.0), GpuActivity(2, seconds=1.0, sm=90.0)
    machine.use({'a': [GpuProcess(11, 5, gpu_instance=1), GpuProcess(99, 5, gpu_instance=2)], 'b': []})
    machine.read(*parts, seconds=1)
    assert [(gpu.gpu_instance, gpu.sm_mean_percent) for gpu in machine.section()] == [(1, 30.0)]
    machine = Machine(are_ours=False)
    machine.read(*parts, seconds=1)
    assert [(gpu.gpu_instance, gpu.sm_mean_percent) for gpu in machine.section()] == [(1, 30.0), (2, 90.0)]


def test_a_row_has_the_means_over_the_gpus_that_were_used_so_far(machine: Machine) -> None:
    machine.use({'a': [], 'b': [GpuProcess(99, 5)]})
    machine.read(of(1.0, 20.0), b=of(1.0, 99.0))
    assert machine.row() == [None, None, None, None]
    machine.use({'a': [GpuProcess(10, 5)], 'b': [GpuProcess(99, 5)]})
    machine.read(of(1.0, 20.0, dram=3.0), b=of(1.0, 99.0))
    assert machine.row() == [20.0, None, None, 3.0]
    machine.use({'a': [], 'b': [GpuProcess(11, 5)]})
    machine.read(GpuActivity(), b=of(1.0, 60.0, dram=5.0))
    assert machine.row() == [40.0, None, None, 4.0]
    machine.read(GpuActivity(problem='lost'), b=of(1.0, 60.0))
    assert machine.row() == [None, None, None, None]


def test_an_unused_gpu_without_counters_makes_no_mean_unknown(machine: Machine) -> None:
    machine.read(of(1.0, 20.0), b=GpuActivity(problem='only NVIDIA GPUs have counters of their activity'))
    assert machine.row()[0] == 20.0


def test_where_nobody_knows_whose_processes_there_are_all_gpus_may_be_in_use() -> None:
    machine = Machine(are_ours=False)
    machine.read(of(1.0, 20.0), b=of(1.0, 60.0))
    assert machine.row()[0] == 40.0


def test_a_driver_that_does_not_work_leaves_nothing_known() -> None:
    def fail() -> FakeRunGpus:
        raise GpuError('It does not work.', 'broken')

    assert ActivitySource(fail, are_ours=True).read(OURS) == {}
    assert ActivitySource(lambda: None, are_ours=True).read(OURS) == {'gpus': []}
