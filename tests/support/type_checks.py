"""What scripts/test.sh has mypy check for macOS and Windows."""

from __future__ import annotations

import tomllib
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / 'scripts'


def unchecked(system: str) -> list[str]:
    """Return the modules that mypy does not check for a system, because only others import them."""
    overrides = tomllib.loads((SCRIPTS / f'types_{system}.toml').read_text())['tool']['mypy']['overrides']
    return [name for override in overrides for name in override['module']]
