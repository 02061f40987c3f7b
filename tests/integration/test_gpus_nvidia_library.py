"""The real nvidia-ml-py on the simulated driver: what the project's other tests rely on."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from support.gpus.forking_interpreter import forking_interpreter
from support.simulated_nvml import WHOLE_GPU, Account, Failure, Gpu, Mig, Process, SimulatedDriver, ramp, steps

if TYPE_CHECKING:
    from pathlib import Path


def run(driver: SimulatedDriver, code: str) -> object:
    """Run code on NVML, with `gpu` the handle of the first GPU, and return what it assigns to `answer`."""
    program = (
        'import json\nfrom pynvml import *\nnvmlInit()\n'
        'gpu = nvmlDeviceGetHandleByIndex(0) if nvmlDeviceGetCount() else None\n'
        'def code_of(call, *arguments):\n'
        '    try:\n'
        '        call(*arguments)\n'
        '    except NVMLError as error:\n'
        '        return error.value\n'
        f'{code}\nprint(json.dumps(answer))'
    )
    variables = os.environ | driver.environment()
    code, printed, errors = forking_interpreter(variables['LD_LIBRARY_PATH']).program(program, [], variables)
    assert code == 0, errors
    return json.loads(printed)


def test_a_gpu_has_what_the_state_says(driver: SimulatedDriver) -> None:
    driver.write(
        gpus=[
            Gpu(
                uuid='GPU-a',
                name='NVIDIA Test',
                pci='00000000:3B:00.0',
                minor=5,
                total=1000,
                used=300,
                reserved=100,
                util=42,
                memory_util=7,
                temperature=61,
                power=250_000,
                power_limit=400_000,
                sm_clock=1410,
                max_sm_clock=1700,
                energy=123_456_789_012,
                fan=30,
                encoder=1,
                decoder=2,
            )
        ]
    )
    code = """
memory, older = nvmlDeviceGetMemoryInfo(gpu, version=nvmlMemory_v2), nvmlDeviceGetMemoryInfo(gpu)
answer = {
    'uuid': nvmlDeviceGetUUID(gpu), 'name': nvmlDeviceGetName(gpu), 'pci': nvmlDeviceGetPciInfo(gpu).busId,
    'minor': nvmlDeviceGetMinorNumber(gpu), 'index': nvmlDeviceGetIndex(gpu),
    'memory': [memory.total, memory.used, memory.reserved, memory.free], 'older': [older.total, older.used, older.free],
    'utilization': [nvmlDeviceGetUtilizationRates(gpu).gpu, nvmlDeviceGetUtilizationRates(gpu).memory],
    'temperature': nvmlDeviceGetTemperature(gpu, NVML_TEMPERATURE_GPU), 'power': nvmlDeviceGetPowerUsage(gpu),
    'limit': nvmlDeviceGetEnforcedPowerLimit(gpu), 'energy': nvmlDeviceGetTotalEnergyConsumption(gpu),
    'clock': [nvmlDeviceGetClockInfo(gpu, NVML_CLOCK_SM), nvmlDeviceGetMaxClockInfo(gpu, NVML_CLOCK_SM)],
    'fan': nvmlDeviceGetFanSpeed(gpu), 'encoder': nvmlDeviceGetEncoderUtilization(gpu)[0],
    'decoder': nvmlDeviceGetDecoderUtilization(gpu)[0],
    'no clock': code_of(nvmlDeviceGetClockInfo, gpu, NVML_CLOCK_MEM),
    'by uuid': nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID('GPU-a')),
    'by unknown uuid': code_of(nvmlDeviceGetHandleByUUID, 'GPU-b'),
    'by index': code_of(nvmlDeviceGetHandleByIndex, 1),
}"""
    assert run(driver, code) == {
        'uuid': 'GPU-a',
        'name': 'NVIDIA Test',
        'pci': '00000000:3B:00.0',
        'minor': 5,
        'index': 0,
        'memory': [1000, 300, 100, 600],
        'older': [1000, 400, 600],
        'utilization': [42, 7],
        'temperature': 61,
        'power': 250_000,
        'limit': 400_000,
        'energy': 123_456_789_012,
        'clock': [1410, 1700],
        'fan': 30,
        'encoder': 1,
        'decoder': 2,
        'no clock': 3,
        'by uuid': 0,
        'by unknown uuid': 6,
        'by index': 2,
    }


def test_values_follow_their_scripts(driver: SimulatedDriver) -> None:
    gpu = Gpu(total=1000, used=steps((0, 10), (2.5, 90)), power=ramp((0, 0), (10, 100)))
    code = 'answer = [nvmlDeviceGetMemoryInfo(gpu, version=nvmlMemory_v2).used, nvmlDeviceGetPowerUsage(gpu)]'
    answers = []
    for now in (0.0, 2.4, 2.5, 5.0, 20.0):
        driver.write(gpus=[gpu], now=now)
        answers.append(run(driver, code))
    assert answers == [[10, 0], [10, 24], [90, 25], [90, 50], [90, 100]]


def test_samples_are_those_after_the_last_seen_one(driver: SimulatedDriver) -> None:
    driver.start = 1_700_000_000.0
    driver.write(gpus=[Gpu(util=steps((0, 10), (20, 90)))], now=20.2)
    code = """
