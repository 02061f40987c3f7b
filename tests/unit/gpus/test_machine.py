"""One look at this machine, and what is told of it."""

from __future__ import annotations

import os
import time

import pytest

from gpu_tracker.errors import GpuError, ParameterError
from gpu_tracker.gpus.inventory import Inventory
from gpu_tracker.gpus.machine import Machine, Seen, host_name, snapshot
from support.gpus.brief_gpus import SEEN, UNSEEN, claim, state, used


class Driver:
    """A driver that can be loaded, and fail."""

    compute_files = frozenset()

    def __init__(self, *states, is_loaded: bool = True) -> None:
        self.states = list(states)
        self.is_loaded = is_loaded
        self.failure: Exception | None = None
        self.searches = 0

    def open(self):
        self.searches += 1
        return self if self.is_loaded else None

    def survey(self, *, with_load, with_sensors):
        self.asked = time.time()
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
    return Machine(tell, Inventory({'nvidia': driver.open}, clock=clock), clock)


def test_a_look() -> None:
    machine = machine_with(Driver(state(0)))
    seen = machine.read()
    assert [gpu.label for gpu in seen.gpus] == ['GPU 0']
    assert (seen.driver_problem, seen.claims_problem) == (None, None)
    assert machine.absence(seen) is None


def test_the_time_of_a_look_is_that_of_its_begin() -> None:
    driver = Driver(state(0))
    machine = machine_with(driver)
    for read in (machine.read, machine.read_again):
        assert read().time <= driver.asked
    driver.failure = GpuError('it is out of order', 'broken')
    assert machine.read_again().time <= driver.asked


def test_claims_that_cannot_be_read_are_told_once(claims) -> None:
    claims.write_text('')
    told = []
    machine = machine_with(Driver(state(0)), told)
    seen = machine.read(), machine.read()
    assert [len(told), told[0].partition(':')[0]] == [1, 'claims are not known']
    assert seen[1].claims_problem.startswith(f'GPU claims cannot be stored in {claims}')
    assert not seen[1].gpus[0].is_claim_known


def test_where_claims_are_kept_is_checked_at_once(monkeypatch) -> None:
    monkeypatch.setenv('GPU_TRACKER_CLAIMS', 'claims')
    with pytest.raises(ParameterError, match='an absolute path'):
        Machine(print, Inventory())


def test_a_driver_that_fails_is_told_once_and_looked_at_again() -> None:
    driver, told = Driver(state(0)), []
    machine = machine_with(driver, told)
    assert machine.read_again().gpus
    driver.failure = GpuError('it is out of order', 'broken')
    failed = machine.read_again(), machine.read_again()
    assert [(seen.gpus, seen.driver_problem) for seen in failed] == [(None, 'it is out of order')] * 2
    assert told == ['it is out of order']
    assert machine.absence(failed[0]) is None
    driver.failure = None
    assert machine.read_again().gpus


def test_what_is_wrong_is_told_when_it_changes_and_once_a_minute_at_most() -> None:
    driver, clock, told = Driver(state(0)), Clock(), []
    machine = machine_with(driver, told, clock)

    def read(now: float, failure: str | None) -> list[str]:
        clock.now, driver.failure = now, None if failure is None else GpuError(failure, 'broken')
        machine.read_again()
        lines, told[:] = [*told], []
        return lines

    assert read(0, None) == []
    assert read(1, 'it is out of order') == ['it is out of order']
    assert read(2, 'it is on fire') == []
    assert read(3, None) == []
    assert read(60.9, 'it is on fire') == []
    assert read(61, 'it is on fire') == ['it is on fire']
    assert read(1000, 'it is on fire') == []
    assert read(1001, None) == ['the GPUs can be read again']
    assert read(2000, None) == []
    assert [line for now in range(3000, 3600) for line in read(now, f'problem {now}')] == [
        f'problem {now}' for now in range(3000, 3600, 60)
    ]


def test_the_first_look_fails_where_the_driver_does() -> None:
    driver = Driver(state(0))
    driver.failure = GpuError('it is out of order', 'broken')
    with pytest.raises(GpuError, match='out of order'):
        machine_with(driver).read()


def test_a_driver_that_is_loaded_later_is_found() -> None:
    driver, clock = Driver(state(0), is_loaded=False), Clock()
    machine = machine_with(driver, clock=clock)
    assert machine.absence(machine.read_again()) == (
        'no GPU driver is installed or loaded on this machine. See "gpu-tracker explain no-gpu-driver".'
    )
    driver.is_loaded = True
    clock.now = 29.0
    assert machine.read_again().gpus == []
    clock.now = 30.0
    assert [gpu.label for gpu in machine.read_again().gpus] == ['GPU 0']
    assert driver.searches == 2


def test_a_driver_without_a_gpu() -> None:
    machine = machine_with(Driver())
    assert machine.absence(machine.read()) == 'this machine has a GPU driver and no GPU'


def test_a_look_as_plain_data() -> None:
    assert snapshot(Seen(1.5, None, 'it fails', 'they are locked')) == {
        'hostname': os.uname().nodename,
        'time': 1.5,
        'driver_problem': 'it fails',
        'claims_problem': 'they are locked',
        'gpus': None,
    }
    assert host_name() == os.uname().nodename


@pytest.mark.parametrize(
    ('commands', 'of_process', 'of_claim'),
    [
        ('full', ('python /opt/train.py --key=1', 'train.py'), 'python train.py'),
        ('program', ('python train.py', 'train.py'), 'python train.py'),
        ('none', (None, None), None),
    ],
)
def test_how_much_is_shown_of_command_lines(
    commands: str, of_process: tuple[str | None, str | None], of_claim: str | None
) -> None:
    process = SEEN._replace(command='python /opt/train.py --key=1')
    found = snapshot(Seen(1.5, [used(0, 9, process)._replace(claim=claim('GPU-0'))]), commands)['gpus']
    assert [(shown['command'], shown['program']) for shown in found[0]['processes']] == [of_process]
    assert found[0]['claim']['command'] == of_claim
    unseen = snapshot(Seen(1.5, [used(0, 9, UNSEEN)]), commands)['gpus'][0]['processes']
    assert [(shown['command'], shown['program']) for shown in unseen] == [(None, None)]
