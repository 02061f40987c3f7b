"""What processes have and do on all GPUs of DRM drivers: the clients of clients.py, put together by process and GPU."""

from __future__ import annotations

from gpu_tracker.gpus.drm.clients import Clients
from gpu_tracker.gpus.drm.engines import EngineShares, busiest
from gpu_tracker.gpus.model import GpuProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from gpu_tracker.gpus.drm.clients import Holding
    from gpu_tracker.gpus.drm.devices import Device
    from gpu_tracker.gpus.drm.engines import Shares
    from gpu_tracker.gpus.drm.fdinfo import Key


class Usage:
    """What processes have and do on all GPUs, read once for all of them.

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
        self._grouped: list[Holding] = []
        """The clients at the last reading, and by GPU and process those of which the driver says on which GPU."""
        self._by_gpu: dict[str, dict[int, list[Holding]]] = {}
        self._unplaced: list[Holding] = []
        self.has_unplaced = False
        """At the last reading some memory was on a GPU of which the driver does not say which."""

    @property
    def is_complete(self) -> bool:
        """Whether all processes of the machine could be looked at."""
        return self._clients.is_complete

    @property
    def unreadable(self) -> frozenset[int]:
        """Those of the processes that were to be read that could not be looked at."""
        return self._clients.unreadable

    @property
    def is_following(self) -> bool:
        """Whether only some processes are read."""
        return self._pids is not None

    def follow(self, pids: frozenset[int]) -> None:
        """Read these processes only."""
        self._pids = pids

    def read_for(self, uuid: str) -> list[GpuProcess]:
        """Return the processes on a GPU; all are read anew when the same GPU is asked for again."""
        if self._processes is None or uuid in self._served:
            self._served.clear()
            self._read()
        self._served.add(uuid)
        return list((self._processes or {}).get(uuid, ()))

    def utilization(self, uuid: str) -> float | None:
        """Return the percent of the busiest engines at the last reading; None: not known."""
        return self._busy.get(uuid)

    def _read(self) -> None:
        now = self._monotonic()
        holdings = self._clients.read(self._pids, now)
        is_first = self._processes is None
        shares = self._shares.update([holding.client for holding in holdings], now)
        if holdings is not self._grouped:
            self._group(holdings)
        unplaced: dict[str, set[int]] = {}
        """Processes with a client that may be on any GPU of its driver, by driver."""
        for holding in self._unplaced:
            if holding.client.memory(is_integrated=False) != 0:
                unplaced.setdefault(holding.client.driver, set()).add(holding.pid)
        self.has_unplaced = any(device.driver in unplaced for device in self._devices.values())
        # Of all processes of a machine most are other users'. Of those that a run tracks each one counts.
        unreadable = frozenset() if self._pids is None else self._clients.unreadable
        self._processes = {}
        self._busy = {}
        for device in self._devices.values():
            on_gpu = self._by_gpu.get(device.uuid, {})
            anywhere = unreadable | unplaced.get(device.driver, set())
            processes, busy = _processes(on_gpu, anywhere, shares, is_integrated=device.is_integrated)
            is_known = not is_first and not anywhere and (bool(on_gpu) or device.has_engines)
            self._processes[device.uuid] = processes
            self._busy[device.uuid] = busy if is_known else None

    def _group(self, holdings: list[Holding]) -> None:
        """Find out which clients are on which GPU."""
        self._grouped, self._by_gpu, self._unplaced = holdings, {}, []
        for holding in holdings:
            address = holding.client.key[0]
            device = self._devices.get(address) or (None if ':' in address else self._on_chip)
            if device is None:
                self._unplaced.append(holding)
                continue
            if device.is_integrated and holding.client.has_own_memory:
                device.note_own_memory()
            self._by_gpu.setdefault(device.uuid, {}).setdefault(holding.pid, []).append(holding)


def _processes(
    on_gpu: Mapping[int, list[Holding]],
    anywhere: AbstractSet[int],
    shares: Mapping[Key, Shares],
    *,
    is_integrated: bool,
) -> tuple[list[GpuProcess], float | None]:
    """Return the processes on a GPU, and the percent of its busiest engines; None where one's part in it is not known.

    :param on_gpu: The clients on this GPU, by process.
    :param anywhere: Processes of which it is not known whether, and with how much memory, they are on this GPU.
    """
    found = [GpuProcess(pid) for pid in anywhere]
    of_all: list[Shares] = []
    is_known = True
    for pid, held in on_gpu.items():
        if pid in anywhere:
            continue
        memory: int | None = 0
        of_process: list[Shares] = []
        computes, is_measured = False, True
        for holding in held:
            client = holding.client
            size = client.memory(is_integrated=is_integrated)
            memory = None if size is None or memory is None else memory + size
            computes = computes or holding.has_kfd or client.computes
            if holding.has_kfd or not client.has_engines:
                is_known = is_measured = False
            else:
                share = shares.get(client.key)
                if share is None:  # there is nothing yet to compare its counters with
                    is_measured = False
                elif share:
                    of_process.append(share)
        of_all += of_process
        busy = None if not is_measured else round(busiest(of_process)) if of_process else 0
        found.append(GpuProcess(pid, memory, computes=computes, draws=not computes, utilization=busy))
    found.sort()
    return found, busiest(of_all) if is_known else None
