"""GPUs of six DRM drivers in the table, in what is free, and in tracked runs: real commands on folders from dumps."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from gpu_tracker.gpus.drm import open_backend
from support.cli_program import started, text_of
from support.fleet.agent_program import AgentProgram
from support.gpus.drm_tree import DrmTree, browser, devices_beside, dump
from support.gpus.forking_interpreter import forking_interpreter
from support.tracked_program import as_root, environment
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = {
    'amdgpu_gaming': ['amd:0 [~] GPU 0x73bf 73% 4.3/17.2 63°C 2410 187W'],
    'amdgpu_compute': [
        'amd:0 [~] Instinct MI300X OAM 97% 3.1/205.8 49°C 2106 305W',
        'amd:1 [ ] Instinct MI300X OAM 0% 0.3/205.8 49°C 132 132W',
    ],
    'amdgpu_apu': ['amd:0 [~] GPU 0x163f 35% 1.3/9.7 63°C 200 4W'],
    'i915': ['intel:0 [~] GPU 0x9a49 N/A N/A N/A 349 N/A', 'intel:1 [~] GPU 0x56a6 N/A N/A N/A 2000 N/A'],
    'xe': ['intel:0 [ ] GPU 0x64a0 N/A N/A N/A 800 N/A', 'intel:1 [~] GPU 0x56a0 N/A N/A/17.1 52°C 2400 N/A'],
    'nouveau': ['drm:0 [~] nouveau GPU 0x1f97 N/A N/A 44°C N/A 9W'],
    'browser': ['amd:0 [!] GPU 0x73bf 73% 4.3/17.2 63°C 2410 187W'],
}


class Figures(NamedTuple):
    """The GPU memory of a tracked run, in bytes, whose root is process 1001 of a dump and whose child is 1002."""

    main: int | None
    descendants: int | None
    capacity: int | None
    system: int | None
    utilization: float | None


RUNS = {
    'amdgpu_gaming': Figures(3_649_044_480, 557_494_272, 17_163_091_968, 4_294_967_296, 73.0),
    'amdgpu_compute': Figures(2_800_021_504, 0, 411_645_771_776, 3_397_365_504, 97.0),
    'amdgpu_apu': Figures(580_562_944, 48_082_944, 9_663_676_416, 1_317_011_456, 35.0),
    'i915': Figures(6_189_056, 2_762_960_896, None, None, 0.0),
    'xe': Figures(3_818_913_792, 48_672_768, None, None, 0.0),
    'nouveau': Figures(1_879_048_192, None, None, None, None),
    'browser': Figures(838_860_800, 0, 17_163_091_968, 4_294_967_296, 73.0),
}

COMMAND = """
import os, subprocess, sys

child = subprocess.Popen(['cat'], stdin=subprocess.PIPE)
with open(sys.argv[1], 'w') as file:
    print(os.getpid(), child.pid, file=file)
open(sys.argv[2]).read()
child.communicate()
"""


class Machine(NamedTuple):
    """A dump, and two processes that take the places of those in it."""

    tree: DrmTree
    environment: dict[str, str]

    def told(self, *words: str) -> Told:
        """Run gpu-tracker to its end."""
        return Told(*forking_interpreter(self.environment['LD_LIBRARY_PATH']).command([*words], self.environment))


class Told(NamedTuple):
    """What a command has said."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    tree = DrmTree(tmp_path)
    usual = {name: value for name, value in environment().items() if not name.endswith('_VISIBLE_DEVICES')}
    own = {'GPU_TRACKER_CLAIMS': str(tmp_path / 'claims'), 'COLUMNS': '200', 'LD_LIBRARY_PATH': '/nowhere'}
    return Machine(tree, usual | tree.environment() | own)


@pytest.fixture
def two_processes() -> Iterator[dict[int, int]]:
    command = ['cat']
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as first,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as second,
    ):
        yield {1001: first.pid, 1002: second.pid, 1003: 4_194_303, 1004: 4_194_302}
        first.kill()
        second.kill()


def lines_of(case: str) -> list[str]:
    return browser() if case == 'browser' else dump(case)


@as_root
@pytest.mark.parametrize('case', TABLES)
def test_the_table(machine: Machine, two_processes: dict[int, int], case: str) -> None:
    machine.tree.add(lines_of(case), two_processes)
    shown = machine.told('gpus', '--no-color')
    assert (shown.returncode, shown.stderr) == (0, '')
    _, *lines = shown.stdout.splitlines()
    assert [' '.join(line.split())[: len(row)] for line, row in zip(lines, TABLES[case], strict=True)] == TABLES[case]
    assert 'cat' in shown.stdout


