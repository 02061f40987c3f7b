"""The GPUs of this machine in plain data: what one is, what one reading of it shows, and the processes on it.

The sampler imports this where there is a driver, so the classes are made without ``typing``: its import takes 13 ms.
"""

from __future__ import annotations

from gpu_tracker.vendors import label, numbered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple

    from gpu_tracker.gpus.claim import Claim

else:
    from collections import namedtuple

    class _Meta(type):
        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, object]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            fields = namespace['__annotations__']
            defaults = [namespace.pop(field) for field in fields if field in namespace]
            made = namedtuple(name, fields, defaults=defaults, module=namespace['__module__'])  # noqa: PYI024
            for attribute, value in namespace.items():
                if attribute not in {'__module__', '__qualname__', '__annotations__', '__static_attributes__'}:
                    setattr(made, attribute, value)
            return made

    class NamedTuple(metaclass=_Meta):  # noqa: D101 - that of typing, in as much as is needed here
        pass


class Unseen(NamedTuple):
    """Who may be on a GPU without being listed."""

    pids: frozenset[int] = frozenset()
    """Processes that could not be looked at."""
    has_others: bool = False
    """There may be processes beside these of which not even the number is known: of other containers or users."""


class GpuProcess(NamedTuple):
    """A process on a GPU, or on one MIG instance of it; None is what is not known."""

    pid: int
    """The process ID, as the driver reports it."""
    memory: int | None = None
    """Bytes of the GPU's memory."""
    user: str | None = None
    """None until it is looked up, and where it cannot be looked up from here."""
    started: float | None = None
    """Seconds since 1970."""
    command: str | None = None
    """The command line, its words quoted as for a shell; the first 4,000 characters."""
    program: str | None = None
    """What the command line is about: ``train.py`` of ``python -u train.py``."""
    computes: bool = True
    """Whether it computes, and does not only draw."""
    draws: bool = False
    """Whether it draws; known where the GPU is monitored."""
    utilization: int | None = None
    """Percent of the time since the last reading that the GPU worked for it."""
    memory_utilization: int | None = None
    """Percent of the time since the last reading that memory was read or written for it."""
    account: tuple[int | None, int | None] | None = None
    """The same two percentages over its life so far; None: accounting mode is off, or the GPU is not monitored."""
    gpu_instance: int | None = None
    """The ID of the MIG GPU instance; None without MIG."""
    compute_instance: int | None = None
    """The ID of the MIG compute instance; None without MIG."""
    is_idle_program: bool = False
    """Whether it is a program of an idle monitor, which ends it when somebody claims the GPU."""

    @property
    def is_seen(self) -> bool:
        """Whether the process could be looked up."""
        return self.user is not None


class Account(NamedTuple):
    """What accounting mode has kept of a process that has ended."""

    pid: int
    utilization: int | None
    """Percent over its life."""
    memory_utilization: int | None
    """Percent over its life."""
    milliseconds: int
    """How long it used the GPU."""


class Gpu(NamedTuple):
    """What a GPU is, or a MIG device of one; None is what the driver does not report."""

    number: int
    """A GPU's index, which is its place in PCI bus order among those of its vendor, from 0; a MIG device's number on
    its GPU."""
    uuid: str | None = None
    """What names it among the GPUs of all vendors, without blanks and commas; None where the driver knows of the GPU
    and cannot open it."""
    name: str | None = None
    pci_bus_id: str | None = None
    minor: int | None = None
    """The N of its device file, such as ``/dev/nvidiaN``, which need not be its number; None for a MIG device."""
    memory_total: int | None = None
    """Bytes; None as well where the GPU has no memory of its own, and in MIG mode where this user may not know."""
    vendor: str = 'nvidia'
    """``nvidia``, ``amd``, ``intel`` or ``drm`` (any other)."""
    driver: str | None = None
    """The driver's version."""
    cores: int | None = None
    """CUDA cores: how many threads execute at the same time."""
    gpu_instance: int | None = None
    """The ID of the GPU instance of a MIG device."""
    compute_instance: int | None = None
    """The ID of the compute instance of a MIG device."""
    mig_devices: tuple[Gpu, ...] | None = None
    """None: not in MIG mode, or not asked for. A GPU in MIG mode cannot be used whole."""
    lists_compute: bool = False
    """Whether the driver lists the processes that compute on it; known where it is monitored."""
    lists_graphics: bool = False
    """Whether the driver lists the processes that draw on it; known where it is monitored."""
    keeps_accounts: bool = False
    """Whether accounting mode is on; known where it is monitored."""
    is_integrated: bool = False
    """Whether it shares the system's memory, as the GPU of a laptop's processor does. It counts in sums where a tracked
    process has memory on it or where it was chosen."""
    tiles: int = 1
    """Of how many parts a card of Intel consists that programs may use by themselves; 1 where that is not known."""


