from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.idle.config.idle_settings import GpuId
from gpu_tracker.idle.running.guardian_protocol import NotStarted
from gpu_tracker.idle.state import WatchedGpu
from gpu_tracker.processes import SAMPLER_MARK
from support.idle.guarded_program import Guarded
from support.simulated_nvml import Gpu, Hang, Process, SimulatedDriver
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from support.cli_program import Marked

GIB = 2**30
FIRST, SECOND = WatchedGpu(GpuId(0), 'GPU-a'), WatchedGpu(GpuId(1), 'GPU-b')


pytestmark = pytest.mark.usefixtures('marked')


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedDriver:
    driver = SimulatedDriver(tmp_path)
    for name, value in driver.environment().items():
        monkeypatch.setenv(name, value)
    return driver


def two_gpus(*processes: Process) -> list[Gpu]:
    return [
        Gpu(uuid='GPU-a', total=8 * GIB, util=10),
        Gpu(uuid='GPU-b', total=8 * GIB, used=GIB, util=80, processes=list(processes)),
    ]


def test_gpu_ram_and_the_utilization_of_the_programs_own_gpus_are_told(driver: SimulatedDriver) -> None:
    driver.write(gpus=two_gpus())
    with Guarded(['sleep', '3600'], gpus=(SECOND,)) as guarded:
        driver.write(gpus=two_gpus(Process(guarded.started().pid, memory=GIB)))
        before = driver.calls().count('nvmlDeviceGetMemoryInfo_v2')
        eventually(lambda: driver.calls().count('nvmlDeviceGetMemoryInfo_v2') >= before + 3)
        guarded.running.stop('enough', 5)
        usage = guarded.ended().usage
    assert (usage.max_gpu_ram_bytes, usage.gpu_utilization_percent) == (GIB, pytest.approx(80))


def test_the_utilization_of_gpus_that_the_driver_does_not_know_is_unknown(driver: SimulatedDriver) -> None:
    driver.write(gpus=two_gpus())
    with Guarded(['true'], gpus=(WatchedGpu(GpuId(0), 'GPU-of-before'),)) as guarded:
        assert guarded.started().unmeasured is None
        usage = guarded.ended().usage
    assert (usage.max_gpu_ram_bytes, usage.gpu_utilization_percent) == (0, None)


def test_a_driver_that_hangs_keeps_no_order_from_being_obeyed(driver: SimulatedDriver, marked: Marked) -> None:
    driver.write(gpus=two_gpus(), hang=[Hang('nvmlInitWithFlags')])
    with Guarded(['sleep', '3600'], gpus=(FIRST,)) as guarded:
        eventually(lambda: marked.processes(SAMPLER_MARK))
        guarded.running.stop('enough', 5)
        # An order that has to wait for the driver comes after Started, which is sent when the driver is given up.
        assert guarded.next(NotStarted) == NotStarted('enough', stopped=True)
    driver.write(gpus=two_gpus())  # the sampler ends when the driver answers, or after a while
