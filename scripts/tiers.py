"""Run the tests of one or more tiers: ``sh scripts/test.sh [TIER...] [ARGUMENTS FOR PYTEST...]``.

CONTRIBUTING.rst has a table of the tiers. ``core`` is the default. ``changed`` stands for those of ``wings``,
``engines``, ``vm`` and ``pythons`` whose files have changed since the commit named in .ci/verified. ``all`` runs
everything and writes that file if everything has passed. Paths among the arguments replace the folders of the tier.

A failed test runs once more at the end of its tier, alone, and both results are printed. Tests of figures get no second
try, and more than three failures none either. Logs and junit files are kept in .test-results.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
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
CORES = os.cpu_count() or 1
IS_X86 = os.uname().machine == 'x86_64'
MOST_RETRIED = 3


@dataclass(frozen=True, slots=True)
class Stage:
    """One run of pytest."""

    folders: tuple[str, ...]
    workers: int = CORES
    has_second_try: bool = True


@dataclass(frozen=True, slots=True)
class Tier:
    """What a tier runs and needs.

    :ivar packages: Debian packages, and the programs, libraries or files that show that they are there.
    :ivar groups: Dependency groups of pyproject.toml in the environment of the tests.
    :ivar environments: Virtual environments beside that one, and what pip installs there.
    """

    stages: tuple[Stage, ...]
    packages: Mapping[str, tuple[str, ...]]
    groups: tuple[str, ...] = ()
    environments: Mapping[str, tuple[str, ...]] | None = None


WAITING = 2 * CORES
"""Workers for tests that mostly wait for other processes."""
_EXTRAS = '.[cuda,fleet,otel,plot,table]'
_CORE = ('test', 'lint', 'types', 'docs')
_OLD = {'.venv-501': ('gpu-tracker==5.0.1',)}
_COMPILER = {'gcc libc6-dev': ('cc', '/usr/include/stdio.h')}
_KERNEL_PROBE = {'libbpf1': ('libbpf.so.1',), 'clang': ('clang',), 'g++': ('g++',)}

TIERS = {
    'core': Tier((Stage(('tests/unit', 'tests/integration'), WAITING), Stage(('tests/figures',))), _COMPILER, _CORE),
    'clients': Tier(
        (Stage(('tests/clients',), WAITING),),
        _COMPILER
        | _KERNEL_PROBE
        | {
            'atop': ('atop',),
            'busybox': ('busybox',),
            'chromium fonts-dejavu-core': ('chromium',),
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
        # Exactly these: later ones do not work together. NVIDIA's compiler is not needed where a toolkit is installed.
        _OLD | {'.venv-nvgpu': ('nvgpu==0.9.0', 'pynvml==11.4.1', 'setuptools'), '.venv-cuda': ('--group', 'cuda')},
    ),
    'wings': Tier((Stage(('tests/wings',), WAITING),), _COMPILER, _CORE),
    'engines': Tier(
        (Stage(('tests/engines',)),),
        _COMPILER
        | {
            'slurm-wlm slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge': ('slurmctld', 'slurmd', 'munged'),
            'parallel': ('parallel',),
        },
        _CORE,
        {'.venv-engines': ('.[fleet,table]', '--group', 'engines')},
    ),
    'vm': Tier(
        (Stage(('tests/vm',)),),
        {'qemu-system-x86': ('qemu-system-x86_64',), 'dbus-daemon': ('dbus-daemon',), 'crun': ('crun',)},
        _CORE,
    ),
    'pythons': Tier((Stage(('tests/unit',), WAITING),), _COMPILER, _CORE),
    'truth': Tier(
        (Stage(('tests/truth',), workers=0, has_second_try=False),),
        _COMPILER
        | _KERNEL_PROBE
        | {'bpftrace': ('bpftrace',), 'python3-bpfcc': ('/usr/lib/python3/dist-packages/bcc',)},
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
        'src/gpu_tracker/jobs',
        'src/gpu_tracker/job.py',
        'src/gpu_tracker/dask.py',
        'src/gpu_tracker/mpi.py',
        'src/gpu_tracker/ray.py',
        'src/gpu_tracker/sampler',
        'src/gpu_tracker/tracked_run.py',
        'deploy',
        'examples/engines',
        'examples/jobs',
        'tests/engines',
        'tests/support/engines',
    ),
    'vm': (
        'src/gpu_tracker/control_groups',
        'src/gpu_tracker/cli/command_group.py',
        'src/gpu_tracker/limits.py',
        'src/gpu_tracker/resources/control_group.py',
        'tests/support/vm',
        'tests/vm',
    ),
    'pythons': ('pyproject.toml', 'src', 'tests/unit'),
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
    """Tell whether a program, a shared library or a file is there."""
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
    """Install the Debian packages that are missing; name them if that is not possible."""
    needs = {packages: names for tier in tiers for packages, names in TIERS[tier].packages.items()}
    missing = [packages for packages, names in needs.items() if not all(map(is_there, names))]
    if missing:
        words = ['sh', '-c', '. scripts/machine.sh; install_packages "$@"', 'test.sh', *' '.join(missing).split()]
        if subprocess.run(words, cwd=ROOT, check=False).returncode:
            raise SystemExit(1)  # it has printed the reason


_PIP = ('-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-compile')


def environment(folder: str, python: str, requirements: tuple[str, ...]) -> str:
    """Return the interpreter of a virtual environment; what it has already is installed once.

    :param requirements: For pip. If the first one is this checkout, it is installed as it is now.
    """
    interpreter = f'{folder}/bin/python'
    stamp = ROOT / folder / 'made-from'
    text = '\n'.join([python, *requirements, hashlib.sha256((ROOT / 'pyproject.toml').read_bytes()).hexdigest()])
    if not stamp.exists() or stamp.read_text() != text:
        run(python, '-m', 'venv', '--clear', folder)
        run(interpreter, *_PIP, '--upgrade', 'pip>=25.1')
        run(interpreter, *_PIP, *requirements)
        stamp.write_text(text)
    elif requirements[0].startswith('.'):
        run(interpreter, *_PIP, '--no-deps', '--force-reinstall', '.')
    return interpreter


def test_environment(python: str, groups: tuple[str, ...]) -> str:
    """Return the interpreter that has gpu-tracker and the dependency groups."""
    words = [python, '-c', 'import sys; print(sys.version_info.minor)']
    minor = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    requirements = (_EXTRAS, *(word for group in groups for word in ('--group', group)))
    return environment(f'.venv-test-3.{minor}', python, requirements)


def make_environments(tiers: list[str]) -> None:
    """Make the environments beside that of the tests, all at the same time."""
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
    """Checks without tests, which run one after the other beside the tests."""

    def __init__(self, commands: Mapping[str, list[str]]) -> None:
        self._commands = commands
        self._failed: list[str] = []
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
                self._failed.append(name)
                print(f'\n== {name} failed\n{done.stdout}', flush=True)

    def finish(self) -> None:
        """Wait for the end of all checks; all have to have passed."""
        self._thread.join()
        if self._failed:
            raise Failed(f'failed: {", ".join(self._failed)}')


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
        },
        'clients': {
            'pyright': [f'{folder}/basedpyright', '--project', 'pyproject.toml', '--pythonpath', python],
            'mypy for macOS': [*types, '--config-file', 'scripts/types_darwin.toml'],
            'mypy for Windows': [*types, '--config-file', 'scripts/types_win32.toml'],
        },
    }
    return Checks(commands.get(tier, {}))


def run_tier(tier: str, python: str, arguments: list[str]) -> None:
    """Run what a tier consists of."""
    paths = any(argument.startswith('tests/') for argument in arguments)
    checks = None if arguments else static_checks(tier, python)
    for stage in TIERS[tier].stages[: 1 if paths else None]:
        folders = () if paths else stage.folders
        name = f'{tier}: {" ".join(folders) or "pytest"}'
        if tier == 'pythons':
            for other in other_pythons():
                with step(f'{other}: its environment'):
                    interpreter = test_environment(other, ('test',))
                with step(f'{name} with {other}'):
                    run_stage(stage, folders, interpreter, arguments, name)
            continue
        if tier == 'engines':
            python = '.venv-engines/bin/python'
        with step(name):
            run_stage(stage, folders, python, arguments, name)
        if checks is not None:
            checks.finish()  # before the figures, which want a quiet machine
    if checks is not None:
        checks.finish()


def run_stage(stage: Stage, folders: tuple[str, ...], python: str, arguments: list[str], name: str) -> None:
    """Run pytest, and the tests that failed once more."""
    place = RESULTS / name.replace(':', '').replace('/', '-').replace(' ', '-')
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    words = [python, '-m', 'pytest', *folders, *arguments, '--no-skips', f'--override-ini=cache_dir={place}/cache']
    if folders and not any((ROOT / folders[0]).rglob('*.pyc')):  # fill the cache once, not in each worker
        subprocess.run([*words, '--collect-only', '-qq'], cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
    spread = [f'--numprocesses={stage.workers}', '--dist=loadfile'] if stage.workers else []
    status = pytest(place, 'first', [*words, *spread])
    if status == 0 or (status == 5 and arguments):  # noqa: PLR2004 - pytest's exit code: no tests collected
        return
    failed = failures(place / 'first.xml') if status == 1 else {}
    if not may_retry(stage, failed):
        raise Failed(f'{name}: pytest ended with {status}, {len(failed)} tests failed, without a second try')
    print(f'\n== {name}: {len(failed)} failed, once more and alone', flush=True)
    status = pytest(place, 'second', [*words, '--last-failed', '--last-failed-no-failures=none'])
    again = failures(place / 'second.xml') if status == 1 else {}
    for test, (reason, _) in failed.items():
        print(f'RETRIED {test}: {"FAILED again" if test in again else "passed alone"}: {reason}', flush=True)
    if status:
        raise Failed(f'{name}: failed twice')


def may_retry(stage: Stage, failed: Mapping[str, tuple[str, bool]]) -> bool:
    """Tell whether failed tests get a second try: up to three of them, and no test of figures."""
    has_figures = any(compares_figures for _, compares_figures in failed.values())
    return stage.has_second_try and not has_figures and 0 < len(failed) <= MOST_RETRIED


def pytest(place: Path, name: str, words: list[str]) -> int:
    """Run pytest, print and keep what it prints; its slowest tests are kept only."""
    words = [*words, f'--junitxml={place}/{name}.xml', '--durations=40']
    with (
        (place / f'{name}.log').open('w') as log,
        subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process,
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
    words = ['git', 'diff', '--quiet', commit, 'HEAD', '--', *paths]
    return subprocess.run(words, cwd=ROOT, check=False, stderr=subprocess.DEVNULL).returncode == 0


def write_verified() -> None:
    """Name the commit in .ci/verified, unless the working tree differs from it."""
    said = subprocess.run(['git', 'status', '--porcelain'], cwd=ROOT, check=True, capture_output=True, text=True)
    if said.stdout:
        print('.ci/verified is not written: the working tree has changes that are not committed')
        return
    head = subprocess.run(['git', 'rev-parse', 'HEAD'], cwd=ROOT, check=True, capture_output=True, text=True)
    VERIFIED.write_text(head.stdout)
    print('.ci/verified names this commit now: commit it')


def split_arguments(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the tiers that are asked for, and the arguments for pytest."""
    tiers: list[str] = []
    while words and words[0] in (*TIERS, 'all', 'changed'):
        tiers.append(words[0])
        words = words[1:]
    groups = {'all': list(TIERS), 'changed': changed_tiers()}
    named = [each for tier in tiers or ['core'] for each in groups.get(tier, [tier])]
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
    RESULTS.mkdir(exist_ok=True)
    print(f'== Tiers: {", ".join(tiers) or "none: nothing that they test has changed"}', flush=True)
    try:
        with step('packages and environments'):
            install_packages(tiers)
            groups = tuple(dict.fromkeys(group for tier in tiers for group in TIERS[tier].groups))
            python = test_environment(sys.executable, groups) if tiers else ''
            make_environments(tiers)
            if 'vm' in tiers:
                make_kernel()
        for tier in tiers:
            run_tier(tier, python, arguments)
    except Failed as error:
        print_steps()
        sys.stderr.write(f'test.sh: {error}\n')
        return 1
    print_steps()
    if 'all' in words and not arguments:
        write_verified()
    print(f'\n== Passed: {", ".join(tiers) or "nothing to run"}')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
