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
from itertools import compress
from operator import ne

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_UNITS = {b'': 1, b'ns': 1, b'KiB': 2**10, b'MiB': 2**20, b'GiB': 2**30}
"""A size without a unit is in bytes."""
_IDENTITY = (b'drm-driver:', b'drm-client-id:', b'drm-pdev:')

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
_OF_MEMORY = frozenset({'resident', 'memory'})
_PARTS_OF_KIND = ('capacity-', 'cycles-')
"""What belongs to the kind of a key and not to the name: ``drm-engine-capacity-video``."""

_MOST_KEYS = 512
"""A driver has some dozens of keys, the same for each of its clients."""

Key = tuple[str, str]
"""What names a client: the PCI address of its device, or the driver's name where it is no PCI device, and its ID."""


class Client:
    """One DRM client: what a process got when it opened the device, and may have passed on to others.

    :ivar driver: The driver's name.
    :ivar key: What names the client.
    :ivar nanoseconds: The time that each kind of engine has worked for it.
    :ivar cycles: The clock cycles in which each kind of engine has worked for it.
    :ivar passed: The clock cycles that have passed for each kind of engine.
    :ivar capacity: How many engines there are of a kind.
    :ivar has_own_memory: Whether the driver names memory of the GPU itself, be it that the client has none of it.
    :ivar changes: How often its figures have changed.
    """

    __slots__ = (
        '_figures',
        '_head',
        '_memory',
        '_steady',
        '_text',
        'capacity',
        'changes',
        'cycles',
        'driver',
        'has_own_memory',
        'key',
        'nanoseconds',
        'passed',
    )

    def __init__(self, key: Key, driver: str, text: bytes) -> None:
        self.key = key
        self.driver = driver
        self.changes = 0
        self._text = text
        self._head = self._steady = _head(text)
        self._figures = figures = {kind: dict[str, int]() for kind in _KINDS}
        self._memory: dict[bool, int | None] = {}
        for line in text.split(b'\n'):
            self._note(line)
        self.has_own_memory = any(region.startswith(_OWN) for kind in _OF_MEMORY for region in figures[kind])
        self.nanoseconds: Mapping[str, int] = figures['engine']
        self.cycles: Mapping[str, int] = figures['cycles']
        self.passed: Mapping[str, int] = figures['total-cycles']
        self.capacity: Mapping[str, int] = figures['engine-capacity']

    def update(self, text: bytes) -> bool:
        """Take in what the file says now; return whether it still is about this client."""
        if text == self._text:
            return True
        # Most of the text is the same each time, so that only the lines after what did not change last are compared.
        steady = self._steady if text.startswith(self._steady) else self._head
        if not text.startswith(steady):
            return False
        lines, before = text[len(steady) :].split(b'\n'), self._text[len(steady) :].split(b'\n')
        if len(lines) != len(before):
            return False
        changed = list(compress(lines, map(ne, lines, before)))
        for line in changed:
            self._note(line)
        first = lines.index(changed[0])
        self._text, self._steady = text, text[: len(steady) + sum(map(len, lines[:first])) + first]
        self.changes += 1
        return True

    def memory(self, *, is_integrated: bool) -> int | None:
        """Return the bytes that the client has; None where the driver does not say.

        Of a GPU with memory of its own only that counts. An integrated GPU works in the system's memory.
        """
        if is_integrated not in self._memory:
            regions = self._figures['memory'] | self._figures['resident']
            own = [size for region, size in regions.items() if region.startswith(_OWN)]
            shared = [size for region, size in regions.items() if _is_shared(region)]
            counted = own if own and not is_integrated else own + shared
            self._memory[is_integrated] = sum(counted) if counted else None
        return self._memory[is_integrated]

    @property
    def has_engines(self) -> bool:
        """Whether the driver says how long engines have worked."""
        return bool(self.nanoseconds or self.cycles) or self.driver == _DRIVER_WITHOUT_IDLE_ENGINES

    @property
    def computes(self) -> bool:
        """Whether an engine that does nothing but compute has worked for it, or where no driver tells that apart."""
        worked = self.nanoseconds.get(_COMPUTE, self.cycles.get(_COMPUTE_OF_XE))
        return self.driver != _DRIVER_WITHOUT_IDLE_ENGINES if worked is None else worked > 0

    def _note(self, line: bytes) -> None:
        """Take in a figure; one that cannot be read is not known."""
        key, _, value = line.partition(b':')
        kind, name = _place(key)
        if not kind:
            return
        number = _number(value)
        if number is None:
            self._figures[kind].pop(name, None)
        else:
            self._figures[kind][name] = number
        if kind in _OF_MEMORY:
            self._memory.clear()


def parse(text: bytes) -> Client | None:
    """Return the client that a file of ``fdinfo`` is about; None where it is none, or has no ID to be counted by."""
    about = {}
    for line in text.split(b'\n'):
        if line.startswith(_IDENTITY):
            key, _, value = line.partition(b':')
            about[key] = value.strip().decode(errors='replace')
    driver, client_id = about.get(b'drm-driver'), about.get(b'drm-client-id')
    if not driver or not client_id:
        return None
    return Client((about.get(b'drm-pdev') or driver, client_id), driver, text)


def _head(text: bytes) -> bytes:
    """Return what a file begins with, up to the last line that says which client it is about."""
    last = max(text.rfind(name) for name in _IDENTITY)
    return text[: text.find(b'\n', last) + 1 or len(text)]


@functools.lru_cache(_MOST_KEYS)
def _place(key: bytes) -> tuple[str, str]:
    """Return the kind of figure that a key names, and of which region or engine; no kind: it is not read."""
    kind, _, name = key.removeprefix(b'drm-').decode(errors='replace').partition('-')
    if name.startswith(_PARTS_OF_KIND):
        part, _, name = name.partition('-')
        kind = f'{kind}-{part}'
    return (kind, name) if key.startswith(b'drm-') and kind in _KINDS else ('', '')


def _is_shared(region: str) -> bool:
    return region.startswith(_SHARED) and not region.startswith(_OWN)


def _number(value: bytes) -> int | None:
    digits, _, unit = value.strip().partition(b' ')
    factor = _UNITS.get(unit.lstrip())
    if factor is None or not digits.isdigit():
        return None
    return int(digits) * factor
