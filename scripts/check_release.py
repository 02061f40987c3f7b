"""Checks what is about to be released: what is in wheel and sdist, and what an installation of the wheel takes.

    python scripts/check_release.py contents FOLDER
    python scripts/check_release.py budget WHEEL PYTHON
    python scripts/check_release.py sbom FILE

``contents`` compares what scripts/build.sh has put into a folder with what git tracks. ``budget`` measures what a wheel
takes in the environment of an interpreter, where nothing else of gpu-tracker is. ``sbom`` adds to a CycloneDX file what
the wheel brings with it.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = 'gpu_tracker'
MEGABYTE = 1_000_000

CORE_LIMIT = 3 * MEGABYTE
"""Bytes of the core: the files of the package without those of the wings, as they are in the wheel, so without
bytecode, metadata and dependencies. The core is what a tracker, the command line and recordings may import, and wings
are what none of these imports unless it is asked for."""
WHOLE_LIMIT = 4.2 * MEGABYTE
"""Bytes of all files in the wheel, unpacked: those of the core and the wings, 0.4 of them objects for the kernel."""
WHEEL_LIMIT = 1.6 * MEGABYTE
"""Bytes of the wheel itself, which is what is downloaded."""
INSTALLED_LIMIT = 10 * MEGABYTE
"""Bytes of all files after the installation, with the bytecode that pip makes, without dependencies."""

IMPORT_LIMIT = 0.015
"""Seconds of CPU time of ``import gpu_tracker``: half of what a bare Python takes to start."""
IMPORT_FAILS = 4
"""How many times the limit fails: the machine may be busy. The names of the modules are what is checked strictly."""
IMPORT_ROUNDS = 15
IMPORTED = {'__future__', PACKAGE, f'{PACKAGE}.real', f'{PACKAGE}.version', 'fcntl'}
"""The modules that ``import gpu_tracker`` adds to a bare interpreter; ``real`` copies ``fcntl``."""

NOT_IN_SDIST = ('.ci/',)
"""What git tracks and an sdist lacks: how this repository decides on changes. Tests and what they need are in it."""
NOT_IN_WHEEL = re.compile(r'(^|/)(tests?|docs|__pycache__|\.[^/]+)/|\.(pyc|db|whl|log)$')


def wings() -> tuple[str, ...]:
    """Return the names below ``gpu_tracker`` of what the core never imports, from the contract of the layers."""
    tables = tomllib.loads((ROOT / 'pyproject.toml').read_text())['tool']['importlinter']['contracts']
    (layers,) = (table['layers'] for table in tables if table.get('containers') == [PACKAGE])
    first = layers.index('tracked_command | tracked_function')
    return tuple(sorted(name for layer in layers[1:first] for name in re.findall(r'\w+', layer)))


def contents(folder: Path, of_git: set[str] | None) -> list[str]:
    """Return what is wrong with what is in the wheel and the sdist of a folder.

    :param of_git: The files that an sdist has to have; None: that is not known.
    """
    (wheel,), (sdist,) = folder.glob('*.whl'), folder.glob('*.tar.gz')
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {name for name in archive.namelist() if not name.endswith('/')}
    with tarfile.open(sdist) as archive:
        in_sdist = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in archive.getnames()}
    problems = [f'{name} has no place in a wheel' for name in in_wheel if NOT_IN_WHEEL.search(name)]
    release = '-'.join(wheel.name.split('-')[:2])
    places = (f'{PACKAGE}/', f'{release}.dist-info/', f'{release}.data/data/share/man/man1/')
    problems += [f'{name} is not of the package' for name in in_wheel if not name.startswith(places)]
    if of_git is None:
        return sorted(problems)
    problems += [f'{name} is missing in the sdist' for name in of_git - in_sdist]
    problems += [f'{name} is in the sdist, and git does not know it' for name in in_sdist - of_git - {'PKG-INFO'}]
    source = {name.removeprefix('src/') for name in of_git if name.startswith(f'src/{PACKAGE}/')}
    problems += [f'{name} is missing in the wheel' for name in source - in_wheel]
    return sorted(problems)


def tracked() -> set[str] | None:
    """Return the files that an sdist has to have; None where this is no checkout of git, as in an sdist itself."""
    if not (ROOT / '.git').exists():
        return None
    said = subprocess.run(['git', 'ls-files', '-z'], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = {name for name in said.split('\0') if name and not name.startswith(NOT_IN_SDIST)}
    return {name for name in names if (ROOT / name).exists()}


def budget(wheel: Path, python: str) -> list[str]:
    """Print what a wheel takes, and return what takes too much.

    :param python: An interpreter that has the wheel installed.
    """
    with zipfile.ZipFile(wheel) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    what = 'the core: files in the wheel, without wings, bytecode, metadata and dependencies'
    figures = [
        (what, core_size(sizes), CORE_LIMIT),
        ('all files in the wheel, unpacked', sum(sizes.values()), WHOLE_LIMIT),
        ('the wheel itself', wheel.stat().st_size, WHEEL_LIMIT),
        ('installed, with bytecode, without dependencies', installed_size(python), INSTALLED_LIMIT),
    ]
    problems = []
    for what, size, limit in figures:
        print(f'{size / MEGABYTE:6.2f} MB of {limit / MEGABYTE:5.2f}  {what}')
        if size > limit:
            problems.append(f'{size:,} bytes are more than {int(limit):,}: {what}')
    return problems + imports(python)


def core_size(sizes: Mapping[str, int]) -> int:
    """Return the bytes of the core among the files of a wheel."""
    of_wings = tuple(f'{PACKAGE}/{name}{end}' for name in wings() for end in ('/', '.py'))
    return sum(size for name, size in sizes.items() if name.startswith(f'{PACKAGE}/') and not name.startswith(of_wings))


def installed_size(python: str) -> int:
    """Return the bytes of all files that are installed of the package."""
    program = (
        'from importlib.metadata import files\n'
        'paths = {file.locate().resolve() for file in files("gpu-tracker")}\n'
        'print(sum(path.stat().st_size for path in paths if path.is_file()))'
    )
    return int(printed(python, program))


def imports(python: str) -> list[str]:
    """Print what ``import gpu_tracker`` takes, and return what is wrong with it."""
    program = 'import sys\nbare = set(sys.modules)\nimport gpu_tracker\nprint(*sorted(set(sys.modules) - bare))'
    names = set(printed(python, program).split())
    problems = [f'import gpu_tracker imports {name}' for name in sorted(names - IMPORTED)]
    pairs = [
        (cpu_seconds(python, 'pass'), cpu_seconds(python, f'import {PACKAGE}')) for _ in range(IMPORT_ROUNDS)
    ]  # one beside the other, since the machine may become busy
    taken = statistics.median(full - bare for bare, full in pairs)
    print(f'{taken * 1000:6.2f} ms of {IMPORT_LIMIT * 1000:5.2f}  CPU time of import gpu_tracker')
    if taken > IMPORT_LIMIT * IMPORT_FAILS:
        problems.append(f'import gpu_tracker takes {taken * 1000:.0f} ms of CPU time')
    return problems


def printed(python: str, program: str) -> str:
    """Return what a program prints."""
    return subprocess.run([python, '-I', '-c', program], check=True, capture_output=True, text=True).stdout


def cpu_seconds(python: str, program: str) -> float:
    """Return the CPU time of an interpreter that runs a program."""
    process = os.posix_spawn(python, [python, '-I', '-c', program], os.environ)
    _, status, usage = os.wait4(process, 0)
    if status:
        raise SystemExit(f'{python} -c {program!r} has failed')
    return usage.ru_utime + usage.ru_stime


def add_brought(path: Path) -> None:
    """Add to a software bill of materials what is no package of Python and is in the wheel: uPlot."""
    text = (ROOT / 'src' / PACKAGE / 'views' / 'uplot' / 'README.md').read_text()
    version = re.match(r'# uPlot (\S+)\n', text)[1]
    bill = json.loads(path.read_text())
    reference = f'uplot@{version}'
    component = {
        'bom-ref': reference,
        'description': 'Charts of the dashboard and of reports, unchanged in gpu_tracker/views/uplot',
        'licenses': [{'license': {'id': 'MIT'}}],
        'name': 'uplot',
        'purl': f'pkg:npm/uplot@{version}',
        'type': 'library',
        'version': version,
    }
    root = bill['metadata']['component']
    bill['components'].append(component)
    bill['dependencies'].append({'ref': reference})
    (of_root,) = (entry for entry in bill['dependencies'] if entry['ref'] == root['bom-ref'])
    of_root['dependsOn'].append(reference)
    root['purl'] = f'pkg:generic/{root["name"]}@{root["version"]}'  # pkg:pypi is another project
    path.write_text(json.dumps(bill, indent=2) + '\n')


def main(words: list[str]) -> int:
    """Do what is asked for, and return the exit code."""
    match words:
        case ['contents', folder]:
            of_git = tracked()
            if of_git is None:
                sys.stderr.write('check_release.py: no git here: what is missing or too much is not known\n')
            problems = contents(Path(folder), of_git)
        case ['budget', wheel, python]:
            problems = budget(Path(wheel), python)
        case ['sbom', file]:
            add_brought(Path(file))
            problems = []
        case _:
            sys.stderr.write(__doc__)
            return 2
    for problem in problems:
        sys.stderr.write(f'check_release.py: {problem}\n')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
