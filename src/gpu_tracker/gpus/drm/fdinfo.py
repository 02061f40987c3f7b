"""What one DRM client has used, as its driver writes it into ``/proc/PID/fdinfo/FD``; pure.

The keys are those of the kernel's Documentation/gpu/drm-usage-stats.rst:

- ``drm-resident-REGION``, or ``drm-memory-REGION`` of drivers that have not the former, is what a client has in memory
  now. ``drm-total-REGION`` is what it has asked for, and says nothing of what is in memory.
- ``drm-engine-NAME`` is the time in nanoseconds that engines of one kind have worked for it, ``drm-cycles-NAME`` the
  same in clock cycles, of ``drm-total-cycles-NAME`` that have passed; ``drm-engine-capacity-NAME`` is how many engines
  of the kind there are.
"""

from __future__ import annotations

import functools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_UNITS = {b'': 1, b'ns': 1, b'KiB': 2**10, b'MiB': 2**20, b'GiB': 2**30}
"""A size without a unit is in bytes."""
_IDENTITY = (b'drm-driver', b'drm-client-id', b'drm-pdev')

_OWN = ('vram', 'local', 'stolen-local')
"""How regions begin that are memory of the GPU itself: ``vram`` (amdgpu), ``vram0`` (xe), ``local0`` (i915)."""
_SHARED = ('gtt', 'system', 'stolen', 'memory')
"""How regions begin that are the system's memory: ``gtt`` (amdgpu, xe), ``system0`` (i915), ``system`` (xe), ``memory``
(drivers that know one region only, such as panfrost, msm and v3d). amdgpu's ``cpu`` is what the GPU does not use."""

_COMPUTE = 'compute'
"""The engines of amdgpu and i915 that do nothing but compute."""
_COMPUTE_OF_XE = 'ccs'
_DRIVER_WITHOUT_IDLE_ENGINES = 'amdgpu'
"""A driver that leaves engines out which have not worked for the client."""

_KINDS = ('resident', 'memory', 'engine', 'engine-capacity', 'cycles', 'total-cycles')
_PARTS_OF_KIND = ('capacity-', 'cycles-')
"""What belongs to the kind of a key and not to the name: ``drm-engine-capacity-video``."""

_MOST_KEYS = 512
"""A driver has some dozens of keys, the same for each of its clients."""

Key = tuple[str, str]
"""What names a client: the PCI address of its device, or the driver's name where it is no PCI device, and its ID."""


class Client:
    """One DRM client at one time: what a process got when it opened the device, and may have passed on to others.

    :ivar key: What names the client.
    :ivar driver: The driver's name.
    :ivar nanoseconds: The time that each kind of engine has worked for it.
    :ivar cycles: The clock cycles in which each kind of engine has worked for it.
    :ivar passed: The clock cycles that have passed for each kind of engine.
    :ivar capacity: How many engines there are of a kind.
    """

    __slots__ = ('_own', '_shared', 'capacity', 'cycles', 'driver', 'key', 'nanoseconds', 'passed')

    def __init__(self, key: Key, driver: str, figures: Mapping[str, Mapping[str, int]]) -> None:
        self.key = key
        self.driver = driver
        regions = {**figures['memory'], **figures['resident']}
        self._own = [size for region, size in regions.items() if region.startswith(_OWN)]
        self._shared = [
            size for region, size in regions.items() if region.startswith(_SHARED) and not region.startswith(_OWN)
        ]
        self.nanoseconds = figures['engine']
        self.cycles = figures['cycles']
        self.passed = figures['total-cycles']
        self.capacity = figures['engine-capacity']

    @property
    def has_own_memory(self) -> bool:
        """Whether the driver names memory of the GPU itself, be it that the client has none of it."""
        return bool(self._own)

    def memory(self, *, is_integrated: bool) -> int | None:
        """Return the bytes that the client has; None if the driver does not say.

        Of a GPU with memory of its own only that counts. An integrated GPU works in the system's memory.
        """
        counted = self._own if self._own and not is_integrated else self._own + self._shared
        return sum(counted) if counted else None

    @property
    def has_engines(self) -> bool:
        """Whether the driver says how long engines have worked."""
        return bool(self.nanoseconds or self.cycles) or self.driver == _DRIVER_WITHOUT_IDLE_ENGINES

    @property
    def computes(self) -> bool:
        """Whether an engine that does nothing but compute has worked for it, or where no driver tells that apart."""
        worked = self.nanoseconds.get(_COMPUTE, self.cycles.get(_COMPUTE_OF_XE))
        return self.driver != _DRIVER_WITHOUT_IDLE_ENGINES if worked is None else worked > 0


def parse(text: bytes) -> Client | None:
    """Return the client that a file of ``fdinfo`` is about; None if it is none, or has no ID to be counted by.

    A figure that cannot be read is not known.
    """
    about: dict[bytes, str] = {}
    figures = {kind: dict[str, int]() for kind in _KINDS}
    for line in text.split(b'\n'):
        key, _, value = line.partition(b':')
        kind, name = _place(key)
        if kind:
            number = _number(value)
            if number is not None:
                figures[kind][name] = number
        elif key in _IDENTITY:
            about[key] = value.strip().decode(errors='replace')
    driver, client_id = about.get(b'drm-driver'), about.get(b'drm-client-id')
    if not driver or not client_id:
        return None
    return Client((about.get(b'drm-pdev') or driver, client_id), driver, figures)


@functools.lru_cache(_MOST_KEYS)
def _place(key: bytes) -> tuple[str, str]:
    """Return the kind of figure that a key names, and of which region or engine; no kind: it is not read."""
    kind, _, name = key.removeprefix(b'drm-').decode(errors='replace').partition('-')
    if name.startswith(_PARTS_OF_KIND):
        part, _, name = name.partition('-')
        kind = f'{kind}-{part}'
    return (kind, name) if key.startswith(b'drm-') and kind in _KINDS else ('', '')


def _number(value: bytes) -> int | None:
    digits, _, unit = value.strip().partition(b' ')
    factor = _UNITS.get(unit.lstrip())
    if factor is None or not digits.isdigit():
        return None
    return int(digits) * factor
