"""Energy of GPUs and CPU packages, from counters that a test sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.errors import GpuError
from gpu_tracker.gpus.model import Gpu, GpuProcess, Unseen
from gpu_tracker.resources.energy import EnergySource, usage_of
from gpu_tracker.units import Units
from support.gpus.gpu_readings import capable

if TYPE_CHECKING:
    from pathlib import Path

UNITS = Units('bytes', 'bytes', 'seconds', None)
OURS = frozenset({10, 11})


class Backend:
    """Two GPUs, a and b, and one that cannot be opened."""

    def __init__(self) -> None:
        self.joules: dict[str, float | None] = {'a': 500.0, 'b': 7.0}
        self.on: dict[str, list[GpuProcess] | None] = {}
        self.hidden: dict[str, Unseen] = {}
        self.vendors: dict[str | None, str] = {}
        self.integrated: set[str | None] = set()

    def gpus(self) -> tuple[Gpu, ...]:
        gpus = capable(0, 'a', 'GPU', 1000), capable(1, 'b', 'GPU', 1000), capable(2, None, None, None)
        return tuple(
            gpu._replace(vendor=self.vendors.get(gpu.uuid, ''), is_integrated=gpu.uuid in self.integrated)
            for gpu in gpus
        )

    def energy(self, uuid: str) -> float | None:
        return self.joules[uuid]

    def processes(self, uuid: str) -> list[GpuProcess] | None:
        return self.on.get(uuid, [])

    def unseen(self, uuid: str) -> Unseen:
        return self.hidden.get(uuid, Unseen())

    def close(self) -> None:
        pass


class Machine:
    def __init__(self, powercap: Path | str = '/nowhere', *, are_ours: bool = True) -> None:
        self.now = 100.0
        self.backend = Backend()
        self.reader = EnergySource(
            lambda: self.backend, are_ours=are_ours, powercap=str(powercap), monotonic=lambda: self.now
        )

    def after(self, seconds: float, missed: float = 0.0):
        self.now += seconds
        totals = {'seconds': self.now - 100.0 + missed, 'energy': self.reader.read(OURS)}
        return usage_of(totals, UNITS)['energy']


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_the_energy_of_the_gpus_that_the_tree_was_on_counts(machine: Machine) -> None:
    machine.after(0)
    machine.backend.on = {'a': [GpuProcess(11, 5)], 'b': [GpuProcess(99, 5)]}
    machine.backend.joules = {'a': 800.0, 'b': 90.0}
    energy = machine.after(2)
    assert [(gpu.uuid, gpu.joules, gpu.others_used_it) for gpu in energy.gpus] == [('a', 300.0, False)]
    assert (energy.unit, energy.gpu, energy.cpu_packages) == ('joules', 300.0, None)


def test_that_others_used_a_gpu_too_is_reported(machine: Machine) -> None:
    machine.backend.on = {'a': [GpuProcess(11, 5), GpuProcess(99, 5)]}
    machine.after(0)
    machine.backend.on = {}
    (gpu,) = machine.after(1).gpus
    assert gpu.others_used_it


@pytest.mark.parametrize('hidden', [Unseen(has_others=True), Unseen(frozenset({99}))])
def test_whether_others_used_a_gpu_is_unknown_where_some_cannot_be_seen(machine: Machine, hidden: Unseen) -> None:
    machine.backend.on = {'a': [GpuProcess(11, 5)], 'b': [GpuProcess(11, 5), GpuProcess(98, 5)]}
    machine.backend.hidden = {'a': hidden, 'b': hidden}
    machine.after(0)
    machine.backend.hidden = {}
    energy = machine.after(1)
    assert [gpu.others_used_it for gpu in energy.gpus] == [None, True]
    assert energy.gpu == 0.0


def test_which_gpus_a_member_used_that_cannot_be_looked_at_is_unknown(machine: Machine) -> None:
    machine.backend.hidden = {'b': Unseen(frozenset({11, 99}))}
    machine.after(0)
    machine.backend.hidden = {}
    assert machine.after(2).gpu is None


def test_without_a_gpu_in_use_it_is_zero_and_in_less_than_a_second_unknown(machine: Machine) -> None:
    machine.after(0)
    assert machine.after(0.9).gpu is None
    assert machine.after(0.2).gpu == 0.0


@pytest.mark.parametrize('values', [(None, 5.0), (5.0, None), (9.0, 5.0)])
def test_a_counter_that_is_missing_or_begins_anew_is_unknown(
    machine: Machine, values: tuple[float | None, float | None]
) -> None:
    machine.backend.on = {'a': [GpuProcess(10, 5)]}
    machine.backend.joules['a'] = values[0]
    machine.after(0)
    machine.backend.joules['a'] = values[1]
    energy = machine.after(2)
    assert energy.gpu is None
    assert energy.gpus[0].joules is None


def test_the_energy_of_a_part_of_a_gpu_is_unknown(machine: Machine) -> None:
    machine.backend.on = {'a': [GpuProcess(10, 5, gpu_instance=3)]}
    machine.after(0)
    assert machine.after(2).gpu is None


def test_in_a_container_whose_ids_the_driver_may_not_know_it_is_unknown_until_one_is_seen() -> None:
    machine = Machine(are_ours=False)
    machine.after(0)
    assert machine.after(2).gpu is None
    machine.backend.on = {'a': [GpuProcess(10, 5)]}
    assert machine.after(1).gpu == 0.0


def test_that_one_vendor_knows_our_ids_says_nothing_of_another() -> None:
    machine = Machine(are_ours=False)
    machine.backend.vendors = {'a': 'nvidia', 'b': 'amd'}
    machine.backend.on = {'b': [GpuProcess(10, 5)]}
    machine.after(0)
    assert machine.after(2).gpu is None
    machine.backend.on['a'] = [GpuProcess(11, 5)]
    assert machine.after(1).gpu == 0.0


def test_processes_that_are_found_in_proc_are_known_in_a_container_too() -> None:
    machine = Machine(are_ours=False)
    machine.backend.vendors = {'a': 'amd', 'b': 'intel'}
    machine.after(0)
    assert machine.after(2).gpu == 0.0


def test_an_integrated_gpu_without_a_counter_is_a_part_of_the_cpu_package(machine: Machine) -> None:
    machine.backend.integrated = {'b'}
    machine.backend.joules['b'] = None
    machine.backend.on = {'a': [GpuProcess(10, 5)], 'b': [GpuProcess(10, 5)]}
    machine.after(0)
    machine.backend.joules['a'] = 600.0
    energy = machine.after(2)
    assert ([gpu.uuid for gpu in energy.gpus], energy.gpu) == (['a'], 100.0)


def test_the_gpus_of_a_driver_that_does_not_work_may_have_been_used(machine: Machine) -> None:
    machine.reader.leave_out('It does not work.')
    machine.backend.on = {'a': [GpuProcess(10, 5)]}
    machine.after(0)
    assert machine.after(2).gpu is None


def test_a_driver_that_does_not_work_leaves_the_rest(tmp_path: Path) -> None:
    package(tmp_path, 'intel-rapl:0', 1_000_000)

    def fail() -> None:
        raise GpuError('It does not work.', 'broken')

    reader = EnergySource(fail, are_ours=True, powercap=str(tmp_path), monotonic=iter([0.0, 5.0]).__next__)
    reader.read(OURS)
    package(tmp_path, 'intel-rapl:0', 3_500_000)
    energy = usage_of({'seconds': 5.0, 'energy': reader.read(OURS)}, UNITS)['energy']
    assert (energy.gpu, energy.cpu_packages) == (None, 2.5)


def package(folder: Path, zone: str, microjoules: int, name: str = 'package-0', largest: int = 10_000_000) -> None:
    (folder / zone).mkdir(exist_ok=True)
    (folder / zone / 'name').write_text(f'{name}\n')
    (folder / zone / 'energy_uj').write_text(f'{microjoules}\n')
    (folder / zone / 'max_energy_range_uj').write_text(f'{largest}\n')


def test_cpu_packages_are_added_up_and_their_counters_begin_again_at_zero(tmp_path: Path) -> None:
    package(tmp_path, 'intel-rapl:0', 9_000_000)
    package(tmp_path, 'intel-rapl:1', 1_000_000, name='package-1')
    package(tmp_path, 'intel-rapl:0:0', 500, name='core')
    machine = Machine(tmp_path)
    machine.after(0)
    package(tmp_path, 'intel-rapl:0', 2_000_000)
    package(tmp_path, 'intel-rapl:1', 1_500_000, name='package-1')
    assert machine.after(2).cpu_packages == pytest.approx(3.0 + 0.5)


def test_a_package_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    for zone in ('intel-rapl-mmio:0', 'intel-rapl:0'):
        package(tmp_path, zone, 1_000_000)
    machine = Machine(tmp_path)
    machine.after(0)
    for zone in ('intel-rapl-mmio:0', 'intel-rapl:0'):
        package(tmp_path, zone, 4_000_000)
    assert machine.after(2).cpu_packages == pytest.approx(3.0)


def test_dies_that_each_show_their_whole_package_are_unknown(tmp_path: Path) -> None:
    for die in (0, 1):
        package(tmp_path, f'intel-rapl:{die}', 1_000_000, name=f'package-0-die-{die}')
    machine = Machine(tmp_path)
    machine.after(0)
    assert machine.after(2).cpu_packages is None


def test_what_has_stopped_answering_long_before_the_end_is_unknown(machine: Machine) -> None:
    machine.backend.on = {'a': [GpuProcess(10, 5)]}
    machine.after(0)
    assert machine.after(10, missed=2.5).gpu == 0.0
    assert machine.after(10, missed=3.5).gpu is None


def test_a_gpu_whose_processes_are_not_listed_makes_it_unknown_which_were_used(machine: Machine) -> None:
    machine.backend.on = {'b': None}
    machine.after(0)
    assert machine.after(2).gpu is None


def test_a_package_that_may_not_be_read_makes_all_unknown(tmp_path: Path) -> None:
    package(tmp_path, 'intel-rapl:0', 9_000_000)
    package(tmp_path, 'intel-rapl:1', 1, name='package-1')
    (tmp_path / 'intel-rapl:1' / 'energy_uj').unlink()
    machine = Machine(tmp_path)
    machine.after(0)
    assert machine.after(2).cpu_packages is None


def test_what_has_not_been_read_is_unknown() -> None:
    energy = usage_of({'seconds': 5.0, 'energy': {}}, UNITS)['energy']
    assert (energy.gpu, energy.gpus, energy.cpu_packages) == (None, (), None)
