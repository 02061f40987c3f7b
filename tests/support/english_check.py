"""scripts/check_english.py as a module."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_PATH = Path(__file__).resolve().parents[2] / 'scripts' / 'check_english.py'
_SPEC = importlib.util.spec_from_file_location('check_english', _PATH)
check_english = importlib.util.module_from_spec(_SPEC)
sys.modules['check_english'] = check_english  # dataclasses look their module up
_SPEC.loader.exec_module(check_english)
