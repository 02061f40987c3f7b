"""``gpu-tracker probe`` as its users run it, on programs that call a stand-in for CUDA."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from support.cli_program import PROGRAM, Terminal, gpu_tracker, started, state_of
from support.cuda_stand_in import stand_in
from support.programs import need_program
from support.tracked_program import environment
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
alloc a 1000000; alloc b 5000; free a; stream s
launches 300 axpy s 64 1 1 256 1 1; sync s
launches 20 gemm default 8 1 1 128 1 1; device_sync
fail_alloc; fail_alloc; fail_launch; exit 9
"""
COMPLETE = 'CUDA probing complete.'
WITHOUT_RIGHTS = ('setpriv', '--bounding-set=-all', '--inh-caps=-all')


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a cache of its own."""
    return environment({'XDG_CACHE_HOME': str(tmp_path / 'cache')})


def probed(cache: dict[str, str], *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return gpu_tracker('probe', *map(str, arguments), env=cache, **options)


def test_the_figures_of_a_command_are_those_that_it_knows_itself(cache: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / 'report'
    run = probed(cache, '--json', '-o', path, '--', stand_in().program(), SCRIPT)
    assert run.stderr == f'{COMPLETE} Process completed with status code: 9\n'
    assert run.returncode == 9
    document = json.loads(path.read_text())
    (process,) = document['processes']
    assert process['ended'] is True
    assert (process['launches'], process['streams'], process['synchronisations']) == (320, 2, 2)
    assert (process['allocated_bytes'], process['memory_max_bytes'], process['memory_leaked_bytes']) == (
        1_005_000,
        1_005_000,
        5000,
    )
    # Of a program of a few milliseconds the names may not be known.
    assert [kernel['launches'] for kernel in process['kernels']] == [300, 20]
    assert [tuple(failure.values()) for failure in process['failures']] == [
        ('cudaMalloc', 2, 'cudaErrorMemoryAllocation', 2),
        ('cudaLaunchKernel', 9, 'cudaErrorInvalidConfiguration', 1),
    ]
    assert document['events_lost'] == 0


def test_the_table_of_a_shell_command(cache: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / 'report'
    run = probed(cache, '-o', path, '-e', f"'{stand_in().program()}' '{SCRIPT}' | cat >{tmp_path}/truth; exit 4")
    assert run.returncode == 4
    report = path.read_text()
    assert re.search(r'^ *\d+  .* \(ended\) +320 ', report, re.MULTILINE)
    assert re.search(r'^ *\d+ +300  .* 16,384  ', report, re.MULTILINE)
    assert re.search(r'^ *\d+ +2  cudaMalloc +cudaErrorMemoryAllocation \(2\)$', report, re.MULTILINE)


def test_a_process_is_looked_at_until_ctrl_c_and_goes_on(cache: dict[str, str]) -> None:
    script = 'repeat 2 { wait; launches 50 axpy default 1 1 1 32 1 1; device_sync }; wait'
    with stand_in().started(script) as running:
        running.wait_until_waiting()
        with Terminal([*PROGRAM, 'probe', '--live', '--interval=0.1', f'--pid={running.pid}'], cache) as terminal:
            eventually(lambda: 'No CUDA call was seen.' in terminal.shown)
            running.go_on()
            running.wait_until_waiting()
            eventually(lambda: re.search(rf'^ *{running.pid} +50  .*  axpy', terminal.shown, re.MULTILINE))
            terminal.press('\x03')
            assert terminal.wait() == 0
            assert f'{COMPLETE}\n' in terminal.shown
        running.go_on()
        running.wait_until_waiting()
        running.go_on()
        ran = running.finish()
    assert (ran.returncode, ran.truth.device.launches) == (0, 100)


def test_a_probe_that_is_killed_leaves_its_program_alone(cache: dict[str, str]) -> None:
    with stand_in().started('wait; launches 50 axpy default 1 1 1 32 1 1; device_sync') as running:
        running.wait_until_waiting()
        with started('probe', '--live', '--interval=0.1', f'--pid={running.pid}', env=cache) as process:
            assert process.stdout.readline().startswith('CUDA calls, seen for')
            process.send_signal(signal.SIGKILL)
            process.communicate()
        assert state_of(running.pid) not in {'', 'Z', 'T'}
        running.go_on()
        ran = running.finish()
    assert (ran.returncode, ran.truth.device.launches) == (0, 50)


def test_without_rights_one_sentence_names_them_and_the_command_runs(cache: dict[str, str]) -> None:
    need_program('setpriv')
    words = [*WITHOUT_RIGHTS, *PROGRAM, 'probe', '--json']
    run = subprocess.run([*words, '-e', 'exit 5'], env=cache, capture_output=True, text=True, check=False)
    problem = json.loads(run.stdout)['problem']
    assert 'CAP_BPF' in problem
    assert 'CAP_PERFMON' in problem
    assert run.stderr.splitlines()[0] == f'gpu-tracker: {problem} The command runs without the probe.'
    assert run.returncode == 5
    with subprocess.Popen(['cat'], stdin=subprocess.PIPE) as target:
        run = subprocess.run([*words, f'--pid={target.pid}'], env=cache, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr, run.returncode) == ('', f'gpu-tracker: {problem}\n', 125)


def test_a_file_that_is_no_library_of_cuda_is_told(cache: dict[str, str]) -> None:
    run = probed(cache, '--library=/bin/sh', '--', 'true')
    assert run.stderr == (
        "gpu-tracker: --library must be a file with functions of the CUDA runtime or driver, not '/bin/sh'\n"
    )
    assert run.returncode == 125
