"""The program that checks a release, as a module, and the wings that it has to know."""

from __future__ import annotations

from support.scripts import load_script

check_release = load_script('check_release')

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
