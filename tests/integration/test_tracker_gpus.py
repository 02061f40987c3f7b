"""The whole way from the simulated driver's state to the report: tracker, sampler, driver thread, nvidia-ml-py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest

import gpu_tracker
from support.simulated_nvml import Failure, Gpu, Hang, Mig, Process, SimulatedDriver
from support.simulated_nvml.probe import until
from support.waiting import TIMEOUT

GIB = 2**30
PACKAGE_PARENT = str(Path(gpu_tracker.__file__).parents[1])

PROGRAM = """
import json, os, subprocess, sys
import gpu_tracker as gput

child = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'], stdin=subprocess.PIPE)
print(json.dumps([os.getpid(), child.pid]), flush=True)
input()
tracker = gput.Tracker(sleep_time=0.1, gpu_ram_unit='bytes', time_unit='seconds', **json.loads(sys.argv[1]))
tracker.start()
print('started', flush=True)
input()
tracker.stop()
child.communicate()
print(json.dumps(tracker.to_json()), flush=True)
"""


class Program:
    """A program with a child, on a simulated driver, that is tracked from one line that it is told to the next."""

    def __init__(self, driver: SimulatedDriver, environment: dict[str, str] | None = None, **options: object) -> None:
        variables = {**os.environ, **driver.environment(), 'PYTHONPATH': PACKAGE_PARENT, **(environment or {})}
        self._process = subprocess.Popen(
            [sys.executable, '-c', PROGRAM, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=variables,
        )
        self.pid, self.child_pid = json.loads(self._line())

    def start(self) -> None:
        self._say()
        assert self._line() == 'started\n'

    def stop(self) -> dict:
        self._say()
        output, self.errors = self._process.communicate(timeout=TIMEOUT)
        return json.loads(output)

    def fail(self) -> str:
        """Make a tracker, and return the last line of the traceback."""
        _, errors = self._process.communicate('\n', timeout=TIMEOUT)
        return errors.splitlines()[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def _say(self) -> None:
        self._process.stdin.write('\n')
        self._process.stdin.flush()

    def _line(self) -> str:
        return self._process.stdout.readline()


def read_again(driver: SimulatedDriver) -> None:
    """Wait until two GPUs were read twice more: the second of these readings began after this was called."""

    def readings() -> int:
        return driver.calls().count('nvmlDeviceGetMemoryInfo_v2')

    before = readings()
    until(lambda: readings() >= before + 5)


def test_the_report_says_what_two_gpus_did_under_a_program_with_a_child(driver):
    driver.write(gpus=[Gpu(uuid='GPU-a', total=8 * GIB), Gpu(uuid='GPU-b', total=16 * GIB)])
    with Program(driver) as program:

        def gpus(*used: int, main: tuple[int, int], child: tuple[int, int], util: tuple[int, int]) -> list[Gpu]:
            return [
                Gpu(
                    uuid=f'GPU-{"ab"[index]}',
                    total=(8, 16)[index] * GIB,
                    used=used[index],
                    util=util[index],
                    processes=[
                        Process(program.pid, memory=main[index]),
                        Process(program.child_pid, memory=child[index]),
                        Process(1, memory=GIB // 2),
                    ],
                )
                for index in range(2)
            ]

        driver.write(gpus=gpus(3 * GIB, GIB, main=(GIB, 0), child=(GIB, 0), util=(40, 0)))
        program.start()
        read_again(driver)
        driver.write(gpus=gpus(5 * GIB, 6 * GIB, main=(3 * GIB, GIB), child=(GIB, 2 * GIB), util=(90, 80)))
        read_again(driver)
        driver.write(gpus=gpus(GIB, 2 * GIB, main=(0, GIB), child=(0, 4 * GIB), util=(0, 10)))
        read_again(driver)
        report = program.stop()

    assert report['max_gpu_ram'] == {
        'unit': 'bytes',
        'system_capacity': 24.0 * GIB,
        'system': 11.0 * GIB,
        'main': 4.0 * GIB,
        'descendants': 4.0 * GIB,
        'combined': 7.0 * GIB,
    }
    utilization = report['gpu_utilization']
    assert utilization['system_gpu_count'] == 2
    assert utilization['n_expected_gpus'] == 2
    percentages = utilization['gpu_percentages']
    assert percentages['max_sum_percent'] == 170.0
    assert percentages['max_hardware_percent'] == 85.0
    assert 10.0 <= percentages['mean_sum_percent'] <= 170.0
    assert percentages['mean_hardware_percent'] == percentages['mean_sum_percent'] / 2
    assert program.errors == ''


def test_uuids_restrict_the_utilization_only(driver):
    driver.write(gpus=[Gpu(uuid='GPU-a', total=GIB, used=100, util=30), Gpu(uuid='GPU-b', total=GIB, used=7, util=50)])
    with Program(driver, gpu_uuids=['GPU-b']) as program:
        program.start()
        read_again(driver)
        report = program.stop()
    assert report['max_gpu_ram']['system_capacity'] == 2.0 * GIB
    assert report['max_gpu_ram']['system'] == 107.0
    assert report['gpu_utilization'] == {
        'system_gpu_count': 2,
        'n_expected_gpus': 1,
        'gpu_percentages': {
            'max_sum_percent': 50.0,
            'max_hardware_percent': 50.0,
            'mean_sum_percent': 50.0,
            'mean_hardware_percent': 50.0,
        },
    }


def test_an_unknown_uuid_is_a_value_error(driver):
    driver.write(gpus=[Gpu(uuid='GPU-a', total=GIB)])
    with Program(driver, gpu_uuids=['GPU-a', 'GPU-x']) as program:
        assert program.fail() == (
            'gpu_tracker.errors.ParameterError: gpu_uuids must be UUIDs of GPUs of this machine (GPU-a), '
            "not ['GPU-a', 'GPU-x']. \"gpu-tracker gpus --json\" lists them; without a GPU leave it out. "
            'See "gpu-tracker explain gpu-uuids".'
        )


@pytest.mark.parametrize('options', [{}, {'gpu_uuids': ['GPU-x']}], ids=['all GPUs', 'an unknown UUID'])
def test_a_driver_that_fails_costs_the_gpu_figures_only_and_one_warning(driver, options):
    driver.write(gpus=[Gpu(uuid='GPU-a', total=GIB)], fail=[Failure('nvmlInit*', 999)])
    with Program(driver, **options) as program:
        program.start()
        report = program.stop()
    assert set(report['max_gpu_ram'].values()) == {'bytes', None}
    assert report['gpu_utilization']['system_gpu_count'] is None
    assert report['max_ram']['main']['total_rss'] > 0
    assert len(program.errors.splitlines()) == 1


def test_a_driver_that_hangs_delays_neither_start_nor_stop_and_its_figures_are_unknown(driver):
    driver.write(gpus=[Gpu(uuid='GPU-a', total=GIB)], hang=[Hang('nvmlInit*')])
    with Program(driver) as program:
        program.start()
        report = program.stop()
    assert report['max_gpu_ram']['main'] is None
    assert report['cpu_utilization']['main']['mean_sum_percent'] is not None
    assert program.errors == (
        'The GPU driver has not answered for 2 s; GPU figures are unknown, or lower bounds, until it does.\n'
    )


def test_a_gpu_that_is_lost_while_tracking_leaves_what_was_seen_before(driver):
    gpus = [Gpu(uuid='GPU-a', total=GIB, used=100), Gpu(uuid='GPU-b', total=GIB, used=7)]
    driver.write(gpus=gpus)
    with Program(driver) as program:
        program.start()
        read_again(driver)
        driver.write(gpus=gpus, fail=[Failure('nvmlDevice*', 15, gpu=1)])
        read_again(driver)
        report = program.stop()
    assert report['max_gpu_ram']['system'] == 107.0
    assert report['max_gpu_ram']['system_capacity'] == 2.0 * GIB
    assert len(program.errors.splitlines()) == 1


def gpu_use(report: dict) -> list[tuple[object, ...]]:
    """Return of each GPU its index, memory, utilization, own utilization and whether others used it."""
    return [
        (
            gpu['index'],
            gpu['max_ram'],
            gpu['utilization']['max_percent'],
            gpu['own_utilization'],
            gpu['others_used_it'],
        )
        for gpu in report['gpus']
    ]


def test_the_gpus_of_a_run_beside_the_gpu_of_a_neighbour(driver):
    idle, taken = Gpu(total=8 * GIB), Gpu(total=8 * GIB, used=5, util=90, processes=[Process(1, memory=5, sm=90)])
    driver.write(gpus=[taken, idle, idle])
    with Program(driver) as program:
        ours = Process(program.pid, memory=40, sm=30), Process(program.child_pid, memory=20, sm=18)
        driver.write(gpus=[taken, Gpu(total=8 * GIB, used=70, util=50, processes=[*ours]), idle])
        program.start()
        read_again(driver)
        report = program.stop()
    assert gpu_use(report) == [
        (
            1,
            {'system': 70.0, 'main': 40.0, 'descendants': 20.0, 'combined': 60.0},
            50.0,
            {'max_percent': 48.0, 'mean_percent': pytest.approx(48.0)},
            False,
        )
    ]
    assert report['gpus'][0]['capacity'] == 8.0 * GIB
    assert 'lower_bounds' not in report or not any('gpu' in path for path in report['lower_bounds'])


def test_visible_gpus_that_a_run_left_unused_are_listed(driver):
    driver.write(gpus=[Gpu(total=GIB), Gpu(total=GIB), Gpu(total=GIB)])
    with Program(driver, environment={'CUDA_VISIBLE_DEVICES': '2'}) as program:
        program.start()
        read_again(driver)
        report = program.stop()
    unused = {'system': 0.0, 'main': 0.0, 'descendants': 0.0, 'combined': 0.0}
    assert gpu_use(report) == [(2, unused, 0.0, {'max_percent': 0.0, 'mean_percent': 0.0}, False)]


def test_a_gpu_of_which_a_mig_device_is_visible_and_unused_is_listed(driver):
    parts = [Mig(uuid='MIG-a', gi=1), Mig(uuid='MIG-b', gi=2)]
    driver.write(gpus=[Gpu(total=GIB), Gpu(total=GIB, mig=parts)])
    with Program(driver, environment={'CUDA_VISIBLE_DEVICES': 'MIG-b'}) as program:
        program.start()
        read_again(driver)
        report = program.stop()
    assert [(gpu['index'], gpu['max_ram']['combined']) for gpu in report['gpus']] == [(1, 0.0)]


@pytest.mark.parametrize(
    ('function', 'code'),
    [('nvmlDeviceGet*RunningProcesses*', 999), ('nvmlDeviceGetGraphicsRunningProcesses*', 999), ('nvmlDevice*', 15)],
    ids=['no list', 'one of two lists fails', 'lost'],
)
def test_processes_that_come_when_they_cannot_be_listed_are_not_zero(driver, function, code):
    driver.write(gpus=[Gpu(total=GIB), Gpu(total=GIB)])
    with Program(driver) as program:
        program.start()
        read_again(driver)
        used = Gpu(total=GIB, used=500, processes=[Process(program.pid, memory=500)])
        driver.write(gpus=[used, Gpu(total=GIB)], fail=[Failure(function, code)])
        calls = len(driver.calls())
        until(lambda: len(driver.calls()) >= calls + 40)
        report = program.stop()
    assert (report['max_gpu_ram']['main'], report['max_gpu_ram']['combined']) == (None, None)
    assert [gpu['max_ram']['combined'] for gpu in report['gpus']] == [None, None]


def test_what_was_seen_before_the_lists_failed_is_a_lower_bound(driver):
    with Program(driver) as program:
        used = [Gpu(total=GIB, used=500, processes=[Process(program.pid, memory=500)]), Gpu(total=GIB)]
        driver.write(gpus=used)
        program.start()
        read_again(driver)
        driver.write(gpus=used, fail=[Failure('nvmlDeviceGet*RunningProcesses*', 999)])
        read_again(driver)
        report = program.stop()
    assert report['max_gpu_ram']['combined'] == 500.0
    assert {path for path in report['lower_bounds'] if 'gpu' in path} == {
        'max_gpu_ram.main',
        'max_gpu_ram.combined',
        'gpus.0.max_ram.main',
        'gpus.0.max_ram.combined',
        'gpus.max_ram.main',
        'gpus.max_ram.combined',
    }


def test_a_driver_that_hangs_for_a_while_is_reported_and_hides_no_use(driver):
    driver.write(gpus=[Gpu(total=GIB), Gpu(total=GIB)])
    with Program(driver) as program:
        program.start()
        read_again(driver)
        calls = driver.calls().count('nvmlDeviceGetMemoryInfo_v2')
        driver.write(gpus=[Gpu(total=GIB), Gpu(total=GIB)], hang=[Hang('nvmlDeviceGetMemoryInfo*', 2.5, gpu=0)])
        until(lambda: driver.calls().count('nvmlDeviceGetMemoryInfo_v2') >= calls + 4)
        driver.write(gpus=[Gpu(total=GIB), Gpu(total=GIB)])
        read_again(driver)
        report = program.stop()
    assert report['max_gpu_ram']['combined'] is None
    assert len(program.errors.splitlines()) == 1


def test_the_energy_is_what_the_counters_of_the_gpus_in_use_have_grown_by(driver):
    def gpus(millijoules: int) -> list[Gpu]:
        used = [Process(program.pid, memory=5), Process(1, memory=5)]
        return [Gpu(uuid='GPU-a', energy=millijoules, processes=used), Gpu(uuid='GPU-b', energy=10 * millijoules)]

    def readings() -> int:
        return driver.calls().count('nvmlDeviceGetTotalEnergyConsumption')

    driver.write(gpus=[Gpu(uuid='GPU-a')])
    with Program(driver, sections=['energy']) as program:
        driver.write(gpus=gpus(5_000))
        program.start()
        until(lambda: readings() >= 2)
        driver.write(gpus=gpus(9_500))
        until(lambda: readings() >= 5)  # two GPUs, once a second
        report = program.stop()
    energy = report['energy']
    assert energy['gpus'] == [{'uuid': 'GPU-a', 'joules': 4.5, 'others_used_it': True}]
    assert energy['gpu'] == 4.5
    assert program.errors == ''


def test_a_driver_that_hangs_makes_the_energy_of_gpus_unknown(driver):
    driver.write(gpus=[Gpu(uuid='GPU-a')], hang=[Hang('nvmlInit*')])
    with Program(driver, sections=['energy']) as program:
        program.start()
        report = program.stop()
    assert report['energy']['gpu'] is None
    assert report['energy']['gpus'] == []


def test_the_activity_of_the_gpus_in_use_is_what_their_counters_say(driver):
    def gpus(sm: int) -> list[Gpu]:
        processes = [Process(program.pid, memory=5)]
        busy = Gpu(uuid='GPU-a', total=GIB, sm_activity=sm, tensor_activity=10, pcie_sent_rate=3, processes=processes)
        return [busy, Gpu(uuid='GPU-b', total=GIB, sm_activity=99)]

    def readings() -> int:
        return driver.calls().count('nvmlGpmMetricsGet')

    driver.write(gpus=[Gpu(uuid='GPU-a', total=GIB), Gpu(uuid='GPU-b', total=GIB)])
    with Program(driver, sections=['gpu_activity']) as program:
        driver.write(gpus=gpus(40))
        program.start()
        until(lambda: readings() >= 2)
        driver.write(gpus=gpus(60))
        until(lambda: readings() >= 4)  # two GPUs, once a second
        report = program.stop()
    (gpu,) = report['gpu_activity']
    assert 40 < gpu.pop('sm_mean_percent') < 60
    assert gpu == {
        'index': 0,
        'vendor': 'nvidia',
        'uuid': 'GPU-a',
        'gpu_instance': None,
        'unit': 'bytes',
        'sm_max_percent': 60.0,
        'occupancy_mean_percent': None,
        'occupancy_max_percent': None,
        'tensor_mean_percent': 10.0,
        'tensor_max_percent': 10.0,
        'dram_mean_percent': None,
        'dram_max_percent': None,
        'pcie_sent_mean_per_second': 3.0 * 2**20,
        'pcie_received_mean_per_second': None,
        'nvlink_sent_mean_per_second': None,
        'nvlink_received_mean_per_second': None,
        'problem': None,
    }
    assert program.errors == ''


def test_an_older_gpu_has_no_activity_and_the_report_says_why(driver):
    driver.write(gpus=[Gpu(uuid='GPU-a', total=GIB)])
    with Program(driver, sections=['gpu_activity']) as program:
        driver.write(gpus=[Gpu(uuid='GPU-a', total=GIB, processes=[Process(program.pid, memory=5)])])
        program.start()
        until(lambda: driver.calls().count('nvmlGpmQueryDeviceSupport') >= 1)
        report = program.stop()
    (gpu,) = report['gpu_activity']
    assert gpu['sm_mean_percent'] is None
    assert gpu['problem'] == 'has no counters of its activity, which Hopper and newer GPUs have'


def test_counters_that_hang_leave_the_activity_out_and_the_rest_known(driver):
    driver.write(gpus=[Gpu(uuid='GPU-a', total=GIB, sm_activity=5)], hang=[Hang('nvmlGpm*')])
    with Program(driver, sections=['gpu_activity']) as program:
        program.start()
        read_again(driver)
        report = program.stop()
    assert 'gpu_activity' not in report
    assert report['max_gpu_ram']['combined'] == 0
