"""The short report on standard error, from real runs: standard output is the program's own."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpu_tracker import load
from gpu_tracker.errors import RecordingError
from support.cli_program import PROGRAM, Terminal, gpu_tracker, number_in, started
from support.simulated_nvml import Gpu, Process
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from support.gpus.gpu_machine import Machine

PLAIN = {name: value for name, value in os.environ.items() if name not in {'NO_COLOR', 'COLUMNS'}}
GB = 10**9
IN_PARTS = """
import gpu_tracker as gput
with gput.region('load'):
    pass
with gput.region('train'):
    sum(range(10**6))
"""


def seen_busy(recording: Path) -> bool:
    with contextlib.suppress(RecordingError), load(recording) as found:
        return sum(sample.utilization == 100 and bool(sample.combined_ram) for sample in found.gpu_samples()) > 3
    return False


def test_standard_output_is_that_of_the_program_alone() -> None:
    run = gpu_tracker('sh', '-c', 'echo out; echo err >&2; exec sleep 0.2')
    assert (run.returncode, run.stdout) == (0, 'out\n')
    assert re.fullmatch(
        r"err\nsh -c 'echo out; echo err >&2; exec sleep 0.2'   ended after \S+ m?s\n"
        r'RAM     (≥ )?\S+ .B( at most)?( +CPU \S+ of \d+ cores?)? +1 thread\n',
        run.stderr,
    )


@pytest.mark.parametrize(
    ('options', 'script', 'code', 'how'),
    [
        ((), 'exit 3', 3, 'failed with exit code 3 after'),
        ((), 'kill -9 $$', 137, 'ended by SIGKILL after'),
        (('--time-limit=0.1',), 'exec sleep 600', 124, 'ended by its time limit after'),
    ],
)
def test_a_failure_is_in_the_first_line_also_with_quiet(
    options: tuple[str, ...], script: str, code: int, how: str
) -> None:
    for quiet in ((), ('-q',)):
        run = gpu_tracker(*options, *quiet, 'sh', '-c', script)
        lines = [line for line in run.stderr.splitlines() if not line.startswith('gpu-tracker: ')]
        assert (run.returncode, run.stdout) == (code, '')
        assert f'   {how} ' in lines[0]
        assert len(lines) == (1 if quiet else 2)


def test_a_quiet_run_without_failure_prints_nothing() -> None:
    run = gpu_tracker('-q', 'echo', 'out')
    assert (run.stdout, run.stderr) == ('out\n', '')


def test_the_statistics_of_the_sampling_precede_the_report() -> None:
    lines = gpu_tracker('--verbose', 'true').stderr.splitlines()
    assert lines[0].startswith('Sampling: ')
    assert lines[-2].startswith('true   ended after ')


def test_a_format_or_a_file_takes_its_place(tmp_path: Path) -> None:
    assert gpu_tracker('-f', 'summary', 'true').stderr == ''
    assert gpu_tracker('true', env=os.environ | {'GPU_TRACKER_FORMAT': 'summary'}).stdout.startswith('Time  ')
    written = gpu_tracker('-o', str(tmp_path / 'usage.txt'), 'true')
    assert (written.stdout, written.stderr) == ('', '')
    assert (tmp_path / 'usage.txt').read_text().startswith('Max RAM:\n')
    assert gpu_tracker('-o', '-', 'true').stdout.startswith('Max RAM:\n')


def test_the_parts_of_a_recorded_program_and_the_way_to_its_page(tmp_path: Path) -> None:
    run = gpu_tracker('--tf=run.db', sys.executable, '-c', IN_PARTS, cwd=tmp_path)
    parts, more = run.stderr.splitlines()[-2:]
    assert re.fullmatch(r'Parts   train \S+ m?s · load \S+ [µm]?s', parts)
    assert more == 'More    gpu-tracker report run.db'


@pytest.mark.machine(gpus=[Gpu(total=8 * GB)])
def test_a_gpu_and_its_curve(machine: Machine, tmp_path: Path) -> None:
    command = ('sh', '-c', 'echo $$ > pid; read line')
    recording = tmp_path / 'run.db'
    with started(
        f'--tf={recording}', '--st=0.05', *command, stdin=subprocess.PIPE, env=machine.environment(), cwd=tmp_path
    ) as run:
        pid = number_in(tmp_path / 'pid')
        machine.write(gpus=[Gpu(total=8 * GB, used=2 * GB, util=100, processes=[Process(pid, memory=2 * GB)])])
        eventually(lambda: seen_busy(recording))
        output, errors = run.communicate('\n')
    assert output == ''
    assert re.search(
        r'^GPU 0   2 GB of 8 GB at most   \d+(\.\d+)? % busy +[▁▂▃▄▅▆▇]*█[▁▂▃▄▅▆▇█]*$', errors, re.MULTILINE
    )


def test_a_terminal_gets_its_width_and_a_red_failure() -> None:
    words = [*PROGRAM, 'sh', '-c', 'exit 3', *['argument'] * 20]
    with Terminal(words, PLAIN | {'COLUMNS': '60', 'TERM': 'xterm'}) as terminal:
        eventually(lambda: 'RAM' in terminal.shown)
        first = terminal.shown.splitlines()[0]
    assert re.fullmatch(r"\x1b\[31msh -c 'exit 3' \S+…   failed with exit code 3 after .*\x1b\[0m", first)
    assert len(first) == len('\x1b[31m\x1b[0m') + 60


def test_no_color_and_no_unicode() -> None:
    variables = PLAIN | {'NO_COLOR': '1', 'LC_ALL': 'C', 'TERM': 'xterm', 'PYTHONUTF8': '0'}
    with Terminal([*PROGRAM, 'sh', '-c', ': é; exit 3'], variables) as terminal:
        eventually(lambda: 'RAM' in terminal.shown)
        assert terminal.shown.startswith("sh -c ': ")
        assert terminal.shown.isascii()
