"""Which drivers there are, and how they are opened. Only that imports a vendor's library."""

from __future__ import annotations

import os

from gpu_tracker.errors import ParameterError
from gpu_tracker.gpus.backend import OF_DRM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpu_tracker.gpus.backend import GpuBackend, RunGpus


def _opener(module: str) -> Callable[[], GpuBackend | None]:
    """Return what imports a vendor's folder and opens its driver, both when it is called."""

    def open_backend() -> GpuBackend | None:
        # Not with importlib, which costs the start of a sampler 1.7 ms.
        opened: GpuBackend | None = __import__(module, fromlist=('',)).open_backend()
        return opened

    return open_backend


DRM_ROOT = 'GPU_TRACKER_DRM_ROOT'
"""The environment variable that names a folder with ``sys`` and ``proc`` in it, to be read for the GPUs of DRM drivers
instead of this machine's own: how a dump of another machine is shown, and how this is tested."""


def open_drm(vendors: frozenset[str] | None = None) -> GpuBackend | None:
    """Open the DRM drivers; None if none serves a GPU that programs can compute or draw on.

    :param vendors: Only the GPUs of these, see ``gpu_tracker.gpus.drm.open_backend``; None: all.
    """
    if not _has_drm():
        return None
    from gpu_tracker.gpus import drm  # noqa: PLC0415 - only if there is a driver to open

    return drm.open_backend(vendors, os.environ.get(DRM_ROOT, ''))


def _has_drm() -> bool:
    """Return whether there is a GPU that NVML does not read. This lists one folder, and reads a link for each GPU."""
    folder = f'{os.environ.get(DRM_ROOT, "")}/sys/class/drm'
    try:
        nodes = [name for name in os.listdir(folder) if name.startswith('renderD')]
    except OSError:  # another system than Linux, or a kernel without DRM
        return False
    return not all(_is_nvidias(f'{folder}/{name}/device/driver') for name in nodes)


def _is_nvidias(link: str) -> bool:
    try:
        return os.path.basename(os.readlink(link)) == 'nvidia'
    except OSError:  # a device without a driver of its own, which the backend looks at
        return False


BACKENDS: dict[str, Callable[[], GpuBackend | None]] = {
    'nvidia': _opener('gpu_tracker.gpus.nvidia'),
    'drm': open_drm,
}
"""Name -> the function that opens a driver, or several that are read in the same way; it returns None where the machine
has none. It raises :class:`~gpu_tracker.errors.GpuError` where the driver is there and does not work."""

CUDA_BACKENDS = {'nvidia': BACKENDS['nvidia']}
"""The drivers whose GPUs run CUDA programs, for what deals with these alone."""


_DRM = 'drm'
_PARTS_OF_DRM = ('amd', 'intel')
"""Vendors that DRM drivers serve and that are brands of their own."""


def check_brands(given: object, backends: Mapping[str, Callable[[], GpuBackend | None]] = BACKENDS) -> tuple[str, ...]:
    """Return the brands of GPUs that a user names, in a list or in a text with commas: what ``--gb`` accepts.

    A brand is a key of the table, or ``amd`` or ``intel``: parts of ``drm``, the GPUs of all DRM drivers.

    :raises ParameterError: There is none, or another word.
    """
    accepted = [name for key in backends for name in ((*_PARTS_OF_DRM, key) if key == _DRM else (key,))]
    words = given.split(',') if isinstance(given, str) else given
    names: tuple[str, ...] = ()
    if isinstance(words, (list, tuple)) and all(isinstance(word, str) for word in words):
        names = tuple(dict.fromkeys(word.strip().lower() for word in words))
    if not names or not set(names).issubset(accepted):
        raise ParameterError('gpu_brand', given, f'one or more of {", ".join(accepted)}, separated by commas')
    return names


def backends_of(
    brands: Sequence[str], backends: Mapping[str, Callable[[], GpuBackend | None]] = BACKENDS
) -> dict[str, Callable[[], GpuBackend | None]]:
    """Return what opens the GPUs of these brands, in the table's order."""
    chosen = {name: opener for name, opener in backends.items() if name in brands}
    parts = frozenset(_PARTS_OF_DRM).intersection(brands)
    if parts and _DRM not in chosen:
        chosen[_DRM] = lambda: open_drm(parts)
    return chosen


def serves(brand: str, vendor: str) -> bool:
    """Return whether the GPUs of a vendor are among those of a brand."""
    return brand in {vendor, _DRM} if vendor in OF_DRM else brand == vendor


def open_gpus(
    brands: Sequence[str] | None = None,
    report: Callable[[str], None] = lambda _: None,
    backends: Mapping[str, Callable[[], GpuBackend | None]] = BACKENDS,
    charge: Callable[[float], None] = lambda _: None,
) -> RunGpus | None:
    """Open the drivers of some brands, or all that this machine has, as one backend.

    :param brands: See :func:`check_brands`; None: all.
    :param report: Takes why a driver does not work, where another one does.
    :param backends: The table.
    :param charge: Takes the CPU seconds that other threads than the calling one have used for it.
    :returns: None where the machine has no such driver.
    :raises gpu_tracker.errors.GpuError: A driver is there and does not work, and no other is there.
    """
    chosen = backends if brands is None else backends_of(brands, backends)
    openers = {name: opener for name, opener in chosen.items() if name != _DRM or _has_drm() or len(chosen) == 1}
    if len(openers) == 1:
        return next(iter(openers.values()))()
    from gpu_tracker.gpus.together import open_together  # noqa: PLC0415 - only where several vendors may be

    return open_together(openers, report, charge)
