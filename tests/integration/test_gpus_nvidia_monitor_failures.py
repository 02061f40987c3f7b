"""GPUs under observation through the real nvidia-ml-py on the simulated driver: what fails, hangs and comes back."""

from __future__ import annotations

import pytest

from gpu_tracker.gpus.model import GpuProcess
from support.gpus.gpu_machine import GB
from support.gpus.gpu_monitors import Monitors
from support.gpus.gpu_readings import known, monitored
from support.simulated_nvml import Failure, Gpu, Hang, Process
from support.waiting import eventually

LOST = 'lost: fallen off the bus or otherwise out of reach (NVML code 15)'
NOT_PERMITTED = 'may not be read by this user (NVML code 4)'
NOT_KNOWN = 'cannot be read: unknown error of the NVIDIA driver (NVML code 999)'
NOT_FOUND = 'no longer known to the driver (NVML code 6)'
NEEDS_RESET = 'needs a reset before it can be used again (NVML code 16)'

FINE = monitored(None, 50, 0, GB, 5, (GpuProcess(7, 5, utilization=0, memory_utilization=0),))


def gpus(count: int = 1) -> list[Gpu]:
    return [Gpu(total=GB, used=5, util=50, processes=[Process(7, memory=5)])] * count


@pytest.mark.parametrize(
    ('functions', 'code', 'problem'),
    [
        ('nvmlDeviceGetMemoryInfo*', 999, NOT_KNOWN),
        ('nvmlDeviceGetMemoryInfo*', 4, NOT_PERMITTED),
        ('nvmlDeviceGetMemoryInfo*', 16, NEEDS_RESET),
        ('nvmlDeviceGetMigMode', 15, LOST),
        ('nvmlDevice*', 15, LOST),
        ('nvmlDevice*', 23, 'cannot be read (NVML code 23)'),
    ],
)
def test_a_gpu_that_fails_for_a_while(monitors: Monitors, functions: str, code: int, problem: str) -> None:
    monitors.begin(gpus=gpus(2))
    assert (monitors.look(0), monitors.look(1)) == (FINE, FINE)
    identity = monitors.identity()
    monitors.write(gpus=gpus(2), fail=[Failure(functions, code, gpu=0)])
    for _ in range(2):
        assert (monitors.look(0), monitors.look(1)) == (monitored(problem=problem), FINE)
    monitors.write(gpus=gpus(2))
    assert (monitors.look(0), monitors.look(1)) == (FINE, FINE)
    assert monitors.identity() == identity


@pytest.mark.parametrize(
    ('functions', 'code', 'problem'),
    [('nvmlDeviceGetHandleByIndex*', 4, NOT_PERMITTED), ('nvmlDeviceGetUUID', 999, NOT_KNOWN)],
)
def test_a_gpu_that_can_be_opened_only_later(monitors: Monitors, functions: str, code: int, problem: str) -> None:
    monitors.begin(gpus=gpus(2), fail=[Failure(functions, code, gpu=1)])
    assert (monitors.look(0), monitors.look(1)) == (FINE, monitored(problem=problem))
    assert (monitors.identity(0).uuid, monitors.identity(1).uuid) == ('GPU-00000000-0000-0000-0000-000000000000', None)
    monitors.write(gpus=gpus(2))
    assert monitors.look(1) == FINE
    assert monitors.identity(1)[:4] == (
        1,
        'GPU-00000000-0000-0000-0000-000000000001',
        'NVIDIA Simulated GPU',
        '00000000:02:00.0',
    )


def test_a_gpu_that_fails_is_opened_anew_and_others_are_not(monitors: Monitors) -> None:
    monitors.begin(gpus=gpus(2), fail=[Failure('nvmlDeviceGetMemoryInfo*', 999, gpu=0)])
    monitors.look(0)
    monitors.calls()
    monitors.look(0)
    assert monitors.calls() == [
        'GetHandleByIndex_v2',
        'GetUUID',
        'GetMigMode',
        'GetAccountingMode',
        'GetMemoryInfo_v2',
    ]


@pytest.mark.parametrize('code', [4, 15, 999])
def test_utilization_may_be_all_that_is_not_reported(monitors: Monitors, code: int) -> None:
    monitors.begin(gpus=gpus(), fail=[Failure('nvmlDeviceGetUtilizationRates', code)])
    gap = f'how busy it is is not reported (NVML code {code})'
    assert monitors.look() == FINE._replace(utilization=None, memory_utilization=None, gap=gap)
    monitors.write(gpus=gpus())
    assert monitors.look() == FINE


