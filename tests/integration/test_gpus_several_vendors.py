"""A machine with NVIDIA's simulated driver and with made-up GPUs of AMD and Intel beside it."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import gpu_tracker as gput
from support.cli_program import started
from support.fleet.agent_program import AgentProgram
from support.gpus.drm_tree import DrmTree, dump
from support.gpus.forking_interpreter import ForkingInterpreter
from support.made_up_vendor import PackageWithTwoVendors
from support.simulated_nvml import UNKNOWN, Failure, Gpu, Process, SimulatedDriver
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GB = 1_000_000_000
TRACKED = """
import json, os, sys
import gpu_tracker

assert gpu_tracker.__file__.startswith(sys.argv[1]), gpu_tracker.__file__
tracker = gpu_tracker.Tracker(sleep_time=0.1, gpu_ram_unit='bytes', sections=('energy',), **json.loads(sys.argv[2]))
print(os.getpid(), flush=True)
input()
tracker.start()
print('started', flush=True)
input()
tracker.stop()
print(json.dumps(tracker.to_json()))
"""
OF_THE_TESTER = {
    'CUDA_VISIBLE_DEVICES',
    'CUDA_DEVICE_ORDER',
    'ROCR_VISIBLE_DEVICES',
    'HIP_VISIBLE_DEVICES',
    'GPU_DEVICE_ORDINAL',
    'ZE_AFFINITY_MASK',
    'ZE_FLAT_DEVICE_HIERARCHY',
}
AMD_UUID = 'GPU-0123456789abcdef'
READY = 'gpu-tracker: agent: serving '


def amd(used: int, *processes: tuple[int, int], utilization: float | None = 0.0) -> dict[str, Any]:
    return {
        'vendor': 'amd',
        'number': 0,
        'uuid': AMD_UUID,
        'name': 'AMD Model 1',
        'memory_total': 20 * GB,
        'memory_used': used,
        'utilization': utilization,
        'processes': processes,
    }


def intel(*processes: tuple[int, int]) -> dict[str, Any]:
    """Return the GPU of a laptop's processor, which reports nothing of itself."""
    return {
        'vendor': 'intel',
        'number': 0,
        'uuid': 'intel-0000:00:02.0',
        'name': 'Intel Model 1',
        'memory_total': None,
        'memory_used': None,
        'utilization': None,
        'processes': processes,
        'is_integrated': True,
    }


