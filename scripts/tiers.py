"""Run the tests of one or more tiers: ``sh scripts/test.sh [TIER...] [ARGUMENTS FOR PYTEST...]``.

CONTRIBUTING.rst has a table of the tiers. ``core`` is the default. ``changed`` is ``wings``, ``engines``, ``vm`` and
``pythons``, but only tiers whose files differ from the commit in .ci/verified. ``all`` runs everything and writes that
file if everything has passed. Paths among the arguments replace the folders of the tier.

A failed test runs once more at the end of its tier, alone, and both results are printed. Tests of figures get no second
try, and more than three failures none either. Logs and junit files are kept in .test-results.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import tomllib
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / '.test-results'
VERIFIED = ROOT / '.ci' / 'verified'
CORES = min(8, len(os.sched_getaffinity(0)))
IS_X86 = os.uname().machine == 'x86_64'
MOST_RETRIED = 3
NO_TESTS = 5
"""The exit code of pytest if it has collected no test."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One run of pytest."""

    folders: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    workers: int = CORES
    has_second_try: bool = True


@dataclass(frozen=True, slots=True)
class Tier:
    """What a tier runs and needs.

    :ivar packages: Debian packages, with the programs, libraries or files that prove their presence.
    :ivar groups: Dependency groups of pyproject.toml in the environment of the tests.
    :ivar environments: Virtual environments beside that one, and what pip installs there.
    """

    stages: tuple[Stage, ...]
    packages: Mapping[str, tuple[str, ...]]
    groups: tuple[str, ...] = ()
    environments: Mapping[str, tuple[str, ...]] | None = None


WAITING = 2 * CORES
"""Workers for tests that mostly wait for other processes."""
_EXTRAS = '.[cuda,fleet,plot,table]'
_CORE = ('test', 'lint', 'types', 'docs')
_OLD = {'.venv-501': ('gpu-tracker==5.0.1',)}
_COMPILER = {'gcc libc6-dev': ('cc', '/usr/include/stdio.h')}
_KERNEL_PROBE = {'libbpf1': ('libbpf.so.1',), 'clang': ('clang',), 'g++': ('g++',)}

TIERS = {
    'core': Tier(
        (
            Stage(('tests/unit', 'tests/integration'), ('-m', 'not figures'), WAITING),
            Stage(('tests/figures', 'tests/integration'), ('-m', 'figures')),
        ),
        _COMPILER,
        _CORE,
    ),
    'clients': Tier(
        (Stage(('tests/clients',), workers=WAITING),),
        _COMPILER
        | _KERNEL_PROBE
        | {
            'atop': ('atop',),
            'busybox': ('busybox',),
            'chromium-headless-shell fonts-dejavu-core': ('chromium-headless-shell',),
            'curl': ('curl',),
            'fish': ('fish',),
            'groff-base': ('groff',),
            'ksh93u+m': ('ksh93',),
            'mksh': ('mksh',),
            'openssl': ('openssl',),
            'prometheus': ('prometheus', 'promtool'),
            'systemd': ('systemd-analyze',),
            'systemd-container': ('systemd-nspawn',),
            'yash': ('yash',),
            'zsh': ('zsh',),
        },
        (*_CORE, 'clients'),
        # Exactly these: later versions do not work together.
        _OLD
        | {
            '.venv-nvgpu': ('nvgpu==0.9.0', 'pynvml==11.4.1', 'setuptools'),
            '.venv-gpu-peers': ('nvitop==1.7.1', 'gpustat==1.1.1'),
            '.venv-cuda': ('--group cuda',),
            '.venv-loggers': (
                *('lightgbm==4.7.0', 'mlflow-skinny==3.17.2', 'nvidia-ml-py', 'psutil', 'tensorboard==2.21.0'),
                'wandb==0.31.0',
            ),
        },
    ),
    'wings': Tier((Stage(('tests/wings',), workers=WAITING),), _COMPILER, _CORE),
    'engines': Tier(
        (Stage(('tests/engines',)),),
        _COMPILER
        | {
            'slurm-wlm slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge': ('slurmctld', 'slurmd', 'munged'),
            'parallel': ('parallel',),
        },
        _CORE,
        {'.venv-engines': ('.[fleet,table]', '--group engines')},
    ),
    'vm': Tier(
        (Stage(('tests/vm',)),),
        {
            **_COMPILER,
            'crun': ('crun',),
            'dbus-daemon': ('dbus-daemon',),
            'libbpf1': ('libbpf.so.1',),
            'qemu-system-x86': ('qemu-system-x86_64',),
            'systemd': ('/lib/systemd/systemd', 'busctl'),
        },
        _CORE,
    ),
    'pythons': Tier((Stage(('tests/unit',), workers=WAITING),), _COMPILER, _CORE),
    'truth': Tier(
        (
            Stage(('tests/truth',), workers=0, has_second_try=False),
            Stage(('tests/unit',), ('--hypothesis-profile=fresh',), WAITING, has_second_try=False),
        ),
        _COMPILER
        | _KERNEL_PROBE
        | {
            'bpftrace': ('bpftrace',),
            'chromium fonts-dejavu-core': ('chromium',),
            'make': ('make',),
            'python3-bpfcc': ('/usr/lib/python3/dist-packages/bcc',),
        },
        (*_CORE, 'clients'),
        _OLD,
    ),
}

