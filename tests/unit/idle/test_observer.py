from __future__ import annotations

import asyncio

from gpu_tracker.errors import ClaimsError
from gpu_tracker.idle.config.idle_settings import GpuId, Settings, Terminals
from gpu_tracker.idle.observing.driver import DriverAnswer
from gpu_tracker.idle.state import ActiveUser, GpuUser, Observation, WatchedGpu
from gpu_tracker.processes import process_exists
from support.gpus.brief_gpus import claim
from support.gpus.gpu_machine import NO_SUCH_PROCESS
from support.gpus.gpu_readings import reading
from support.idle.watched_machine import PYTHON, SILENT, XORG, WatchedMachine, gpu, only, seen

LOST = 'lost: fallen off the bus or otherwise out of reach (NVML code 15)'


def test_idle_gpus_have_nobody_on_them():
    assert WatchedMachine(gpu(0), gpu(1)).observe() == Observation(gpus=(seen(0), seen(1)), active=())


def test_users_are_those_who_hold_the_device_file_and_those_whom_the_driver_lists_each_once_by_pid():
    machine = WatchedMachine(gpu(0, 20, 17), gpu(1), gpu(2, 18))
    machine.held = {0: {17, 18}, 1: {17}}
    other = PYTHON._replace(pid=18)
    assert machine.gpus() == (seen(0, PYTHON, other, XORG), seen(1, PYTHON), seen(2, other))


def test_our_own_processes_do_not_make_a_gpu_busy():
    machine = WatchedMachine(gpu(0, 40), gpu(1, 17, 41))
    machine.held = {0: {40, 41}, 1: {41}}
    assert machine.gpus() == (seen(0), seen(1, PYTHON))


def test_processes_that_never_count():
    machine = WatchedMachine(gpu(0, 30))
    machine.held = {0: {30, 17}}
    assert machine.gpus() == (seen(0, PYTHON),)


def test_programs_are_ignored_on_the_gpus_of_their_section():
    machine = WatchedMachine(gpu(0, 17, 20))
    assert machine.gpus(only(ignore_programs=('Xorg', 'compiz'))) == (seen(0, PYTHON),)
    assert machine.gpus(only(GpuId(0), ignore_programs=('python',))) == (seen(0, XORG),)
    assert machine.gpus(only()) == (seen(0, PYTHON, XORG),)


def test_a_process_that_has_ended_since_it_was_listed_uses_nothing():
    machine = WatchedMachine(gpu(0, 17))
    machine.held = {0: {18}}
    machine.ended = {17, 18}
    assert machine.gpus() == (seen(0),)


def test_a_process_of_which_nothing_is_to_be_seen_counts():
    assert WatchedMachine(gpu(0, 99)).gpus() == (seen(0, GpuUser(99, '?')),)


def test_only_watched_gpus_are_seen():
    machine = WatchedMachine(gpu(0), gpu(1), gpu(2))
    assert machine.gpus(only(GpuId(2), GpuId(0), GpuId(7))) == (seen(0), seen(2))


def test_a_gpu_has_its_place_on_the_bus_and_the_device_file_that_the_driver_names():
    machine = WatchedMachine(gpu(0, minor=1), gpu(1, minor=0))
    machine.held = {0: {17}}
    assert machine.gpus() == (seen(0), seen(1, PYTHON))


def test_a_gpu_whose_device_file_the_driver_does_not_tell_has_the_one_that_is_left():
    machine = WatchedMachine(gpu(0, minor=2), reading(1, problem=LOST), gpu(2, minor=0), nodes={0, 1, 2})
    machine.held = {1: {17}, 2: {20}}
    lost = WatchedGpu(GpuId(1), None, (PYTHON,), None, f'cannot be used: {LOST}')
    assert machine.gpus() == (seen(0, XORG), lost, seen(2))


def test_gpus_of_a_driver_that_tells_of_no_device_file_have_them_in_order():
    machine = WatchedMachine(gpu(0, minor=None), gpu(1, minor=None), nodes={4, 7})
    machine.held = {7: {17}}
    assert machine.gpus() == (seen(0), seen(1, PYTHON))


def test_a_gpu_needs_no_device_file():
    assert WatchedMachine(gpu(0, 17), gpu(1, minor=None), nodes=()).gpus() == (seen(0, PYTHON), seen(1))


def test_a_device_file_of_no_gpu_that_the_driver_knows_is_none():
    machine = WatchedMachine(gpu(0), nodes={0, 5})
    machine.held = {5: {17}}
    assert machine.gpus() == (seen(0),)


def test_without_a_driver_device_files_are_gpus():
    machine = WatchedMachine(nodes={10, 2})
    machine.held = {10: {40, 17}}
    assert machine.gpus() == (WatchedGpu(GpuId(2)), WatchedGpu(GpuId(10), users=(PYTHON,)))
    assert machine.gpus(only(GpuId(2))) == (WatchedGpu(GpuId(2)),)


def test_a_machine_without_gpus():
    assert WatchedMachine().observe() == Observation()


def test_a_gpu_that_cannot_be_read_cannot_be_used():
    not_permitted = 'may not be read by this user (NVML code 4)'
    machine = WatchedMachine(reading(0, problem=not_permitted), gpu(1, problem='needs a reset', processes=None))
    assert machine.gpus() == (
        WatchedGpu(GpuId(0), problem='cannot be used: may not be read by this user (NVML code 4)'),
        seen(1, problem='cannot be used: needs a reset'),
    )


