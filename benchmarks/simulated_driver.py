"""The simulated NVIDIA driver of the tests, for the benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.compiling import compiled
from benchmarks.environments import CHECKOUT

_TESTS = CHECKOUT / 'tests'
_HERE = Path(__file__).resolve().parent
_WRAPPED = ('state_read', 'state_free', 'call_begin', 'call_end')


def load() -> Any:  # noqa: ANN401 - a module of the tests
    """Return the module ``support.simulated_nvml`` of the tests.

    :raises ImportError: where pytest, which it imports, is not installed.
    """
    sys.path.insert(0, str(_TESTS))
    try:
        from support import simulated_nvml  # type: ignore[import-not-found]  # noqa: PLC0415 - it is not on the path before
    finally:
        sys.path.pop(0)
    return simulated_nvml


def full_library() -> Path:
    """Return the driver's library with those calls added that only peers make, see ``more_nvml.c``.

    :raises FailedError: where it cannot be compiled.
    """
    return _library(_HERE / 'more_nvml.c')


def kept_library() -> Path:
    """Return the driver's library that reads its state once and tells what its calls cost, see ``kept_driver.c``.

    :raises FailedError: where it cannot be compiled.
    """
    return _library(_HERE / 'kept_driver.c', *(f'-Wl,--wrap={function}' for function in _WRAPPED))


def _library(more: Path, *more_options: str) -> Path:
    folder = _TESTS / 'support' / 'simulated_nvml'
    sources = [*sorted(folder.glob('*.c')), more]
    kind = ['-std=gnu11', '-shared', '-fPIC', '-fvisibility=hidden', '-Wl,-soname,libnvidia-ml.so.1']
    options = [f'-I{folder}', '-DOLD_DRIVER=0', *kind, *more_options, '-lpthread']
    return compiled('libnvidia-ml.so.1', sources, options, sorted(folder.glob('*.h')))
