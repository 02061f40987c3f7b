"""A monitor on a machine with a driver: MIG devices, processes that only the driver knows, GPUs that are lost."""

from __future__ import annotations

import pytest

from support.gpus.gpu_machine import GB, Machine, running, sees_all_processes
from support.idle.idle_monitor import IdleMonitor, config, foreign, make_gpus, process
from support.simulated_nvml import DRIVER_NOT_LOADED, Failure, Gpu, Mig, Process
from support.waiting import eventually

SAYING = 'sh -c "echo $0 sees $CUDA_VISIBLE_DEVICES; exec sleep 3600" {gpu}'
LOST = 'lost: fallen off the bus or otherwise out of reach (NVML code 15)'


def gpu(number, *processes, **fields):
    """Return a GPU whose device file has its number."""
    return Gpu(uuid=f'GPU-{number}', minor=number, total=9 * GB, processes=list(processes), **fields)


def divided(*processes):
    """Return a GPU with two MIG devices."""
    return gpu(0, *processes, mig=[Mig(uuid='MIG-a', gi=1, total=GB), Mig(uuid='MIG-b', gi=2, total=GB)])


@pytest.fixture
def machine(tmp_path):
    make_gpus(tmp_path, 2)
    machine = Machine(tmp_path)
    machine.write(gpus=[gpu(0), gpu(1)])
    return machine


@pytest.fixture
def start(machine, tmp_path):
    """Return what makes a monitor on the machine."""
    environment = machine.driver.environment()
    return lambda *sections: IdleMonitor(tmp_path, config(*sections), environment=environment)


def test_a_program_may_get_uuids(start):
    with start(process('a', SAYING, '1,0', use_uuids='yes')) as monitor:
        monitor.says('1,0 sees GPU-1,GPU-0\n')
        assert [gpu.uuid for gpu in monitor.status().gpus] == ['GPU-0', 'GPU-1']


@sees_all_processes
def test_a_process_that_only_the_driver_lists_makes_a_gpu_busy(start, machine):
    with start(process('zero', 'sleep 3600'), process('one', 'sleep 3600', '1')) as monitor, running() as pid:
        first, second = monitor.running('zero'), monitor.running('one')
        machine.write(gpus=[gpu(0, Process(pid, memory=GB)), gpu(1, Process(second, memory=GB))])
        assert monitor.not_running('zero').startswith(f'GPU 0 used by cat (pid {pid}')
        assert monitor.running('one') == second
        machine.write(gpus=[gpu(0), gpu(1)])
        monitor.running('zero', but=first)


@sees_all_processes
def test_mig_devices_are_told_apart(start, machine):
    machine.write(gpus=[divided()])
    with start(process('a', SAYING, '0:0'), process('b', SAYING, '0:1')) as monitor, running() as pid:
        first, second = monitor.running('a'), monitor.running('b')
        monitor.says('0:0 sees MIG-a\n')
        monitor.says('0:1 sees MIG-b\n')
        machine.write(gpus=[divided(Process(pid, memory=5, gi=2, ci=0))])
        assert monitor.not_running('b').startswith(f'GPU 0:1 used by cat (pid {pid}')
        assert monitor.running('a') == first
        machine.write(gpus=[divided()])
        monitor.running('b', but=second)
        with foreign(monitor.gpus / 'nvidia0'):  # on which of them is not known
            monitor.not_running('a')
            monitor.not_running('b')


def test_a_lost_gpu_stops_only_its_program_until_it_is_back(start, machine):
    with start(process('zero', 'sleep 3600'), process('one', 'sleep 3600', '1')) as monitor:
        first, second = monitor.running('zero'), monitor.running('one')
        machine.write(gpus=[Gpu(missing=True), gpu(1)])
        assert monitor.not_running('zero') == f'GPU 0 cannot be used: {LOST}'
        assert monitor.gpu('0').state == 'unavailable'
        assert monitor.running('one') == second
        machine.write(gpus=[gpu(0), gpu(1)])
        monitor.running('zero', but=first)
        assert monitor.running('one') == second


def test_a_driver_that_is_gone_ends_programs_and_not_the_monitor(start, machine):
    with start(process('a', 'sleep 3600')) as monitor:
        first = monitor.running('a')
        machine.write(fail=[Failure('nvml*', DRIVER_NOT_LOADED)])
        assert 'GPU 0 cannot be used: its driver is not loaded' in monitor.not_running('a')
        machine.write(gpus=[gpu(0), gpu(1)])
        monitor.running('a', but=first)
        eventually(lambda: 'the GPU driver works again' in monitor.log)


def test_thresholds_count_what_others_use(start, machine):
    section = '[gpu-all]\ngpus=ALL\nbusy_memory_mb=500\nbusy_utilization_percent=50'
    with start(section, process('zero', 'sleep 3600'), process('one', 'sleep 3600', '1')) as monitor:
        first = monitor.running('zero')
        monitor.running('one')
        machine.write(gpus=[gpu(0, used=GB), gpu(1)])
        assert monitor.not_running('zero') == 'GPU 0 1.0 GB of memory in use by others'
        machine.write(gpus=[gpu(0, util=90), gpu(1)])
        eventually(lambda: monitor.program('zero').reason == 'GPU 0 utilization 90 %')
        machine.write(gpus=[gpu(0), gpu(1)])
        monitor.running('zero', but=first)
