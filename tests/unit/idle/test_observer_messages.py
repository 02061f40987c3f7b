from __future__ import annotations

import pytest

from gpu_tracker.idle.config.idle_settings import GpuId
from gpu_tracker.idle.observing.driver import DriverAnswer
from support.gpus.gpu_readings import reading
from support.idle.watched_machine import SILENT, WatchedMachine, divided, gpu, mig, only

BROKEN = DriverAnswer(None, 'The driver is broken.')


def test_a_machine_on_which_all_is_well_is_no_news():
    machine = WatchedMachine(gpu(0), gpu(1))
    assert machine.told() == []
    assert machine.told() == []


def test_messages_are_taken_once():
    machine = WatchedMachine()
    machine.observe()
    assert machine.observer.take_messages() == ['there is no GPU at the moment']
    assert machine.observer.take_messages() == []


def test_a_problem_of_the_driver_and_its_end_are_told_once_each():
    machine = WatchedMachine(gpu(0))
    told = []
    for look in (SILENT, SILENT, BROKEN, BROKEN, DriverAnswer((gpu(0),)), DriverAnswer((gpu(0),)), SILENT):
        machine.driver = look
        told.append(machine.told())
    assert told == [
        ['the GPU driver does not answer'],
        [],
        ['The driver is broken.'],
        [],
        ['the GPU driver works again'],
        [],
        ['the GPU driver does not answer'],
    ]


def test_a_driver_that_is_taken_away_is_told():
    machine = WatchedMachine(gpu(0))
    machine.observe()
    machine.driver = DriverAnswer()
    assert machine.told() == ['the GPU driver is not loaded any more']
    assert machine.told() == []
    machine.driver = DriverAnswer((gpu(0),))
    assert machine.told() == ['the GPU driver works again']


def test_that_there_is_no_driver_at_all_is_no_news():
    assert WatchedMachine(nodes={0}).told() == []


def test_processes_that_cannot_be_looked_into_are_told_once():
    machine = WatchedMachine(gpu(0))
    machine.unseen = set(range(12))
    (message,) = machine.told()
    assert message == (
        'the descriptors of 12 processes can be read by root only: only the GPU driver tells what is used there'
    )
    machine.unseen = set(range(13))
    assert machine.told() == []


@pytest.mark.parametrize(('pids', 'named'), [({7}, 'process 7'), ({9, 7, 18}, 'processes 7, 9, 18')])
def test_few_processes_that_cannot_be_looked_into_are_named(pids, named):
    machine = WatchedMachine(gpu(0))
    machine.unseen = pids
    (message,) = machine.told()
    assert message == (
        f'the descriptors of {named} can be read by root only: only the GPU driver tells what is used there'
    )


def test_without_a_driver_nothing_is_seen_of_processes_that_cannot_be_looked_into():
    machine = WatchedMachine(nodes={0})
    machine.unseen = {7}
    (message,) = machine.told()
    assert message == 'the descriptors of process 7 can be read by root only: no use of a GPU is seen there'


def test_root_is_told_of_processes_that_it_cannot_look_into_where_they_are_more_than_a_tenth():
    machine = WatchedMachine(gpu(0), is_root=True)
    machine.unseen = set(range(10))
    assert machine.told() == []
    machine.unseen = set(range(11))
    (message,) = machine.told()
    assert message == (
        'the descriptors of 11 processes cannot be read, even by root here: only the GPU driver tells what is used '
        'there'
    )


def test_a_container_is_told_once():
    machine = WatchedMachine(gpu(0), is_meant=lambda _: True)
    (message,) = machine.told()
    assert message == (
        'in this container, which has process IDs of its own, processes outside it cannot be seen: they make a GPU '
        'busy only by its memory and utilization, where thresholds are set for them'
    )
    assert machine.told() == []


def test_processes_that_proc_hides_are_reported_once():
    machine = WatchedMachine(nodes={0})
    machine.are_others_hidden = True
    text = '/proc hides the processes of other users (mount option hidepid): no use of a GPU is seen there'
    assert machine.told() == [text]
    assert machine.told() == []


def test_gpus_that_appear_and_go():
    machine = WatchedMachine(gpu(0))
    machine.observe()
    machine.driver = DriverAnswer((gpu(0), gpu(1), gpu(2)))
    assert machine.told() == ['GPU 1 has appeared', 'GPU 2 has appeared']
    machine.driver = DriverAnswer((gpu(0),))
    assert machine.told() == ['GPU 1 has gone', 'GPU 2 has gone']
    machine.driver = DriverAnswer(())
    assert machine.told() == ['GPU 0 has gone', 'there is no GPU at the moment']
    assert machine.told() == []
    machine.driver = DriverAnswer((gpu(0),))
    assert machine.told() == ['GPU 0 has appeared']


def test_gpus_that_appear_as_device_files():
    machine = WatchedMachine()
    assert machine.told() == ['there is no GPU at the moment']
    machine.nodes = {10, 9}
    assert machine.told() == ['GPU 9 has appeared', 'GPU 10 has appeared']


def test_a_gpu_that_is_lost_has_not_gone():
    machine = WatchedMachine(gpu(0))
    machine.observe()
    machine.driver = DriverAnswer((reading(0, problem='lost'),))
    assert machine.told() == []


def test_only_watched_gpus_are_told_of():
    machine = WatchedMachine(gpu(0))
    settings = only(GpuId(1))
    assert machine.told(settings) == ['none of the GPUs that are watched is there at the moment']
    machine.driver = DriverAnswer((gpu(0), gpu(1), gpu(2)))
    assert machine.told(settings) == ['GPU 1 has appeared']
    machine.driver = DriverAnswer((gpu(0),))
    assert machine.told(settings) == ['GPU 1 has gone', 'none of the GPUs that are watched is there at the moment']


def test_a_new_configuration_makes_no_gpu_appear_or_go():
    machine = WatchedMachine(gpu(0), gpu(1))
    assert machine.told(only(GpuId(0))) == []
    assert machine.told(only(GpuId(1))) == []
    assert machine.told() == []


def test_while_the_driver_does_not_answer_no_gpu_appears_or_goes():
    machine = WatchedMachine()
    machine.driver = SILENT
    assert machine.told() == ['the GPU driver does not answer']
    machine.driver = DriverAnswer((divided(0, mig(0)),))
    assert machine.told() == ['the GPU driver works again']
    machine.driver = SILENT
    machine.nodes = {0, 1}
    assert machine.told() == ['the GPU driver does not answer']
