"""Looks at GPUs of a simulated driver, at the processes on them and at stand-ins for their device files."""

from __future__ import annotations

import contextlib
import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from support.gpus.gpu_machine import GB, Machine, running, sees_all_processes
from support.simulated_nvml import GPU_IS_LOST, VERSION_MISMATCH, Failure, Gpu, Hang, Mig, Process
from support.tracked_program import start
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_EYE = """
import asyncio, json, sys
from gpu_tracker.idle.config.idle_settings import GpuSection, Settings
from gpu_tracker.idle.observing.driver import Driver
from gpu_tracker.idle.observing.machine_observer import open_observer

now = 0.0
observer = open_observer(sys.argv[1], driver=Driver(timeout=float(sys.argv[2]), clock=lambda: now))
with asyncio.Runner() as runner:
    for line in sys.stdin:
        asked = json.loads(line)
        now += asked['later']
        settings = Settings(gpus=(GpuSection('all', None, **asked['section']),))
        observation = runner.run(observer.poll(settings, lambda pid: pid in asked['ours']))
        seen = [[str(one.gpu), one.uuid, [user.pid for user in one.users], one.busy] for one in observation.gpus]
        print(json.dumps([seen, observer.take_messages()]), flush=True)
    runner.run(observer.close())
"""

LONG = 20
"""Seconds of time-out, where the driver is to be waited for."""

LOST = 'cannot be used: lost: fallen off the bus or otherwise out of reach (NVML code 15)'
SILENT = 'the GPU driver does not answer'