def test_a_lost_gpu_does_not_keep_another_from_coming_back(monitors: Monitors) -> None:
    lost = [Failure('nvmlDevice*', 15, gpu=0), Failure('nvmlDeviceGetHandleByUUID', 15)]  # nvml.h: if any GPU is lost
    monitors.begin(gpus=gpus(2))
    monitors.write(gpus=gpus(2), fail=[*lost, Failure('nvmlDeviceGetMemoryInfo*', 999, gpu=1)])
    assert [monitors.look(number).problem for number in range(2)] == [LOST, NOT_KNOWN]
    monitors.write(gpus=gpus(2), fail=lost)
    assert [monitors.look(number).problem for number in range(2)] == [LOST, None]


def test_a_gpu_that_hangs_leaves_the_others_alone(monitors: Monitors) -> None:
    monitors.begin(gpus=gpus(2))
    assert monitors.look(0) == FINE
    monitors.write(gpus=gpus(2), hang=[Hang('nvmlDeviceGetMemoryInfo*', gpu=0)])
    monitors.start_look(0)
    assert monitors.look(1) == FINE
    assert monitors.look(1) == FINE
    assert monitors.identity(0).lists_compute is True
    assert monitors.is_looking(0)
    monitors.write(gpus=gpus(2))
    assert eventually(lambda: not monitors.is_looking(0))
    assert monitors.seen(0) == FINE


def test_a_process_list_that_hangs_from_the_beginning_hangs_the_looks_at_its_gpu_alone(monitors: Monitors) -> None:
    # Were it read at the beginning, which ends as the hang does, the identity would know of it before the first look.
    monitors.begin(gpus=gpus(2), hang=[Hang('nvmlDeviceGet*RunningProcesses*', 60, gpu=0)])
    identity = known(0, 'GPU-00000000-0000-0000-0000-000000000000', '00000000:01:00.0', 'NVIDIA Simulated GPU')
    assert monitors.identity(0) == identity
    monitors.start_look(0)
    assert (monitors.look(1), monitors.lists(1)) == (FINE, (True, True))
    assert (monitors.is_looking(0), monitors.identity(0)) == (True, identity)
    monitors.write(gpus=gpus(2))
    assert monitors.seen(0) == FINE
    assert monitors.identity(0) == identity._replace(lists_compute=True, lists_graphics=True)


def test_a_gpu_that_moves_to_the_index_of_a_lost_one_is_not_taken_for_it(monitors: Monitors) -> None:
    lost = Gpu(uuid='GPU-a', pci='00000000:01:00.0', total=GB, used=5, util=50, processes=[Process(7, memory=5)])
    other = Gpu(uuid='GPU-b', pci='00000000:02:00.0', total=9, used=8, util=90, processes=[Process(8, memory=6)])
    figures_of_other = monitored(None, 90, 0, 9, 8, (GpuProcess(8, 6, utilization=0, memory_utilization=0),))
    monitors.begin(gpus=[lost, other])
    assert (monitors.look(0), monitors.look(1)) == (FINE, figures_of_other)
    identities = (monitors.identity(0), monitors.identity(1))
    monitors.write(gpus=[lost, other], fail=[Failure('nvmlDevice*', 15)])
    assert (monitors.look(0), monitors.look(1)) == (monitored(problem=LOST), monitored(problem=LOST))
    monitors.write(gpus=[other])
    for _ in range(2):
        assert (monitors.look(0), monitors.look(1)) == (monitored(problem=NOT_FOUND), figures_of_other)
        assert (monitors.identity(0), monitors.identity(1)) == identities
    monitors.write(gpus=[other, lost])
    assert (monitors.look(0), monitors.look(1)) == (FINE, figures_of_other)
    assert (monitors.identity(0), monitors.identity(1)) == identities


def test_a_gpu_that_replaces_a_lost_one_is_found(monitors: Monitors) -> None:
    old = Gpu(uuid='GPU-a', total=GB, processes=[Process(7, memory=5)])
    new = Gpu(uuid='GPU-b', total=GB, processes=[Process(8, memory=6)])
    process_of_new = GpuProcess(8, 6, utilization=0, memory_utilization=0)
    monitors.begin(gpus=[old])
    monitors.survey()
    monitors.write(gpus=[old], fail=[Failure('nvmlDevice*', 15, gpu=0)])
    assert monitors.survey() == [None]
    monitors.write(gpus=[new])
    assert monitors.survey() == [None]
    assert monitors.survey() == [[process_of_new]]


def test_gpus_looked_at_at_the_same_time_find_out_what_an_old_driver_can(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with Monitors(tmp_path_factory.mktemp('old'), generation=1) as old:
        old.write(gpus=gpus(8))
        old.open()
        for number in range(8):
            old.start_look(number)
        assert [old.seen(number) for number in range(8)] == [FINE] * 8
