"""The types for macOS and Windows are checked in the same files as for Linux."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatch

from support.other_system import SYSTEMS
from support.type_checks import SCRIPTS, unchecked


def test_the_same_is_strict_for_other_systems_as_for_linux() -> None:
    own = tomllib.loads((SCRIPTS.parent / 'pyproject.toml').read_text())['tool']['mypy']
    for system in SYSTEMS:
        others = tomllib.loads((SCRIPTS / f'types_{system}.toml').read_text())['tool']['mypy']
        of_system = {'platform': system, 'cache_dir': f'.mypy_cache/{system}', 'files': ['src']}
        assert others | {'overrides': []} == own | of_system | {'overrides': []}


def test_what_is_left_out_on_macos_is_left_out_on_windows() -> None:
    def is_left_out(module: str) -> bool:
        return any(fnmatch(module, pattern) for pattern in unchecked('win32'))

    assert [module for module in unchecked('darwin') if not is_left_out(module)] == []
