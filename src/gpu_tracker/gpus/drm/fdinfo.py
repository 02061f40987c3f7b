"""What one DRM client has used, as its driver writes it into ``/proc/PID/fdinfo/FD``; pure.

The keys are those of the kernel's Documentation/gpu/drm-usage-stats.rst:

- ``drm-resident-REGION``, or ``drm-memory-REGION`` of drivers that have not the former, is what a client has in memory
  now. ``drm-total-REGION`` is what it has asked for, and says nothing of what is in memory.
- ``drm-engine-NAME`` is the time in nanoseconds that engines of one kind have worked for it, ``drm-cycles-NAME`` the
  same in clock cycles, of ``drm-total-cycles-NAME`` that have passed; ``drm-engine-capacity-NAME`` is how many engines
  of the kind there are.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_UNITS = {b'KiB': 2**10, b'MiB': 2**20, b'GiB': 2**30}
"""A number without a unit is bytes."""

_OWN = ('vram', 'local', 'stolen-local')
"""How regions begin that are memory of the GPU itself: ``vram`` (amdgpu), ``vram0`` (xe), ``local0`` (i915)."""
_SHARED = ('gtt', 'system', 'stolen', 'memory')
"""How regions begin that are the system's memory: ``gtt`` (amdgpu, xe), ``system0`` (i915), ``system`` (xe), ``memory``
(drivers that know one region only, such as panfrost, msm and v3d). amdgpu's ``cpu`` is what the GPU does not use."""

_COMPUTE = frozenset({'compute', 'ccs'})
"""Engines that do nothing but compute: of amdgpu and i915, and of xe."""
_DRIVER_WITHOUT_IDLE_ENGINES = 'amdgpu'
"""A driver that leaves engines out which have not worked for the client."""

_KINDS = ('resident', 'memory', 'engine', 'engine-capacity', 'cycles', 'total-cycles')
_PARTS_OF_KIND = ('capacity-', 'cycles-')
"""What belongs to the kind of a key and not to the name: ``drm-engine-capacity-video``."""

Key = tuple[str, str]
"""What names a client: the PCI address of its device, or the driver's name where it is no PCI device, and its ID."""


class Client:
    """One DRM client: what a process got when it opened the device, and may have passed on to others.

    :ivar driver: The driver's name.
    :ivar device: The PCI address, or the driver's name where it is no PCI device.
    :ivar regions: Bytes by region.
    :ivar nanoseconds: The time that each kind of engine has worked for it.
    :ivar cycles: The clock cycles in which each kind of engine has worked for it, and those that have passed.
    :ivar capacity: How many engines there are of a kind, where it is more than one.
    """

    __slots__ = ('capacity', 'cycles', 'device', 'driver', 'id', 'nanoseconds', 'regions')

    def __init__(self, driver: str, device: str, client_id: str) -> None:
        self.driver = driver
        self.device = device
        self.id = client_id
        self.regions: Mapping[str, int] = {}
        self.nanoseconds: Mapping[str, int] = {}
        self.cycles: Mapping[str, tuple[int, int]] = {}
        self.capacity: Mapping[str, int] = {}

    @property
    def key(self) -> Key:
        """What names the client."""
        return self.device, self.id

    def memory(self, *, is_integrated: bool) -> int | None:
        """Return the bytes that the client has; None where the driver does not say.

        Of a GPU with memory of its own only that counts. An integrated GPU works in the system's memory.
        """
        own = [size for region, size in self.regions.items() if region.startswith(_OWN)]
        if own and not is_integrated:
            return sum(own)
        shared = [size for region, size in self.regions.items() if _is_shared(region)]
        return sum(own) + sum(shared) if own or shared else None

    @property
    def has_engines(self) -> bool:
        """Whether the driver says how long engines have worked."""
        return bool(self.nanoseconds or self.cycles) or self.driver == _DRIVER_WITHOUT_IDLE_ENGINES

    @property
    def computes(self) -> bool:
        """Whether an engine that does nothing but compute has worked for it, or where no driver tells that apart."""
        if self.driver != _DRIVER_WITHOUT_IDLE_ENGINES and not _COMPUTE & (
            self.nanoseconds.keys() | self.cycles.keys()
        ):
            return True
        busy = self.cycles.items()
        return any(self.nanoseconds.get(name) for name in _COMPUTE) or any(
            cycles for name, (cycles, _) in busy if name in _COMPUTE
        )


def parse(text: bytes) -> Client | None:
    """Return the client that a file of ``fdinfo`` is about; None where it is none, or has no ID to be counted by.

    What cannot be read of a line is left out: it is not known.
    """
    about = {b'driver': '', b'pdev': '', b'client-id': ''}
    figures: dict[str, dict[str, int]] = {kind: {} for kind in _KINDS}
    for line in text.split(b'\n'):
        if not line.startswith(b'drm-'):
            continue
        key, _, value = line[4:].partition(b':')
        if key in about:
            about[key] = value.strip().decode(errors='replace')
            continue
        kind, _, name = key.decode(errors='replace').partition('-')
        if name.startswith(_PARTS_OF_KIND):
            part, _, name = name.partition('-')
            kind = f'{kind}-{part}'
        if kind in figures:
            _put(figures[kind], name, value)
    if not about[b'driver'] or not about[b'client-id']:
        return None
    client = Client(about[b'driver'], about[b'pdev'] or about[b'driver'], about[b'client-id'])
    client.regions = figures['memory'] | figures['resident']
    client.nanoseconds = figures['engine']
    passed = figures['total-cycles']
    client.cycles = {name: (cycles, passed[name]) for name, cycles in figures['cycles'].items() if name in passed}
    client.capacity = {name: count for name, count in figures['engine-capacity'].items() if count > 1}
    return client


def _is_shared(region: str) -> bool:
    return region.startswith(_SHARED) and not region.startswith(_OWN)


def _put(figures: dict[str, int], name: str, value: bytes) -> None:
    """Note a number with its unit; one that cannot be read is not known."""
    words = value.split()
    if not words or not words[0].isdigit():
        return
    unit = words[1] if len(words) > 1 else b''
    if unit in {b'', b'ns'}:
        figures[name] = int(words[0])
    elif unit in _UNITS:
        figures[name] = int(words[0]) * _UNITS[unit]
