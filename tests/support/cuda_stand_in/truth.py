"""What a program of the stand-in says of itself."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class DeviceTruth:
    """Successful calls on a device, and bytes."""

    launches: int = 0
    threads: int = 0
    allocations: int = 0
    frees: int = 0
    """Of memory: a free of NULL is none."""
    allocated: int = 0
    freed: int = 0
    current: int = 0
    maximum: int = 0
    synchronisations: int = 0
    """Of streams, events and devices; no queries, no copies."""
    copies: int = 0
    """Blocking ones."""
    graphs: int = 0
    """Launches of graphs."""


@dataclass(frozen=True, kw_only=True)
class KernelTruth:
    """Successful launches of a kernel."""

    name: str
    address: int
    launches: int
    threads: int


@dataclass(frozen=True, kw_only=True)
class LoopTruth:
    """How long a loop of one call took in its thread, in nanoseconds."""

    call: str
    count: int
    real_ns: int
    cpu_ns: int


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What one process has done since its start, its fork or its last exec."""

    pid: int
    parent: int
    end: str
    """end, exit, exec, crash, abandoned; or waiting: it had not ended when it told this."""
    code: int
    streams: int
    """Different streams with launches; one that has the handle of one that was destroyed is another."""
    maximum: int
    """The most bytes in use at once, on all devices together."""
    host_allocations: int
    host_current: int
    """Bytes of page-locked memory."""
    host_maximum: int
    devices: dict[int, DeviceTruth]
    failures: dict[tuple[str, int], int]
    """How often a function, named without _ptsz or _ptds, answered an error."""
    not_ready: dict[str, int]
    """How often a function answered cudaErrorNotReady."""
    kernels: dict[str, KernelTruth]
    loops: list[LoopTruth]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return what stands in a file that a process has written."""
        told: dict[str, Any] = json.loads(path.read_text())
        return cls(
            pid=told['pid'],
            parent=told['parent'],
            end=told['end'],
            code=told['code'],
            streams=told['streams'],
            maximum=told['maximum'],
            host_allocations=told['host_allocations'],
            host_current=told['host_current'],
            host_maximum=told['host_maximum'],
            devices={int(number): DeviceTruth(**figures) for number, figures in told['devices'].items()},
            failures={(each['function'], each['error']): each['count'] for each in told['failures']},
            not_ready={each['function']: each['count'] for each in told['not_ready']},
            kernels={each['name']: KernelTruth(**each) for each in told['kernels']},
            loops=[LoopTruth(**each) for each in told['loops']],
        )

    @property
    def device(self) -> DeviceTruth:
        """The only device that it has used."""
        assert len(self.devices) == 1, self.devices
        return next(iter(self.devices.values()))

    @property
    def all_devices(self) -> DeviceTruth:
        """The sums over its devices; the maximum is the sum of theirs."""
        figures = self.devices.values()
        return DeviceTruth(**{f.name: sum(getattr(each, f.name) for each in figures) for f in fields(DeviceTruth)})

    @property
    def leaked(self) -> int:
        """The bytes that it never freed, once it has ended."""
        return self.all_devices.current
