"""How an extra can be added to an installation, from metadata as pip and others leave it."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import gpu_tracker
from gpu_tracker import installation
from gpu_tracker.installation import install_command, requirements_of
from support.tracked_program import PACKAGE_PARENT, run_words

if TYPE_CHECKING:
    from collections.abc import Callable

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


def installed(folder: Path, origin: object = None, version: str = gpu_tracker.__version__) -> PathDistribution:
    """Write metadata as an installer leaves it, with where it came from, and return it."""
    metadata = folder / f'gpu_tracker-{version}.dist-info'
    metadata.mkdir()
    (metadata / 'METADATA').write_text(METADATA.format(version=version))
    (metadata / 'INSTALLER').write_text('pip\n')
    if origin is not None:
        (metadata / 'direct_url.json').write_text(origin if isinstance(origin, str) else json.dumps(origin))
    return PathDistribution(metadata)


def checkout(folder: Path) -> str:
    """Make a checkout with a space in its path, and return its URL."""
    (folder / 'my checkout').mkdir()
    (folder / 'my checkout' / 'pyproject.toml').touch()
    return (folder / 'my checkout').as_uri()


def wheel(folder: Path) -> str:
    """Make a wheel, and return its URL."""
    (folder / 'gpu_tracker-6.0.0-py3-none-any.whl').touch()
    return (folder / 'gpu_tracker-6.0.0-py3-none-any.whl').as_uri()


@pytest.mark.parametrize(
    ('make', 'rest', 'words'),
    [
        (checkout, {'dir_info': {}}, ['{folder}/my checkout[fleet]']),
        (checkout, {'dir_info': {'editable': True}}, ['-e', '{folder}/my checkout[fleet]']),
        (wheel, {'archive_info': {'hash': 'sha256=00'}}, ['{folder}/gpu_tracker-6.0.0-py3-none-any.whl[fleet]']),
    ],
)
def test_from_a_path_that_is_there_the_same_path_with_the_extra(
    tmp_path: Path, make: Callable[[Path], str], rest: dict[str, object], words: list[str]
) -> None:
    distribution = installed(tmp_path, {'url': make(tmp_path), **rest})
    assert requirements_of('fleet', distribution) == [word.format(folder=tmp_path) for word in words]


@pytest.mark.parametrize(
    ('origin', 'requirement'),
    [
        (
            {'url': 'https://example.org/gpu_tracker-6.0.0-py3-none-any.whl', 'archive_info': {}},
            'gpu-tracker[fleet] @ https://example.org/gpu_tracker-6.0.0-py3-none-any.whl',
        ),
        (
            {
                'url': 'https://example.org/x.git',
                'vcs_info': {'vcs': 'git', 'commit_id': 'abc', 'requested_revision': 'm'},
            },
            'gpu-tracker[fleet] @ git+https://example.org/x.git@abc',
        ),
        (
            {'url': 'file:///srv/x.git', 'vcs_info': {'vcs': 'git', 'commit_id': 'abc'}, 'subdirectory': 'tools'},
            'gpu-tracker[fleet] @ git+file:///srv/x.git@abc#subdirectory=tools',
        ),
    ],
)
def test_from_a_url_the_same_url_with_the_extra(tmp_path: Path, origin: object, requirement: str) -> None:
    assert requirements_of('fleet', installed(tmp_path, origin)) == [requirement]


@pytest.mark.parametrize(
    'origin',
    [
        None,
        {'url': 'file:///nowhere/checkout', 'dir_info': {}},
        {'url': 'file:///nowhere/x.whl', 'archive_info': {}},
        {'url': 'https://example.org/x.git', 'vcs_info': {'vcs': 'git'}},
        {'url': 'https://example.org/x.git', 'vcs_info': None},
        {'url': 3},
        {},
        [],
        'no JSON',
    ],
)
def test_of_an_unknown_origin_the_packages_by_name_and_never_the_index_name_of_another_project(
    tmp_path: Path, origin: object
) -> None:
    distribution = installed(tmp_path, origin)
    assert requirements_of('fleet', distribution) == PACKAGES
    assert requirements_of('ray', distribution) == ["ray>=2.40; (python_version < '3.13')"]
    assert requirements_of('table', distribution) == ['rich>=13.7']
    assert requirements_of('all', distribution) == [*PACKAGES, 'rich>=13.7']
    assert requirements_of('none', distribution) == []


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
    installed(tmp_path, {'url': wheel(tmp_path), 'archive_info': {}})
    path = f'{tmp_path}/gpu_tracker-6.0.0-py3-none-any.whl[fleet]'
    assert shlex.split(command_in(tmp_path)) == ['pip', '--python', sys.executable, 'install', path]
    (tmp_path / 'pip').mkdir()
    (tmp_path / 'pip' / '__init__.py').touch()
    assert shlex.split(command_in(tmp_path)) == [sys.executable, '-m', 'pip', 'install', path]


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
    assert set(re.findall(r'install_command\(["\'](\w+)', source)) == {'dask', 'fleet', 'mpi', 'otel', 'plot', 'ray'}
    assert extras.keys() >= {'cuda', 'dask', 'fleet', 'mpi', 'otel', 'ray'}


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
    assert install_command('fleet').endswith(("[fleet]'", '[fleet]', *map(shlex.quote, PACKAGES)))
