from __future__ import annotations

import threading

import pytest

from gpu_tracker.errors import GpuError
from gpu_tracker.gpus.inventory import Inventory, with_claims
from gpu_tracker.gpus.model import GpuProcess
from gpu_tracker.gpus.opening import open_gpus
from support.gpus.brief_gpus import claim, gpu, mig, split, state
from support.gpus.gpu_readings import changed
from support.waiting import TIMEOUT, eventually


class Backend:
    """An opened driver with these GPUs; what it is asked, it answers when ``may_answer`` is set."""

    compute_files = frozenset()

    def __init__(self, *states, answers: bool = True) -> None:
        self._states = states
        self.may_answer = threading.Event()
        self.is_closed = False
        self.looks = self.answered = 0
        if answers:
            self.may_answer.set()

    def survey(self, *, with_load, with_sensors):
        self.asked_for_load = with_load
        self.looks += 1
        self.may_answer.wait(TIMEOUT)
        self.answered += 1
        return list(self._states)

    def gpus(self):
        return tuple(reading.gpu for reading in self._states)

    def close(self) -> None:
        self.is_closed = True


def test_gpus_of_all_vendors_with_their_mig_devices() -> None:
    part = mig(0, 'MIG-a', processes=[GpuProcess(2**31 - 1, 5)])
    backend = Backend(state(0), state(1, mig_devices=(part,)))
    inventory = Inventory({'nvidia': lambda: backend, 'none': lambda: None})
    first, second = inventory.read()
    assert first == changed(gpu(0), vendor='nvidia')
    assert second.label == 'GPU 1'
    (device,) = second.mig_devices
    assert device.label == 'GPU 1 MIG 0'
    assert device.parent == second._replace(mig_devices=None)
    assert [(process.pid, process.memory, process.is_seen) for process in device.processes] == [(2**31 - 1, 5, False)]
    assert inventory.has_driver
    inventory.close()
    assert backend.is_closed


def test_the_driver_is_opened_once() -> None:
    opened: list[Backend] = []

    def open_backend() -> Backend:
        opened.append(Backend(state(0)))
        return opened[-1]

    inventory = Inventory({'one': open_backend})
    inventory.read()
    inventory.read()
    assert len(opened) == 1


def test_the_load_is_asked_for_unless_told_otherwise() -> None:
    backend = Backend(state(0))
    inventory = Inventory({'one': lambda: backend})
    inventory.read()
    assert backend.asked_for_load
    inventory.read(with_load=False)
    assert not backend.asked_for_load


def test_no_driver_no_gpus() -> None:
    inventory = Inventory({'none': lambda: None})
    assert inventory.read() == []
    assert not inventory.has_driver
    inventory.close()


def test_processes_that_are_not_listed_are_unknown() -> None:
    (shown,) = Inventory({'one': lambda: Backend(state(0, processes=None))}).read()
    assert shown.processes is None


def test_what_the_driver_raises_is_raised() -> None:
    def fail() -> Backend:
        raise GpuError('it does not work', 'broken')

    with pytest.raises(GpuError, match='it does not work'):
        Inventory({'one': fail}).read()


class Vendors:
    """A vendor whose driver works, and one whose driver is broken at first."""

    def __init__(self) -> None:
        self.working, self.repaired = Backend(state(0, vendor='working')), Backend(state(0, vendor='broken'))
        self.is_broken = True
        self.opened = 0
        self.reports: list[str] = []

    def open_working(self) -> Backend:
        self.opened += 1
        return self.working

    def open_broken(self) -> Backend:
        if self.is_broken:
            raise GpuError('it does not work', 'broken')
        return self.repaired

    def inventory(self, *names: str) -> Inventory:
        openers = {'working': self.open_working, 'broken': self.open_broken}
        return Inventory({name: openers[name] for name in names}, report=self.reports.append)


@pytest.mark.parametrize('order', [('working', 'broken'), ('broken', 'working')])
def test_a_driver_that_does_not_work_hides_nothing_of_the_others(order: tuple[str, str]) -> None:
    vendors = Vendors()
    inventory = vendors.inventory(*order)
    assert [reading.gpu.vendor for reading in inventory.read()] == ['working']
    assert len(inventory.read()) == 1
    assert inventory.has_driver
    assert vendors.reports == ['GPUs of broken cannot be read: it does not work']
    vendors.is_broken = False
    assert [reading.gpu.vendor for reading in inventory.read()] == ['broken', 'working']
    inventory.close()
    assert (vendors.opened, vendors.working.is_closed, vendors.repaired.is_closed) == (1, True, True)


def test_a_run_opens_all_drivers_or_those_of_a_brand() -> None:
    vendors = Vendors()
    openers = {'none': lambda: None, 'broken': vendors.open_broken, 'working': vendors.open_working}
    assert open_gpus(None, vendors.reports.append, {'none': lambda: None, 'also none': lambda: None}) is None
    assert open_gpus(None, vendors.reports.append, {'working': vendors.open_working, 'none': lambda: None})
    assert vendors.reports == []
    assert open_gpus(['working'], vendors.reports.append, openers) is vendors.working
    with pytest.raises(GpuError, match='it does not work'):
        open_gpus(['broken'], vendors.reports.append, openers)
    assert open_gpus(['none'], vendors.reports.append, openers) is None


