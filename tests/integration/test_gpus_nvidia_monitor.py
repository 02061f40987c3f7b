"""GPUs under observation through the real nvidia-ml-py on the simulated driver: what they are and who is on them."""

from __future__ import annotations

import pytest

from gpu_tracker.gpus.model import GpuProcess
from support.gpus.gpu_machine import GB, GIB
from support.gpus.gpu_monitors import Monitors, idle, unknown
from support.gpus.gpu_readings import known, monitored
from support.simulated_nvml import Failure, Gpu, Process

LISTS = 'nvmlDeviceGet*RunningProcesses*'
COMPUTE = 'nvmlDeviceGetComputeRunningProcesses*'
GRAPHICS = 'nvmlDeviceGetGraphicsRunningProcesses*'
NOT_SUPPORTED = 3


def test_all_that_a_look_shows(monitors: Monitors) -> None:
    monitors.begin(
        gpus=[
            Gpu(
                uuid='GPU-a',
                name='NVIDIA H200',
                pci='00000000:3B:00.0',
                total=40 * GIB,
                used=10 * GIB,
                reserved=GIB,
                util=97,
                memory_util=41,
                processes=[
                    Process(7, memory=GIB, sm=60, memory_util=30),
                    Process(8, memory=None, types='G'),
                    Process(9, memory=2 * GIB, types='CG'),
                ],
            )
        ]
    )
    identity = known(
        number=0,
        uuid='GPU-a',
        pci_bus_id='00000000:3B:00.0',
        name='NVIDIA H200',
        lists_compute=False,  # not known before the first look
        lists_graphics=False,
        keeps_accounts=False,
    )
    assert monitors.identity() == identity
    assert monitors.look() == monitored(
        problem=None,
        utilization=97,
        memory_utilization=41,
        memory_total=42_949_672_960,
        memory_used=10_737_418_240,
        processes=(
            GpuProcess(7, 1_073_741_824, computes=True, draws=False, utilization=60, memory_utilization=30),
            GpuProcess(9, 2_147_483_648, computes=True, draws=True, utilization=0, memory_utilization=0),
            GpuProcess(8, None, computes=False, draws=True, utilization=0, memory_utilization=0),
        ),
        ended=(),
        gap=None,
    )
    assert monitors.identity() == identity._replace(lists_compute=True, lists_graphics=True)


def test_a_look_asks_for_nothing_that_it_need_not_know(monitors: Monitors) -> None:
    idle_gpu = Gpu(total=GB, accounting=0)
    monitors.begin(gpus=[idle_gpu, Gpu(total=GB, accounting=0, processes=[Process(7, sm=1)])])
    monitors.look(0)
    assert monitors.calls() == [
        'GetMigMode',
        'GetMemoryInfo_v2',
        'GetComputeRunningProcesses_v3',
        'GetGraphicsRunningProcesses_v3',
        'GetUtilizationRates',
    ]
    monitors.look(1)
    assert monitors.calls() == [
        'GetMigMode',
        'GetMemoryInfo_v2',
        'GetComputeRunningProcesses_v3',  # how many there are
        'GetComputeRunningProcesses_v3',
        'GetGraphicsRunningProcesses_v3',
        'GetProcessUtilization',  # how many there may be
        'GetProcessUtilization',
        'GetUtilizationRates',
    ]


def test_gpus_stand_in_the_order_of_the_pci_bus_and_lost_ones_keep_their_place(monitors: Monitors) -> None:
    gpus = [
        Gpu(uuid='GPU-c', pci='00000000:81:00.0', util=30),
        Gpu(uuid='GPU-lost', pci='00000000:01:00.0', missing=True),
        Gpu(uuid='GPU-d', pci='00010000:01:00.0', util=40),
        Gpu(uuid='GPU-b', pci='00000000:0A:1F.0', util=20),
        Gpu(uuid='GPU-a', pci='00000000:0A:02.0', util=10),
    ]
    monitors.write(gpus=gpus)
    assert monitors.open() == 5
    assert [
        (monitors.identity(n).number, monitors.identity(n).uuid, monitors.look(n).utilization) for n in range(5)
    ] == [
        (0, 'GPU-a', 10),
        (1, None, None),
        (2, 'GPU-b', 20),
        (3, 'GPU-c', 30),
        (4, 'GPU-d', 40),
    ]
    assert monitors.identity(1) == known(1)
    gpus[1] = Gpu(uuid='GPU-found', pci='00000000:01:00.0', util=50)
    monitors.write(gpus=gpus)
    assert (monitors.look(1).utilization, monitors.look(0).utilization) == (50, 10)
    assert monitors.identity(1) == known(
        1, 'GPU-found', '00000000:01:00.0', 'NVIDIA Simulated GPU', lists_compute=True, lists_graphics=True
    )


def test_figures_that_are_not_supported_or_cannot_be_are_unknown(monitors: Monitors) -> None:
    monitors.begin(
        gpus=[
            Gpu(total=None, util=5, memory_util=6),
            Gpu(total=0, util=101, memory_util=100),
            Gpu(total=GB, used=2 * GB, util=100, memory_util=3_000_000_000),
            Gpu(total=GB, used=GB, util=None),
        ]
    )
    assert [monitors.figures(number) for number in range(4)] == [
        (None, 5, 6, None, None),
        (None, None, 100, None, None),
        (None, 100, None, None, None),
        (None, None, None, GB, GB),
    ]


