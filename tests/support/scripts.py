"""The programs in scripts/, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

_FOLDER = Path(__file__).resolve().parents[2] / 'scripts'


def load_script(name: str) -> ModuleType:
    """Return a fresh module of ``scripts/NAME.py``."""
    spec = importlib.util.spec_from_file_location(name, _FOLDER / f'{name}.py')
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