def test_the_processes_of_the_table_are_those_of_the_machine(machine: Machine, two_processes: dict[int, int]) -> None:
    machine.tree.add('xe', two_processes)
    shown = machine.told('gpus', '--json')
    by_uuid = {gpu['uuid']: gpu for gpu in json.loads(shown.stdout)['gpus']}
    (process,) = by_uuid['intel-0000:03:00.0']['processes']
    assert (process['pid'], process['memory_bytes']) == (two_processes[1001], 3_818_913_792)
    assert (process['command'], process['computes']) == ('cat', True)


def test_a_dump_of_another_machine_has_processes_that_are_not_here(machine: Machine) -> None:
    machine.tree.add('amdgpu_apu', {1001: 4_194_304, 1002: 4_194_305})
    shown = machine.told('gpus', '--no-color')
    assert shown.stdout.splitlines()[1].split()[-4:] == ['?', 'N/A', '4194304,4194305', 'N/A']


def test_no_drm_driver_and_no_other_is_no_gpu(machine: Machine) -> None:
    shown = machine.told('gpus')
    assert shown.stderr == (
        'gpu-tracker: no GPU driver is installed or loaded on this machine. See "gpu-tracker explain no-gpu-driver".\n'
    )


@pytest.mark.parametrize(
    'words', [['gpus'], ['ls', '--json'], ['available'], ['-e', 'true'], ['--pid=1']], ids=' '.join
)
def test_all_commands_take_the_same_brands(machine: Machine, words: list[str]) -> None:
    done = machine.told(*words, '--gb=voodoo')
    accepted = 'one or more of nvidia, amd, intel, drm, separated by commas'
    assert f"--gb must be {accepted}, not 'voodoo'" in done.stderr
    assert done.returncode != 0


@pytest.mark.parametrize(
    ('brand', 'expected'),
    [('AMD', ['amd:0']), ('drm', ['amd:0', 'intel:0', 'intel:1']), ('intel, nvidia', ['intel:0', 'intel:1'])],
)
def test_the_table_of_a_brand(machine: Machine, brand: str, expected: list[str]) -> None:
    machine.tree.add('amdgpu_gaming', {1001: 4_194_304, 1002: 4_194_305})
    machine.tree.add(devices_beside('xe'))
    shown = machine.told('gpus', '--no-color', f'--gb={brand}')
    assert [line.split()[0] for line in shown.stdout.splitlines()[1:]] == expected


def test_no_gpu_of_a_brand(machine: Machine) -> None:
    machine.tree.add([line for line in dump('xe') if line.startswith('/sys/')])
    shown = machine.told('gpus', '--gb=amd,nvidia')
    assert (shown.stdout, shown.stderr) == ('', 'gpu-tracker: this machine has no GPU of AMD or NVIDIA\n')


@as_root
def test_a_gpu_that_may_be_in_use_outside_of_a_container_is_not_free(machine: Machine) -> None:
    machine.tree.add([line for line in dump('xe') if line.startswith('/sys/')])
    assert machine.told('available', '--gb=intel').stdout == '0,1\n'
    machine.tree.proc.rmdir()
    machine.tree.proc.symlink_to('/proc')
    words = ('unshare', '--pid', '--fork', '--mount-proc', sys.executable, '-m', 'gpu_tracker')

    def inside(*arguments: str) -> subprocess.CompletedProcess[str]:
        options = {'env': machine.environment, 'capture_output': True, 'text': True, 'timeout': TIMEOUT}
        return subprocess.run([*words, *arguments], check=False, **options)

    reason = 'it does not report its memory, and processes of other users or containers cannot be seen from here'
    assert f'Intel GPU 1 (Intel GPU 0x56a0): {reason}' in inside('available', '--gb=intel').stderr
    shown = inside('gpus', '--no-color').stdout.splitlines()[1:]
    assert [line.split()[:2] for line in shown] == [['intel:0', '[!]'], ['intel:1', '[!]']]


READY = 'gpu-tracker: agent: serving '


def xe_client(busy: int, passed: int) -> list[str]:
    return [
        'drm-driver:\txe',
        'drm-client-id:\t3',
        'drm-pdev:\t0000:03:00.0',
        'drm-resident-vram0:\t4 MiB',
        f'drm-cycles-ccs:\t{busy}',
        f'drm-total-cycles-ccs:\t{passed}',
    ]


@as_root
def test_the_agent_reports_how_busy_the_gpu_is_with_each_process(
    machine: Machine, target: subprocess.Popen[bytes]
) -> None:
    machine.tree.add([line for line in dump('xe') if line.startswith('/sys/')])
    machine.tree.client(target.pid, 5, xe_client(0, 0))
    cycles = itertools.count(1)
    with started('agent', '--port=0', '--interval=0.1', env=machine.environment) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        running = AgentProgram(line.removeprefix(READY).split()[0].rstrip('/'), process, [line])

        def gpu_and_process() -> tuple[float | None, float | None] | None:
            now = next(cycles)
            machine.tree.client(target.pid, 5, xe_client(25 * now, 100 * now))
            (card,) = (gpu for gpu in running.host()['gpus'] if gpu['uuid'] == 'intel-0000:03:00.0')
            (found,) = card['processes'] or [{'utilization_percent': None}]
            return (card['utilization_percent'], found['utilization_percent']) if card['utilization_percent'] else None

        assert eventually(gpu_and_process) == (25.0, 25)


