from __future__ import annotations

import pytest

from gpu_tracker.gpus.model import GpuProcess
from support.idle.watched_machine import GB, PYTHON, SILENT, WatchedMachine, divided, gpu, mig, only

MEMORY = only(busy_memory=2 * GB)
UTILIZATION = only(busy_utilization=40.0)


def load(machine, settings=MEMORY):
    """Return what makes GPU 0 busy besides its users."""
    return machine.gpus(settings)[0].load


@pytest.mark.parametrize(
    ('used', 'expected'),
    [
        (None, None),
        (0, None),
        (2 * GB - 1, None),
        (2 * GB, '2.0 GB of memory in use by others'),
        (3_140_000_000, '3.1 GB of memory in use by others'),
    ],
)
def test_memory_makes_a_gpu_busy_from_the_threshold_on(used, expected):
    assert load(WatchedMachine(gpu(0, memory_used=used))) == expected


def test_small_memory_is_told_in_megabytes():
    machine = WatchedMachine(gpu(0, memory_used=512_400_000))
    assert load(machine, only(busy_memory=GB // 2)) == '512 MB of memory in use by others'


def test_memory_and_utilization_do_not_matter_without_a_threshold():
    assert load(WatchedMachine(gpu(0, memory_used=40 * GB, utilization=100.0)), only()) is None


def test_memory_of_our_own_processes_does_not_count():
    entries = [GpuProcess(40, 30 * GB), GpuProcess(41, GB), GpuProcess(17, GB)]
    assert load(WatchedMachine(gpu(0, memory_used=32 * GB, processes=entries))) is None
    more = WatchedMachine(gpu(0, memory_used=34 * GB, processes=entries))
    assert load(more) == '3.0 GB of memory in use by others'
    assert load(WatchedMachine(gpu(0, memory_used=GB, processes=entries))) is None  # read at two moments


def test_memory_of_a_process_that_has_ended_is_nobodys():
    machine = WatchedMachine(gpu(0, memory_used=9 * GB, processes=[GpuProcess(42, 8 * GB)]))
    machine.ended = {42}
    assert load(machine) is None


def test_unknown_memory_of_ours_hides_that_of_others():
    machine = WatchedMachine(gpu(0, memory_used=9 * GB, processes=[GpuProcess(40, None), GpuProcess(17, 5 * GB)]))
    assert load(machine) is None
    machine.ours = set()
    assert load(machine) == '9.0 GB of memory in use by others'


def test_a_process_of_ours_that_holds_a_gpu_and_is_not_listed_has_no_memory_there():
    machine = WatchedMachine(gpu(0, memory_used=9 * GB))
    machine.held = {0: {40}}
    assert load(machine) == '9.0 GB of memory in use by others'


def test_memory_does_not_matter_where_ours_holds_a_gpu_that_lists_no_processes():
    machine = WatchedMachine(gpu(0, memory_used=9 * GB, processes=None))
    assert load(machine) == '9.0 GB of memory in use by others'
    machine.held = {0: {40}}
    assert load(machine) is None


@pytest.mark.parametrize('entries', [[], [GpuProcess(40, 0)]], ids=['not listed', 'listed without memory'])
def test_memory_does_not_matter_in_a_container_that_is_not_told_of_ours(entries):
    machine = WatchedMachine(gpu(0, memory_used=9 * GB, processes=entries), is_meant=lambda _: True)
    machine.held = {0: {40}}
    assert load(machine) is None
    machine.ours = set()
    assert load(machine) == '9.0 GB of memory in use by others'


def test_memory_matters_in_a_container_that_is_told_of_ours():
    entries = [GpuProcess(40, 6 * GB)]
    machine = WatchedMachine(gpu(0, memory_used=9 * GB, processes=entries), is_meant=lambda _: True)
    assert load(machine) == '3.0 GB of memory in use by others'


@pytest.mark.parametrize(
    ('utilization', 'expected'), [(None, None), (39.9, None), (40.0, 'utilization 40 %'), (45.0, 'utilization 45 %')]
)
def test_utilization_makes_a_gpu_busy_from_the_threshold_on(utilization, expected):
    assert load(WatchedMachine(gpu(0, utilization=utilization)), UTILIZATION) == expected


def test_utilization_matters_only_while_nothing_of_ours_is_on_the_gpu():
    assert load(WatchedMachine(gpu(0, 40, utilization=100.0)), UTILIZATION) is None
    machine = WatchedMachine(gpu(0, utilization=100.0))
    machine.held = {0: {41}}
    assert load(machine, UTILIZATION) is None
    machine.held = {}
    assert load(machine, UTILIZATION) == 'utilization 100 %'


def test_utilization_does_not_matter_at_the_end_of_a_process_that_may_have_been_ours():
    machine = WatchedMachine(gpu(0, 42, utilization=100.0))
    machine.ended = {42}
    assert load(machine, UTILIZATION) is None


def test_memory_and_utilization_together():
    machine = WatchedMachine(gpu(0, memory_used=3 * GB, utilization=45.0))
    both = only(busy_memory=GB, busy_utilization=1.0)
    assert load(machine, both) == '3.0 GB of memory in use by others and utilization 45 %'


def test_a_gpu_may_have_users_and_a_load():
    (found,) = WatchedMachine(gpu(0, 17, memory_used=3 * GB)).gpus(MEMORY)
    assert (found.users, found.load) == ((PYTHON,), '3.0 GB of memory in use by others')
    assert found.busy == 'used by python (pid 17, alice)'


def test_a_mig_device_has_a_load_of_its_own():
    machine = WatchedMachine(divided(0, mig(0, memory_used=0), mig(1, memory_used=3 * GB), memory_used=3 * GB))
    assert [found.load for found in machine.gpus(MEMORY)] == [None, '3.0 GB of memory in use by others']


def test_there_is_no_load_while_the_driver_does_not_answer():
    machine = WatchedMachine(gpu(0, memory_used=9 * GB, utilization=100.0))
    assert load(machine) is not None
    machine.driver = SILENT
    assert load(machine, only(busy_memory=GB, busy_utilization=1.0)) is None
