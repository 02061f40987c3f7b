"""The simulated NVIDIA driver of the tests, for the benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.compiling import compiled
from benchmarks.environments import CHECKOUT

_TESTS = CHECKOUT / 'tests'
_MORE = Path(__file__).resolve().parent / 'more_nvml.c'


def load() -> Any:  # noqa: ANN401 - a module of the tests
    """Return the module ``simulated_nvml`` of the tests.

    :raises ImportError: where pytest, which it imports, is not installed.
    """
    sys.path.insert(0, str(_TESTS))
    try:
        import simulated_nvml  # type: ignore[import-not-found]  # noqa: PLC0415 - it is not on the path before
    finally:
        sys.path.pop(0)
    return simulated_nvml


def full_library() -> Path:
    """Return the driver's library with those calls added that only peers make, see ``more_nvml.c``.

    :raises FailedError: where it cannot be compiled.
    """
    folder = _TESTS / 'simulated_nvml'
    sources = [*sorted(folder.glob('*.c')), _MORE]
    kind = ['-std=gnu11', '-shared', '-fPIC', '-fvisibility=hidden', '-Wl,-soname,libnvidia-ml.so.1']
    options = [f'-I{folder}', '-DOLD_DRIVER=0', *kind, '-lpthread']
    return compiled('libnvidia-ml.so.1', sources, options, sorted(folder.glob('*.h')))