def test_a_process_that_the_driver_lists_twice_is_one(monitors: Monitors) -> None:
    monitors.begin(
        gpus=[Gpu(processes=[Process(7, memory=5, types='CM'), Process(8, memory=6, types='CG')])], duplicates=True
    )
    assert monitors.look().processes == (idle(7, 5), idle(8, 6, draws=True))


def test_a_gpu_that_supports_one_list_gives_that_one_and_is_not_asked_for_the_other_again(monitors: Monitors) -> None:
    processes = [Process(7, memory=5), Process(8, memory=6, types='G'), Process(9, memory=7, types='CG')]
    monitors.begin(
        gpus=[Gpu(processes=processes)] * 3,
        fail=[
            Failure(GRAPHICS, NOT_SUPPORTED, gpu=0),
            Failure(COMPUTE, NOT_SUPPORTED, gpu=1),
            Failure(LISTS, NOT_SUPPORTED, gpu=2),
        ],
    )
    compute, graphics = 'GetComputeRunningProcesses_v3', 'GetGraphicsRunningProcesses_v3'
    first = [compute, compute, graphics, compute, graphics, graphics, compute, graphics]
    later = [compute, compute, graphics, graphics]
    for calls in (first, later, later):
        assert [monitors.occupation(number) for number in range(3)] == [
            ((idle(7, 5), idle(9, 7)), (), None),
            ((idle(8, 6, computes=False, draws=True), idle(9, 7, computes=False, draws=True)), (), None),
            (None, (), None),
        ]
        assert [call for call in monitors.calls() if 'Running' in call] == calls
        assert [monitors.lists(number) for number in range(3)] == [(True, False), (False, True), (False, False)]


def test_a_gpu_that_is_opened_anew_is_asked_for_both_lists_again(monitors: Monitors) -> None:
    gpus = [Gpu(processes=[Process(7, memory=5, types='CG')])]
    monitors.begin(gpus=gpus, fail=[Failure(GRAPHICS, NOT_SUPPORTED)])
    assert monitors.look().processes == (idle(7, 5),)
    assert monitors.identity().lists_graphics is False
    monitors.write(gpus=gpus, fail=[Failure('nvmlDeviceGetMemoryInfo*', 999)])
    assert monitors.look().processes is None
    monitors.write(gpus=gpus)
    assert monitors.look().processes == (idle(7, 5, draws=True),)
    assert monitors.identity().lists_graphics is True


@pytest.mark.parametrize('code', [4, 15, 999])
@pytest.mark.parametrize('functions', [LISTS, COMPUTE, GRAPHICS])
def test_processes_that_are_not_listed_are_unknown_and_nothing_else_is(
    monitors: Monitors, functions: str, code: int
) -> None:
    gpus = [Gpu(total=GB, used=5, util=40, processes=[Process(7, memory=5)])]
    not_listed = monitored(
        utilization=40,
        memory_utilization=0,
        memory_total=GB,
        memory_used=5,
        processes=None,
        gap=f'its processes cannot be listed (NVML code {code})',
        lists_failed=True,
    )
    listed = monitored(None, 40, 0, GB, 5, (idle(7, 5),))
    monitors.begin(gpus=gpus, fail=[Failure(functions, code)])
    assert (monitors.look(), monitors.lists()) == (not_listed, (False, False))
    monitors.write(gpus=gpus)
    assert (monitors.look(), monitors.lists()) == (listed, (True, True))
    monitors.write(gpus=gpus, fail=[Failure(functions, code)])
    assert (monitors.look(), monitors.lists()) == (not_listed, (True, True))
    monitors.write(gpus=gpus)
    assert (monitors.look(), monitors.lists()) == (listed, (True, True))


def test_how_busy_processes_are_may_be_all_that_is_not_told(monitors: Monitors) -> None:
    busy = Gpu(total=GB, used=5, util=40, processes=[Process(7, memory=5, sm=30)])
    empty = Gpu(total=GB, used=5, util=40)
    monitors.begin(gpus=[busy, empty], fail=[Failure('nvmlDeviceGetProcessUtilization', 4)])
    gap = 'how busy processes are is not reported (NVML code 4)'
    assert (monitors.look(0), monitors.look(1)) == (
        monitored(None, 40, 0, GB, 5, (unknown(7, 5),), gap=gap),
        monitored(None, 40, 0, GB, 5, ()),
    )


@pytest.mark.parametrize(
    ('generation', 'processes', 'lists'),
    [(1, (idle(7, 5), idle(8, 6, draws=True)), (True, True)), (2, None, (False, False))],
    ids=['before 2021', 'before 2020'],
)
def test_old_drivers(
    tmp_path_factory: pytest.TempPathFactory,
    generation: int,
    processes: tuple[GpuProcess, ...] | None,
    lists: tuple[bool, bool],
) -> None:
    with Monitors(tmp_path_factory.mktemp('old'), generation=generation) as monitors:
        listed = [Process(7, memory=5), Process(8, memory=6, types='CG')]
        monitors.begin(gpus=[Gpu(total=GB, used=5, reserved=2, util=50, processes=listed)])
        used = 5 if generation == 1 else 7  # without the second version of the call what is reserved counts as used
        assert monitors.look() == monitored(None, 50, 0, GB, used, processes)
        assert monitors.lists() == lists
