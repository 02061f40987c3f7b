"""The GPUs of all DRM drivers; see ``gpu_tracker.gpus.backend.GpuBackend``."""

from __future__ import annotations

import os
import time

from gpu_tracker.background import Reported
from gpu_tracker.gpus.drm.clients import KFD
from gpu_tracker.gpus.drm.devices import devices
from gpu_tracker.gpus.drm.sensors import Sensors
from gpu_tracker.gpus.drm.usage import Usage
from gpu_tracker.gpus.model import Gpu, GpuActivity, GpuHealth, GpuReading, Unseen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.gpus.drm.devices import Device
    from gpu_tracker.gpus.model import GpuProcess

_UNREADABLE = (
    'Only root may see what processes of other users have of GPUs of AMD, Intel and others. Some processes of this run '
    'are of other users: the memory that it has of these GPUs is unknown.'
)
_UNPLACED = (
    'A GPU driver does not say on which GPU a process of this run has its memory, as with GPUs in partitions: the GPU '
    'memory of this run is unknown.'
)
_LOST = 'is no longer there'


class DrmBackend:
    """Reads the GPUs from two folders.

    :param sys: The folder of sysfs(5).
    :param proc: The folder of proc(5).
    :param share: The folder ``/usr/share``, for names of products.
    :param vendors: Only their GPUs; None: all.
    :param monotonic: The clock, in seconds.
    """

    compute_files = frozenset({KFD})

    def __init__(
        self,
        sys: str = '/sys',
        proc: str = '/proc',
        share: str = '/usr/share',
        vendors: frozenset[str] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._devices = devices(sys, share, vendors)
        self._by_uuid = {device.uuid: device for device in self._devices}
        self._sensors = {device.uuid: Sensors(device) for device in self._devices}
        self._usage = Usage(proc, self._devices, monotonic)
        self._messages: list[tuple[str, str]] = []
        self._reported = Reported(self._messages.append)
        self._watches_activity = False

    def gpus(self) -> tuple[Gpu, ...]:
        """Return all GPUs, in PCI bus order."""
        return tuple(self._gpu(device) for device in self._devices)

    def details(self) -> list[Gpu]:
        """Return what all GPUs are."""
        return list(self.gpus())

    def follow(self, pids: frozenset[int]) -> None:
        """Read these processes only, from the next reading on: the descriptors of all others need not be looked at."""
        self._usage.follow(pids)

    def read(self, uuid: str) -> GpuReading:
        """Read one GPU; what its processes have done is read once for all GPUs."""
        device = self._by_uuid[uuid]
        total, used = self._sensors[uuid].memory()
        if used is None:
            self._report(device, 'does not report how much of its memory is in use.')
        processes = tuple(self._usage.read_for(uuid))
        if self._usage.unreadable:
            self._reported.once(_UNREADABLE, ('warning', _UNREADABLE))
        if self._usage.has_unplaced:
            self._reported.once(_UNPLACED, ('warning', _UNPLACED))
        return GpuReading(_described(device, total), memory_used=used, processes=processes)

    def processes(self, uuid: str) -> list[GpuProcess]:
        """Return the processes on one GPU."""
        return self._usage.read_for(uuid)

    def unseen(self, uuid: str) -> Unseen:
        """Return whose descriptors may not be read, and whether processes are hidden; the same of each GPU."""
        del uuid
        return Unseen(self._usage.unreadable, not self._usage.is_complete)

    def utilization(self, uuid: str) -> float | None:
        """Return the percent that the driver reports of now, or what the engines have done for all processes since.

        Where the driver reports none and only some processes are read, it is what was done for these.
        """
        reported = self._sensors[uuid].utilization()
        if reported is not None:
            return reported
        if self._usage.is_following:
            self._report(
                self._by_uuid[uuid],
                'does not report how busy it is; its utilization is that by the tracked processes alone.',
            )
        return self._usage.utilization(uuid)

    def peak_memory(self, uuid: str, pid: int) -> int | None:
        """Return None: no DRM driver keeps an account of it."""
        del uuid, pid
        return None

    def energy(self, uuid: str) -> float | None:
        """Return the joules that a whole GPU has used since its driver was loaded; Intel's with memory of their own."""
        return self._sensors[uuid].energy()

    def activity(self, uuid: str) -> list[GpuActivity]:
        """Return that it is not known: no DRM driver has counters of it."""
        del uuid
        return [GpuActivity(problem='only NVIDIA GPUs have counters of their activity')]

    def survey(self, *, with_load: bool = True, with_sensors: bool = True) -> list[GpuReading]:
        """Read all GPUs once."""
        return [self._surveyed(device, with_load=with_load, with_sensors=with_sensors) for device in self._devices]

    def watch_errors(self) -> None:
        """Do nothing: there are no errors that all drivers count."""

    def watch_activity(self) -> None:
        """Report that it is not known from now on."""
        self._watches_activity = True

    def take_messages(self) -> list[tuple[str, str]]:
        """Return the messages not taken yet."""
        messages = list(self._messages)
        self._messages.clear()
        return messages

    def close(self) -> None:
        """Do nothing: no file is kept open."""

    def _gpu(self, device: Device) -> Gpu:
        return _described(device, self._sensors[device.uuid].memory()[0])

    def _surveyed(self, device: Device, *, with_load: bool, with_sensors: bool) -> GpuReading:
        sensors = self._sensors[device.uuid]
        total, used = sensors.memory()
        gpu = _described(device, total)
        if not os.path.isdir(device.path):
            return GpuReading(gpu, _LOST)
        reading = GpuReading(
            gpu,
            memory_used=used,
            memory_free=None if total is None or used is None else max(0, total - used),
            activity=self.activity(device.uuid)[0] if self._watches_activity else None,
        )
        if with_load or total is None or used is None:
            reading = reading._replace(
                processes=tuple(self._usage.read_for(device.uuid)), is_list_complete=self._usage.is_complete
            )
            reading = reading._replace(gpu=_described(device, total))  # clients may have shown what it is
        if not with_load:
            return reading
        reading = reading._replace(
            utilization=_utilization(device, sensors, self._usage), memory_utilization=sensors.memory_utilization()
        )
        return _with_sensors(reading, sensors) if with_sensors else reading

    def _report(self, device: Device, what: str) -> None:
        text = f'GPU {device.number} ({device.uuid}, {device.driver}) {what}'
        self._reported.once((device.uuid, what), ('info', text))


def _utilization(device: Device, sensors: Sensors, usage: Usage) -> float | None:
    """Return what the driver reports of now, else what all processes together have done: if all could be read."""
    reported = sensors.utilization()
    if reported is not None or not usage.is_complete:
        return reported
    return usage.utilization(device.uuid)


def _with_sensors(reading: GpuReading, sensors: Sensors) -> GpuReading:
    return reading._replace(
        temperature=sensors.temperature(),
        sm_clock=sensors.clock(),
        power=sensors.power(),
        power_limit=sensors.power_limit(),
        health=GpuHealth(energy_joules=sensors.energy()),
    )


def _described(device: Device, memory_total: int | None) -> Gpu:
    return Gpu(
        device.number,
        device.uuid,
        device.name,
        device.pci_bus_id,
        memory_total=memory_total,
        vendor=device.vendor,
        tiles=device.tiles,
        is_integrated=device.is_integrated,
    )