def test_a_driver_that_does_not_list_processes_leaves_the_holders():
    machine = WatchedMachine(gpu(0, processes=None))
    machine.held = {0: {17}}
    assert machine.gpus() == (seen(0, PYTHON),)


def test_gpus_keep_number_and_uuid_while_the_driver_tells_nothing():
    machine = WatchedMachine(gpu(0, 17, minor=1), gpu(1, minor=0))
    machine.held = {1: {17}, 0: {20}}
    before = machine.gpus()
    assert before == (seen(0, PYTHON), seen(1, XORG))
    for look in (SILENT, DriverAnswer(None, 'The driver is broken.')):
        machine.driver = look
        assert machine.gpus() == before
    machine.held = {}
    assert machine.gpus() == (seen(0), seen(1))


def test_a_gpu_of_which_nothing_is_seen_any_more_cannot_be_used():
    machine = WatchedMachine(gpu(0), gpu(1), nodes={1})
    machine.gpus()
    machine.driver = SILENT
    assert machine.gpus() == (seen(0, problem='cannot be seen: the GPU driver does not answer'), seen(1))


def test_numbers_are_not_known_before_a_driver_that_is_there_has_answered():
    machine = WatchedMachine(nodes={0})
    machine.held = {0: {17}}
    machine.driver = SILENT
    problem = 'is not known yet: the GPU driver does not answer'
    assert machine.gpus() == (WatchedGpu(GpuId(0), users=(PYTHON,), problem=problem),)
    machine.driver = DriverAnswer((gpu(0, minor=1), gpu(1, minor=0)))
    assert machine.gpus() == (seen(0), seen(1, PYTHON))


def test_a_driver_that_has_never_worked_leaves_the_device_files():
    machine = WatchedMachine(nodes={0})
    machine.driver = DriverAnswer(None, 'The driver is broken.')
    assert machine.gpus() == (WatchedGpu(GpuId(0)),)


def test_gpus_whose_driver_was_taken_away_cannot_be_used():
    machine = WatchedMachine(gpu(0))
    machine.gpus()
    machine.driver = DriverAnswer()
    assert machine.gpus() == (seen(0, problem='cannot be used: its driver is not loaded any more'),)
    machine.driver = DriverAnswer((gpu(0),))
    assert machine.gpus() == (seen(0),)


def test_the_driver_is_opened_anew_when_there_is_a_device_file_that_it_does_not_know():
    machine = WatchedMachine(gpu(0), gpu(1), nodes={0})
    machine.gpus()
    machine.nodes = {0, 1}  # made at the first use of a GPU that is known
    machine.gpus()
    assert machine.times_opened_anew == 0
    machine.nodes = {0, 1, 2}
    machine.gpus()
    machine.gpus()
    assert machine.times_opened_anew == 1
    machine.nodes = {0}
    machine.gpus()
    assert machine.times_opened_anew == 1


def test_terminals_are_looked_at_where_they_matter():
    alice = ActiveUser('alice', 'pts/3', 12.5)
    machine = WatchedMachine(gpu(0))
    machine.at_terminals = (alice,)
    assert machine.observe().active == ()
    assert machine.asked_of_terminals == []
    terminals = Terminals(idle_seconds=60)
    assert machine.observe(Settings(terminals=terminals)) == Observation((seen(0),), (alice,))
    assert machine.asked_of_terminals == [terminals]


def test_closing_lets_go_of_the_driver():
    machine = WatchedMachine(gpu(0))
    asyncio.run(machine.observer.close())
    assert machine.is_closed


def test_in_a_container_the_driver_is_believed_of_processes_that_it_can_mean():
    machine = WatchedMachine(gpu(0, 17, 18, 40), gpu(1, 99), is_meant={17, 40}.__contains__)
    machine.held = {1: {18}}
    assert machine.gpus() == (seen(0, PYTHON), seen(1, PYTHON._replace(pid=18)))


def test_in_a_container_a_process_is_asked_about_once_a_look():
    asked = []
    machine = WatchedMachine(gpu(0, 17), gpu(1, 17), is_meant=lambda pid: asked.append(pid) or True)
    machine.gpus()
    assert asked == [17]


def test_whether_a_process_exists():
    assert process_exists(1)
    assert not process_exists(NO_SUCH_PROCESS)


CLAIM = claim('GPU-1', user_id=7, process_id=4242)


def test_a_claimed_gpu_is_busy_unless_a_program_of_ours_has_claimed_it():
    machine = WatchedMachine(gpu(0), gpu(1), claims=lambda: [CLAIM], name_of=lambda user: f'user {user}')
    assert [found.busy for found in machine.gpus()] == [None, 'claimed by user 7 (pid 4242)']
    machine = WatchedMachine(gpu(0), gpu(1), claims=lambda: [CLAIM._replace(process_id=40)])
    assert [found.busy for found in machine.gpus()] == [None, None]


def test_claims_that_cannot_be_read_are_reported_once_and_keep_nobody_away():
    def fail():
        raise ClaimsError('GPU claims cannot be stored in /x')

    machine = WatchedMachine(gpu(0), claims=fail)
    assert machine.told() == ['GPU claims cannot be stored in /x']
    assert machine.told() == []
    assert [found.busy for found in machine.gpus()] == [None]
