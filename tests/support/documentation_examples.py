"""Every example in README.rst and docs/ is run as it stands there.

- ``.. code-block:: python`` is a whole program. Where a ``text`` block with ``:class: output`` comes next, that is what
  it prints.
- ``.. code-block:: console`` is a terminal: each ``$`` line is run, has to succeed and to print what stands below it.

In expected output any number stands for every other number, any size or time for every other one whatever its unit, any
curve and any gap between columns for every other one, and ``...`` for anything.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.atop.atop_daemon import AtopDaemon
from support.cuda_stand_in import stand_in
from support.gpus.gpu_machine import GIB, Machine
from support.own_network import OwnNetwork
from support.simulated_nvml import VERSION_MISMATCH, Failure, Gpu, Mig, Process, SimulatedDriver
from support.tracked_program import as_root
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _pytest.mark import ParameterSet

ROOT = Path(__file__).resolve().parents[2]
SORTING = Path('examples', 'sort_in_parallel.py')
ALL_NUMBERS, FEWER_NUMBERS = 'N_NUMBERS = 8_000_000', 'N_NUMBERS = 300_000'
BOUNDS = re.compile('≥ | at most')
"""Whether a figure is a lower bound depends on the run."""
NUMBER = r'\d+(?:\.\d+)?(?:e-?\d+)?'
SIZE = rf'{NUMBER} (?:B|kB|MB|GB|TB)\b'
TIME = rf'{NUMBER} (?:µs|ms|s|min|h)\b'
CURVE = '[ ▁-█]*[▁-█]'
GAP = ' {2,}'
BLOCK = re.compile(
    r"""
    ^\.\.\ code-block::\ (?P<language>\w+)\n
    (?P<options>(?:\ {3}:.*\n)*)
    (?P<body>(?:\n|\ {3}.*\n)+)
    """,
    re.MULTILINE | re.VERBOSE,
)


@dataclass(frozen=True)
class Example:
    """A program or a terminal session in a page, and what it prints, if the page says so."""

    page: str
    place: str
    language: str
    code: str
    output: str | None


def examples_in(page: Path) -> Iterator[Example]:
    text = page.read_text()
    blocks = list(BLOCK.finditer(text))
    for block, following in zip_longest(blocks, blocks[1:]):
        if block['language'] not in ('python', 'console'):
            continue
        has_output = following is not None and ':class: output' in following['options']
        yield Example(
            page=page.name,
            place=f'{page.name}:{text.count(chr(10), 0, block.start()) + 1}',
            language=block['language'],
            code=textwrap.dedent(block['body']).strip('\n'),
            output=textwrap.dedent(following['body']).strip('\n') if following and has_output else None,
        )


def commands_in(session: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a terminal session with what it prints; a command goes on in lines that open with ``>``."""
    for part in re.split(r'^\$ ', session, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        n_command_lines = 1
        while n_command_lines < len(lines) and lines[n_command_lines].startswith('> '):
            n_command_lines += 1
        command = [lines[0], *(line.removeprefix('> ') for line in lines[1:n_command_lines])]
        yield '\n'.join(command), '\n'.join(lines[n_command_lines:])


def pattern_for(expected: str) -> str:
    kinds = (SIZE, TIME, NUMBER, CURVE, GAP)
    free = rf'(\n *\.\.\.(?=\n|$)|\.\.\.|{"|".join(kinds[:-1])}|{GAP})'
    pieces = re.split(free, BOUNDS.sub('', expected.strip()))
    return ''.join(
        '.*'
        if piece.strip() == '...'
        else next((kind for kind in kinds if re.fullmatch(kind, piece)), None) or re.escape(piece)
        for piece in pieces
    )


def check_output(printed: str, expected: str, place: str) -> None:
    matches = re.fullmatch(pattern_for(expected), BOUNDS.sub('', printed.strip()), flags=re.DOTALL)
    assert matches, f'{place} shows\n{expected}\n\nbut prints\n{printed}'


_INCLUDED = ROOT / 'src' / 'gpu_tracker' / 'cli' / 'messages.rst'
PAGES = [ROOT / 'README.rst', *sorted((ROOT / 'docs').glob('*.rst')), _INCLUDED]
EXAMPLES = [example for page in PAGES for example in examples_in(page)]
REPEATING = {'index.rst'}
"""Pages whose examples README.rst has too."""
TRAINING_RUN = re.compile(r'gpu-tracker --record=\S+ .* examples/train_in_regions\.py( \d+)?')
"""A command that several pages begin with: it runs once, and later its files are copied."""
NETWORKS = {'atop.rst': 'atop_network', 'fleet.rst': 'agent_network'}
"""Pages whose examples ask a server, and the fixture that has it."""
MACHINES = {
    'command.rst': 'trained',
    'cuda.rst': 'cuda',
    'gpus.rst': 'gpus',
    'messages.rst': 'mismatch',
    'quickstart.rst': 'trained',
}
"""Pages for machines with GPUs, and the fixture that returns the variables of one."""
MARKS = dict.fromkeys([*NETWORKS, 'cuda.rst'], as_root)
PROBED = ('./train', 'examples/copy_with_cuda.py')
CLIENTS = ('$ atop ', '$ atopsar ', '$ curl ', *PROBED)
"""Commands that only the tier clients has; those of ``PROBED`` are probed, with libbpf."""
OF_WINGS = {'atop.rst', 'cuda.rst', 'fleet.rst', 'idle.rst', 'metrics.rst', 'recipes.rst'}
"""Pages of the wings, and of tools that are used with gpu-tracker."""
TRAINING = """
alloc weights 800000000; alloc batch 120000000; stream compute
repeat 200 {
  launches 40 gemm compute 1024 1 1 256 1 1; launches 10 axpy compute 4096 1 1 256 1 1; pause 1; sync compute
}
fail_alloc; free batch
"""
"""What ``./train`` of cuda.rst does with CUDA."""
NOT_STARTED = 2**22 + 1
"""No process ID of Linux."""
TRAINING_ON_GPU = """
import atexit

def use(name, state='{state}'):
    with open(f'{{state}}.{{name}}') as busy_or_idle, open(f'{{state}}.new', 'w') as new:
        new.write(busy_or_idle.read().replace('{pid}', str(os.getpid())))
    os.replace(f'{{state}}.new', state)

while time.process_time() < 0.2:
    pass
use('busy')
atexit.register(use, 'idle')
"""
"""Has the simulated driver list this process on the GPU until it ends."""


def tier_of(example: Example) -> str:
    """Return the tier in which an example runs."""
    if any(words in example.code for words in CLIENTS):
        return 'clients'
    return 'wings' if example.page in OF_WINGS else 'core'


def pages(tier: str) -> list[ParameterSet]:
    """Return the examples of each page that has some in a tier, in the page's order, as parameters of a test."""
    found: dict[str, list[Example]] = {}
    for example in EXAMPLES:
        if tier_of(example) == tier and example.page not in REPEATING:
            found.setdefault(example.page, []).append(example)
    return [pytest.param(examples, marks=MARKS.get(page, ()), id=page) for page, examples in found.items()]


def sort_fewer_numbers(program: Path) -> None:
    text = program.read_text()
    assert text.count(ALL_NUMBERS) == 1
    program.write_text(text.replace(ALL_NUMBERS, FEWER_NUMBERS))


def run(command: list[str], folder: Path, environment: dict[str, str], place: str) -> str:
    """Return what the command prints, as a terminal would show it."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, f'{place} ends with {done.returncode}\n{done.stdout}'
    return done.stdout


class TrainingRuns:
    """Runs each command once, and gives its files to other folders.

    :param folder: Where the files are kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._printed: dict[str, str] = {}

    def run(self, words: list[str], folder: Path, environment: dict[str, str], place: str) -> str:
        """Return what the command prints, and have its files in ``folder``."""
        command = words[-1]
        kept = self._folder / re.sub(r'\W', '_', command)
        if command not in self._printed:
            before = set(folder.iterdir())
            self._printed[command] = run(words, folder, environment, place)
            kept.mkdir()
            for path in set(folder.iterdir()) - before:
                shutil.copy(path, kept)
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        return self._printed[command]


class DocumentationExamples:
    """Runs the examples of a page in their order, in one folder; a subclass parametrizes ``examples``."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """Return an empty folder but for the programs that the pages start; the slowest of them does less."""
        shutil.copytree(ROOT / 'examples', tmp_path / 'examples')
        sort_fewer_numbers(tmp_path / SORTING)
        shutil.copy(ROOT / 'examples' / 'train.py', tmp_path)
        return tmp_path

    @pytest.fixture
    def environment(self, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
        """Return an environment in which ``python`` and ``gpu-tracker`` are those under test, from any folder."""
        programs = tmp_path_factory.mktemp('bin')
        for name, command in (('python', ''), ('gpu-tracker', '-m gpu_tracker ')):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {command}"$@"\n')
            program.chmod(0o755)
        installed = Path(sys.executable).parent
        first = [str(installed)] if (installed / 'gpu-tracker').exists() else [str(programs)]
        search_path = os.environ.get('PYTHONPATH', '')
        ours = {name: value for name, value in os.environ.items() if name not in {'CI', 'GPU_TRACKER_KEEP'}}
        return ours | {
            'XDG_STATE_HOME': str(tmp_path_factory.mktemp('state')),
            'PATH': os.pathsep.join([*first, os.environ['PATH']]),
            'PYTHONPATH': os.pathsep.join(
                str(Path(entry).resolve()) for entry in search_path.split(os.pathsep) if entry
            ),
        }

    @pytest.fixture(scope='class')
    @classmethod
    def training(cls, tmp_path_factory: pytest.TempPathFactory) -> TrainingRuns:
        return TrainingRuns(tmp_path_factory.mktemp('training'))

    @pytest.fixture
    def gpus(self, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
        """Return the variables with which programs find the machine of gpus.rst, where somebody trains on GPU 0."""
        elsewhere = tmp_path_factory.mktemp('gpus')
        driver = SimulatedDriver(elsewhere)
        with subprocess.Popen([sys.executable, 'train.py', '1000'], cwd=folder, stdout=subprocess.DEVNULL) as training:
            kind = {
                'name': 'NVIDIA A100-SXM4-40GB',
                'total': 40 * 2**30,
                'temperature': 64,
                'sm_clock': 1410,
                'power': 302_000,
                'power_limit': 400_000,
            }
            parts = [
                Mig(uuid=f'MIG-bbbbbbbb-0000-0000-0000-00000000000{n}', gi=n + 1, total=5 * 2**30, used=(1 - n) * 2**32,
                    name='NVIDIA A100-SXM4-40GB MIG 1g.5gb')
                for n in range(2)
            ]  # fmt: skip
            nowhere = Process(2**22 + 1, memory=2**32, gi=1, ci=0)
            machine = [
                Gpu(**kind, used=40_800_000_000, util=95, processes=[Process(training.pid, memory=37 * 2**30, sm=95)]),
                Gpu(**kind, used=2**29),
                Gpu(**kind, used=2**29),
                Gpu(**kind, used=2**32, mig=parts, processes=[nowhere]),
            ]
            uuids = (f'GPU-aaaaaaaa-0000-0000-0000-00000000000{n}' for n in range(4))
            driver.write(gpus=[replace(gpu, uuid=uuid) for gpu, uuid in zip(machine, uuids, strict=True)])
            yield driver.environment() | {'GPU_TRACKER_CLAIMS': str(elsewhere / 'claims')}
            training.kill()

    @pytest.fixture
    def trained(self, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
        """Return the variables of a machine with a GPU on which ``examples/train.py`` trains."""
        driver = SimulatedDriver(tmp_path_factory.mktemp('gpu'))
        idle = Gpu(name='NVIDIA A100-SXM4-40GB', total=40 * GIB, used=GIB // 2)
        own = Process(NOT_STARTED, memory=27 * GIB, sm=91)
        for state, gpu in (('busy', replace(idle, used=28 * GIB, util=91, processes=[own])), ('idle', idle)):
            driver.write(gpus=[gpu])
            shutil.copy(driver.state_file, f'{driver.state_file}.{state}')
        program = folder / 'examples' / 'train.py'
        use = TRAINING_ON_GPU.format(state=driver.state_file, pid=NOT_STARTED)
        program.write_text(program.read_text().replace('import time\n', f'import time\n{use}', 1))
        return driver.environment()

    @pytest.fixture
    def cuda(self, folder: Path) -> dict[str, str]:
        """Return the variables of cuda.rst, where ``./train`` is a program that finds its CUDA."""
        train = folder / 'train'
        train.write_text(f'#!/bin/sh\nexec "{stand_in().program()}" "{TRAINING}" >/dev/null\n')
        train.chmod(0o755)
        libraries = stand_in().folder
        (libraries / 'libcudart.so').unlink(missing_ok=True)
        (libraries / 'libcudart.so').symlink_to(stand_in().runtime.name)
        return {'LD_LIBRARY_PATH': str(libraries), 'COLUMNS': '100'}

    @pytest.fixture
    def mismatch(self, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
        """Return the variables for messages.rst: NVIDIA's library and driver have different versions."""
        driver = SimulatedDriver(tmp_path_factory.mktemp('driver'))
        driver.write(fail=[Failure('nvmlInit*', VERSION_MISMATCH)])
        return driver.environment()

    @pytest.fixture
    def atop_network(self, folder: Path) -> Iterator[OwnNetwork]:
        """Return the network of atop.rst, where the daemon serves the GPUs of that page."""
        machine = Machine(folder)
        working = Process(22054, memory=3 * GIB, sm=70, memory_util=35)
        h200 = {'name': 'NVIDIA H200', 'pci': '00000000:17:00.0', 'total': 80 * GIB, 'used': 4 * GIB}
        gt_710 = {'name': 'NVIDIA GeForce GT 710', 'pci': '00000000:65:00.0', 'total': 2 * GIB, 'used': 82 * 2**20}
        machine.write(gpus=[Gpu(**h200, util=75, memory_util=40, processes=[working]), Gpu(**gt_710, util=None)])
        # atopsar asks twice, one second apart: the daemon has to read the GPUs in between.
        with OwnNetwork() as network, AtopDaemon(machine, network=network, interval=0.1):
            yield network

    @pytest.fixture
    def agent_network(self, folder: Path) -> Iterator[OwnNetwork]:
        """Return the network of fleet.rst, where an agent serves on its usual port."""
        machine = Machine(folder)
        machine.write(gpus=[Gpu(name='NVIDIA A100-SXM4-40GB', total=40 * GIB)])
        with OwnNetwork() as network:
            words = [sys.executable, '-m', 'gpu_tracker', 'agent']
            agent = network.start(*words, env=machine.environment(), stderr=subprocess.PIPE)
            assert agent.stderr.readline() == 'gpu-tracker: agent: serving http://127.0.0.1:1080\n'
            yield network

    def test_a_page_works_from_its_beginning_to_its_end(
        self,
        examples: list[Example],
        folder: Path,
        environment: dict[str, str],
        training: TrainingRuns,
        request: pytest.FixtureRequest,
    ) -> None:
        page = examples[0].page
        if page in MACHINES:
            environment = environment | request.getfixturevalue(MACHINES[page])
        where = []
        if page in NETWORKS:
            network = request.getfixturevalue(NETWORKS[page])
            where = network.words('sh', '-c', 'cd "$0" && exec "$@"', str(folder))
        for example in examples:
            if example.language == 'python':
                program = folder / 'example.py'
                program.write_text(example.code)
                printed = run([*where, sys.executable, str(program)], folder, environment, example.place)
                if example.output is not None:
                    check_output(printed, example.output, example.place)
                continue
            for command, expected in commands_in(example.code):
                words = [*where, 'sh', '-c', command]
                started = training.run if TRAINING_RUN.fullmatch(command) else run
                check_output(started(words, folder, environment, example.place), expected, example.place)