def samples(last_seen):
    _, found = nvmlDeviceGetSamples(gpu, NVML_GPU_UTILIZATION_SAMPLES, last_seen)
    return [[sample.timeStamp, sample.sampleValue.uiVal] for sample in found]
last = samples(0)[-1][0]
answer = [len(samples(0)), samples(last - 300_000), code_of(samples, last)]"""
    assert run(driver, code) == [
        100,
        [[1_700_000_020_000_000, 10], [1_700_000_020_100_000, 90], [1_700_000_020_200_000, 90]],
        6,
    ]


@pytest.mark.parametrize(
    ('generation', 'expected'),
    [
        (0, ['v3', [1, 2], 'v2', [1, 2], 'memory', 300]),
        (1, ['v3', 13, 'v2', [1, 2], 'memory', 300]),
        (2, ['v3', 13, 'v2', 13, 'memory', 13]),
    ],
)
def test_older_drivers_lack_what_they_lacked(tmp_path: Path, generation: int, expected: list[object]) -> None:
    driver = SimulatedDriver(tmp_path, generation)
    driver.write(gpus=[Gpu(total=1000, used=300, processes=[Process(1, memory=5), Process(2)])])
    code = """
def pids(call):
    return code_of(call, gpu) or [process.pid for process in call(gpu)]
def used():
    call = lambda: nvmlDeviceGetMemoryInfo(gpu, version=nvmlMemory_v2)
    return code_of(call) or call().used
answer = ['v3', pids(nvmlDeviceGetComputeRunningProcesses_v3), 'v2', pids(nvmlDeviceGetComputeRunningProcesses_v2),
          'memory', used()]"""
    assert run(driver, code) == expected


def test_process_lists(driver: SimulatedDriver) -> None:
    processes = [Process(11, memory=5, types='CG'), Process(12, types='G'), Process(13, memory=7, gi=1, ci=0)]
    driver.write(gpus=[Gpu(processes=processes)])
    code = """
def listed(call):
    return [[p.pid, p.usedGpuMemory, p.gpuInstanceId, p.computeInstanceId] for p in call(gpu)]
answer = [listed(nvmlDeviceGetComputeRunningProcesses), listed(nvmlDeviceGetGraphicsRunningProcesses)]"""
    none = 0xFFFFFFFF
    assert run(driver, code) == [[[11, 5, none, none], [13, 7, 1, 0]], [[11, 5, none, none], [12, None, none, none]]]


def test_live_lists_only_processes_that_exist(driver: SimulatedDriver) -> None:
    driver.write(gpus=[Gpu(processes=[Process(os.getpid(), memory=5), Process(4_100_000, memory=6)])], live=True)
    code = 'answer = [process.pid for process in nvmlDeviceGetComputeRunningProcesses(gpu)]'
    assert run(driver, code) == [os.getpid()]


def test_process_utilization_with_garbage(driver: SimulatedDriver) -> None:
    driver.start = 1_700_000_000.0
    driver.write(gpus=[Gpu(processes=[Process(11, sm=40, memory_util=3), Process(12)])], garbage=True, now=1.0)
    code = 'answer = [[s.pid, s.timeStamp, s.smUtil, s.memUtil] for s in nvmlDeviceGetProcessUtilization(gpu, 0)]'
    assert run(driver, code) == [[11, 1_700_000_001_000_000, 40, 3], [4294900000, 7, 3000000000, 77]]


def test_accounting(driver: SimulatedDriver) -> None:
    driver.write(gpus=[Gpu(accounting=1, accounts=[Account(pid=11, max_memory=900, util=30, time=1500)])])
    code = """
