"""One look at this machine, and what is told of it."""

from __future__ import annotations

import os

import pytest

from brief_gpus import state
from gpu_tracker.errors import GpuError, ParameterError
from gpu_tracker.fleet.inventory import Inventory
from gpu_tracker.fleet.machine import Machine, Seen, host_name, snapshot_of


class Driver:
    """A driver that can be loaded, and fail."""

    def __init__(self, *states, is_loaded: bool = True) -> None:
        self.states = list(states)
        self.is_loaded = is_loaded
        self.failure: Exception | None = None
        self.searches = 0

    def open(self):
        self.searches += 1
        return self if self.is_loaded else None

    def survey(self, *, with_load):
        if self.failure is not None:
            raise self.failure
        return self.states

    def close(self) -> None:
        pass


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def claims(tmp_path, monkeypatch):
    folder = tmp_path / 'claims'
    monkeypatch.setenv('GPU_TRACKER_CLAIMS', str(folder))
    return folder


def machine_with(driver: Driver, told: list[str] | None = None, clock=lambda: 0.0) -> Machine:
    tell = (lambda _: None) if told is None else told.append
    return Machine(tell, Inventory({'one': driver.open}), clock)


def test_a_look() -> None:
    machine = machine_with(Driver(state(0)))
    seen = machine.look()
    assert [gpu.label for gpu in seen.gpus] == ['GPU 0']
    assert (seen.driver_problem, seen.claims_problem) == (None, None)
    assert machine.has_driver
    assert machine.absence(seen) is None


def test_claims_that_cannot_be_read_are_told_once(claims) -> None:
    claims.write_text('')
    told = []
    machine = machine_with(Driver(state(0)), told)
    seen = machine.look(), machine.look()
    assert [len(told), told[0].partition(':')[0]] == [1, 'claims are not known']
    assert seen[1].claims_problem.startswith(f'GPU claims cannot be kept in {claims}')
    assert not seen[1].gpus[0].is_claim_known


def test_where_claims_are_kept_is_checked_at_once(monkeypatch) -> None:
    monkeypatch.setenv('GPU_TRACKER_CLAIMS', 'claims')
    with pytest.raises(ParameterError, match='an absolute path'):
        Machine(print)


def test_a_driver_that_fails_is_told_once_and_looked_at_again() -> None:
    driver, told = Driver(state(0)), []
    machine = machine_with(driver, told)
    assert machine.look_again().gpus
    driver.failure = GpuError('it is out of order', 'broken')
    failed = machine.look_again(), machine.look_again()
    assert [(seen.gpus, seen.driver_problem) for seen in failed] == [(None, 'it is out of order')] * 2
    assert told == ['it is out of order']
    assert machine.absence(failed[0]) is None
    driver.failure = None
    assert machine.look_again().gpus


def test_the_first_look_fails_where_the_driver_does() -> None:
    driver = Driver(state(0))
    driver.failure = GpuError('it is out of order', 'broken')
    with pytest.raises(GpuError, match='out of order'):
        machine_with(driver).look()


def test_a_driver_that_is_loaded_later_is_found() -> None:
    driver, clock = Driver(state(0), is_loaded=False), Clock()
    machine = machine_with(driver, clock=clock)
    assert machine.absence(machine.look_again()) == 'no GPU driver is installed or loaded on this machine'
    driver.is_loaded = True
    clock.now = 29.0
    assert machine.look_again().gpus == []
    clock.now = 30.0
    assert [gpu.label for gpu in machine.look_again().gpus] == ['GPU 0']
    assert driver.searches == 2


def test_a_driver_without_a_gpu() -> None:
    machine = machine_with(Driver())
    assert machine.absence(machine.look()) == 'this machine has a GPU driver and no GPU'


def test_a_look_as_plain_data() -> None:
    assert snapshot_of(Seen(1.5, None, 'it fails', 'they are locked')) == {
        'hostname': os.uname().nodename,
        'time': 1.5,
        'driver_problem': 'it fails',
        'claims_problem': 'they are locked',
        'gpus': None,
    }
    assert host_name() == os.uname().nodename
