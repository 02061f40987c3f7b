"""Tracking with ``--cuda`` and the agent with ``--cuda``, on programs that call a stand-in for CUDA."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

from support.cli_program import started, text_of
from support.cuda.table_of_resources import with_stand_in
from support.cuda_stand_in import stand_in
from support.fleet.agent_program import agent
from support.gpus.gpu_machine import GB, Machine, sees_all_processes
from support.simulated_nvml import Gpu, Process
from support.tracked_program import answer, environment
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

REAL = 'from gpu_tracker.cuda_probe.{} import {} as opened\n'
"""Names the probe itself."""
NAMED = re.compile(r'"name": "axpy\b')
"""Stands in a report with the kernel."""


def installed(folder: Path) -> dict[str, str]:
    cache = {'XDG_CACHE_HOME': str(folder / 'cache')}
    return environment(with_stand_in(folder, 'opener', REAL.format('section', 'open_section')) | cache)


def test_the_figures_of_a_command_are_those_that_it_knows_itself(tmp_path: Path) -> None:
    program = stand_in().program()
    script = """
        alloc a 1000000; alloc b 5000; free a; fail_alloc; fail_alloc
        launches 3000 axpy default 64 1 1 256 1 1; device_sync
        fork { alloc c 7000; launch gemm default 1 1 1 32 1 1; sync default; free c }; reap; wait; exit 9
    """
    report = tmp_path / 'report'
    words = ('--cuda', '-f', 'json', '--gru=bytes', '-o', str(report), '--', f'./{program.name}', script)
    # Where it starts is not where the sampler is.
    with started(*words, cwd=program.parent, env=installed(tmp_path), stdin=subprocess.PIPE) as process:
        eventually(lambda: NAMED.search(text_of(report)))  # nobody can look for the name of a kernel after the end
        _, errors = process.communicate('go_on\n')
    assert '   failed with exit code 9 after ' in errors
    assert errors.count('\n') == 1
    assert process.returncode == 9
    cuda = json.loads(report.read_text())['cuda']
    assert (cuda['problem'], cuda['unit'], cuda['notes']) == (None, 'bytes', [])
    main, descendants, combined = cuda['main'], cuda['descendants'], cuda['combined']
    assert [group['processes'] for group in (main, descendants, combined)] == [1, 1, 2]
    assert [group['launches'] for group in (main, descendants, combined)] == [3000, 1, 3001]
    assert [group['synchronisations'] for group in (main, descendants, combined)] == [1, 1, 2]
    assert [group['allocated'] for group in (main, descendants, combined)] == [1_005_000, 7000, 1_012_000]
    assert [group['memory_max'] for group in (main, descendants, combined)] == [1_005_000, 7000, 1_005_000]
    assert [group['memory_leaked'] for group in (main, descendants, combined)] == [5000, 0, 5000]
    assert [group['failed_calls'] for group in (main, descendants, combined)] == [2, 0, 2]
    assert combined['launch_to_sync_seconds'] > 0
    first = cuda['processes'][0]
    assert (first['kernels'][0]['name'].partition('(')[0], first['kernels'][0]['launches']) == ('axpy', 3000)
    assert [(failed['function'], failed['error_name'], failed['count']) for failed in first['failures']] == [
        ('cudaMalloc', 'cudaErrorMemoryAllocation', 2)
    ]


def test_a_tracker_sees_the_calls_of_the_block_and_of_what_runs_already(tmp_path: Path) -> None:
    found = answer(
        """
import json, subprocess, sys
import gpu_tracker as gput
script = 'launches 5 axpy default 1 1 1 32 1 1; wait; launches 20 axpy default 1 1 1 32 1 1; device_sync; wait'
words = [sys.argv[1], script]
with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as before:
    before.stdout.readline()  # it waits
    with gput.Tracker(cuda=True) as tracker:
        before.stdin.write('go_on\\n')
        before.stdin.flush()
        before.stdout.readline()
        subprocess.run([sys.argv[1], 'launches 300 gemm default 1 1 1 32 1 1'], stdout=subprocess.DEVNULL)
    before.kill()
cuda = tracker.resource_usage.cuda
print(json.dumps([cuda.main.processes, cuda.descendants.processes, cuda.descendants.launches, cuda.problem]))
""",
        stand_in().program(),
        env=installed(tmp_path),
    )
    assert found == [0, 2, 320, None]


@sees_all_processes
def test_the_agent_tells_of_processes_on_the_gpus(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.write(gpus=[Gpu(total=GB)])
    script = 'alloc a 5000; obey'
    with stand_in().started(script) as running:
        running.wait_until_waiting()
        machine.write(gpus=[Gpu(total=GB, processes=[Process(running.pid, memory=GB // 2)])])
        probe = with_stand_in(tmp_path, 'metrics', REAL.format('agent_metrics', 'open_metrics'))
        environment = probe | {'XDG_CACHE_HOME': str(tmp_path / 'cache')}
        with agent(machine, '--cuda', '--export-processes', '--interval=0.1', env=environment) as served:

            def launches() -> list[float]:
                running.tell('launch axpy default 1 1 1 32 1 1')
                return [value for name, value in served.metrics().items() if name.startswith(f'{CUDA}launches_total')]

            eventually(launches)  # it is followed
            running.tell('alloc b 7000; fail_alloc')
            found = eventually(lambda: settled(served.metrics()))
        assert found == (7000, 1)


CUDA = 'gpu_tracker_cuda_'


def settled(metrics: dict[str, float]) -> tuple[float, float] | None:
    """Return the bytes in use and the failed calls, as soon as there are any."""
    in_use = [value for name, value in metrics.items() if name.startswith(f'{CUDA}memory_in_use_bytes')]
    failed = [value for name, value in metrics.items() if name.startswith(f'{CUDA}failures_total')]
    return (in_use[0], failed[0]) if in_use and failed else None
