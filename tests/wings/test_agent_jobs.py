"""Jobs that run, as an agent with ``--jobs`` reports them: to whoever asks."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from support.fleet.agent_jobs import KEPT, jobs, rank
from support.fleet.agent_program import AgentProgram, agent
from support.gpus.gpu_machine import GB, Machine
from support.simulated_nvml import Gpu
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.machine(gpus=[Gpu(total=80 * GB, used=GB, util=3, temperature=31)])]

HERE = os.uname().nodename


def wait_until_gone(served: AgentProgram) -> None:
    """Wait until an agent reports no jobs any more."""
    eventually(lambda: served.host()['jobs'] == [])


def of_jobs(samples: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in samples.items() if name.startswith('gpu_tracker_job')}


def test_a_running_job_and_its_end(machine: Machine, tmp_path: Path) -> None:
    folder = tmp_path / 'jobs' / 'resnet'
    folder.mkdir(parents=True)
    with rank(folder, 0) as first, rank(folder, 1), agent(machine, f'--jobs={tmp_path / "jobs"}') as served:
        (job,) = jobs(served)
        known = {name: job[name] for name in ('job', 'folder', 'step', 'launcher', 'ranks', 'ranks_expected')}
        assert known == {
            'job': '4711',
            'folder': 'resnet',
            'step': None,
            'launcher': 'gpu-tracker',
            'ranks': 2,
            'ranks_expected': 2,
        }
        assert 100_000_000 < job['memory_max_bytes'] < 400_000_000
        assert 0 < job['cpu_seconds'] < TIMEOUT
        assert served.host()['jobs_problem'] is None
        found = of_jobs(served.metrics())
        assert found['gpu_tracker_jobs_up'] == 1
        labels = f'{{folder="resnet",host="{HERE}",job="4711",node="n1",pid="",rank="%d",step=""}}'
        for number in range(2):
            assert found[f'gpu_tracker_job_rank_memory_max_bytes{labels % number}'] > KEPT
            assert found[f'gpu_tracker_job_rank_cpu_seconds_total{labels % number}'] > 0
        assert eventually(lambda: [told['ranks'] for told in served.get('/api/v1/fleet').json['hosts'][0]['jobs']]) == [
            2
        ]
        assert 'bytearray' not in served.get('/api/v1/host').text  # which is in the command
        first.communicate()
        assert first.returncode == 0
        assert eventually(lambda: [told['ranks'] for told in served.host()['jobs']] == [1])


def test_a_rank_that_was_killed_with_its_tracker_is_gone(machine: Machine, tmp_path: Path) -> None:
    folder = tmp_path / 'job'
    with agent(machine, f'--jobs={folder}') as served:
        assert eventually(lambda: served.host()['jobs_problem']) == (
            'the folder of the jobs cannot be read: No such file or directory'
        )
        assert served.metrics()['gpu_tracker_jobs_up'] == 0
        with rank(folder, 0) as process:
            jobs(served)
            process.send_signal(signal.SIGKILL)
            process.wait()
            wait_until_gone(served)
            assert served.host()['jobs_problem'] is None
            assert of_jobs(served.metrics()) == {'gpu_tracker_jobs_up': 1}


def test_a_wrong_folder(machine: Machine) -> None:
    assert machine.told('agent', '--jobs=') == (
        125,
        '',
        "gpu-tracker: --jobs must be the path of a folder, not ''\n",
    )
