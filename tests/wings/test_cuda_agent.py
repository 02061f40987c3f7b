"""``gpu-tracker agent --cuda``, with a stand-in for the probe in the table of resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.gpus.machine import host_name
from support.cuda.table_of_resources import with_stand_in
from support.fleet.agent_program import agent
from support.gpus.gpu_machine import GB, Machine, running, sees_all_processes
from support.simulated_nvml import Gpu, Process
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

PROBE = """
from gpu_tracker.cuda_probe.agent_metrics import CudaMetrics
from gpu_tracker.cuda_probe.probe_session import open_probe as probe_of
from support.cuda.fake_probe import StandInProbe

def opened():
    return CudaMetrics(probe_of(StandInProbe))
"""
"""Sees one CUDA program in each process that it follows."""

NO_RIGHT = """
from gpu_tracker.errors import ProbeUnavailableError

def opened():
    raise ProbeUnavailableError('CUDA calls cannot be probed: this process lacks CAP_BPF.')
"""

OPTIONS = ('--cuda', '--export-processes', '--interval=0.1')
PART = 'metrics'
UP = 'gpu_tracker_cuda_probe_up'


pytestmark = [pytest.mark.machine(gpus=[Gpu(total=GB)])]


@sees_all_processes
def test_processes_on_the_gpus_are_probed(machine: Machine, tmp_path: Path) -> None:
    with running() as pid:
        machine.write(gpus=[Gpu(total=GB, processes=[Process(pid, memory=GB // 2)])])
        with agent(machine, *OPTIONS, env=with_stand_in(tmp_path, PART, PROBE)) as served:
            found = eventually(lambda: of_cuda(served, 'gpu_tracker_cuda_launches_total'))
            assert list(found.values()) == [1000]
            assert f'host="{host_name()}"' in next(iter(found))
            assert f'pid="{pid}",program="cat"' in next(iter(found))
            assert of_cuda(served, UP) == {f'{UP}{{host="{host_name()}"}}': 1}
            assert list(of_cuda(served, 'gpu_tracker_gpu_process_memory_bytes').values()) == [GB // 2]
    assert served.said == []


def test_a_missing_right_is_one_line_and_the_agent_serves_without(machine: Machine, tmp_path: Path) -> None:
    with agent(machine, *OPTIONS, env=with_stand_in(tmp_path, PART, NO_RIGHT)) as served:
        assert served.said == ['gpu-tracker: agent: CUDA calls cannot be probed: this process lacks CAP_BPF.\n']
        assert list(of_cuda(served, 'gpu_tracker_cuda').values()) == [0]
        assert set(of_cuda(served, 'gpu_tracker_cuda')) <= {f'{UP}{{host="{host}"}}' for host in ('', host_name())}
        assert served.seen()['gpus'] is not None


def test_without_the_option_nothing_of_it_is_looked_up(machine: Machine, tmp_path: Path) -> None:
    trace = tmp_path / 'trace'
    source = f'open({str(trace)!r}, "w")\n{PROBE}'
    with agent(machine, '--export-processes', env=with_stand_in(tmp_path, PART, source)) as served:
        assert of_cuda(served, 'gpu_tracker_cuda') == {}
    assert not trace.exists()


def test_processes_are_told_only_where_that_is_allowed(machine: Machine) -> None:
    ((code, printed, errors),) = machine.told_each(['agent', '--cuda', '--port=0'])
    assert (code, printed) == (125, '')
    assert errors == "gpu-tracker: --cuda needs --export-processes\nTry 'gpu-tracker agent --help'.\n"
    assert machine.driver.calls() == []


def of_cuda(served, name: str) -> dict[str, float]:
    """Return the samples whose name begins so."""
    return {sample: value for sample, value in served.metrics().items() if sample.startswith(name)}
