"""The GPUs of this machine as they stand now."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gpu_tracker.background import Call, Reported
from gpu_tracker.errors import GpuError
from gpu_tracker.gpus.backend import OF_DRM
from gpu_tracker.gpus.opening import BACKENDS
from gpu_tracker.gpus.processes import ProcessLookup
from gpu_tracker.vendors import title, vendor_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpu_tracker.gpus.backend import GpuBackend
    from gpu_tracker.gpus.claim import Claim
    from gpu_tracker.gpus.model import Gpu, GpuReading

DRIVER_TIMEOUT = 60.0
"""Seconds. Opening the driver takes up to 3 s a GPU where nothing else keeps it loaded; some drivers hang for ever."""

_TIMEOUT = 'timeout'
_SLOW = 5.0
"""Seconds after which it is reported that an answer is awaited."""


class Inventory:
    """The drivers of this machine's GPUs, opened at the first reading.

    Each driver is asked in a thread of its own, since a call into a driver that hangs cannot be interrupted. One that
    does not work, or does not answer, hides nothing of the others.

    :param backends: The vendors' openers.
    :param timeout: Seconds to wait for an answer.
    :param report: Called once with a text for people where an answer is long in coming, or where one driver of several
        does not work.
    :param watches_errors: Have the drivers count the errors that they report, as long as they are open.
    """

    def __init__(
        self,
        backends: Mapping[str, Callable[[], GpuBackend | None]] = BACKENDS,
        timeout: float = DRIVER_TIMEOUT,
        report: Callable[[str], None] = lambda _: None,
        *,
        watches_errors: bool = False,
    ) -> None:
        self._watches_errors = watches_errors
        self._reported = Reported(report)
        self._openers = backends
        self._timeout = timeout
        self._opened: dict[str, GpuBackend | None] = {}
        """By driver; None: this machine has no such driver. One that could not be opened is missing: it is tried again
        at the next reading."""
        self._questions: dict[str, Call] = {}
        """By driver: what has not been answered yet."""

    @property
    def has_driver(self) -> bool:
        """Whether the last reading has found a driver."""
        return any(backend is not None for backend in self._opened.values())

    def read(self, *, with_load: bool = True) -> list[GpuReading]:
        """Read all GPUs and their MIG devices, in PCI bus order, one vendor after the other.

        :param with_load: Ask for utilization, sensors and processes too; else they are None, but for the processes of
            GPUs that do not report their memory.
        :raises GpuError: A driver is there and does not work, or does not answer, and no other has a GPU.
        """
        readings, problems = self._ask_in_time(with_load=with_load)
        if problems and not readings:
            raise next(iter(problems.values()))
        for name, problem in problems.items():
            self._reported.once(name, f'GPUs of {title(name)} cannot be read: {problem}')
        self._reported.keep({_SLOW, *problems})
        lookup = ProcessLookup(compute_files=self._compute_files())
        certain = ProcessLookup(is_certain=True)
        return [
            _with_processes(reading, certain if reading.gpu.vendor in OF_DRM else lookup)
            for reading in sorted(readings, key=lambda reading: (vendor_order(reading.gpu.vendor), reading.number))
        ]

    def _compute_files(self) -> frozenset[str]:
        return frozenset().union(*(backend.compute_files for name, backend in self._backends() if name not in OF_DRM))

    def _backends(self) -> list[tuple[str, GpuBackend]]:
        return [(name, backend) for name, backend in self._opened.items() if backend is not None]

    def close(self) -> None:
        """Let go of the drivers; of one that still has to answer only the end of this process can let go."""
        for name, backend in self._backends():
            if name not in self._questions:
                backend.close()
        self._opened = {}

    def _ask_in_time(self, *, with_load: bool) -> tuple[list[GpuReading], dict[str, GpuError]]:
        """Return the readings of all drivers, and by driver why it has none."""
        readings: list[GpuReading] = []
        problems: dict[str, GpuError] = {}
        asked = [name for name in self._openers if name not in self._opened or self._opened[name] is not None]
        earlier = [name for name in asked if name in self._questions]
        for name in earlier:  # its answer is old when it comes; beside others nobody waits for it a second time
            try:
                self._wait(name, self._timeout if len(asked) == 1 else 0.0)
            except GpuError as error:
                if error.cause == _TIMEOUT:
                    problems[name] = error
        for name in asked:
            if name not in self._questions:
                self._questions[name] = Call(lambda name=name: self._ask(name, with_load=with_load))  # type: ignore[misc]
        deadline = time.monotonic() + self._timeout
        for name in asked:
            if name not in problems:
                try:
                    readings += self._wait(name, deadline - time.monotonic())
                except GpuError as error:
                    problems[name] = error
        return readings, problems

    def _wait(self, name: str, timeout: float) -> list[GpuReading]:
        """Return a driver's answer to the open question.

        :raises GpuError: The driver does not work, or its answer does not come in time.
        """
        question = self._questions[name]
        if not question.has_ended(min(_SLOW, max(0.0, timeout))):
            self._reported.once(_SLOW, 'waiting for the GPU driver to answer')
        if not question.has_ended(max(0.0, timeout - _SLOW)):
            which = 'GPU driver' if self._is_alone(name) else f'driver of {title(name)} GPUs'
            raise GpuError(f'The {which} has not answered for {self._timeout:g} seconds.', _TIMEOUT)
        del self._questions[name]
        return question.result()  # type: ignore[return-value] # that of _ask

    def _is_alone(self, name: str) -> bool:
        return not any(other != name for other, _ in self._backends())

    def _ask(self, name: str, *, with_load: bool) -> list[GpuReading]:
        """Read the GPUs of a driver, which is opened where it is not open."""
        opened = self._opened
        if name not in opened:
            opened[name] = self._open(self._openers[name])
        backend = opened[name]
        found = [] if backend is None else backend.survey(with_load=with_load)
        return [_of_vendor(reading, name) for reading in found]

    def _open(self, opener: Callable[[], GpuBackend | None]) -> GpuBackend | None:
        backend = opener()
        if backend is not None and self._watches_errors:
            backend.watch_errors()
        return backend


def with_claims(gpus: Iterable[GpuReading], claims: Iterable[Claim] | None) -> list[GpuReading]:
    """Return the GPUs with the claims on them and on their MIG devices; of two claims on one GPU the first counts.

    :param claims: None: they cannot be read.
    """
    by_uuid: dict[str | None, Claim] = {}
    for claim in claims or ():
        for uuid in claim.uuids:
            by_uuid.setdefault(uuid, claim)

    def with_claim(gpu: GpuReading) -> GpuReading:
        parts = None if gpu.mig_devices is None else tuple(map(with_claim, gpu.mig_devices))
        return gpu._replace(claim=by_uuid.get(gpu.uuid), is_claim_known=claims is not None, mig_devices=parts)

    return list(map(with_claim, gpus))


def _of_vendor(reading: GpuReading, vendor: str) -> GpuReading:
    parts = reading.mig_devices
    return reading._replace(
        gpu=reading.gpu._replace(vendor=reading.gpu.vendor or vendor),
        mig_devices=None if parts is None else tuple(_of_vendor(part, vendor) for part in parts),
    )


def _with_processes(reading: GpuReading, lookup: ProcessLookup) -> GpuReading:
    """Return a reading whose processes are looked up, and whose MIG devices know the GPU that they are on."""
    parts = reading.mig_devices
    whole = reading._replace(mig_devices=None)
    return reading._replace(
        processes=None if reading.processes is None else lookup.describe(reading.processes),
        mig_devices=None
        if parts is None
        else tuple(_with_processes(part, lookup)._replace(parent=whole) for part in parts),
    )


class Identities:
    """Remembers the GPUs of opened drivers, in which each keeps its place as long as they stay open.

    MIG devices are not remembered: they are made and removed while the driver stays open.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Gpu] = {}
        self._count: int | None = None

    def forget(self) -> None:
        """Remember nothing, since the driver is opened anew."""
        self._known = {}
        self._count = None

    def completed(self, readings: Sequence[GpuReading]) -> list[GpuReading]:
        """Return the readings of all GPUs, those with a problem as they were called before it.

        Nothing is filled in where a GPU may have another place than before: a wrong name is worse than none.
        """
        present = {_place(reading.gpu): reading.gpu for reading in readings}
        if len(present) != self._count or len(present) != len(readings) or self._has_moved(present):
            self.forget()
        self._count = len(present)
        for place, gpu in present.items():
            if gpu.uuid is not None:
                self._known[place] = _with_names(gpu, self._known.get(place))
        return [
            reading
            if reading.problem is None
            else reading._replace(gpu=_with_names(reading.gpu, self._known.get(_place(reading.gpu))))
            for reading in readings
        ]

    def _has_moved(self, present: Mapping[tuple[str, int], Gpu]) -> bool:
        """Return whether a GPU that can be read is in the place of another one."""
        places = {known.uuid: place for place, known in self._known.items()}
        return any(
            gpu.uuid is not None
            and (places.get(gpu.uuid, place) != place or (place in self._known and gpu.uuid not in places))
            for place, gpu in present.items()
        )


def _place(gpu: Gpu) -> tuple[str, int]:
    return gpu.vendor, gpu.number


def _with_names(gpu: Gpu, known: Gpu | None) -> Gpu:
    if known is None:
        return gpu
    return gpu._replace(
        uuid=gpu.uuid or known.uuid, name=gpu.name or known.name, pci_bus_id=gpu.pci_bus_id or known.pci_bus_id
    )
