"""GpuSource with the real nvidia-ml-py on the simulated driver: the figures of GPUs that answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.simulated_nvml import Account, Gpu, Mig, Process, SimulatedDriver
from support.simulated_nvml.probe import Probe, until

if TYPE_CHECKING:
    from pathlib import Path

GB = 10**9


def memory_of_tree(totals: dict[str, object]) -> tuple[object, object, object]:
    return totals['main'], totals['descendants'], totals['combined']


def test_memory_of_the_machine_and_of_the_tree(driver: SimulatedDriver) -> None:
    driver.write(
        gpus=[
            Gpu(total=8 * GB, used=3 * GB, processes=[Process(11, memory=GB), Process(12, memory=2 * GB)]),
            Gpu(total=4 * GB, used=GB, processes=[Process(12, memory=300), Process(99, memory=GB - 300)]),
        ]
    )
    with Probe(driver.environment()) as probe:
        probe.begin('11 12,13')
        totals = probe.finish()
        assert probe.messages() == []
    assert (totals['count'], totals['expected']) == (2, 2)
    assert (totals['capacity'], totals['system']) == (12 * GB, 4 * GB)
    assert memory_of_tree(totals) == (GB, 2 * GB + 300, 3 * GB + 300)


def test_maxima_stay_and_each_is_its_own(driver: SimulatedDriver) -> None:
    def state(main: int, child: int) -> list[Gpu]:
        return [Gpu(total=100, used=main + child, processes=[Process(11, memory=main), Process(12, memory=child)])]

    driver.write(gpus=state(50, 10))
    with Probe(driver.environment()) as probe:
        probe.begin('11 12')
        until(lambda: probe.totals()['main'] == 50)
        driver.write(gpus=state(20, 30))
        until(lambda: probe.totals()['descendants'] == 30)
        driver.write(gpus=state(1, 1))
        assert memory_of_tree(probe.finish()) == (50, 30, 60)


def test_a_process_in_both_lists_counts_once(driver: SimulatedDriver) -> None:
    driver.write(gpus=[Gpu(total=100, used=40, processes=[Process(11, memory=30, types='CG')])], duplicates=True)
    with Probe(driver.environment()) as probe:
        probe.begin('11')
        assert memory_of_tree(probe.finish()) == (30, 0, 30)


def test_mig_instances_of_a_process_are_summed_and_utilization_is_unknown(driver: SimulatedDriver) -> None:
    driver.write(
        gpus=[
            Gpu(
                total=100,
                used=40,
                util=50,
                mig=[Mig(uuid='MIG-a', gi=1), Mig(uuid='MIG-b', gi=2)],
                processes=[Process(11, memory=10, gi=1, ci=0), Process(11, memory=20, gi=2, ci=0)],
            )
        ]
    )
    with Probe(driver.environment()) as probe:
        probe.begin('11')
        totals = probe.finish()
        messages = probe.messages()
    assert memory_of_tree(totals) == (30, 0, 30)
    assert (totals['system'], totals['max_sum'], totals['mean_sum']) == (40, None, None)
    uuid = 'GPU-00000000-0000-0000-0000-000000000000'
    assert messages == [['info', f'GPU 0 ({uuid}) does not report its utilization.']]


@pytest.mark.parametrize(('generation', 'system'), [(1, 40), (2, 45)])
def test_drivers_of_older_generations(tmp_path: Path, generation: int, system: int) -> None:
    driver = SimulatedDriver(tmp_path, generation)
    driver.write(gpus=[Gpu(total=100, used=40, reserved=5, processes=[Process(11, memory=30)])])
    with Probe(driver.environment()) as probe:
        probe.begin('11')
        totals = probe.finish()
        messages = probe.messages()
    assert totals['system'] == system  # version 1 of the call counts what the driver reserves
    if generation == 1:
        assert (memory_of_tree(totals), messages) == ((30, 0, 30), [])
    else:
        text = 'This machine has an NVIDIA driver too old for a call that gpu-tracker needs (NVML code 13); '
        assert memory_of_tree(totals) == (None, None, None)
        assert messages == [['warning', text + 'some figures are unknown. See "gpu-tracker explain driver-too-old".']]


def test_values_that_a_gpu_does_not_support(driver: SimulatedDriver) -> None:
    driver.write(gpus=[Gpu(uuid='GPU-a', total=None, used=None, util=None, processes=[Process(11, memory=30)])])
    with Probe(driver.environment()) as probe:
        probe.begin('11')
        totals = probe.finish()
        messages = probe.messages()
    assert (totals['count'], totals['capacity'], totals['system']) == (1, None, None)
    assert (totals['max_sum'], totals['mean_sum']) == (None, None)
    assert memory_of_tree(totals) == (30, 0, 30)
    assert sorted(messages) == [
        ['info', 'GPU 0 (GPU-a) does not report its memory.'],
        ['info', 'GPU 0 (GPU-a) does not report its utilization.'],
    ]


def test_a_total_of_zero_is_unified_memory_of_unknown_size(driver: SimulatedDriver) -> None:
    driver.write(gpus=[Gpu(total=0, used=0)])
    with Probe(driver.environment()) as probe:
        probe.begin()
        totals = probe.finish()
    assert (totals['capacity'], totals['system']) == (None, None)


def test_memory_that_the_driver_does_not_know_of_one_process(driver: SimulatedDriver) -> None:
    driver.write(gpus=[Gpu(total=100, used=40, processes=[Process(11, memory=30), Process(12), Process(99)])])
    with Probe(driver.environment()) as probe:
        probe.begin('11 12')
        assert memory_of_tree(probe.finish()) == (30, None, 30)  # a lower bound


def test_memory_that_the_driver_does_not_know_of_a_stranger_matters_not(driver: SimulatedDriver) -> None:
    driver.write(gpus=[Gpu(total=100, used=40, processes=[Process(11, memory=30), Process(99)])])
    with Probe(driver.environment()) as probe:
        probe.begin('11')
        assert memory_of_tree(probe.finish()) == (30, 0, 30)


def test_utilization_is_summed_over_the_gpus(driver: SimulatedDriver) -> None:
    driver.write(gpus=[Gpu(util=40), Gpu(util=35)], garbage=True)
    with Probe(driver.environment()) as probe:
        probe.begin()
        start = len(driver.calls())
        until(lambda: driver.calls()[start:].count('nvmlDeviceGetSamples') > 20)
        totals = probe.finish()
    assert (totals['max_sum'], totals['mean_sum']) == (75.0, 75.0)


def test_utilization_of_the_expected_gpus_only(driver: SimulatedDriver) -> None:
    driver.write(gpus=[Gpu(uuid='GPU-a', util=40), Gpu(uuid='GPU-b', util=35), Gpu(uuid='GPU-c', util=1)])
    with Probe(driver.environment()) as probe:
        probe.begin(start='start 0.1 GPU-b,GPU-c')
        totals = probe.finish()
    assert (totals['count'], totals['expected']) == (3, 2)
    assert (totals['max_sum'], totals['mean_sum']) == (36.0, 36.0)


def test_a_gpu_without_samples_is_asked_for_its_utilization_of_now(driver: SimulatedDriver) -> None:
    driver.write(gpus=[Gpu(util=40, samples=False)])
    with Probe(driver.environment()) as probe:
        probe.begin()
        until(lambda: driver.calls().count('nvmlDeviceGetUtilizationRates') > 5)
        totals = probe.finish()
    assert (totals['max_sum'], totals['mean_sum']) == (40.0, 40.0)


def test_no_gpus_at_all(driver: SimulatedDriver) -> None:
    driver.write(gpus=[])
    with Probe(driver.environment()) as probe:
        probe.begin('11')
        totals = probe.finish()
        assert probe.messages() == []
    assert totals == {
        'count': 0,
        'expected': 0,
        'capacity': 0,
        'system': 0,
        'main': 0,
        'descendants': 0,
        'combined': 0,
        'max_sum': 0.0,
        'mean_sum': 0.0,
        'devices': [],
        'missed': [],
    }


def test_an_unknown_uuid_is_named_with_those_that_exist(driver: SimulatedDriver) -> None:
    driver.write(gpus=[Gpu(uuid='GPU-a'), Gpu(uuid='GPU-b')])
    with Probe(driver.environment()) as probe:
        probe.begin(start='start 0.1 GPU-b,GPU-x')
        assert probe.ask('error') == ('UUIDs of GPUs of this machine (GPU-a, GPU-b)')


def test_peaks_between_two_readings_from_accounting_mode(driver: SimulatedDriver) -> None:
    def state(processes: list[Process], *accounts: Account) -> list[Gpu]:
        return [Gpu(total=1000, used=100, accounting=1, processes=processes, accounts=list(accounts))]

    old = Process(11, memory=10)
    driver.write(gpus=state([old], Account(pid=11, max_memory=500)))
    with Probe(driver.environment()) as probe:
        probe.begin('11 12', start='start 3600')  # no reading sees two of the states
        probe.ask('read')
        until(lambda: probe.totals()['main'] == 10)  # its 500 were before the start
        driver.write(
            gpus=state([old, Process(12, memory=20)], Account(pid=11, max_memory=500), Account(pid=12, max_memory=70))
        )
        probe.ask('read')
        until(lambda: memory_of_tree(probe.totals()) == (10, 70, 80))
        driver.write(gpus=state([], Account(pid=11, max_memory=600), Account(pid=12, max_memory=75)))
        assert memory_of_tree(probe.finish()) == (600, 75, 600)


def test_accounting_mode_is_never_switched_on(driver: SimulatedDriver) -> None:
    account = Account(pid=11, max_memory=500)
    driver.write(gpus=[Gpu(total=100, used=30, accounting=0, processes=[Process(11, memory=30)], accounts=[account])])
    with Probe(driver.environment()) as probe:
        probe.begin('11')
        assert memory_of_tree(probe.finish()) == (30, 0, 30)
    assert not any(name.startswith(('nvmlDeviceSet', 'nvmlDeviceGetAccountingStats')) for name in driver.calls())


@pytest.mark.parametrize(
    'processes',
    [
        pytest.param([Process(4_100_000, memory=500_000_000)], id="the machine's process IDs"),
        pytest.param([Process(11, memory=0)], id="the container's, without memory"),
    ],
)
def test_a_container_that_is_not_told_whose_memory_it_is(driver: SimulatedDriver, processes: list[Process]) -> None:
    driver.write(gpus=[Gpu(total=GB, used=500_000_000, processes=processes)])
    with Probe(driver.environment(), container='11,12') as probe:
        probe.begin('11 12')
        totals = probe.finish()
        messages = probe.messages()
    assert (totals['system'], memory_of_tree(totals)) == (500_000_000, (None, None, None))
    assert messages == [
        [
            'warning',
            (
                'The GPU driver does not tell which process of this container uses how much GPU memory, so the GPU '
                "memory of the processes is unknown. A container that shares the machine's process IDs would know it: "
                'docker run --pid=host, or hostPID: true in a pod of Kubernetes. '
                'See "gpu-tracker explain container-gpu-memory".'
            ),
        ]
    ]


def test_a_container_whose_own_process_ids_the_driver_knows(driver: SimulatedDriver) -> None:
    processes = [Process(11, memory=300_000_000), Process(4_100_000, memory=200_000_000)]
    driver.write(gpus=[Gpu(total=GB, used=500_000_000, processes=processes)])
    with Probe(driver.environment(), container='11,12') as probe:
        probe.begin('11 12')
        assert memory_of_tree(probe.finish()) == (300_000_000, 0, 300_000_000)
        assert probe.messages() == []
