"""What a GPU backend reports, in plain data.

Plain slotted classes, since importing dataclasses or typing would cost each start of the sampler 10 to 16 ms.
"""

from __future__ import annotations


class Device:
    """A GPU of the machine.

    :ivar index: The driver's number of the GPU.
    :ivar uuid: Its UUID; None where the driver knows of the GPU and cannot open it (lost, or not permitted).
    :ivar name: The product's name; None where unknown.
    :ivar memory_total: Bytes of its memory; None where unknown.
    """

    __slots__ = ('index', 'memory_total', 'name', 'uuid')

    def __init__(self, index: int, uuid: str | None, name: str | None, memory_total: int | None) -> None:
        self.index = index
        self.uuid = uuid
        self.name = name
        self.memory_total = memory_total

    def __repr__(self) -> str:
        """Return the constructor's call."""
        return f'Device({self.index!r}, {self.uuid!r}, {self.name!r}, {self.memory_total!r})'


class ProcessMemory:
    """The memory of one process on one GPU, or on one MIG instance of it.

    :ivar pid: The process ID, as the driver sees it.
    :ivar memory: Bytes; None where the driver does not know.
    :ivar gpu_instance: The ID of the MIG GPU instance; None without MIG.
    :ivar compute_instance: The ID of the MIG compute instance; None without MIG.
    :ivar computes: Whether it computes, and does not only draw.
    """

    __slots__ = ('compute_instance', 'computes', 'gpu_instance', 'memory', 'pid')

    def __init__(
        self,
        pid: int,
        memory: int | None,
        gpu_instance: int | None = None,
        compute_instance: int | None = None,
        *,
        computes: bool = True,
    ) -> None:
        self.pid = pid
        self.memory = memory
        self.gpu_instance = gpu_instance
        self.compute_instance = compute_instance
        self.computes = computes

    def __repr__(self) -> str:
        """Return the constructor's call."""
        return f'ProcessMemory({self.pid!r}, {self.memory!r}, {self.gpu_instance!r}, {self.compute_instance!r})'

    def __eq__(self, other: object) -> bool:
        """Tell whether both say the same of the memory of the same process."""
        if not isinstance(other, ProcessMemory):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        """Return a hash that agrees with equality."""
        return hash(self._key())

    def _key(self) -> tuple[int, int | None, int | None, int | None]:
        return (self.pid, self.memory, self.gpu_instance, self.compute_instance)


class DeviceReading:
    """What one look at a GPU showed; None is what the driver did not tell.

    :ivar used: Bytes of its memory that are in use.
    :ivar processes: The processes on it, each once for each MIG instance that it uses.
    :ivar utilization: New samples since the last look, oldest first: (microseconds since 1970, percent over the
        period that ended then). Empty: no new sample. None: the driver keeps no samples of this GPU.
    """

    __slots__ = ('processes', 'used', 'utilization')

    def __init__(
        self,
        used: int | None,
        processes: list[ProcessMemory] | None,
        utilization: list[tuple[int, float]] | None,
    ) -> None:
        self.used = used
        self.processes = processes
        self.utilization = utilization
