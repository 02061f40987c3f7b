"""The opened driver of NVIDIA GPUs. Handles are pointers that never compare equal: GPUs are known by UUID."""

from __future__ import annotations

import time

import pynvml

from gpu_tracker.background import Reported
from gpu_tracker.errors import GpuError
from gpu_tracker.gpus.model import Gpu, GpuActivity, GpuHealth, GpuProcess, GpuReading, Unseen
from gpu_tracker.gpus.nvidia.calls import Calls, in_bus_order, percent, quietly
from gpu_tracker.gpus.nvidia.device import OUT_OF_REACH, NvidiaGpu
from gpu_tracker.gpus.nvidia.errors import LISTS, SAMPLES, describe, explain_failed_init

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.gpus.nvidia.activity import ActivityReader
    from gpu_tracker.gpus.nvidia.health import XidErrors


def open_backend(compute_files: frozenset[str]) -> NvidiaBackend | None:
    """Open the driver; None where there is a library and no driver (code 9) or no library (code 12).

    :raises GpuError: The driver does not work.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value in {pynvml.NVML_ERROR_DRIVER_NOT_LOADED, pynvml.NVML_ERROR_LIBRARY_NOT_FOUND}:
            return None
        raise GpuError(*explain_failed_init(error.value)) from error
    return NvidiaBackend(compute_files=compute_files)


class NvidiaBackend:
    """The opened driver; see ``gpu_tracker.gpus.backend.GpuBackend``.

    :raises GpuError: It does not work.
    """

    def __init__(
        self, wall_clock: Callable[[], float] = time.time, compute_files: frozenset[str] = frozenset()
    ) -> None:
        self.compute_files = compute_files
        self._wall_clock = wall_clock
        self._pending: dict[tuple[int | None, str], list[Gpu]] = {}
        self._reported = Reported(lambda found: self._pending.setdefault(found[1:], []).append(found[0]))
        self._unread: set[int] = set()
        """The numbers of GPUs that could not be read at the last reading."""
        self._calls = Calls()
        self._devices: tuple[NvidiaGpu, ...] = ()
        self._gpus: tuple[Gpu, ...] | None = None
        self._followed: frozenset[int] = frozenset()
        self._xid_errors: XidErrors | None = None
        self._activities: dict[str, ActivityReader] = {}
        self._watches_activity = False
        self._open_all()

    def gpus(self) -> tuple[Gpu, ...]:
        """Return all GPUs of the machine, those that the driver cannot open included."""
        if self._gpus is None:
            readings = [self._read(device, processes=False, load=False) for device in self._devices]
            self._gpus = tuple(
                reading.gpu._replace(mig_devices=tuple(part.gpu for part in reading.mig_devices or ()) or None)
                for reading in readings
            )
        return self._gpus

    def follow(self, members: frozenset[int]) -> None:
        """Report these processes also if they came and went between two readings."""
        self._followed = members

    def survey(self, *, with_load: bool = True, with_sensors: bool = True) -> list[GpuReading]:
        """Read all GPUs and their MIG devices once.

        :raises GpuError: The driver has stopped working.
        """
        readings = [
            device.read(processes=with_load, load=with_load, sensors=with_load and with_sensors)
            for device in self.monitors()
        ]
        if any(pynvml.NVML_ERROR_NOT_FOUND in device.failures for device in self._devices):
            self._devices = ()  # a GPU may have been replaced
        if self._watches_activity:
            readings = [self._with_activity(reading) for reading in readings]
        return readings if self._xid_errors is None else [self._with_xid_errors(reading) for reading in readings]

    def monitors(self) -> tuple[NvidiaGpu, ...]:
        """Return all GPUs, in PCI bus order; each may have its own thread.

        :raises GpuError: The driver has stopped working.
        """
        self._open_all()
        return self._devices

    def watch_errors(self) -> None:
        """Count the XID errors of all GPUs from now on, in a thread."""
        from gpu_tracker.gpus.nvidia.health import XidErrors  # noqa: PLC0415 - a run's sampler needs none of it

        if self._xid_errors is None:
            opened = [(device.gpu.uuid, quietly(device.open)) for device in self._devices]
            self._xid_errors = XidErrors((uuid, handle) for uuid, handle in opened if uuid and handle)

    def watch_activity(self) -> None:
        """Read the counters of all GPUs in each survey from now on."""
        self._watches_activity = True

    def details(self) -> list[Gpu]:
        """Return what all GPUs and their MIG devices are.

        :raises GpuError: The driver has stopped working.
        """
        driver = quietly(pynvml.nvmlSystemGetDriverVersion)
        return [device.details(driver) for device in self.monitors()]

    def read(self, uuid: str) -> GpuReading:
        """Read one GPU."""
        return self._read(self._device(uuid))

    def processes(self, uuid: str) -> list[GpuProcess] | None:
        """Return the compute and graphics processes on one GPU, each once for each MIG instance that it uses."""
        processes = self._read(self._device(uuid), load=False).processes
        return None if processes is None else list(processes)

    def unseen(self, uuid: str) -> Unseen:
        """Return nobody: the driver lists all processes of the machine."""
        del uuid
        return Unseen()

    def utilization(self, uuid: str) -> float | None:
        """Return the percent that the driver reports of now."""
        device = self._device(uuid)
        try:
            known = percent(pynvml.nvmlDeviceGetUtilizationRates(device.open()).gpu)
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_NOT_SUPPORTED:
                self._report(device.gpu, None, 'report {} utilization')
            elif device.gpu.number not in self._unread:
                self._report(device.gpu, error.value)
            return None
        return None if known is None else float(known)

    def peak_memory(self, uuid: str, pid: int) -> int | None:
        """Return a process' peak in accounting mode, where root has switched that on; it is never switched on here."""
        device = self._device(uuid)
        if not device.gpu.keeps_accounts:
            return None
        stats = quietly(lambda: pynvml.nvmlDeviceGetAccountingStats(device.open(), pid))
        return None if stats is None else stats.maxMemoryUsage

    def energy(self, uuid: str) -> float | None:
        """Return the joules that one GPU has used since the driver was loaded; Volta and newer have that counter."""
        device = self._device(uuid)
        millijoules = quietly(lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(device.open()))
        return None if millijoules is None else millijoules / 1000

    def activity(self, uuid: str) -> list[GpuActivity]:
        """Return how busy the parts of one GPU were since the last call, or of each of its MIG GPU instances."""
        from gpu_tracker.gpus.nvidia.activity import ActivityReader  # noqa: PLC0415 - few runs ask for it

        return self._activities.setdefault(uuid, ActivityReader()).read(self._device(uuid).open)

    def take_messages(self) -> list[tuple[str, str]]:
        """Return the messages not taken yet, one for all GPUs with the same problem."""
        pending, self._pending = self._pending, {}
        return [_message(gpus, code, what) for (code, what), gpus in pending.items()]

    def close(self) -> None:
        """Shut NVML down."""
        if self._xid_errors is not None:
            self._xid_errors.stop()
        for activity in self._activities.values():
            activity.close()
        try:
            pynvml.nvmlShutdown()
        except pynvml.NVMLError:
            return  # nothing is left to be done about a driver that cannot even be left

    def _open_all(self) -> None:
        """Open all GPUs if the driver counts others than before.

        :raises GpuError: It does not count them.
        """
        try:
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            raise GpuError(*explain_failed_init(error.value)) from error
        if count == len(self._devices):
            return
        devices = [NvidiaGpu(self._calls, index, self._wall_clock) for index in range(count)]
        for device in devices:
            quietly(device.open)
        self._devices = tuple(in_bus_order(devices, lambda device: device.gpu.pci_bus_id))
        for number, device in enumerate(self._devices):
            device.gpu = device.gpu._replace(number=number)

    def _device(self, uuid: str) -> NvidiaGpu:
        return next(device for device in self._devices if device.gpu.uuid == uuid)

    def _read(self, device: NvidiaGpu, *, processes: bool = True, load: bool = True) -> GpuReading:
        """Read a GPU for a run, and report what is not known of it."""
        reading = device.read(processes=processes, load=load, samples=True, followed=self._followed)
        number = device.gpu.number
        if number not in self._unread or reading.problem is None:
            for code in device.failures:
                self._report(device.gpu, code)
        (self._unread.discard if reading.problem is None else self._unread.add)(number)
        if not device.failures and reading.memory_total is None:
            self._report(device.gpu, None, 'report {} memory')
        if device.list_failure is not None:
            self._report(device.gpu, device.list_failure, '' if device.list_failure in OUT_OF_REACH else LISTS)
        elif not device.failures and reading.processes is None and processes:
            self._report(device.gpu, None, 'list {} processes')
        if load and any(one.pid in self._followed and one.utilization is None for one in reading.processes or ()):
            if device.samples_failure is not None:
                self._report(device.gpu, device.samples_failure, SAMPLES)
            elif not device.has_samples:
                self._report(device.gpu, None, 'report {} utilization by process')
        return reading

    def _with_activity(self, reading: GpuReading) -> GpuReading:
        if reading.uuid is None or reading.problem is not None:
            return reading
        found = {activity.gpu_instance: activity for activity in self.activity(reading.uuid)}
        if reading.mig_devices is None:
            return reading._replace(activity=found.get(None))
        parts = (
            part._replace(activity=found.get(part.gpu.gpu_instance, found.get(None))) for part in reading.mig_devices
        )
        return reading._replace(mig_devices=tuple(parts))

    def _with_xid_errors(self, reading: GpuReading) -> GpuReading:
        """Add the XID errors, to a GPU that is lost too: they say why."""
        errors = None if self._xid_errors is None else self._xid_errors.of(reading.uuid)
        if errors is None:
            return reading
        return reading._replace(health=(reading.health or GpuHealth())._replace(xid_errors=errors))

    def _report(self, gpu: Gpu, code: int | None, what: str = '') -> None:
        """Report a failure with NVML's code, of a part if not of all, or with None what a GPU does not do."""
        cause = code if code == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND else (gpu.number, code, what)
        self._reported.once(cause, (gpu, code, what))


def _message(gpus: list[Gpu], code: int | None, what: str) -> tuple[str, str]:
    are_many = len(gpus) > 1
    names = ', '.join(f'GPU {gpu.number}' for gpu in gpus)
    if not are_many and gpus[0].uuid is not None:
        names = f'{names} ({gpus[0].uuid})'
    if code is None:
        return 'info', f'{names} {"do" if are_many else "does"} not {what.format("their" if are_many else "its")}.'
    return 'warning', describe(names, code, what, are_many=are_many)
