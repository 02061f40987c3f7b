"""The program that checks a release, as a module, and the wings that it has to know."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_PATH = Path(__file__).resolve().parents[2] / 'scripts' / 'check_release.py'
_SPEC = importlib.util.spec_from_file_location('check_release', _PATH)
check_release = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(check_release)

WINGS = [
    'atopgpud',
    'cuda_probe',
    'dask',
    'fleet',
    'idle',
    'mpi',
    'notebook',
    'pytest_plugin',
    'ray',
    'sub_tracker',
]
"""Names below ``gpu_tracker`` of what the core never imports."""
