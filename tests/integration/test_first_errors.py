"""The errors that newcomers meet with GPUs, containers and folders: whole texts, wherever the same is asked for."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from support.claims.claim_actors import tool
from support.cli_program import PROGRAM
from support.gpus.gpu_machine import GB, Machine
from support.simulated_nvml import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    LIBRARY_NOT_FOUND,
    NO_PERMISSION,
    VERSION_MISMATCH,
    Failure,
    Gpu,
    Process,
)
from support.tracked_program import as_root, run, run_words
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from pathlib import Path

BLOCKED = 17
"""NVML_ERROR_OPERATING_SYSTEM, as driver 580 answers where its device files are no devices of its own."""
COMPLETE = 'Resource tracking complete. Process completed with status code: 0\n'
TRACK = """
import gpu_tracker

with gpu_tracker.Tracker() as tracker:
    pass
print(tracker.resource_usage.max_gpu_ram.system)
"""
FAILURES = [
    (
        VERSION_MISMATCH,
        (
            'The NVIDIA driver and its library have different versions (NVML code 18), as after an update without a '
            'restart. GPU figures are unknown until you reload the driver or restart the machine. See '
            '"gpu-tracker explain driver-mismatch".'
        ),
    ),
    (
        BLOCKED,
        (
            'The operating system blocks the NVIDIA driver for this process (NVML code 17), for example because a '
            'container or job was given no GPU. GPU figures are unknown. See "gpu-tracker explain driver-permission".'
        ),
    ),
    (
        NO_PERMISSION,
        (
            'This user may not use the NVIDIA driver (NVML code 4). GPU figures are unknown until the user may open '
            '/dev/nvidiactl and /dev/nvidia0. See "gpu-tracker explain driver-permission".'
        ),
    ),
    (
        GPU_IS_LOST,
        (
            'The NVIDIA driver has lost a GPU: the GPU is no longer on the bus, or does not respond (NVML code 15). '
            'GPU figures are unknown until the machine is restarted. See "gpu-tracker explain gpu-lost".'
        ),
    ),
]
NOT_LOADED = 'is installed or loaded on this machine. See "gpu-tracker explain no-gpu-driver".\n'
"""Where NVIDIA's module is not loaded, which is so on the machines that these tests run on."""
IN_CONTAINER = (
    'gpu-tracker: The GPU driver does not tell which process of this container uses how much GPU memory, so the GPU '
    "memory of the processes is unknown. A container that shares the machine's process IDs would know it: docker run "
    '--pid=host, or hostPID: true in a pod of Kubernetes. See "gpu-tracker explain container-gpu-memory".\n'
)
NO_LIBRARY = (
    "NVIDIA's kernel module and devices are here, but the driver's library libnvidia-ml.so.1 is missing. GPU figures "
    'are unknown. In a container, use docker run --gpus all '
    "-e NVIDIA_DRIVER_CAPABILITIES=compute,utility. On a machine, install the driver's package. "
    'See "gpu-tracker explain driver-library".'
)
WITH_DEVICES = (
    'mkdir -p driver/nvidia dev && echo 580.65 >driver/nvidia/version && mount --bind driver /proc/driver && '
    'mount -t tmpfs none dev && mkdir dev/shm && cp -a /dev/null /dev/zero /dev/urandom dev && touch dev/nvidiactl && '
    'mount --move dev /dev && "$@"; echo $?'
)
"""Runs a command on a machine that has NVIDIA's kernel module and its devices, in a mount namespace; ends with the exit
code of the command in a line."""
PIPES = dict.fromkeys(('stdin', 'stdout', 'stderr'), subprocess.PIPE)
SEE_CANNOT_WRITE = 'See "gpu-tracker explain cannot-write".\n'


@pytest.mark.parametrize(('code', 'text'), FAILURES)
def test_a_driver_that_fails_is_named_alike_by_the_table_and_the_choice(machine: Machine, code: int, text: str) -> None:
    machine.write(gpus=[Gpu(total=GB)], fail=[Failure('nvmlInit*', code)])
    table, choice = machine.told_each(['gpus'], ['available'])
    assert table == choice == (125, '', f'gpu-tracker: {text}\n')


def test_a_driver_that_fails_is_named_alike_by_a_run_and_the_tracker(machine: Machine) -> None:
    """Test one of the texts; test_gpus_nvidia_failures.py has those of the other codes."""
    code, text = FAILURES[1]
    machine.write(gpus=[Gpu(total=GB)], fail=[Failure('nvmlInit*', code)])
    exit_code, report, errors = machine.told('--json', '-e', 'true')
    assert (exit_code, errors) == (0, f'gpu-tracker: {text}\n{COMPLETE}')
    assert json.loads(report)['max_gpu_ram']['system'] is None
    tracked = run(TRACK, env=machine.environment())
    assert (tracked.stdout, tracked.stderr) == ('None\n', f'{text}\n')