class Run:
    """A command under ``gpu-tracker`` that lives from the writing of its processes to its release."""

    def __init__(self, folder: Path) -> None:
        self._pids = folder / 'pids'
        self._gate = folder / 'gate'
        os.mkfifo(self._gate)

    def words(self, *options: str) -> list[str]:
        """Return the arguments of gpu-tracker."""
        command = ['--', sys.executable, '-c', COMMAND, str(self._pids), str(self._gate)]
        return ['--format=json', '--st=0.1', '--gru=bytes', *options, *command]

    def pids(self) -> dict[int, int]:
        """Return the processes, as soon as they run."""
        line = eventually(lambda: text_of(self._pids) if text_of(self._pids).endswith('\n') else '')
        return dict(zip((1001, 1002), map(int, line.split()), strict=True))

    def end(self) -> None:
        """Let the command end."""
        self._gate.write_text('')


def has_figures(text: str, expected: Figures) -> bool:
    """Return whether a report has what is known of the processes only after some readings."""
    if not text:
        return False
    report = json.loads(text)
    main, descendants = (report['max_gpu_ram'][whose] for whose in ('main', 'descendants'))
    utilization = report['gpu_utilization']['gpu_percentages']['max_sum_percent']
    return (
        bool(main)
        and (descendants != 0 or expected.descendants == 0)
        and (utilization is not None or expected.utilization is None)
    )


def tracked(machine: Machine, folder: Path, case: str, *options: str) -> dict[str, Any]:
    """Return the report of a run whose processes are those of a dump."""
    machine.tree.add([line for line in lines_of(case) if line.startswith('/sys/')])
    run, file = Run(folder), folder / 'report'
    with started(*run.words(f'--output={file}', *options), env=machine.environment) as process:
        machine.tree.add_at_once(lines_of(case), run.pids())
        eventually(lambda: has_figures(text_of(file), RUNS[case]))  # it is written again each second
        run.end()
        _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, errors
    report: dict[str, Any] = json.loads(file.read_text())
    return report


@pytest.mark.parametrize('case', RUNS)
def test_a_tracked_run(machine: Machine, tmp_path: Path, case: str) -> None:
    report = tracked(machine, tmp_path, case, '--gb=drm')
    ram, expected = report['max_gpu_ram'], RUNS[case]
    found = Figures(
        ram['main'],
        ram['descendants'],
        ram['system_capacity'],
        ram['system'],
        report['gpu_utilization']['gpu_percentages']['max_sum_percent'],
    )
    assert found == expected
    known = [size for size in (expected.main, expected.descendants) if size is not None]
    assert ram['combined'] == (sum(known) if known else None)
    is_lower_bound = 'max_gpu_ram.combined' in report.get('lower_bounds', ())
    assert is_lower_bound == (len(known) == 1)


def test_a_run_by_itself_counts_the_processes_on_an_integrated_gpu(machine: Machine, tmp_path: Path) -> None:
    report = tracked(machine, tmp_path, 'amdgpu_apu')
    assert report['max_gpu_ram']['combined'] == 628_645_888
    assert report['gpu_utilization']['system_gpu_count'] == 1


def dumped(root: Path, folder: Path) -> list[str]:
    """Return what the command in the documentation writes on the machine of a folder."""
    page = (Path(__file__).parents[2] / 'docs' / 'gpus.rst').read_text(encoding='utf-8')
    (block,) = re.findall(r'\.\. code-block:: bash\n\n((?:   .*\n)+)', page)
    command = textwrap.dedent(block).replace('drm=/sys', f'drm={root}/sys').replace('proc=/proc', f'proc={root}/proc')
    subprocess.run(['bash', '-c', command], cwd=folder, check=True, stdin=subprocess.DEVNULL)
    return [line.replace(str(root), '') for line in (folder / 'gpus.txt').read_text().splitlines()]


@pytest.mark.parametrize('case', TABLES)
def test_a_dump_as_users_send_it_has_all_that_is_read(tmp_path: Path, case: str) -> None:
    trees = [DrmTree(tmp_path / name) for name in ('theirs', 'ours')]
    trees[0].add(lines_of(case))
    trees[1].add(dumped(trees[0].root, tmp_path))
    theirs, ours = (open_backend(root=str(tree.root)) for tree in trees)
    assert theirs is not None
    assert ours is not None
    assert ours.survey() == theirs.survey()
    assert any(one.processes for one in ours.survey())
