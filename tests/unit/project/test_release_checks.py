"""What scripts/check_release.py says of archives that are not as they should be."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from typing import TYPE_CHECKING

from support.release_checks import WINGS, check_release

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

OF_GIT = {'README.rst', 'src/gpu_tracker/__init__.py', 'tests/unit/test_cpu.py'}
IN_WHEEL = {'gpu_tracker/__init__.py', 'gpu_tracker-6.0.0.dist-info/METADATA'}


def built(folder: Path, in_wheel: Iterable[str], in_sdist: Iterable[str]) -> Path:
    """Make a wheel and an sdist of empty files, and return their folder."""
    with zipfile.ZipFile(folder / 'gpu_tracker-6.0.0-py3-none-any.whl', 'w') as archive:
        for name in in_wheel:
            archive.writestr(name, '')
    with tarfile.open(folder / 'gpu_tracker-6.0.0.tar.gz', 'w:gz') as archive:
        for name in in_sdist:
            archive.addfile(tarfile.TarInfo(f'gpu_tracker-6.0.0/{name}'), io.BytesIO())
    return folder


def test_archives_with_all_that_git_tracks_are_right(tmp_path: Path) -> None:
    assert check_release.contents(built(tmp_path, IN_WHEEL, {*OF_GIT, 'PKG-INFO'}), OF_GIT) == []


def test_what_is_missing_and_what_is_too_much_is_named(tmp_path: Path) -> None:
    in_wheel = {'gpu_tracker-6.0.0.dist-info/METADATA', 'tests/test_x.py', 'gpu_tracker/__pycache__/x.cpython-311.pyc'}
    in_sdist = {'README.rst', 'src/gpu_tracker/__init__.py', '.vm-kernel/vmlinuz', 'PKG-INFO'}
    assert check_release.contents(built(tmp_path, in_wheel, in_sdist), OF_GIT) == [
        '.vm-kernel/vmlinuz is in the sdist, and git does not know it',
        'gpu_tracker/__init__.py is missing in the wheel',
        'gpu_tracker/__pycache__/x.cpython-311.pyc has no place in a wheel',
        'tests/test_x.py has no place in a wheel',
        'tests/test_x.py is not of the package',
        'tests/unit/test_cpu.py is missing in the sdist',
    ]


def test_without_git_what_has_no_place_is_still_named(tmp_path: Path) -> None:
    folder = built(tmp_path, {*IN_WHEEL, 'gpu_tracker/run.db'}, {'anything'})
    assert check_release.contents(folder, None) == ['gpu_tracker/run.db has no place in a wheel']


def test_the_core_is_what_is_no_wing() -> None:
    assert list(check_release.wings()) == WINGS
    sizes = {
        'gpu_tracker/__init__.py': 1,
        'gpu_tracker/cli/idle.py': 20,
        'gpu_tracker/raytracing.py': 300,
        'gpu_tracker/ray.py': 4_000,
        'gpu_tracker/idle/keeper.py': 50_000,
        'gpu_tracker-6.0.0.dist-info/RECORD': 600_000,
    }
    assert check_release.core_size(sizes) == 321


def test_the_bill_of_materials_has_what_the_wheel_brings_and_is_of_no_other_project(tmp_path: Path) -> None:
    bill = {
        'components': [],
        'dependencies': [{'ref': 'root-component', 'dependsOn': ['psutil==7.2.2']}],
        'metadata': {'component': {'bom-ref': 'root-component', 'name': 'gpu-tracker', 'version': '6.0.0'}},
    }
    (tmp_path / 'bill.json').write_text(json.dumps(bill))
    check_release.add_brought(tmp_path / 'bill.json')
    changed = json.loads((tmp_path / 'bill.json').read_text())
    assert [component['purl'] for component in changed['components']] == ['pkg:npm/uplot@1.6.32']
    assert changed['dependencies'] == [
        {'ref': 'root-component', 'dependsOn': ['psutil==7.2.2', 'uplot@1.6.32']},
        {'ref': 'uplot@1.6.32'},
    ]
    assert changed['metadata']['component']['purl'] == 'pkg:generic/gpu-tracker@6.0.0'