@pytest.mark.parametrize('code', [DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND])
def test_gpus_that_were_asked_for_where_there_is_no_driver(machine: Machine, code: int) -> None:
    machine.write(fail=[Failure('nvmlInit*', code)])
    exit_code, report, errors = machine.told('--json', '--gb=nvidia', '-e', 'true')
    assert errors == f'gpu-tracker: GPU figures are 0: no driver of NVIDIA GPUs {NOT_LOADED}{COMPLETE}'
    assert (exit_code, json.loads(report)['max_gpu_ram']['system']) == (0, 0.0)
    assert machine.told('--gb=nvidia', '-q', '-o', '/dev/null', 'true') == (0, '', '')
    assert machine.told('--guuids=GPU-1', 'true') == (
        125,
        '',
        (
            "gpu-tracker: --guuids must be UUIDs of GPUs of this machine (it has none), not 'GPU-1'. "
            '"gpu-tracker gpus --json" lists them; without a GPU leave it out. '
            'See "gpu-tracker explain gpu-uuids".\n'
        ),
    )
    assert machine.told('gpus') == (0, '', f'gpu-tracker: no GPU driver {NOT_LOADED}')
    assert machine.told('-o', '/dev/null', 'true') == (0, '', '')  # nobody has asked for a GPU


@as_root
def test_gpus_that_programs_can_use_and_nobody_can_read(machine: Machine, tmp_path: Path) -> None:
    """As in a container whose NVIDIA_DRIVER_CAPABILITIES are compute alone: 0 would be wrong and look right."""
    without_library = machine.environment({'LD_LIBRARY_PATH': ''})
    words = [*tool('unshare'), '--mount', 'sh', '-c', WITH_DEVICES, 'sh', *PROGRAM]
    tracked, table = (
        run_words([*words, *arguments], env=without_library, cwd=tmp_path)
        for arguments in (('--json', '-o', 'report.json', '-e', 'true'), ('gpus',))
    )
    assert tracked.stderr == f'gpu-tracker: {NO_LIBRARY}\n{COMPLETE}'
    report = json.loads((tmp_path / 'report.json').read_text())
    assert set(report['max_gpu_ram'].values()) == {'gigabytes', None}
    assert report['gpu_utilization']['gpu_percentages']['mean_sum_percent'] is None
    assert (tracked.stdout, table.stdout, table.stderr) == ('0\n', '125\n', f'gpu-tracker: {NO_LIBRARY}\n')


@as_root
@pytest.mark.parametrize(
    ('listed', 'used', 'memory', 'warning'),
    [
        pytest.param([Process(4_194_303, memory=3 * 10**8)], 3 * 10**8, None, IN_CONTAINER, id="the machine's IDs"),
        pytest.param([Process(2, memory=0)], 3 * 10**8, None, IN_CONTAINER, id="the container's, without memory"),
        pytest.param([Process(2, memory=3 * 10**8)], 3 * 10**8, 0.3, '', id="the container's"),
        pytest.param([], 0, 0.0, '', id='no process'),
    ],
)
def test_gpu_memory_in_a_container_with_process_ids_of_its_own(
    machine: Machine, tmp_path: Path, listed: list[Process], used: int, memory: float | None, warning: str
) -> None:
    """The command is the second process of the namespace, whose first one is gpu-tracker."""
    machine.write(gpus=[Gpu(total=GB, used=used, processes=listed)])
    runs = tmp_path / 'runs'
    command = ['sh', '-c', '> "$0" && exec cat', str(runs)]
    words = [*tool('unshare'), '--pid', '--fork', '--mount-proc', *PROGRAM, '--json', '--st=0.1', *command]

    def readings() -> int:
        return machine.driver.calls().count('nvmlDeviceGetSamples')

    with subprocess.Popen(words, env=machine.environment(), text=True, **PIPES) as process:
        eventually(runs.exists)
        before = readings()
        eventually(lambda: readings() > before + 2)  # one has begun and ended since
        printed, errors = process.communicate(timeout=TIMEOUT)
    assert errors == warning
    of_gpus = json.loads(printed)['max_gpu_ram']
    assert (of_gpus['main'], of_gpus['combined'], of_gpus['system']) == (memory, memory, used / 10**9)


@as_root
@pytest.mark.parametrize(
    ('mount', 'option', 'text'),
    [
        (
            'ro',
            '--tf=run.db',
            '--tf must be a path in a folder that can be written (its file system is read-only), not',
        ),
        ('ro', '--output=run.db', '--output must be a path that can be written (Read-only file system), not'),
        ('size=32k', '--tf=run.db', '--tf must be a file that SQLite can write (database or disk is full), not'),
    ],
)
def test_a_file_system_that_takes_no_file(tmp_path: Path, mount: str, option: str, text: str) -> None:
    script = f'mount -t tmpfs -o {mount} none . && cd "$PWD" && ! "$@"'
    words = [*tool('unshare'), '--mount', 'sh', '-c', script, 'sh', *PROGRAM, option, 'touch', str(tmp_path / 'ran')]
    finished = run_words(words, cwd=tmp_path)
    assert finished.stderr == f"gpu-tracker: {text} 'run.db'. {SEE_CANNOT_WRITE}"
    assert list(tmp_path.iterdir()) == []
