"""Parts of the package that are looked up by name: nothing imports them, and most runs have none of them."""

from __future__ import annotations

from gpu_tracker.errors import GpuTrackerError, ProbeUnavailableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

TITLES = {'cuda': 'CUDA calls', 'energy': 'the energy of GPUs'}
"""Name of an entry point -> what it tells of. The name is also that of the extra which installs what it needs."""

_OWN = 'gpu_tracker.'


def load(group: str, name: str) -> Callable[..., Any]:
    """Return what an entry point stands for; that of another package goes before gpu-tracker's own.

    :param group: ``gpu_tracker.sources`` or ``gpu_tracker.metrics``.
    :raises GpuTrackerError: where no installed package has it, or what it needs is not installed.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - costs 30 ms, and most runs look nothing up

    found = sorted(entry_points(group=group, name=name), key=lambda entry: entry.value.startswith(_OWN))
    if not found:
        raise GpuTrackerError(problem_of(name, f'nothing that is installed can do it; install gpu-tracker[{name}]'))
    part: Callable[..., Any] = found[0].load()
    return part


def problem_of(name: str, error: Exception | str) -> str:
    """Return in a sentence why a part cannot be used; what is raised as ours is such a sentence already."""
    if isinstance(error, GpuTrackerError):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        return str(ProbeUnavailableError.without_extra(TITLES[name], name))
    if isinstance(error, Exception):
        error = f'{type(error).__name__}: {error}'
    return f'{TITLES[name]} cannot be probed: {error}.'