class Machine:
    """NVIDIA's driver, and another that has the GPUs of all other vendors."""

    def __init__(self, folder: Path, driver: SimulatedDriver) -> None:
        self.package = PackageWithTwoVendors(folder / 'package')
        self.driver = driver
        usual = {name: value for name, value in os.environ.items() if name not in OF_THE_TESTER}
        self.environment = usual | driver.environment()
        self.environment |= {
            'PYTHONPATH': str(self.package.folder),
            'GPU_TRACKER_CLAIMS': str(folder / 'claims'),
            'COLUMNS': '200',
        }

    def told(self, *arguments: str, **variables: str) -> tuple[int, str, str]:
        return self._interpreter.command([*arguments], self.environment | variables)

    @functools.cached_property
    def _interpreter(self) -> ForkingInterpreter:
        return ForkingInterpreter({name: self.environment[name] for name in ('LD_LIBRARY_PATH', 'PYTHONPATH')})

    def close(self) -> None:
        if '_interpreter' in self.__dict__:
            self._interpreter.close()

    @property
    def _readings(self) -> int:
        return self.package.reads + self.driver.calls().count('nvmlDeviceGetSamples')

    def track(self, write, *, is_awaited: bool = True, **options: object) -> tuple[dict[str, Any], str]:
        """Return the result of a tracked program, and what it has written to standard error.

        :param write: Called with its pid before the start of the tracking.
        :param is_awaited: Whether to go on until the GPUs were read again.
        """
        with subprocess.Popen(
            [sys.executable, '-c', TRACKED, str(self.package.folder), json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        ) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            write(int(process.stdout.readline()))
            process.stdin.write('\n')
            process.stdin.flush()
            assert process.stdout.readline() == 'started\n'
            seen = self._readings
            if is_awaited:
                eventually(lambda: self._readings >= seen + 6)  # two of each GPU at least
            printed, errors = process.communicate('\n', TIMEOUT)
        return json.loads(printed), errors


@pytest.fixture
def machine(tmp_path: Path, driver: SimulatedDriver) -> Iterator[Machine]:
    made = Machine(tmp_path, driver)
    yield made
    made.close()


def sums(result: dict[str, Any]) -> tuple[object, ...]:
    """Return the number of GPUs, those expected, the memory of all, and the largest sum of utilization."""
    ram, utilization = result['max_gpu_ram'], result['gpu_utilization']
    return (
        utilization['system_gpu_count'],
        utilization['n_expected_gpus'],
        ram['system_capacity'],
        ram['system'],
        ram['main'],
        ram['combined'],
        utilization['gpu_percentages']['max_sum_percent'],
    )


def test_a_run_adds_up_the_gpus_of_all_vendors(machine: Machine) -> None:
    def write(pid: int) -> None:
        processes = [Process(pid, memory=3 * GB)]
        machine.driver.write(gpus=[Gpu(total=10 * GB, used=5 * GB, util=40, processes=processes)])
        machine.package.write([amd(6 * GB, (pid, 2 * GB), utilization=30.0), intel((1, GB))])

    result, errors = machine.track(write)
    assert errors == ''
    assert sums(result) == (2, 2, 30 * GB, 11 * GB, 5 * GB, 5 * GB, 70.0)


def test_an_integrated_gpu_with_memory_of_the_run_counts_and_its_unknown_figures_make_the_sums_unknown(
    machine: Machine,
) -> None:
    def write(pid: int) -> None:
        machine.driver.write(gpus=[Gpu(total=10 * GB, used=5 * GB, util=40, processes=[Process(pid, memory=3 * GB)])])
        machine.package.write([intel((pid, GB))])

    result, errors = machine.track(write)
    assert sums(result) == (2, 2, None, None, 4 * GB, 4 * GB, None)
    assert errors == ''


def test_a_brand_restricts_the_run_to_its_gpus(machine: Machine) -> None:
    def write(pid: int) -> None:
        machine.driver.write(gpus=[Gpu(total=10 * GB, used=5 * GB, util=40, processes=[Process(pid, memory=3 * GB)])])
        machine.package.write([amd(6 * GB, (pid, 2 * GB), utilization=30.0), intel((pid, GB))])

    result, _ = machine.track(write, gpu_brand='nvidia')
    assert sums(result) == (1, 1, 10 * GB, 5 * GB, 3 * GB, 3 * GB, 40.0)


def test_a_driver_that_does_not_work_makes_the_sums_unknown_and_not_those_of_a_chosen_brand(machine: Machine) -> None:
    def write(pid: int) -> None:
        machine.driver.write(fail=[Failure('nvmlInit*', UNKNOWN)])
        machine.package.write([amd(6 * GB, (pid, 2 * GB), utilization=30.0)])

    result, errors = machine.track(write)
    assert sums(result) == (None,) * 7
    assert errors.count('The NVIDIA driver could not be initialized') == 1
    chosen, errors = machine.track(write, gpu_brand='made_up')
    assert sums(chosen) == (1, 1, 20 * GB, 6 * GB, 2 * GB, 2 * GB, 30.0)
    assert errors == ''


def test_another_driver_that_does_not_work_leaves_nvidias_gpus_to_be_chosen(machine: Machine) -> None:
    def write(pid: int) -> None:
        machine.driver.write(gpus=[Gpu(total=10 * GB, used=5 * GB, util=40, processes=[Process(pid, memory=3 * GB)])])
        machine.package.write('broken')

    result, errors = machine.track(write)
    assert sums(result) == (None,) * 7
    assert errors.count('The made-up driver does not work.') == 1
    chosen, errors = machine.track(write, gpu_brand='nvidia')
    assert sums(chosen) == (1, 1, 10 * GB, 5 * GB, 3 * GB, 3 * GB, 40.0)
    assert errors == ''


def test_the_table_shows_all_and_available_gives_those_of_one_vendor(machine: Machine) -> None:
    machine.driver.write(gpus=[Gpu(total=10 * GB, used=9 * GB), Gpu(total=10 * GB, uuid='GPU-b')])
    machine.package.write([amd(0), intel()])
    code, table, errors = machine.told('gpus', '--no-color')
    assert (code, errors) == (0, '')
    assert [line.split()[0] for line in table.splitlines()[1:]] == ['0', '1', 'amd:0', 'intel:0']
    listed = json.loads(machine.told('gpus', '--json')[1])['gpus']
    assert [(gpu['vendor'], gpu['index'], gpu['status']) for gpu in listed] == [
        ('nvidia', 0, 'in_use_unseen'),
        ('nvidia', 1, 'free'),
        ('amd', 0, 'free'),
        ('intel', 0, 'free'),
    ]
    assert machine.told('available') == (0, '1\n', '')
    assert machine.told('available', '--gb=amd') == (0, '0\n', '')
    assert machine.told('available', '--gb=drm', '--uuid') == (0, f'{AMD_UUID},intel-0000:00:02.0\n', '')
    assert machine.told('available', '--gb=nvidia,amd') == (0, 'amd:0,1\n', '')
    code, printed, errors = machine.told('available', '-n', '2')
    assert (code, printed) == (1, '')
    assert errors.startswith('gpu-tracker: 1 GPU is available, not 2\n  GPU 0 (NVIDIA Simulated GPU): ')
    assert machine.told('available', '--gb=amd', ROCR_VISIBLE_DEVICES='') == (
        1,
        '',
        'gpu-tracker: no GPU is available\n  AMD GPU 0: left out by ROCR_VISIBLE_DEVICES=\n',
    )
    code, _, errors = machine.told('available', '--gb=voodoo')
    accepted = 'one or more of nvidia, made_up, amd, intel, drm, separated by commas'
    assert (code, errors.splitlines()[0]) == (125, f"gpu-tracker: --gb must be {accepted}, not 'voodoo'")


def test_a_claimed_gpu_of_amd_is_all_that_the_command_sees(machine: Machine) -> None:
    machine.driver.write(gpus=[Gpu(total=10 * GB)])
    machine.package.write([amd(0), intel()])
    show = ['printenv', 'ROCR_VISIBLE_DEVICES', 'HIP_VISIBLE_DEVICES']
    told = machine.told('available', '--gb=amd', '--claim', '--', *show, HIP_VISIBLE_DEVICES='0')
    assert told == (0, f'{AMD_UUID}\n0\n', '')
    assert machine.told('available', '--gb=amd', '--claim', '--claim-seconds=60') == (0, '0\n', '')
    code, _, errors = machine.told('available', '--gb=amd')
    assert (code, 'AMD GPU 0 (AMD Model 1): claimed by' in errors) == (1, True)
    assert machine.told('available') == (0, '0\n', '')  # NVIDIA's of the same number is not
    claims = [line for line in machine.told('gpus', '--no-color')[1].splitlines() if 'claimed by' in line]
    assert [line.partition(': claimed by')[0] for line in claims] == ['AMD GPU 0']
    ze = ['printenv', 'ZE_AFFINITY_MASK', 'ZE_ENABLE_PCI_ID_DEVICE_ORDER', 'ZE_FLAT_DEVICE_HIERARCHY']
    assert machine.told('available', '--gb=intel', '--', *ze) == (0, '0\n1\nCOMPOSITE\n', '')


def test_the_agent_reports_each_with_its_vendor(machine: Machine) -> None:
    machine.driver.write(gpus=[Gpu(total=10 * GB, util=40)])
    machine.package.write([amd(0, utilization=30.0)])
    with started('agent', '--port=0', '--interval=0.1', env=machine.environment) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith(READY), line
        running = AgentProgram(line.removeprefix(READY).split()[0].rstrip('/'), process, [line])
        assert [(gpu['vendor'], gpu['index']) for gpu in running.seen()['gpus']] == [('nvidia', 0), ('amd', 0)]
        metrics = running.get('/metrics').text.splitlines()
    busy = [line for line in metrics if line.startswith('gpu_tracker_gpu_utilization_ratio')]
    assert [(line.partition('index="')[2].partition('"')[0], line.split()[-1]) for line in busy] == [
        ('0', '0.4'),
        ('amd:0', '0.3'),
    ]


def test_a_driver_that_hangs_makes_the_sums_unknown_and_nothing_of_the_others(machine: Machine, tmp_path: Path) -> None:
    recording = tmp_path / 'run.sqlite'

    def write(pid: int) -> None:
        machine.driver.write(gpus=[Gpu(total=10 * GB, used=5 * GB, util=40, processes=[Process(pid, memory=3 * GB)])])
        machine.package.write([amd(6 * GB, (pid, 2 * GB), utilization=30.0)])
        machine.package.hang()

    result, errors = machine.track(write, tracking_file=str(recording))
    assert sums(result) == (2, 2, 30 * GB, None, None, None, None)
    assert errors.count('GPUs has not answered for 1.5 s; what its GPUs are part of is unknown until it does.') == 1
    loaded = gput.load(recording)
    shown: dict[str, set[float | None]] = {gpu.uuid: set() for gpu in loaded.gpus}
    uuids = {gpu.id: gpu.uuid for gpu in loaded.gpus}
    for sample in loaded.gpu_samples():
        shown[uuids[sample.gpu]].add(sample.ram)
    assert shown == {'GPU-00000000-0000-0000-0000-000000000000': {5 * GB // 1024 * 1024}, AMD_UUID: {None}}


def test_nvidias_driver_and_a_drm_driver_from_a_dump(machine: Machine, tmp_path: Path) -> None:
    tree = DrmTree(tmp_path)
    tree.add(dump('amdgpu_gaming'), pids={1001: 4_194_303, 1002: 4_194_302, 1003: 4_194_301})
    machine.environment |= tree.environment()
    machine.driver.write(gpus=[Gpu(total=10 * GB, used=5 * GB, util=20)])
    code, table, errors = machine.told('gpus', '--no-color')
    assert (code, errors) == (0, '')
    assert [line.split()[0] for line in table.splitlines()[1:]] == ['0', 'amd:0']
    result, errors = machine.track(lambda _: None)
    count, expected, capacity, used, *_, utilization = sums(result)
    assert (count, expected, capacity, used) == (2, 2, 10 * GB + 17_163_091_968, 5 * GB + 4_294_967_296)
    assert utilization == 93.0
    chosen, errors = machine.track(lambda _: None, is_awaited=False, gpu_brand='amd')
    assert sums(chosen)[:4] == (1, 1, 17_163_091_968, 4_294_967_296)
    none, errors = machine.track(lambda _: None, is_awaited=False, gpu_brand='intel')
    assert sums(none) == (0, 0, 0, 0, 0, 0, 0.0)
