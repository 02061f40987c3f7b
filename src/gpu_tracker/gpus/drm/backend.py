"""The GPUs of all DRM drivers; see ``gpu_tracker.gpus.GpuBackend``."""

from __future__ import annotations

import os
import threading
import time

from gpu_tracker.background import Reported
from gpu_tracker.gpus.drm.clients import KFD, Clients
from gpu_tracker.gpus.drm.devices import devices
from gpu_tracker.gpus.drm.engines import IDLE, EngineShares, busiest
from gpu_tracker.gpus.drm.sensors import Sensors
from gpu_tracker.gpus.model import Gpu, GpuHealth, GpuProcess, GpuReading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpu_tracker.gpus.drm.clients import Holding
    from gpu_tracker.gpus.drm.devices import Device
    from gpu_tracker.gpus.drm.engines import Shares
    from gpu_tracker.gpus.drm.fdinfo import Key

_UNREADABLE = (
    'Only root may see what processes of other users have of GPUs of AMD, Intel and others. Some processes of this run '
    'are of other users: what they have is not counted.'
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
        if not self._usage.is_readable:
            self._reported.once(_UNREADABLE, ('warning', _UNREADABLE))
        if self._usage.has_unplaced:
            self._reported.once(_UNPLACED, ('warning', _UNPLACED))
        return GpuReading(_described(device, total), memory_used=used, processes=processes)

    def processes(self, uuid: str) -> list[GpuProcess]:
        """Return the processes on one GPU."""
        return self._usage.read_for(uuid)

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

    def survey(self, *, with_load: bool = True, with_sensors: bool = True) -> list[GpuReading]:
        """Read all GPUs once."""
        return [self._surveyed(device, with_load=with_load, with_sensors=with_sensors) for device in self._devices]

    def watch_errors(self) -> None:
        """Do nothing: there are no errors that all drivers count."""

    def monitors(self, interval: float) -> tuple[DrmMonitor, ...]:
        """Return what reads each GPU again and again."""
        del interval
        return tuple(DrmMonitor(device, self._sensors[device.uuid], self._usage) for device in self._devices)

    def take_messages(self) -> list[tuple[str, str]]:
        """Return the messages not taken yet."""
        messages = list(self._messages)
        self._messages.clear()
        return messages

    def close(self) -> None:
        """Close all files."""
        self._usage.close()
        for sensors in self._sensors.values():
            sensors.close()

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
        )
        if with_load or total is None or used is None:
            reading = reading._replace(
                processes=tuple(self._usage.read_for(device.uuid)), is_list_complete=self._usage.is_complete
            )
        if not with_load:
            return reading
        reading = reading._replace(
            utilization=_utilization(device, sensors, self._usage), memory_utilization=sensors.memory_utilization()
        )
        return _with_sensors(reading, sensors) if with_sensors else reading

    def _report(self, device: Device, what: str) -> None:
        text = f'GPU {device.number} ({device.uuid}, {device.driver}) {what}'
        self._reported.once((device.uuid, what), ('info', text))


class DrmMonitor:
    """One GPU under observation; see ``gpu_tracker.gpus.model.GpuMonitor``."""

    def __init__(self, device: Device, sensors: Sensors, usage: Usage) -> None:
        self._device = device
        self._sensors = sensors
        self._usage = usage
        self.gpu = _described(device, sensors.memory()[0])._replace(lists_compute=True, lists_graphics=True)

    def read(self) -> GpuReading:
        """Read the GPU."""
        if not os.path.isdir(self._device.path):
            return GpuReading(self.gpu, _LOST)
        total, used = self._sensors.memory()
        processes = tuple(self._usage.read_for(self._device.uuid))
        return GpuReading(
            self.gpu._replace(memory_total=total),
            memory_used=used,
            utilization=_utilization(self._device, self._sensors, self._usage),
            memory_utilization=self._sensors.memory_utilization(),
            processes=processes,
            is_list_complete=self._usage.is_complete,
        )

    def keep_accounts(self) -> str | None:
        """Return why no accounts are kept."""
        return 'its driver has no accounting mode'


