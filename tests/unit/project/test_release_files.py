"""What stands beside the package: the version is the same everywhere, and CONTRIBUTING.rst names what is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import gpu_tracker

ROOT = Path(__file__).resolve().parents[3]
CONTRIBUTING = (ROOT / 'CONTRIBUTING.rst').read_text()


def test_the_version_is_the_same_everywhere() -> None:
    version = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']['version']
    assert gpu_tracker.__version__ == version
    assert re.findall(r'^version: (\S+)$', (ROOT / 'CITATION.cff').read_text(), re.MULTILINE) == [version]


@pytest.mark.parametrize('page', ['CONTRIBUTING.rst', 'SECURITY.rst'])
def test_files_that_a_page_names_are_there(page: str) -> None:
    named = re.findall(r'``((?:src|docs|tests|scripts)/[^`*\s]+)``', (ROOT / page).read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(
    ('name', 'path'),
    [
        ('RESOURCES', 'resources/__init__.py'),
        ('class Resource:', 'resources/__init__.py'),
        ('class ResourceUsage:', 'result/usage.py'),
        ('_WITH_ENGINES', 'gpus/drm/devices.py'),
        ('_VENDORS', 'gpus/drm/devices.py'),
        ('_OWN', 'gpus/drm/fdinfo.py'),
        ('_SHARED', 'gpus/drm/fdinfo.py'),
        ('BACKENDS', 'gpus/opening.py'),
        ('_READERS', 'gpus/vendor_variables.py'),
        ('FORMATS', 'result/formats.py'),
        ('FORMATS_ACCEPTED', 'result/formats.py'),
        ('FORMATS', 'cli/options.py'),
        ('FORMATS', 'recording/export/__init__.py'),
        ('BINARY', 'recording/export/__init__.py'),
        ('COMMANDS', 'cli/__init__.py'),
        ('def install_command', 'installation.py'),
    ],
)
def test_tables_that_contributors_are_sent_to_are_there(name: str, path: str) -> None:
    assert name.rpartition(' ')[2].rstrip(':') in CONTRIBUTING
    assert re.search(rf'^{name}(?![\w])', (ROOT / 'src' / 'gpu_tracker' / path).read_text(), re.MULTILINE)