class GpuActivity(NamedTuple):
    """How busy the parts of a GPU, or of one of its MIG GPU instances, were since the reading before, by its counters.

    None is unknown; all figures are if no reading came before, or the last one was too short ago.
    """

    gpu_instance: int | None = None
    """The ID of the MIG GPU instance; None without MIG."""
    problem: str | None = None
    """Why nothing is known."""
    seconds: float = 0.0
    """The time that the figures are about."""
    sm: float | None = None
    """Percent of the multiprocessors that worked, on average."""
    occupancy: float | None = None
    """Percent of the warps that the multiprocessors can hold."""
    tensor: float | None = None
    """Percent of the time in which tensor cores worked."""
    dram: float | None = None
    """Percent of the bandwidth of the memory."""
    pcie_sent: float | None = None
    """Bytes a second, as all below."""
    pcie_received: float | None = None
    nvlink_sent: float | None = None
    nvlink_received: float | None = None


THROTTLE_REASONS = (
    'power_cap',
    'hardware_slowdown',
    'sync_boost',
    'software_thermal',
    'hardware_thermal',
    'power_brake',
    'board_limit',
    'reliability',
)
"""Why a GPU may run slower than it could. That it is idle, or is set to a lower clock, is no such reason."""


class GpuHealth(NamedTuple):
    """What a whole GPU reports of its state and of its errors; None is what the driver does not report."""

    xid_errors: tuple[tuple[int, int], ...] | None = None
    """The driver's XID errors since this process watches for them: (code, how many)."""
    ecc_volatile_corrected: int | None = None
    """Memory errors since the driver was loaded."""
    ecc_volatile_uncorrected: int | None = None
    ecc_aggregate_corrected: int | None = None
    """Memory errors in the GPU's life."""
    ecc_aggregate_uncorrected: int | None = None
    remapped_rows_corrected: int | None = None
    """Rows of memory that were replaced after errors that could be corrected."""
    remapped_rows_uncorrected: int | None = None
    row_remap_pending: bool | None = None
    """Whether a row is replaced when the GPU is next reset."""
    row_remap_failed: bool | None = None
    """Whether a row could not be replaced: the GPU has no spare ones left, and is to be exchanged."""
    throttle_reasons: tuple[str, ...] | None = None
    """Those of :data:`THROTTLE_REASONS` that slow it down now."""
    energy_joules: float | None = None
    """Joules since the driver was loaded."""
    pcie_sent_bytes: int | None = None
    """Bytes that the GPU has sent; the driver's counter may begin anew at 0."""
    pcie_received_bytes: int | None = None
    nvlink_sent_bytes: int | None = None
    """Bytes through all NVLinks together."""
    nvlink_received_bytes: int | None = None