def test_a_driver_without_gpus_does_not_hide_that_another_does_not_work() -> None:
    vendors = Vendors()
    vendors.working = Backend()
    inventory = vendors.inventory('working', 'broken')
    for _ in range(2):
        with pytest.raises(GpuError, match='it does not work'):
            inventory.read()
    inventory.close()
    assert (vendors.opened, vendors.working.is_closed, vendors.reports) == (1, True, [])


def test_a_driver_that_is_loaded_later_is_found_beside_another() -> None:
    found = {'late': None}
    now = [100.0]
    one = Backend(state(0, vendor='one'))
    inventory = Inventory({'one': lambda: one, 'late': lambda: found['late']}, clock=lambda: now[0])
    assert len(inventory.read()) == 1
    found['late'] = Backend(state(1, vendor='late'))
    now[0] = 129.9
    assert len(inventory.read()) == 1
    now[0] = 130.0
    assert [reading.gpu.vendor for reading in inventory.read()] == ['late', 'one']


def test_a_driver_that_hangs_is_not_waited_for_for_ever() -> None:
    backend = Backend(state(0), answers=False)
    with pytest.raises(GpuError, match=r'^The driver of one GPUs has not answered for 0\.01 seconds\.$') as caught:
        Inventory({'one': lambda: backend}, timeout=0.01).read()
    assert caught.value.cause == 'timeout'
    backend.may_answer.set()


def test_a_driver_that_hangs_hides_nothing_of_another_and_is_not_waited_for_again() -> None:
    hanging, working = Backend(state(0), answers=False), Backend(state(0, vendor='amd'))
    told: list[str] = []
    inventory = Inventory({'nvidia': lambda: hanging, 'amd': lambda: working}, timeout=1.0, report=told.append)
    for looks in (1, 2):
        assert [reading.gpu.vendor for reading in inventory.read()] == ['amd']
        assert (working.looks, hanging.looks) == (looks, 1)
    unread = 'GPUs of NVIDIA cannot be read: The driver of NVIDIA GPUs has not answered for 1 seconds.'
    assert told == ['waiting for the GPU driver to respond', unread]
    hanging.may_answer.set()
    assert eventually(lambda: len(inventory.read()) == 2)
    inventory.close()
    assert (hanging.is_closed, working.is_closed) == (True, True)


def test_numbers_that_two_vendors_have_are_told_apart() -> None:
    part = mig(0, 'MIG-a')
    nvidia = Backend(state(0), state(1, mig_devices=(part,)))
    others = Backend(changed(state(0), vendor='intel', uuid='intel-0'), changed(state(0), vendor='amd', uuid='GPU-a'))
    readings = Inventory({'nvidia': lambda: nvidia, 'drm': lambda: others}).read()
    devices = [device for reading in readings for device in reading.devices()]
    assert [(device.place, device.label) for device in devices] == [
        ('0', 'GPU 0'),
        ('1', 'GPU 1'),
        ('1:0', 'GPU 1 MIG 0'),
        ('amd:0', 'AMD GPU 0'),
        ('intel:0', 'Intel GPU 0'),
    ]


def test_a_driver_that_hangs_is_asked_nothing_more_until_it_answers() -> None:
    backend = Backend(state(0), answers=False)
    told: list[str] = []
    inventory = Inventory({'one': lambda: backend}, timeout=0.01, report=told.append)
    for _ in range(3):
        with pytest.raises(GpuError, match='has not answered'):
            inventory.read()
        eventually(lambda: backend.looks)
    assert backend.looks == 1
    assert told == ['waiting for the GPU driver to respond']
    inventory.close()
    assert not backend.is_closed  # it is still being asked
    backend.may_answer.set()


def test_the_answer_to_an_earlier_question_is_not_taken_for_the_present() -> None:
    backend = Backend(state(0), answers=False)
    inventory = Inventory({'one': lambda: backend}, timeout=0.01)
    with pytest.raises(GpuError, match='has not answered'):
        inventory.read()
    with pytest.raises(GpuError, match='has not answered'):
        inventory.read()  # at once: the old answer is not waited for
    assert backend.looks <= 1
    backend.may_answer.set()
    inventory._timeout = TIMEOUT

    def is_read() -> bool:
        try:
            return len(inventory.read()) == 1
        except GpuError:
            return False

    assert eventually(is_read)
    assert backend.looks == 2
    inventory.close()
    assert backend.is_closed


def test_claims_are_found_by_uuid() -> None:
    machine = [gpu(0), split(1, mig(0, 'MIG-a'), mig(1, 'MIG-b'))]
    ours, theirs = claim('GPU-0', 'MIG-b'), claim('GPU-7')
    first, second = with_claims(machine, [ours, theirs])
    assert first.claim == ours
    assert second.claim is None
    assert [part.claim for part in second.mig_devices] == [None, ours]


def test_of_two_claims_on_one_gpu_the_first_counts() -> None:
    ours, theirs = claim('GPU-0'), claim('GPU-0', user_id=1)
    assert with_claims([gpu(0)], [ours, theirs])[0].claim == ours


def test_claims_that_cannot_be_read_are_unknown() -> None:
    first, second = with_claims([gpu(0), split(1, mig(0, 'MIG-a'))], None)
    assert not first.is_claim_known
    assert [part.is_claim_known for part in second.devices()] == [False, False]
