"""The program that makes mutants, as a module."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_PATH = Path(__file__).resolve().parents[2] / 'scripts' / 'mutate.py'
_SPEC = importlib.util.spec_from_file_location('mutate', _PATH)
mutate = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(mutate)