TESTED_BY = {
    'wings': (
        'deploy',
        'src/gpu_tracker/atopgpud',
        'src/gpu_tracker/background.py',
        'src/gpu_tracker/cli',
        'src/gpu_tracker/cuda_probe',
        'src/gpu_tracker/fleet',
        'src/gpu_tracker/gpus',
        'src/gpu_tracker/idle',
        'src/gpu_tracker/processes',
        'src/gpu_tracker/system',
        'tests/support',
        'tests/wings',
    ),
    'engines': (
        'deploy',
        'examples/engines',
        'examples/jobs',
        'pyproject.toml',
        'src/gpu_tracker/cli/merge.py',
        'src/gpu_tracker/control_groups',
        'src/gpu_tracker/dask.py',
        'src/gpu_tracker/job.py',
        'src/gpu_tracker/jobs',
        'src/gpu_tracker/mpi.py',
        'src/gpu_tracker/ray.py',
        'src/gpu_tracker/recording',
        'src/gpu_tracker/running',
        'src/gpu_tracker/sampler',
        'tests/engines',
        'tests/support/engines',
        'tests/support/own_group.py',
    ),
    'vm': (
        'src/gpu_tracker/control_groups',
        'src/gpu_tracker/cli/command_group.py',
        'src/gpu_tracker/cuda_probe/bpf',
        'src/gpu_tracker/cuda_probe/engine',
        'src/gpu_tracker/limits.py',
        'src/gpu_tracker/resources/control_group.py',
        'scripts/vm_kernel.sh',
        'tests/support/own_group.py',
        'tests/support/vm',
        'tests/vm',
    ),
    'pythons': ('pyproject.toml', 'src', 'tests/conftest.py', 'tests/data', 'tests/support', 'tests/unit'),
}
"""The files that a tier tests: if they have changed since the verified commit, ``changed`` runs it."""


class Failed(Exception):  # noqa: N818 - what happened
    """The reason why the run ends."""


# Steps

steps: list[tuple[str, float]] = []


@contextlib.contextmanager
def step(name: str) -> Iterator[None]:
    """Print the name of a step, and note its seconds."""
    print(f'\n== {name}', flush=True)
    started = time.monotonic()
    try:
        yield
    finally:
        steps.append((name, time.monotonic() - started))


def print_steps() -> None:
    """Print the seconds of each step, and add them to .test-results/seconds."""
    lines = [f'{seconds:7.1f} s  {name}\n' for name, seconds in steps]
    print('\n== Seconds\n' + ''.join(lines), end='', flush=True)
    with (RESULTS / 'seconds').open('a') as file:
        file.writelines(lines)


# What a tier needs


def is_there(name: str) -> bool:
    """Return whether a program, a shared library or a file is there."""
    if '/' in name:
        return os.path.exists(name)
    if '.so' in name:
        try:
            ctypes.CDLL(name)
        except OSError:
            return False
        return True
    # Daemons are not always in the PATH of ordinary users.
    return shutil.which(name) is not None or os.access(f'/usr/sbin/{name}', os.X_OK)


def install_packages(tiers: list[str]) -> None:
    """Install missing Debian packages, or name them if that is not possible."""
    needs = {packages: names for tier in tiers for packages, names in TIERS[tier].packages.items()}
    missing = [packages for packages, names in needs.items() if not all(map(is_there, names))]
    if missing:
        words = ['sh', '-c', '. scripts/machine.sh; install_packages "$@"', 'test.sh', *' '.join(missing).split()]
        if subprocess.run(words, cwd=ROOT, check=False).returncode:
            raise SystemExit(1)  # it has printed the reason


