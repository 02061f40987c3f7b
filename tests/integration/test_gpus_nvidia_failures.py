"""GpuSource with the real nvidia-ml-py on the simulated driver: drivers and GPUs that fail or hang."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.simulated_nvml import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    LIBRARY_NOT_FOUND,
    NO_PERMISSION,
    UNKNOWN,
    VERSION_MISMATCH,
    Failure,
    Gpu,
    Hang,
    Process,
    SimulatedDriver,
)
from support.simulated_nvml.probe import Probe, until

if TYPE_CHECKING:
    from pathlib import Path

ZEROS = {
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
NOTHING_KNOWN = dict.fromkeys(ZEROS) | {'missed': []}
NO_DRIVER = [['info', 'No GPU driver is at work on this machine: GPU figures are 0.']]
SEE_PERMISSION = 'See "gpu-tracker explain driver-permission".'
NOT_ANSWERED = 'The GPU driver has not answered for 2 s; GPU figures are unknown, or lower bounds, until it does.'
LOST_B = (
    'GPU 1 (GPU-b): lost: fallen off the bus or otherwise out of reach (NVML code 15). '
    'Its figures are unknown. See "gpu-tracker explain gpu-lost".'
)


def two_gpus(used_a: int = 40, used_b: int = 50, **b: object) -> list[Gpu]:
    return [
        Gpu(uuid='GPU-a', total=100, used=used_a, util=20, processes=[Process(11, memory=used_a)]),
        Gpu(uuid='GPU-b', total=100, used=used_b, util=30, processes=[Process(11, memory=used_b)], **b),  # type: ignore[arg-type]
    ]


def test_no_library(tmp_path: Path) -> None:
    with Probe({'LD_LIBRARY_PATH': str(tmp_path)}) as probe:
        assert probe.begin('11') == ZEROS
        assert probe.finish() == ZEROS
        assert probe.messages() == NO_DRIVER
        assert probe.ask('imported pynvml') is False


def test_a_library_that_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / 'libnvidia-ml.so.1').write_text('not a library')
    with Probe({'LD_LIBRARY_PATH': str(tmp_path)}) as probe:
        assert probe.begin('11') == ZEROS
        assert probe.messages() == NO_DRIVER


@pytest.mark.parametrize('code', [DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND])
def test_a_library_without_a_driver(driver: SimulatedDriver, code: int) -> None:
    driver.write(gpus=two_gpus(), fail=[Failure('nvmlInit*', code)])
    with Probe(driver.environment()) as probe:
        assert probe.begin('11') == ZEROS
        assert probe.finish() == ZEROS
        assert probe.messages() == NO_DRIVER


def test_a_uuid_on_a_machine_without_a_driver(driver: SimulatedDriver) -> None:
    with Probe(driver.environment()) as probe:
        probe.begin(start='start 0.1 GPU-x')
        assert probe.ask('error') == 'UUIDs of GPUs of this machine (it has none)'


@pytest.mark.parametrize(
    ('code', 'text'),
    [
        (
            VERSION_MISMATCH,
            (
                'The NVIDIA driver and its library have different versions (NVML code 18), as after an update without '
                'a restart. GPU figures are unknown until you reload the driver or restart the machine. '
                'See "gpu-tracker explain driver-mismatch".'
            ),
        ),
        (
            UNKNOWN,
            (
                'The NVIDIA driver could not be initialized: it reports an unknown error (NVML code 999), as after a '
                'suspend or a crash of the driver. GPU figures are unknown. See "gpu-tracker explain driver-fails".'
            ),
        ),
        (
            NO_PERMISSION,
            (
                'This user may not use the NVIDIA driver (NVML code 4). GPU figures are unknown until the '
                'user may open '
                '/dev/nvidiactl and /dev/nvidia0. See "gpu-tracker explain driver-permission".'
            ),
        ),
        (
            GPU_IS_LOST,
            (
                'The NVIDIA driver has lost a GPU: the GPU is no longer on the bus, or does not respond '
                '(NVML code 15). GPU figures are unknown until the machine is restarted. See '
                '"gpu-tracker explain gpu-lost".'
            ),
        ),
        (
            21,
            (
                'The NVIDIA driver could not be initialized (NVML code 21). GPU figures are unknown. '
                'See "gpu-tracker explain driver-fails".'
            ),
        ),
    ],
)
def test_a_driver_that_cannot_be_opened(driver: SimulatedDriver, code: int, text: str) -> None:
    driver.write(gpus=two_gpus(), fail=[Failure('nvmlInit*', code)])
    with Probe(driver.environment()) as probe:
        assert probe.begin('11', start='start 0.1 GPU-x') == NOTHING_KNOWN
        assert probe.finish() == NOTHING_KNOWN
        assert probe.messages() == [['warning', text]]
        assert probe.ask('error') is None


def test_one_of_two_gpus_is_lost_from_the_start(driver: SimulatedDriver) -> None:
    driver.write(gpus=two_gpus(missing=True))
    with Probe(driver.environment()) as probe:
        probe.begin('11')
        totals = probe.finish()
        messages = probe.messages()
    assert [(gpu['uuid'], gpu['capacity'], gpu['combined']) for gpu in totals.pop('devices')] == [('GPU-a', 100, 40)]
    known = {'count': 2, 'expected': 2, 'main': 40, 'descendants': 0, 'combined': 40, 'missed': []}
    assert totals == {name: known.get(name) for name in NOTHING_KNOWN if name != 'devices'}
    assert messages == [['warning', LOST_B.replace(' (GPU-b)', '')]]


def test_the_other_gpus_utilization_is_known_where_it_is_the_expected_one(driver: SimulatedDriver) -> None:
    driver.write(gpus=two_gpus(missing=True))
    with Probe(driver.environment()) as probe:
        probe.begin(start='start 0.1 GPU-a')
        totals = probe.finish()
    assert (totals['expected'], totals['max_sum']) == (1, 20.0)


def test_a_gpu_that_is_lost_mid_run_keeps_its_maxima(driver: SimulatedDriver) -> None:
    driver.write(gpus=two_gpus())
    with Probe(driver.environment()) as probe:
        probe.begin('11')
        until(lambda: probe.totals()['main'] == 90)
        driver.write(gpus=two_gpus(used_a=60, missing=True))
        until(lambda: probe.messages() == [['warning', LOST_B]])
        totals = probe.totals()
        assert (totals['capacity'], totals['system'], totals['main']) == (200, 90, 90)
        driver.write(gpus=two_gpus(used_a=95, missing=True))
        totals = probe.finish()
        assert (totals['capacity'], totals['system'], totals['main']) == (200, 95, 95)
        assert probe.messages() == []


@pytest.mark.parametrize('functions', ['nvmlDeviceGetHandleByIndex*', 'nvmlDevice*'])
def test_no_permission_for_one_of_two(driver: SimulatedDriver, functions: str) -> None:
    driver.write(gpus=two_gpus(), fail=[Failure(functions, NO_PERMISSION, gpu=1)])
    with Probe(driver.environment()) as probe:
        probe.begin('11')
        totals = probe.finish()
        messages = probe.messages()
    assert [(gpu['uuid'], gpu['capacity'], gpu['combined']) for gpu in totals.pop('devices')] == [('GPU-a', 100, 40)]
    known = {'count': 2, 'expected': 2, 'main': 40, 'descendants': 0, 'combined': 40, 'missed': []}
    assert totals == {name: known.get(name) for name in NOTHING_KNOWN if name != 'devices'}
    assert messages == [
        ['warning', f'GPU 1: may not be read by this user (NVML code 4). Its figures are unknown. {SEE_PERMISSION}']
    ]


def test_one_gpu_does_not_tell_its_memory(driver: SimulatedDriver) -> None:
    driver.write(gpus=two_gpus(), fail=[Failure('nvmlDeviceGetMemoryInfo*', NO_PERMISSION, gpu=1)])
    with Probe(driver.environment()) as probe:
        probe.begin('11')
        totals = probe.finish()
        messages = probe.messages()
    assert (totals['capacity'], totals['system'], totals['main']) == (None, None, 90)
    assert messages == [
        [
            'warning',
            f'GPU 1 (GPU-b): may not be read by this user (NVML code 4). Its figures are unknown. {SEE_PERMISSION}',
        ]
    ]


def test_one_gpu_does_not_list_its_processes(driver: SimulatedDriver) -> None:
    driver.write(gpus=two_gpus(), fail=[Failure('nvmlDeviceGet*RunningProcesses*', UNKNOWN, gpu=1)])
    with Probe(driver.environment()) as probe:
        probe.begin('11')
        totals = probe.finish()
        messages = probe.messages()
    assert (totals['system'], totals['main'], totals['combined']) == (90, None, None)
    assert messages == [
        [
            'warning',
            (
                'GPU 1 (GPU-b): its processes cannot be listed (NVML code 999). '
                'The GPU RAM of this run is unknown. See "gpu-tracker explain driver-fails".'
            ),
        ]
    ]


def test_gpus_with_the_same_problem_share_one_warning(driver: SimulatedDriver) -> None:
    driver.write(gpus=two_gpus(), fail=[Failure('nvmlDeviceGet*RunningProcesses*', UNKNOWN)])
    with Probe(driver.environment()) as probe:
        probe.begin('11')
        probe.finish()
        assert probe.messages() == [
            [
                'warning',
                (
                    'GPU 0, GPU 1: their processes cannot be listed (NVML code 999). '
                    'The GPU RAM of this run is unknown. See "gpu-tracker explain driver-fails".'
                ),
            ]
        ]


def test_a_gpu_that_vanishes_has_one_warning_whatever_later_calls_answer(driver: SimulatedDriver) -> None:
    driver.write(gpus=two_gpus())
    with Probe(driver.environment()) as probe:
        probe.begin('11')
        until(lambda: probe.totals()['main'] == 90)
        gone = [Failure('nvmlDeviceGetHandleBy*', 6, gpu=1), Failure('nvmlDeviceGetMemoryInfo*', GPU_IS_LOST, gpu=1)]
        driver.write(gpus=two_gpus(used_a=60), fail=gone)
        until(lambda: probe.messages() == [['warning', LOST_B]])
        driver.write(gpus=two_gpus(used_a=95), fail=gone)
        assert probe.finish()['system'] == 95
        assert probe.messages() == []


@pytest.mark.parametrize(
    ('failing', 'message'),
    [
        (
            NO_PERMISSION,
            [
                'warning',
                (
                    'GPU 0, GPU 1: their utilization by process cannot be read (NVML code 4). '
                    f'Own utilization is unknown. {SEE_PERMISSION}'
                ),
            ],
        ),
        (3, ['info', 'GPU 0, GPU 1 do not report their utilization by process.']),
    ],
)
def test_why_own_utilization_is_unknown(driver: SimulatedDriver, failing: int, message: list[str]) -> None:
    driver.write(gpus=two_gpus(), fail=[Failure('nvmlDeviceGetProcessUtilization', failing)])
    with Probe(driver.environment()) as probe:
        probe.begin('11')
        devices = probe.finish()['devices']
        messages = probe.messages()
    assert [device['own_utilization'] for device in devices] == [None, None]  # type: ignore[attr-defined] # JSON
    assert messages == [message]


def test_a_run_on_no_gpu_misses_no_utilization_by_process(driver: SimulatedDriver) -> None:
    driver.write(gpus=two_gpus(), fail=[Failure('nvmlDeviceGetProcessUtilization', NO_PERMISSION)])
    with Probe(driver.environment()) as probe:
        probe.begin('12')
        probe.finish()
        assert probe.messages() == []


def test_a_hanging_opening_delays_nothing_and_its_gpus_are_taken_in_late(driver: SimulatedDriver) -> None:
    driver.write(gpus=two_gpus(), hang=[Hang('nvmlInit*')])
    with Probe(driver.environment()) as probe:
        assert probe.ask('start') is None
        assert probe.ask('wait 0.01') is False
        probe.ask('members 11')
        assert probe.totals() == NOTHING_KNOWN
        until(lambda: probe.messages() == [['warning', NOT_ANSWERED]])
        assert probe.messages() == []
        driver.write(gpus=two_gpus())
        until(lambda: probe.totals()['main'] == 90)
        assert probe.finish()['count'] == 2


def test_a_hanging_later_call_keeps_what_was_known(driver: SimulatedDriver) -> None:
    driver.write(gpus=two_gpus())
    with Probe(driver.environment()) as probe:
        probe.begin('11')
        until(lambda: probe.totals()['main'] == 90)
        driver.write(gpus=two_gpus(), hang=[Hang('nvmlDeviceGetMemoryInfo*', gpu=1)])
        until(lambda: probe.messages() == [['warning', NOT_ANSWERED]])
        totals = probe.ask('finish 0.01')
        assert isinstance(totals, dict)
        assert (totals['system'], totals['main']) == (90, 90)
        assert probe.messages() == []


def test_a_driver_that_hangs_until_the_end_of_a_short_run(driver: SimulatedDriver) -> None:
    driver.write(gpus=two_gpus(), hang=[Hang('nvmlInit*')])
    with Probe(driver.environment()) as probe:
        assert probe.ask('start') is None
        assert probe.ask('wait 0.01') is False
        assert probe.ask('finish 0.1') == NOTHING_KNOWN
        assert probe.messages() == [
            ['warning', 'The GPU driver had not answered yet when the run ended; GPU figures are unknown.']
        ]


def test_an_unknown_uuid_that_is_found_out_late_is_told(driver: SimulatedDriver) -> None:
    driver.write(gpus=[Gpu(uuid='GPU-a')], hang=[Hang('nvmlInit*')])
    with Probe(driver.environment()) as probe:
        assert probe.ask('start 0.1 GPU-x') is None
        assert probe.ask('wait 0.01') is False
        driver.write(gpus=[Gpu(uuid='GPU-a')])
        text = 'gpu_uuids must be UUIDs of GPUs of this machine (GPU-a); GPU figures are unknown.'
        until(lambda: ['warning', text] in probe.messages())
