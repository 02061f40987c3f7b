"""A second vendor of GPUs, added to a copy of the package with one folder and one line, goes through all of it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.cli_program import gpu_tracker, started
from support.fleet.agent_program import AgentProgram
from support.made_up_vendor import NAME, PackageWithTwoVendors
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GB = 1_000_000_000
TRACKED = """
import json, os, subprocess, sys
import gpu_tracker

assert gpu_tracker.__file__.startswith(sys.argv[1]), gpu_tracker.__file__
tracker = gpu_tracker.Tracker(sleep_time=0.1, gpu_ram_unit='bytes', **json.loads(sys.argv[2]))
print(os.getpid(), flush=True)
input()
tracker.start()
print('started', flush=True)
input()
tracker.stop()
print(json.dumps(tracker.to_json()))
"""
READY = 'gpu-tracker: agent: serving '


@pytest.fixture
def package(tmp_path: Path) -> PackageWithTwoVendors:
    return PackageWithTwoVendors(tmp_path / 'package')


@pytest.fixture
def environment(package: PackageWithTwoVendors, tmp_path: Path) -> dict[str, str]:
    left_out = {'CUDA_VISIBLE_DEVICES', 'CUDA_DEVICE_ORDER', 'LD_LIBRARY_PATH'}
    usual = {name: value for name, value in os.environ.items() if name not in left_out}
    return usual | {'PYTHONPATH': str(package.folder), 'GPU_TRACKER_CLAIMS': str(tmp_path / 'claims'), 'COLUMNS': '200'}


def gpu(number: int, used: int, *processes: tuple[int, int], utilization: float = 0.0) -> dict[str, object]:
    return {
        'uuid': f'GPU-made-up-{number}',
        'name': 'Made_Up Model 1',
        'memory_total': 10 * GB,
        'memory_used': used,
        'utilization': utilization,
        'processes': processes,
    }


@pytest.mark.parametrize('options', [{}, {'gpu_brand': NAME}], ids=['the first with a driver', 'by its name'])
def test_the_tracker_measures_its_gpus(package: PackageWithTwoVendors, environment: dict[str, str], options) -> None:
    package.write([gpu(0, 0)])
    with subprocess.Popen(
        [sys.executable, '-c', TRACKED, str(package.folder), json.dumps(options)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        pid = int(process.stdout.readline())
        package.write([gpu(0, 5 * GB, (pid, 4 * GB), utilization=40.0), gpu(1, GB)])
        process.stdin.write('\n')
        process.stdin.flush()
        assert process.stdout.readline() == 'started\n'
        seen = package.reads
        eventually(lambda: package.reads >= seen + 4)  # two of each GPU at least, one of them a whole reading
        printed, errors = process.communicate('\n', TIMEOUT)
    assert errors == ''
    result = json.loads(printed)
    assert result['max_gpu_ram'] == {
        'unit': 'bytes',
        'system_capacity': 20 * GB,
        'system': 6 * GB,
        'main': 4 * GB,
        'descendants': 0,
        'combined': 4 * GB,
    }
    assert result['gpu_utilization']['system_gpu_count'] == 2
    assert result['gpu_utilization']['gpu_percentages']['max_sum_percent'] == 40.0


def test_the_table_and_available_show_them(package: PackageWithTwoVendors, environment: dict[str, str]) -> None:
    package.write([gpu(0, 5 * GB, (os.getpid(), 4 * GB)), gpu(1, GB)])
    table = gpu_tracker('gpus', '--no-color', env=environment)
    assert (table.returncode, table.stderr) == (0, '')
    lines = [line.split() for line in table.stdout.splitlines()]
    assert [line[:4] for line in lines[1:]] == [['made_up:0', '[~]', 'Model', '1'], ['made_up:1', '[', ']', 'Model']]
    free = gpu_tracker('available', env=environment)
    assert (free.returncode, free.stdout, free.stderr) == (0, '1\n', '')
    claimed = gpu_tracker('available', '--claim', '--claim-seconds=60', '--uuid', env=environment)
    assert claimed.stdout == 'GPU-made-up-1\n'
    assert gpu_tracker('available', env=environment).returncode == 1


def test_no_driver_of_any_vendor_is_no_gpu(environment: dict[str, str]) -> None:
    table = gpu_tracker('gpus', env=environment)
    assert (table.returncode, table.stdout) == (0, '')
    assert table.stderr == (
        'gpu-tracker: no GPU driver is installed or loaded on this machine. See "gpu-tracker explain no-gpu-driver".\n'
    )


@contextlib.contextmanager
def agent(environment: dict[str, str]) -> Iterator[AgentProgram]:
    with started('agent', '--port=0', '--interval=0.1', env=environment) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith(READY), line
        yield AgentProgram(line.removeprefix(READY).split()[0].rstrip('/'), process, [line])


def test_the_agent_reports_them(package: PackageWithTwoVendors, environment: dict[str, str]) -> None:
    package.write([gpu(0, 5 * GB), gpu(1, GB)])
    with agent(environment) as running:
        gpus = running.seen()['gpus']
        assert [(one['uuid'], one['type'], one['status']) for one in gpus] == [
            ('GPU-made-up-0', 'Made_Up Model 1', 'in_use_unseen'),
            ('GPU-made-up-1', 'Made_Up Model 1', 'free'),
        ]
        assert 'GPU-made-up-1' in running.get('/metrics').text