stats = nvmlDeviceGetAccountingStats(gpu, 11)
answer = [nvmlDeviceGetAccountingMode(gpu), list(nvmlDeviceGetAccountingPids(gpu)), stats.maxMemoryUsage,
          stats.gpuUtilization, stats.time, code_of(nvmlDeviceGetAccountingStats, gpu, 12)]"""
    assert run(driver, code) == [1, [11], 900, 30, 1500, 6]


def test_mig_devices(driver: SimulatedDriver) -> None:
    driver.write(
        gpus=[
            Gpu(
                total=1000,
                used=100,
                util=50,
                mig=[Mig(uuid='MIG-a', gi=1, total=400, used=40), Mig(uuid='MIG-b', gi=2)],
                processes=[Process(11, memory=5, gi=1, ci=0), Process(11, memory=6, gi=2, ci=0)],
            )
        ]
    )
    code = """
parts = [nvmlDeviceGetMigDeviceHandleByIndex(gpu, index) for index in range(2)]
answer = [nvmlDeviceGetMigMode(gpu), nvmlDeviceGetMaxMigDeviceCount(gpu), [nvmlDeviceGetUUID(part) for part in parts],
          [nvmlDeviceGetGpuInstanceId(part) for part in parts], nvmlDeviceGetMemoryInfo(parts[0]).used,
          [[p.usedGpuMemory for p in nvmlDeviceGetComputeRunningProcesses(d)] for d in [gpu, *parts]],
          code_of(nvmlDeviceGetMigDeviceHandleByIndex, gpu, 2), code_of(nvmlDeviceGetUtilizationRates, gpu)]"""
    assert run(driver, code) == [[1, 1], 7, ['MIG-a', 'MIG-b'], [1, 2], 40, [[5, 6], [5], [6]], 6, 3]


def test_failures_by_function_gpu_count_and_time(driver: SimulatedDriver) -> None:
    failures = [
        Failure('nvmlDeviceGetName', 4, gpu=1),
        Failure('nvmlDeviceGetMinor*', 15, after=1, times=1),
        Failure('nvmlDeviceGetUUID', 999, starts=5),
    ]
    code = """
other = nvmlDeviceGetHandleByIndex(1)
answer = [code_of(nvmlDeviceGetName, gpu), code_of(nvmlDeviceGetName, other),
          [code_of(nvmlDeviceGetMinorNumber, gpu) for _ in range(3)], code_of(nvmlDeviceGetUUID, gpu)]"""
    driver.write(gpus=[Gpu(), Gpu()], fail=failures, now=4.0)
    assert run(driver, code) == [None, 4, [None, 15, None], None]
    driver.write(gpus=[Gpu(), Gpu()], fail=failures, now=5.0)
    assert run(driver, code) == [None, 4, [None, 15, None], 999]


def test_a_failure_concerns_a_gpu_with_its_mig_devices_or_one_of_them(driver: SimulatedDriver) -> None:
    code = """
parts = [nvmlDeviceGetMigDeviceHandleByIndex(gpu, index) for index in range(2)]
answer = [code_of(nvmlDeviceGetName, device) for device in (gpu, *parts)]"""
    gpu = Gpu(mig=[Mig(uuid='MIG-a', gi=1), Mig(uuid='MIG-b', gi=2)])
    answers = []
    for mig in (None, WHOLE_GPU, 0, 1):
        driver.write(gpus=[gpu], fail=[Failure('nvmlDeviceGetName', 4, gpu=0, mig=mig)])
        answers.append(run(driver, code))
    assert answers == [[4, 4, 4], [4, None, None], [None, 4, None], [None, None, 4]]


def test_calls_are_logged(driver: SimulatedDriver) -> None:
    driver.write()
    assert run(driver, 'answer = nvmlDeviceGetCount()') == 0
    assert driver.calls() == ['nvmlInitWithFlags', 'nvmlDeviceGetCount_v2', 'nvmlDeviceGetCount_v2']
