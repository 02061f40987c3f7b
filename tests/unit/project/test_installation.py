"""How an extra can be added to an installation, from metadata as pip and others leave it."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import TYPE_CHECKING

import gpu_tracker
from gpu_tracker import installation
from gpu_tracker.installation import install_command, packages_of
from support.tracked_program import PACKAGE_PARENT, run_words

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[3]
METADATA = """\
Metadata-Version: 2.4
Name: gpu-tracker
Version: {version}
Requires-Dist: psutil>=5.9.0
Provides-Extra: all
Requires-Dist: gpu-tracker[fleet,table]; extra == 'all'
Provides-Extra: fleet
Requires-Dist: aiohttp>=3.11; extra == 'fleet'
Requires-Dist: uvicorn<0.55,>=0.32; extra == 'fleet'
Provides-Extra: ray
Requires-Dist: ray>=2.40; (python_version < '3.13') and extra == 'ray'
Provides-Extra: table
Requires-Dist: rich>=13.7; extra == "table"
"""
PACKAGES = ['aiohttp>=3.11', 'uvicorn<0.55,>=0.32']


def installed(folder: Path, version: str = gpu_tracker.__version__) -> PathDistribution:
    """Write metadata as an installer leaves it, and return it."""
    metadata = folder / f'gpu_tracker-{version}.dist-info'
    metadata.mkdir()
    (metadata / 'METADATA').write_text(METADATA.format(version=version))
    (metadata / 'INSTALLER').write_text('pip\n')
    return PathDistribution(metadata)


def test_an_extra_is_its_packages_and_never_the_index_name_of_another_project(tmp_path: Path) -> None:
    distribution = installed(tmp_path)
    assert packages_of('fleet', distribution) == PACKAGES
    assert packages_of('ray', distribution) == ["ray>=2.40; (python_version < '3.13')"]
    assert packages_of('table', distribution) == ['rich>=13.7']
    assert packages_of('all', distribution) == [*PACKAGES, 'rich>=13.7']
    assert packages_of('none', distribution) == []


def alone(folder: Path) -> Path:
    """Return a folder that has the package, and nothing that is installed beside it, such as pip."""
    parent = folder / 'alone'
    if not parent.exists():
        parent.mkdir()
        (parent / 'gpu_tracker').symlink_to(PACKAGE_PARENT / 'gpu_tracker')
    return parent


def command_in(folder: Path, package_parent: Path | None = None) -> str:
    """Return the command for the extra ``fleet`` in a Python that sees the metadata in a folder alone."""
    package_parent = package_parent or alone(folder)
    program = (
        f'import sys; sys.path[:0] = {[str(folder), str(package_parent)]!r}; from gpu_tracker import installation; '
        'print(installation.install_command("fleet"))'
    )
    return run_words([sys.executable, '-I', '-S', '-c', program]).stdout.removesuffix('\n')


def test_the_command_is_for_this_interpreter_also_without_a_pip_of_its_own(tmp_path: Path) -> None:
    installed(tmp_path)
    assert shlex.split(command_in(tmp_path)) == ['pip', '--python', sys.executable, 'install', *PACKAGES]
    (tmp_path / 'pip').mkdir()
    (tmp_path / 'pip' / '__init__.py').touch()
    assert shlex.split(command_in(tmp_path)) == [sys.executable, '-m', 'pip', 'install', *PACKAGES]


def test_a_package_is_installed_for_this_interpreter_too(tmp_path: Path) -> None:
    program = f'import sys; sys.path[:0] = {[str(tmp_path), str(alone(tmp_path))]!r}; '
    program += 'from gpu_tracker import installation; print(installation.package_command("pyarrow"))'
    words = [sys.executable, '-I', '-S', '-c', program]
    assert shlex.split(run_words(words).stdout) == ['pip', '--python', sys.executable, 'install', 'pyarrow']
    (tmp_path / 'pip').mkdir()
    (tmp_path / 'pip' / '__init__.py').touch()
    assert shlex.split(run_words(words).stdout) == [sys.executable, '-m', 'pip', 'install', 'pyarrow']


def test_no_hint_leaves_open_for_which_python_a_package_is_installed() -> None:
    sources = ''.join(path.read_text() for path in (ROOT / 'src').rglob('*.py'))
    assert re.findall(r': pip install', sources) == []


def test_uv_is_named_where_it_has_installed(tmp_path: Path) -> None:
    installed(tmp_path)
    next(tmp_path.glob('*/INSTALLER')).write_text('uv')
    assert shlex.split(command_in(tmp_path)) == ['uv', 'pip', 'install', '--python', sys.executable, *PACKAGES]


def test_metadata_of_the_other_project_is_not_believed(tmp_path: Path) -> None:
    installed(tmp_path, version='5.0.1')
    package = tmp_path / 'checkout' / 'src' / 'gpu_tracker'
    package.mkdir(parents=True)
    for name in ('__init__.py', 'installation.py', 'real.py', 'version.py'):
        (package / name).write_text((Path(gpu_tracker.__file__).parent / name).read_text())
    assert command_in(tmp_path, package.parent) == (
        "install what the extra 'fleet' in gpu-tracker's pyproject.toml names"
    )
    (tmp_path / 'checkout' / 'pyproject.toml').touch()
    assert shlex.split(command_in(tmp_path, package.parent))[-1] == f'{tmp_path}/checkout[fleet]'


def test_cmd_gets_double_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation.sys, 'platform', 'win32')
    assert installation._line(['C:\\py\\python.exe', '-m', 'pip', 'install', *PACKAGES, 'C:\\a b[fleet]']) == (
        r'C:\py\python.exe -m pip install "aiohttp>=3.11" "uvicorn<0.55,>=0.32" "C:\a b[fleet]"'
    )


def test_the_extra_all_has_every_other_one_and_hints_name_extras_that_are_there() -> None:
    extras = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']['optional-dependencies']
    (of_all,) = extras.pop('all')
    assert of_all == f'gpu-tracker[{",".join(sorted(extras))}]'
    source = ''.join(path.read_text() for path in (ROOT / 'src').rglob('*.py'))
    assert set(re.findall(r'install_command\(["\'](\w+)', source)) == {'dask', 'fleet', 'mpi', 'plot', 'ray'}
    assert extras.keys() >= {'cuda', 'dask', 'fleet', 'mpi', 'ray'}


def test_no_text_names_an_extra_of_the_index() -> None:
    """There ``gpu-tracker[fleet]`` is another project's release, so it stands in no text but the page on that one."""
    pages = [
        path for pattern in ('*.rst', 'docs/**/*.rst', 'deploy/**/*', 'examples/**/*') for path in ROOT.glob(pattern)
    ]
    sources = [path for path in (ROOT / 'src').rglob('*.py') if path.name != 'installation.py']
    named = re.compile(r'gpu[-_]tracker\[\w|pip install (?:-\S+ )*[\'"]?gpu[-_]tracker(?![\w/.-])(?!==5)')
    found = {
        str(path.relative_to(ROOT))
        for path in (*pages, *sources)
        if path.is_file() and named.search(path.read_bytes().decode(errors='replace'))
    }
    assert found == {'docs/migration.rst'}


def test_the_installation_that_is_tested_has_a_command() -> None:
    assert install_command('fleet').endswith(("[fleet]'", '[fleet]', "'uvicorn>=0.32'"))