_PIP = ('-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-compile')


def environment(folder: str, python: str, requirements: tuple[str, ...]) -> str:
    """Return the interpreter of a virtual environment; what it has already is not installed again.

    :param requirements: For pip. If the first one is this checkout, it is installed as it is now.
    """
    interpreter = f'{folder}/bin/python'
    stamp = ROOT / folder / 'made-from'
    project = tomllib.loads((ROOT / 'pyproject.toml').read_text())
    made_from = json.dumps([python, project['project'], project['dependency-groups']])
    text, _, had = stamp.read_text().partition('\n') if stamp.exists() else ('', '', '')
    if text != made_from:
        had = ''
        run(python, '-m', 'venv', '--clear', folder)
        run(interpreter, *_PIP, '--upgrade', 'pip>=25.1')
    missing = [requirement for requirement in requirements if requirement not in had.splitlines()]
    if missing:
        run(interpreter, *_PIP, *' '.join(missing).split())
        stamp.write_text('\n'.join([made_from, *had.splitlines(), *missing]))
    if requirements[0].startswith('.') and requirements[0] not in missing:
        run(interpreter, *_PIP, '--no-deps', '--force-reinstall', '.')
    return interpreter


def test_environment(python: str, groups: tuple[str, ...]) -> str:
    """Return the interpreter that has gpu-tracker and the dependency groups."""
    words = [python, '-c', 'import sys; print(sys.version_info.minor)']
    minor = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    requirements = (_EXTRAS, *(f'--group {group}' for group in groups))
    return environment(f'.venv-test-3.{minor}', python, requirements)


def make_environments(tiers: list[str]) -> None:
    """Make the other environments, all at the same time."""
    needs = {folder: names for tier in tiers for folder, names in (TIERS[tier].environments or {}).items()}
    if not IS_X86:
        needs.pop('.venv-cuda', None)
    with ThreadPoolExecutor() as pool:
        for made in [pool.submit(environment, folder, sys.executable, names) for folder, names in needs.items()]:
            made.result()


def other_pythons() -> list[str]:
    """Return the interpreters of other supported Pythons on this machine."""
    others = [minor for minor in (11, 12, 13) if minor != sys.version_info.minor]
    command = '. scripts/machine.sh; for minor; do python_3 "$minor" || true; done'
    words = ['sh', '-c', command, 'test.sh', *map(str, others)]
    return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()


def make_kernel() -> None:
    """Unpack Debian's kernel for virtual machines, which tests/vm boots, without installing it."""
    if not (ROOT / '.vm-kernel' / 'vmlinuz').exists():
        run('sh', 'scripts/vm_kernel.sh')


# Running


def run(*words: str) -> None:
    """Run a command that has to succeed."""
    if subprocess.run(words, cwd=ROOT, check=False).returncode:
        raise Failed(f'failed: {" ".join(words)}')