class Eye:
    """A program that looks at a machine when it is asked to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def poll(self, *ours: int, later: float = 0, **section: Any) -> tuple[list[list[Any]], list[str]]:
        """Look; return of each GPU its name, UUID, users and why it is busy, and what is told.

        :param ours: The processes that belong to the idle wing's programs.
        :param later: Seconds that seem to have passed since the look before.
        :param section: Fields of the section for all GPUs.
        """
        print(json.dumps({'ours': ours, 'later': later, 'section': section}), file=self._process.stdin, flush=True)
        seen, told = json.loads(self._process.stdout.readline())
        of_the_testers_machine = ('the descriptors of ', '/proc hides ')
        return seen, [text for text in told if not text.startswith(of_the_testers_machine)]

    def gpus(self, *ours: int, **options: Any) -> list[list[Any]]:
        """Look, where there is nothing to be told."""
        seen, told = self.poll(*ours, **options)
        assert told == []
        return seen


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    folder = tmp_path / 'dev'
    folder.mkdir()
    return folder


@contextlib.contextmanager
def looking(machine: Machine, devices: Path, timeout: float = LONG) -> Iterator[Eye]:
    """Give an eye that is on the machine for the length of the block."""
    with start(_EYE, devices, timeout, env=machine.environment(), stdin=subprocess.PIPE) as process:
        try:
            yield Eye(process)
            process.stdin.close()
            assert process.wait(LONG) == 0
        finally:
            process.kill()


@contextlib.contextmanager
def holding(device: Path) -> Iterator[int]:
    """Give the process ID of a program that holds a file open."""
    with device.open() as file, running(stderr=file) as pid:
        file.close()  # here it is not to be held
        yield pid


@sees_all_processes
def test_a_process_comes_on_a_gpu_and_leaves_it(machine: Machine, devices: Path) -> None:
    machine.write(gpus=[Gpu(uuid='GPU-a', total=9 * GB), Gpu(uuid='GPU-b', total=9 * GB)])
    with looking(machine, devices) as eye, running() as foreign, running() as ours:
        assert eye.gpus(ours) == [['0', 'GPU-a', [], None], ['1', 'GPU-b', [], None]]
        processes = [Process(ours, memory=GB), Process(foreign, memory=GB, types='G')]
        machine.write(gpus=[Gpu(uuid='GPU-a', total=9 * GB), Gpu(uuid='GPU-b', total=9 * GB, processes=processes)])
        idle, busy = eye.gpus(ours)
        assert (idle, busy[:3]) == (['0', 'GPU-a', [], None], ['1', 'GPU-b', [foreign]])
        assert busy[3].startswith(f'used by cat (pid {foreign}')
        machine.write(gpus=[Gpu(uuid='GPU-a', total=9 * GB), Gpu(uuid='GPU-b', total=9 * GB)])
        assert eye.gpus(ours) == [['0', 'GPU-a', [], None], ['1', 'GPU-b', [], None]]


def test_a_holder_is_on_the_gpu_whose_device_file_the_driver_names(machine: Machine, devices: Path) -> None:
    machine.write(
        gpus=[
            Gpu(uuid='GPU-b', pci='00000000:81:00.0', minor=0),
            Gpu(uuid='GPU-a', pci='00000000:0A:00.0', minor=1),
        ]
    )
    for name in ('nvidia0', 'nvidia1', 'nvidiactl'):
        (devices / name).touch()
    with looking(machine, devices) as eye, holding(devices / 'nvidia0') as pid, holding(devices / 'nvidiactl'):
        assert [found[:3] for found in eye.poll()[0]] == [['0', 'GPU-a', []], ['1', 'GPU-b', [pid]]]


@sees_all_processes
def test_mig_devices_share_a_device_file_and_are_told_apart(machine: Machine, devices: Path) -> None:
    parts = [Mig(uuid='MIG-a', gi=1, total=GB), Mig(uuid='MIG-b', gi=2, total=GB)]
    (devices / 'nvidia0').touch()
    with looking(machine, devices) as eye, holding(devices / 'nvidia0') as pid:
        machine.write(gpus=[Gpu(total=9 * GB, mig=parts, processes=[Process(pid, memory=5, gi=2, ci=0)])])
        assert [found[:3] for found in eye.poll()[0]] == [['0:0', 'MIG-a', []], ['0:1', 'MIG-b', [pid]]]
        machine.write(gpus=[Gpu(total=9 * GB, mig=parts)])
        assert [found[:3] for found in eye.poll()[0]] == [['0:0', 'MIG-a', [pid]], ['0:1', 'MIG-b', [pid]]]


@sees_all_processes
def test_memory_and_utilization_of_others(machine: Machine, devices: Path) -> None:
    with looking(machine, devices) as eye, running() as ours:
        mine = [Process(ours, memory=GB)]
        machine.write(gpus=[Gpu(total=9 * GB, used=4_100_000_000, util=70, processes=mine), Gpu(total=9 * GB, util=45)])
        busy = [found[3] for found in eye.gpus(ours, busy_memory=3 * GB, busy_utilization=40)]
        assert busy == ['3.1 GB of memory in use by others', 'utilization 45 %']
        assert [found[3] for found in eye.gpus(ours, busy_memory=4 * GB)] == [None, None]


def test_a_gpu_is_lost_and_comes_back(machine: Machine, devices: Path) -> None:
    machine.write(gpus=[Gpu(uuid='GPU-a', total=GB), Gpu(uuid='GPU-b', total=GB)])
    with looking(machine, devices) as eye:
        both = eye.gpus()
        machine.write(gpus=[Gpu(missing=True), Gpu(uuid='GPU-b', total=GB)])
        assert eye.gpus() == [['0', 'GPU-a', [], LOST], ['1', 'GPU-b', [], None]]
        machine.write(gpus=[Gpu(uuid='GPU-a', total=GB), Gpu(uuid='GPU-b', total=GB)])
        assert eye.gpus(later=100) == both


def test_a_driver_that_hangs_is_not_waited_for_and_its_answer_brings_it_back(machine: Machine, devices: Path) -> None:
    gpus = [Gpu(uuid='GPU-a', total=GB)]
    (devices / 'nvidia0').touch()
    machine.write(gpus=gpus)
    with looking(machine, devices, timeout=0.5) as eye:
        assert eventually(lambda: eye.poll()[0] == [['0', 'GPU-a', [], None]])
        machine.write(gpus=gpus, hang=[Hang('nvmlDeviceGetMemoryInfo*')])
        assert eye.poll() == ([['0', 'GPU-a', [], None]], [SILENT])
        with holding(devices / 'nvidia0') as pid:
            assert [found[:3] for found in eye.gpus()] == [['0', 'GPU-a', [pid]]]
        machine.write(gpus=gpus)
        assert eventually(lambda: eye.poll() == ([['0', 'GPU-a', [], None]], ['the GPU driver works again']))


def test_a_driver_that_is_loaded_anew_is_opened_anew(machine: Machine, devices: Path) -> None:
    gpus = [Gpu(uuid='GPU-a', total=GB)]
    (devices / 'nvidia0').touch()
    machine.write(gpus=gpus)
    failed = (
        'The NVIDIA driver has lost a GPU: the GPU is no longer on the bus, or does not respond (NVML code 15). GPU '
        'figures are unknown until the machine is restarted. See "gpu-tracker explain gpu-lost".'
    )
    with looking(machine, devices) as eye:
        assert eye.gpus() == [['0', 'GPU-a', [], None]]
        machine.write(gpus=gpus, fail=[Failure('nvmlDeviceGetCount*', GPU_IS_LOST)])
        assert eye.poll() == ([['0', 'GPU-a', [], None]], [failed])
        machine.write(gpus=gpus, fail=[Failure('nvmlInit*', VERSION_MISMATCH)])
        mismatch = eye.poll()[1]
        assert len(mismatch) == 1
        assert mismatch[0].startswith('The NVIDIA driver and its library have different versions')
        machine.write(gpus=gpus)
        assert eye.gpus(later=9) == [['0', 'GPU-a', [], None]]
        assert eye.poll(later=2) == ([['0', 'GPU-a', [], None]], ['the GPU driver works again'])
    assert machine.driver.calls()[-1] == 'nvmlShutdown'


def test_gpus_appear_with_their_driver(machine: Machine, devices: Path) -> None:
    with looking(machine, devices) as eye:
        assert eye.poll() == ([], ['there is no GPU at the moment'])
        (devices / 'nvidia0').touch()
        assert eye.poll() == ([['0', None, [], None]], ['GPU 0 has appeared'])
        machine.write(gpus=[Gpu(uuid='GPU-a'), Gpu(uuid='GPU-b')])
        told = ['GPU 1 has appeared']
        assert eye.poll(later=11) == ([['0', 'GPU-a', [], None], ['1', 'GPU-b', [], None]], told)