class GpuReading(NamedTuple):
    """What one reading of a GPU, or of a MIG device, shows; None is what the driver does not report."""

    gpu: Gpu
    problem: str | None = None
    """Why the GPU cannot be read (lost, not permitted), in words that follow its name; then nothing else is known."""
    gap: str | None = None
    """What is not known for a failure, in words that follow its name; what a GPU does not support is none."""
    memory_used: int | None = None
    """Bytes, without those that the driver keeps for itself where it tells them apart."""
    memory_free: int | None = None
    """Bytes that a program can have."""
    utilization: float | None = None
    """Percent; unknown in MIG mode."""
    memory_utilization: int | None = None
    """Percent of the time in which memory was read or written; unknown in MIG mode."""
    samples: list[tuple[int, float]] | None = None
    """New utilization samples since the last reading, oldest first: (microseconds since 1970, percent over the period
    that ended then). Empty: no new sample. None: the driver keeps none of this GPU, or was not asked."""
    temperature: float | None = None
    """Degrees Celsius."""
    sm_clock: int | None = None
    """Hertz."""
    power: float | None = None
    """Watts."""
    power_limit: float | None = None
    """Watts."""
    health: GpuHealth | None = None
    """None: not asked for, or a MIG device."""
    activity: GpuActivity | None = None
    """None: not asked for, or a GPU in MIG mode, whose MIG devices have it."""
    processes: tuple[GpuProcess, ...] | None = None
    """Those on it; on a GPU in MIG mode those of its MIG devices too. None: the driver does not list them."""
    lists_failed: bool = False
    """Whether ``processes`` is None because of a failure: the driver does list them."""
    is_list_complete: bool = True
    """Whether no process can be missing in ``processes`` because this user may not look at it."""
    ended: tuple[Account, ...] = ()
    """Accounts of processes that were listed at the last reading and are no more."""
    mig_devices: tuple[GpuReading, ...] | None = None
    """None: not in MIG mode. A GPU in MIG mode cannot be used whole."""
    parent: GpuReading | None = None
    """The GPU that this is a MIG device of; None for a whole GPU."""
    claim: Claim | None = None
    is_claim_known: bool = True
    """Whether a claim would stand here; False: the claims could not be read."""

    @property
    def number(self) -> int:
        """The GPU's index; a MIG device's number on its GPU."""
        return self.gpu.number

    @property
    def uuid(self) -> str | None:
        """The UUID of the GPU or MIG device."""
        return self.gpu.uuid

    @property
    def name(self) -> str | None:
        """The name of the product."""
        return self.gpu.name

    @property
    def memory_total(self) -> int | None:
        """Bytes of memory."""
        return self.gpu.memory_total

    @property
    def label(self) -> str:
        """``GPU 0``, or ``GPU 0 MIG 1``; of other vendors than NVIDIA ``AMD GPU 0``."""
        if self.parent is None:
            return label(self.gpu.vendor, self.number)
        return f'{label(self.gpu.vendor, self.parent.number)} MIG {self.number}'

    @property
    def place(self) -> str:
        """``0``, or ``0:1`` for a MIG device; of other vendors than NVIDIA ``amd:0``."""
        number = f'{self.number}' if self.parent is None else f'{self.parent.number}:{self.number}'
        return numbered(self.gpu.vendor, number)

    @property
    def idle_programs(self) -> tuple[GpuProcess, ...]:
        """The programs of idle monitors, where nobody else computes on the GPU: a claim makes them leave."""
        found = tuple(process for process in self.processes or () if process.is_idle_program)
        others = any(process.computes and not process.is_idle_program for process in self.processes or ())
        return () if others else found

    @property
    def memory_of_others(self) -> int | None:
        """Bytes in use but for those of :attr:`idle_programs`."""
        yielding = self.idle_programs
        if self.memory_used is None or not yielding:
            return self.memory_used
        sizes = [process.memory for process in yielding]
        return 0 if None in sizes else max(0, self.memory_used - sum(size or 0 for size in sizes))

    def devices(self) -> tuple[GpuReading, ...]:
        """Return the GPU itself and its MIG devices."""
        return (self, *(self.mig_devices or ()))
