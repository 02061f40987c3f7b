"""GPUs in MIG mode under observation through the real nvidia-ml-py on the simulated driver."""

from __future__ import annotations

from support.gpus.gpu_machine import GB
from support.gpus.gpu_monitors import Monitors, idle, unknown
from support.gpus.gpu_readings import changed, monitored
from support.simulated_nvml import WHOLE_GPU, Failure, Gpu, Mig, Process

LISTS = 'nvmlDeviceGet*RunningProcesses*'
NOT_SUPPORTED = 3


def test_processes_of_mig_devices_are_merged(monitors: Monitors) -> None:
    divided = Gpu(
        total=40 * GB,
        used=9 * GB,
        mig=[Mig(uuid='MIG-a', gi=1, total=20 * GB, used=8 * GB), Mig(uuid='MIG-b', gi=2, ci=3)],
        processes=[
            Process(7, memory=5, gi=1, ci=0),
            Process(7, memory=6, gi=2, ci=3, types='G'),
            Process(8, memory=None, gi=2, ci=3),
            Process(9, memory=7, gi=1, ci=0, types='CG'),
        ],
    )
    monitors.begin(gpus=[divided, Gpu(total=40 * GB, used=GB, mig=[])])
    assert monitors.lists() == (False, False)
    assert monitors.look(0) == monitored(
        memory_total=40 * GB,
        memory_used=9 * GB,
        processes=(
            unknown(7, 5, gpu_instance=1, compute_instance=0),
            unknown(8, None, gpu_instance=2, compute_instance=3),
            unknown(9, 7, draws=True, gpu_instance=1, compute_instance=0),
            unknown(7, 6, computes=False, draws=True, gpu_instance=2, compute_instance=3),
        ),
    )
    assert monitors.lists() == (True, True)
    assert monitors.look(1) == monitored(memory_total=40 * GB, memory_used=GB, processes=())
    monitors.calls()
    monitors.look(0)
    assert not {'GetUtilizationRates', 'GetProcessUtilization'} & set(monitors.calls())


def test_mig_devices_list_their_processes_where_their_gpu_does_not(monitors: Monitors) -> None:
    divided = Gpu(mig=[Mig(uuid='MIG-a', gi=1)], processes=[Process(7, memory=5, gi=1, ci=0)])
    monitors.begin(
        gpus=[divided] * 4,
        fail=[
            Failure(LISTS, 4, gpu=0, mig=WHOLE_GPU),
            Failure(LISTS, NOT_SUPPORTED, gpu=1, mig=WHOLE_GPU),
            Failure(LISTS, NOT_SUPPORTED, gpu=2, mig=0),
            Failure(LISTS, 4, gpu=3, mig=0),
        ],
    )
    listed = ((unknown(7, 5, gpu_instance=1, compute_instance=0),), (), None)
    assert [monitors.occupation(number) for number in range(4)] == [listed] * 4


def test_processes_are_unknown_if_neither_the_gpu_nor_all_mig_devices_list_them(monitors: Monitors) -> None:
    parts = [Mig(uuid='MIG-a', gi=1), Mig(uuid='MIG-b', gi=2)]
    divided = Gpu(mig=parts, processes=[Process(7, memory=5, gi=1, ci=0), Process(8, memory=6, gi=2, ci=0)])
    monitors.begin(gpus=[divided], fail=[Failure(LISTS, 4, mig=WHOLE_GPU), Failure(LISTS, 4, mig=1)])
    assert monitors.occupation() == (None, (), 'its processes cannot be listed (NVML code 4)')


def test_a_gpu_whose_mig_mode_changes(monitors: Monitors) -> None:
    whole = Gpu(total=GB, used=0, util=50, processes=[Process(7, memory=5)], accounting=1)
    divided = Gpu(
        total=GB, used=0, mig=[Mig(uuid='MIG-a', gi=1)], processes=[Process(7, memory=5, gi=1, ci=0)], accounting=0
    )
    without_account = idle(7, 5)._replace(account=[None, None])  # as JSON has it
    monitors.begin(gpus=[whole])
    for gpu, activity, accounts in [
        (whole, monitored(None, 50, 0, GB, 0, (without_account,)), True),
        (divided, monitored(None, None, None, GB, 0, (unknown(7, 5, gpu_instance=1, compute_instance=0),)), False),
        (whole, monitored(None, 50, 0, GB, 0, (without_account,)), True),
    ]:
        monitors.write(gpus=[gpu])
        assert monitors.look() == activity
        assert monitors.identity().keeps_accounts is accounts


def test_the_memory_of_a_divided_gpu_may_be_hidden_from_a_user_who_can_use_its_parts(monitors: Monitors) -> None:
    divided = Gpu(
        total=40 * GB,
        used=9 * GB,
        util=50,
        mig=[Mig(uuid='MIG-a', gi=1), Mig(uuid='MIG-b', gi=2)],
        processes=[Process(7, memory=5, gi=1, ci=0, sm=40), Process(8, memory=6, gi=2, ci=0, types='G')],
    )
    hidden = [Failure('nvmlDeviceGetMemoryInfo*', 4, mig=WHOLE_GPU), Failure(LISTS, 4, gpu=1, mig=WHOLE_GPU)]
    monitors.begin(gpus=[divided, divided], fail=hidden)
    expected = monitored(
        processes=(
            unknown(7, 5, gpu_instance=1, compute_instance=0),
            unknown(8, 6, computes=False, draws=True, gpu_instance=2, compute_instance=0),
        )
    )
    for _ in range(2):
        assert (monitors.look(0), monitors.look(1)) == (expected, expected)
    assert not [call for call in monitors.calls() if 'GetHandleBy' in call]
    monitors.write(gpus=[divided, divided])
    known = changed(expected, memory_total=40 * GB, memory_used=9 * GB)
    assert (monitors.look(0), monitors.look(1)) == (known, known)


def test_memory_of_a_divided_gpu_is_only_unknown_unless_the_gpu_is_lost(monitors: Monitors) -> None:
    divided = Gpu(total=GB, mig=[Mig(uuid='MIG-a', gi=1)], processes=[Process(7, memory=5, gi=1, ci=0)])
    memory = 'nvmlDeviceGetMemoryInfo*'
    monitors.begin(gpus=[divided] * 3, fail=[Failure(memory, 15, gpu=0), Failure(memory, 999, gpu=1)])
    process = unknown(7, 5, gpu_instance=1, compute_instance=0)
    assert [monitors.look(number) for number in range(3)] == [
        monitored(problem='lost: fallen off the bus or otherwise out of reach (NVML code 15)'),
        monitored(processes=(process,)),
        monitored(memory_total=GB, memory_used=0, processes=(process,)),
    ]
