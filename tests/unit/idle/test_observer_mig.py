from __future__ import annotations

from gpu_tracker.gpus.model import GpuProcess
from gpu_tracker.idle.config.idle_settings import GpuId
from gpu_tracker.idle.observing.driver import DriverAnswer
from gpu_tracker.idle.state import WatchedGpu
from support.gpus.gpu_readings import reading
from support.idle.watched_machine import PYTHON, SILENT, XORG, WatchedMachine, divided, gpu, mig, only, seen


def test_a_divided_gpu_is_its_mig_devices_and_one_without_any_is_nothing():
    machine = WatchedMachine(divided(0, mig(0), mig(2)), divided(1), gpu(2))
    assert machine.gpus() == (seen(0, mig=0), seen(0, mig=2), seen(2))


def test_a_holder_that_the_driver_lists_on_one_mig_device_is_on_no_other():
    machine = WatchedMachine(divided(0, mig(0, 17), mig(1), mig(2, 20)))
    machine.held = {0: {17, 20}}
    assert machine.gpus() == (seen(0, PYTHON, mig=0), seen(0, mig=1), seen(0, XORG, mig=2))


def test_a_process_on_two_mig_devices_is_on_both():
    machine = WatchedMachine(divided(0, mig(0, 17), mig(1, 17), mig(2)))
    assert machine.gpus() == (seen(0, PYTHON, mig=0), seen(0, PYTHON, mig=1), seen(0, mig=2))


def test_a_holder_that_the_driver_lists_nowhere_may_be_on_each_mig_device_of_that_gpu():
    machine = WatchedMachine(divided(0, mig(0, 20), mig(1)), divided(1, mig(0)))
    machine.held = {0: {17}}
    assert machine.gpus() == (seen(0, PYTHON, XORG, mig=0), seen(0, PYTHON, mig=1), seen(1, mig=0))


def test_a_process_that_the_driver_lists_only_on_the_whole_gpu_may_be_on_each_mig_device():
    machine = WatchedMachine(
        divided(0, mig(0), mig(1, 20), processes=[GpuProcess(17, 5), GpuProcess(20, 5, gpu_instance=1)])
    )
    assert machine.gpus() == (seen(0, PYTHON, mig=0), seen(0, PYTHON, XORG, mig=1))


def test_mig_devices_that_do_not_list_their_processes():
    machine = WatchedMachine(divided(0, mig(0, processes=None), mig(1, 20), mig(2, processes=None), processes=None))
    machine.held = {0: {17, 20}}
    assert machine.gpus() == (seen(0, PYTHON, mig=0), seen(0, PYTHON, XORG, mig=1), seen(0, PYTHON, mig=2))


def test_holders_are_on_every_mig_device_while_the_driver_does_not_answer():
    machine = WatchedMachine(divided(0, mig(0, 17), mig(1)))
    machine.held = {0: {17}}
    assert machine.gpus() == (seen(0, PYTHON, mig=0), seen(0, mig=1))
    machine.driver = SILENT
    assert machine.gpus() == (seen(0, PYTHON, mig=0), seen(0, PYTHON, mig=1))


def test_mig_devices_are_watched_by_their_own_name_or_by_that_of_their_gpu():
    machine = WatchedMachine(divided(0, mig(0), mig(1)), divided(1, mig(0)), gpu(2))
    assert machine.gpus(only(GpuId(0, 1), GpuId(1))) == (seen(0, mig=1), seen(1, mig=0))


def test_our_process_on_one_mig_device_leaves_the_other_to_others():
    machine = WatchedMachine(divided(0, mig(0, 40), mig(1, 17)))
    machine.held = {0: {40, 17}}
    assert machine.gpus() == (seen(0, mig=0), seen(0, PYTHON, mig=1))


def test_a_mig_device_that_cannot_be_read_cannot_be_used():
    machine = WatchedMachine(divided(0, reading(0, problem='cannot be read (NVML code 23)'), mig(1)))
    assert machine.gpus() == (
        WatchedGpu(GpuId(0, 0), problem='cannot be used: cannot be read (NVML code 23)'),
        seen(0, mig=1),
    )


def test_a_divided_gpu_that_is_lost_is_whole_and_cannot_be_used():
    machine = WatchedMachine(reading(0, problem='lost'), nodes={0})
    assert machine.gpus() == (WatchedGpu(GpuId(0), problem='cannot be used: lost'),)
    assert machine.gpus(only(GpuId(0, 0))) == ()


def test_in_a_container_a_stranger_on_a_mig_device_does_not_hide_a_holder_from_the_others():
    machine = WatchedMachine(divided(0, mig(0, 17), mig(1)), is_meant=lambda _: False)
    machine.held = {0: {17}}
    assert machine.gpus() == (seen(0, PYTHON, mig=0), seen(0, PYTHON, mig=1))


def test_a_gpu_that_is_divided_anew():
    machine = WatchedMachine(gpu(0))
    assert machine.gpus() == (seen(0),)
    machine.driver = DriverAnswer((divided(0, mig(0), mig(1)),))
    assert machine.told() == ['GPU 0 has gone', 'GPU 0:0 has appeared', 'GPU 0:1 has appeared']
    machine.driver = DriverAnswer((divided(0),))
    assert machine.told() == ['GPU 0:0 has gone', 'GPU 0:1 has gone', 'there is no GPU at the moment']
