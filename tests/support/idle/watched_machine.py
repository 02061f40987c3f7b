"""A made-up machine that an observer of the idle wing looks at."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from gpu_tracker.gpus.model import GpuProcess, GpuReading
from gpu_tracker.idle.config.idle_settings import GpuId, GpuSection, Settings
from gpu_tracker.idle.observing.device_files import Identity
from gpu_tracker.idle.observing.driver import DriverAnswer
from gpu_tracker.idle.observing.machine_observer import Inputs, Observer
from gpu_tracker.idle.state import GpuUser, Observation, WatchedGpu
from support.gpus.gpu_readings import reading

if TYPE_CHECKING:
    from collections.abc import Collection

GB = 1_000_000_000
ALL = Settings()
SILENT = DriverAnswer(None, 'the GPU driver does not answer', is_awaited=True)


def gpu(number: int, *pids: int, **fields: Any) -> GpuReading:
    """Return a GPU with the UUID ``GPU-number`` and these processes, whose device file has the same number."""
    usual = {'uuid': f'GPU-{number}', 'minor': number, 'processes': [GpuProcess(pid, None) for pid in pids]}
    return reading(number, **(usual | fields))


def mig(number: int, *pids: int, **fields: Any) -> GpuReading:
    """Return a MIG device with the UUID ``MIG-number`` and these processes."""
    usual = {
        'uuid': f'MIG-{number}',
        'processes': [GpuProcess(pid, gpu_instance=number, compute_instance=0) for pid in pids],
    }
    return reading(number, **(usual | fields))


def divided(number: int, *parts: GpuReading, **fields: Any) -> GpuReading:
    """Return a GPU in MIG mode; as from the driver, the processes on its MIG devices are on it too."""
    processes = [entry for part in parts for entry in part.processes or ()]
    return gpu(number, **({'mig_devices': parts, 'processes': processes} | fields))


def seen(number: int, *users: GpuUser, mig: int | None = None, **fields: Any) -> WatchedGpu:
    """Return what is expected of such a GPU, or of MIG device ``mig`` of it."""
    uuid = f'GPU-{number}' if mig is None else f'MIG-{mig}'
    return WatchedGpu(GpuId(number, mig), **({'uuid': uuid, 'users': users} | fields))


def only(*gpus: GpuId, **fields: Any) -> Settings:
    """Return settings by which only these GPUs are watched, or all where none is named."""
    return Settings(gpus=(GpuSection('some', gpus or None, **fields),))


PYTHON = GpuUser(17, 'python', 'alice')
XORG = GpuUser(20, 'Xorg', 'root')
PERSISTENCED = GpuUser(30, 'nvidia-persistenced', 'root')


class WatchedMachine:
    """A machine with driver and device files; processes 17, 18, 20 and 30 are other people's, 40 and 41 are ours.

    :ivar nodes: The numbers of the device files.
    :ivar held: Who holds them, by number.
    :ivar driver: What the driver tells.
    :ivar unseen: The processes that cannot be looked into.
    :ivar are_others_hidden: Whether the processes of other users are not listed.
    :ivar count: How many there are.
    """

    def __init__(self, *gpus: GpuReading, nodes: Collection[int] | None = None, **inputs: Any) -> None:
        self.driver = DriverAnswer(gpus) if gpus else DriverAnswer()
        self.nodes = {gpu.number for gpu in gpus} if nodes is None else set(nodes)
        self.held: dict[int, Collection[int]] = {}
        self.unseen: set[int] = set()
        self.are_others_hidden = False
        self.count = 100
        self.users = [PYTHON, PYTHON._replace(pid=18), XORG, PERSISTENCED]
        self.ours = {40, 41}
        self.ended: set[int] = set()
        self.at_terminals: tuple[object, ...] = ()
        self.asked_of_terminals: list[object] = []
        self.times_opened_anew = 0
        self.is_closed = False
        looked_with = {'nodes': self._identities, 'open_devices': self, 'programs': self, 'terminals': self._terminals}
        looked_with |= {'driver': _Driver(self), 'exists': lambda pid: pid not in self.ended}
        self.observer = Observer(Inputs(**(looked_with | inputs)))

    def observe(self, settings: Settings = ALL) -> Observation:
        """Look at all of it."""
        return asyncio.run(self.observer.poll(settings, self.ours.__contains__))

    def gpus(self, settings: Settings = ALL) -> tuple[WatchedGpu, ...]:
        """Look at the GPUs."""
        return self.observe(settings).gpus

    def told(self, settings: Settings = ALL) -> list[str]:
        """Look, and return what is told then."""
        self.observe(settings)
        return self.observer.take_messages()

    def poll(self, identities):
        assert identities == self._identities()
        return {number: frozenset(self.held.get(number, ())) for number in identities}

    def never_counts(self, pid):
        return pid == PERSISTENCED.pid

    def is_ignored(self, pid, names):
        return self.describe(pid).program in names

    def describe(self, pid):
        return next((user for user in self.users if user.pid == pid), GpuUser(pid, '?'))

    def _identities(self):
        return {number: Identity(True, 195, number) for number in sorted(self.nodes)}

    def _terminals(self, terminals):
        self.asked_of_terminals.append(terminals)
        return self.at_terminals


class _Driver:
    def __init__(self, machine: WatchedMachine) -> None:
        self._machine = machine

    async def poll(self):
        return self._machine.driver

    def open_anew(self) -> None:
        self._machine.times_opened_anew += 1

    async def close(self) -> None:
        self._machine.is_closed = True