class Usage:
    """What processes have and do on all GPUs, read once for all of them; several threads may ask.

    :param proc: The folder of proc(5).
    """

    def __init__(self, proc: str, known: list[Device], monotonic: Callable[[], float]) -> None:
        self._clients = Clients(proc)
        self._shares = EngineShares()
        self._monotonic = monotonic
        self._devices = {device.key: device for device in known}
        on_chip = [device for device in known if device.pci_bus_id is None]
        self._on_chip = on_chip[0] if len(on_chip) == 1 else None
        """The only GPU that is no PCI device, whose driver may have two names: ``adreno`` and ``msm``."""
        self._pids: frozenset[int] | None = None
        self._served: set[str] = set()
        self._processes: dict[str, list[GpuProcess]] | None = None
        self._busy: dict[str, float | None] = {}
        self.has_unplaced = False
        """At the last reading some memory was on a GPU of which the driver does not say which."""
        self._lock = threading.Lock()

    @property
    def is_complete(self) -> bool:
        """Whether all processes of the machine could be looked at."""
        return self._pids is None and self._clients.is_complete

    @property
    def is_readable(self) -> bool:
        """Whether all processes that were to be read could be looked at."""
        return self._clients.is_complete

    @property
    def is_following(self) -> bool:
        """Whether only some processes are read."""
        return self._pids is not None

    def follow(self, pids: frozenset[int]) -> None:
        """Read these processes only."""
        self._pids = pids

    def read_for(self, uuid: str) -> list[GpuProcess]:
        """Return the processes on a GPU; all are read anew when the same GPU is asked for again."""
        with self._lock:
            if self._processes is None or uuid in self._served:
                self._served.clear()
                self._read()
            self._served.add(uuid)
            return list((self._processes or {}).get(uuid, ()))

    def utilization(self, uuid: str) -> float | None:
        """Return the percent of the busiest engines at the last reading; None: not known."""
        with self._lock:
            return self._busy.get(uuid)

    def close(self) -> None:
        """Close all files."""
        self._clients.close()

    def _read(self) -> None:
        now = self._monotonic()
        holdings = self._clients.read(self._pids, now)
        is_first = self._processes is None
        shares = self._shares.update((holding.client for holding in holdings), now)
        by_gpu: dict[str, dict[int, list[Holding]]] = {}
        unplaced: dict[str, set[int]] = {}
        """Processes with a client that may be on any GPU of its driver, by driver."""
        for holding in holdings:
            address = holding.client.key[0]
            device = self._devices.get(address) or (None if ':' in address else self._on_chip)
            if device is not None:
                by_gpu.setdefault(device.uuid, {}).setdefault(holding.pid, []).append(holding)
            elif holding.client.memory(is_integrated=False) != 0:
                unplaced.setdefault(holding.client.driver, set()).add(holding.pid)
        self.has_unplaced = any(device.driver in unplaced for device in self._devices.values())
        self._processes = {}
        self._busy = {}
        for device in self._devices.values():
            on_gpu = by_gpu.get(device.uuid, {})
            anywhere = unplaced.get(device.driver, set())
            self._processes[device.uuid] = [
                GpuProcess(pid)
                if pid in anywhere
                else _process(pid, on_gpu[pid], shares, is_integrated=device.is_integrated)
                for pid in sorted(on_gpu.keys() | anywhere)
            ]
            held = [holding for of_process in on_gpu.values() for holding in of_process]
            is_known = not is_first and not anywhere and (bool(held) or device.has_engines)
            self._busy[device.uuid] = _busy(held, shares) if is_known else None


def _busy(holdings: list[Holding], shares: Mapping[Key, Shares]) -> float | None:
    """Return the percent of the busiest engines for clients of one GPU; None where it is not known of one of them."""
    for holding in holdings:
        if holding.has_kfd or not holding.client.has_engines:
            return None
    return busiest([shares.get(holding.client.key, IDLE) for holding in holdings])


def _process(pid: int, held: list[Holding], shares: Mapping[Key, Shares], *, is_integrated: bool) -> GpuProcess:
    memory: int | None = 0
    computes, is_measured = False, True
    for holding in held:
        size = holding.client.memory(is_integrated=is_integrated)
        memory = None if size is None or memory is None else memory + size
        computes = computes or holding.has_kfd or holding.client.computes
        is_measured = is_measured and holding.client.key in shares
    busy = _busy(held, shares) if is_measured else None
    return GpuProcess(
        pid,
        memory,
        computes=computes,
        draws=not computes,
        utilization=None if busy is None else round(busy),
    )


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
        health=GpuHealth(energy=sensors.energy()),
    )


def _described(device: Device, memory_total: int | None) -> Gpu:
    return Gpu(
        device.number,
        device.uuid,
        device.name,
        device.pci_bus_id,
        memory_total=memory_total,
        vendor=device.vendor,
        is_integrated=device.is_integrated,
    )