class Checks:
    """Checks without tests, which run one after the other beside the tests.

    :ivar failed: Names of failed checks.
    """

    def __init__(self, commands: Mapping[str, list[str]]) -> None:
        self.failed: list[str] = []
        self._commands = commands
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for name, words in self._commands.items():
            started = time.monotonic()
            done = subprocess.run(
                words, cwd=ROOT, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            steps.append((f'{name}, beside the tests', time.monotonic() - started))
            if done.returncode:
                self.failed.append(name)
                print(f'\n== {name} failed\n{done.stdout}', flush=True)

    def wait(self) -> None:
        """Wait for the end of all checks."""
        self._thread.join()


def static_checks(tier: str, python: str) -> Checks:
    """Start the checks of a tier without tests."""
    folder = os.path.dirname(python)
    types = [python, '-m', 'mypy']
    commands: dict[str, dict[str, list[str]]] = {
        'core': {
            'ruff check': [f'{folder}/ruff', 'check', '.'],
            'ruff format': [f'{folder}/ruff', 'format', '--check', '.'],
            'English': [python, 'scripts/check_english.py'],
            'mypy': types,
            'import-linter': [f'{folder}/lint-imports'],
            'Sphinx': [
                *(python, '-m', 'sphinx', '--fail-on-warning', '--keep-going', '--quiet', '-b', 'html'),
                *('docs', 'docs/_build/html'),
            ],
            'words of the documentation': [python, 'scripts/count_words.py', 'docs/_build/html'],
        },
        'clients': {
            'pyright': [f'{folder}/basedpyright', '--project', 'pyproject.toml', '--pythonpath', python],
            'mypy for macOS': [*types, '--config-file', 'scripts/types_darwin.toml'],
            'mypy for Windows': [*types, '--config-file', 'scripts/types_win32.toml'],
        },
    }
    return Checks(commands.get(tier, {}))


def run_tier(tier: str, python: str, arguments: list[str]) -> None:
    """Run all that a tier consists of; the first failure is raised at the end."""
    paths = [argument for argument in arguments if (ROOT / argument.partition('::')[0]).exists()]
    checks = None if arguments else static_checks(tier, python)
    interpreters = other_pythons() if tier == 'pythons' else [python]
    if not interpreters:
        print('No other Python from 3.11 to 3.13 is on this machine')
    problems: list[Failed] = []
    has_tests = not interpreters
    for interpreter in interpreters:
        for stage in TIERS[tier].stages[: 1 if paths else None]:
            folders = () if paths else stage.folders
            name = f'{tier}: {" ".join(folders) or "pytest"}'
            try:
                if tier == 'pythons':
                    name += f' with {os.path.basename(interpreter)}'
                    with step(f'environment of {interpreter}'):
                        interpreter = test_environment(interpreter, ('test',))  # noqa: PLW2901 - that of the tests
                with step(name):
                    has_tests |= run_stage(stage, folders, interpreter, arguments, name)
            except Failed as error:
                problems.append(error)
                has_tests = True
            if checks is not None:
                checks.wait()  # before the figures, which want a quiet machine
    if checks is not None and checks.failed:
        problems.append(Failed(f'{tier}: {", ".join(checks.failed)}'))
    if not has_tests:
        problems.append(Failed(f'{tier}: no test is meant by {" ".join(arguments)}'))
    if problems:
        raise Failed('; '.join(map(str, problems)))


def run_stage(stage: Stage, folders: tuple[str, ...], python: str, arguments: list[str], name: str) -> bool:
    """Run pytest, and the tests that failed once more. Return whether there were tests."""
    place = RESULTS / name.replace(':', '').replace('/', '-').replace(' ', '-')
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    words = [python, '-m', 'pytest', *folders, *(stage.arguments if folders else ()), *arguments]
    words += ['--no-skips', f'--override-ini=cache_dir={place}/cache']
    if folders and not any((ROOT / folders[0]).rglob('*.pyc')):  # fill the cache once, not in each worker
        subprocess.run([*words, '--collect-only', '-qq'], cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
    spread = [f'--numprocesses={stage.workers}', '--dist=loadfile'] if stage.workers else []
    status = pytest(place, 'first', [*words, *spread])
    if status == 0 or (status == NO_TESTS and arguments):
        return status == 0
    failed = failures(place / 'first.xml') if status == 1 else {}
    if not may_retry(stage, failed):
        raise Failed(f'{name}: pytest ended with {status}, {len(failed)} tests failed, without a second try')
    print(f'\n== {name}: {len(failed)} failed, once more and alone', flush=True)
    status = pytest(place, 'second', [*words, '--last-failed', '--last-failed-no-failures=none'])
    if status not in (0, 1):
        raise Failed(f'{name}: the second try ended with {status}, after {", ".join(failed)} failed')
    again = failures(place / 'second.xml')
    for test, (reason, _) in failed.items():
        print(f'RETRIED {test}: {"FAILED again" if test in again else "passed alone"}: {reason}', flush=True)
    if status:
        raise Failed(f'{name}: failed twice')
    return True


def may_retry(stage: Stage, failed: Mapping[str, tuple[str, bool]]) -> bool:
    """Return whether failed tests get a second try: up to three of them, and no test of figures."""
    has_figures = any(compares_figures for _, compares_figures in failed.values())
    return stage.has_second_try and not has_figures and 0 < len(failed) <= MOST_RETRIED


def pytest(place: Path, name: str, words: list[str]) -> int:
    """Run pytest, print and keep what it prints; its slowest tests are kept only."""
    words = [*words, f'--junitxml={place}/{name}.xml', '--durations=40']
    with (
        (place / f'{name}.log').open('w') as log,
        subprocess.Popen(
            words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace'
        ) as process,
    ):
        is_printed = True
        for line in process.stdout:
            log.write(line)
            if line.startswith('='):
                is_printed = 'slowest' not in line
            if is_printed:
                print(line, end='', flush=True)
    return process.returncode


def failures(path: Path) -> dict[str, tuple[str, bool]]:
    """Return the tests that failed: the first line of the reason, and whether they compare figures."""
    found = {}
    for case in ET.parse(path).iter('testcase'):  # noqa: S314 - pytest has written it
        problem = case.find('failure') if case.find('failure') is not None else case.find('error')
        if problem is not None:
            name = f'{case.get("classname", "").replace(".", "/")}.py::{case.get("name")}'
            reason = (problem.get('message') or problem.text or '').strip().partition('\n')[0]
            found[name] = (reason, case.find('properties/property[@name="figures"]') is not None)
    return found


# Which tiers


def changed_tiers() -> list[str]:
    """Return the tiers whose files have changed since the verified commit; all of them if that is not known."""
    commit = VERIFIED.read_text().strip() if VERIFIED.exists() else 'none'
    return [tier for tier, paths in TESTED_BY.items() if not _is_unchanged(commit, paths)]


def _is_unchanged(commit: str, paths: tuple[str, ...]) -> bool:
    words = ['git', 'diff', '--quiet', commit, '--', *paths]
    return subprocess.run(words, cwd=ROOT, check=False, stderr=subprocess.DEVNULL).returncode == 0


def state_of_checkout() -> str:
    """Return the commit, and the changes that are not committed."""
    words = ['sh', '-c', 'git rev-parse HEAD; git status --porcelain']
    return subprocess.run(words, cwd=ROOT, check=False, capture_output=True, text=True).stdout


def write_verified(before: str) -> None:
    """Name the commit in .ci/verified, if all of it was tested.

    :param before: The state of the checkout when the tests began.
    """
    if before != state_of_checkout() or len(before.splitlines()) != 1 or os.geteuid() != 0 or not IS_X86:
        print('.ci/verified is not written: that needs root, x86-64, and no change that is not committed')
        return
    VERIFIED.write_text(before)
    print('.ci/verified names this commit now: commit it')


def tier_of(path: str) -> str | None:
    """Return the tier that a path below tests/ belongs to."""
    for name, tier in TIERS.items():
        if any(f'{path}/'.startswith(f'{folder}/') for stage in tier.stages for folder in stage.folders):
            return name
    return None


def split_arguments(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the tiers that are asked for, and the arguments for pytest."""
    tiers: list[str] = []
    while words and words[0] in (*TIERS, 'all', 'changed'):
        tiers.append(words[0])
        words = words[1:]
    groups = {'all': list(TIERS), 'changed': changed_tiers() if 'changed' in tiers else []}
    tiers = tiers or [tier for tier in map(tier_of, words) if tier] or ['core']
    named = [each for tier in tiers for each in groups.get(tier, [tier])]
    if 'vm' in named and not IS_X86:
        print('vm is left out: it boots a kernel for x86-64')
        named.remove('vm')
    return list(dict.fromkeys(named)), words


def main(words: list[str]) -> int:
    """Run the tiers, and return the exit code."""
    if words[:1] in (['-h'], ['--help']):
        print(__doc__)
        return 0
    tiers, arguments = split_arguments(words)
    if arguments and arguments[0].isalpha() and not (ROOT / arguments[0]).exists():
        sys.stderr.write(f'test.sh: no tier {arguments[0]}; there are {", ".join([*TIERS, "all", "changed"])}\n')
        return 2
    before = state_of_checkout()
    RESULTS.mkdir(exist_ok=True)
    print(f'== Tiers: {", ".join(tiers) or "none: nothing that they test has changed"}', flush=True)
    problems = []
    try:
        with step('packages and environments'):
            install_packages(tiers)
            groups = tuple(dict.fromkeys(group for tier in tiers for group in TIERS[tier].groups))
            python = test_environment(sys.executable, groups) if tiers else ''
            make_environments(tiers)
            if 'vm' in tiers:
                make_kernel()
    except Failed as error:
        sys.stderr.write(f'test.sh: {error}\n')
        return 1
    for tier in tiers:
        try:
            run_tier(tier, '.venv-engines/bin/python' if tier == 'engines' else python, arguments)
        except Failed as error:
            problems.append(error)
    print_steps()
    for error in problems:
        sys.stderr.write(f'test.sh: {error}\n')
    if problems:
        return 1
    if 'all' in words and not arguments:
        write_verified(before)
    print(f'\n== Passed: {", ".join(tiers) or "nothing to run"}')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
