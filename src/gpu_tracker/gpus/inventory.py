"""The GPUs of this machine as they stand now."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.background import Call, Reported
from gpu_tracker.errors import GpuError
from gpu_tracker.gpus import BACKENDS
from gpu_tracker.gpus.processes import ProcessLookup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpu_tracker.gpus import GpuBackend
    from gpu_tracker.gpus.claims.claim import Claim
    from gpu_tracker.gpus.model import Gpu, GpuReading

DRIVER_TIMEOUT = 60.0
"""Seconds. Opening the driver takes up to 3 s a GPU where nothing else keeps it loaded; some drivers hang for ever."""

_SLOW = 5.0
"""Seconds after which it is reported that an answer is awaited."""


class _Answer(NamedTuple):
    """What all drivers together have answered."""

    readings: list[GpuReading]
    problems: dict[str, GpuError]
    """By vendor: drivers that are there and do not work."""


class Inventory:
    """The drivers of this machine's GPUs, opened at the first reading.

    The drivers are asked in a thread of their own, since a call into a driver that hangs cannot be interrupted. One
    that does not work hides nothing of the others.

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
        """By vendor; None: this machine has no such driver. One that could not be opened is missing: it is tried again
        at the next reading."""
        self._question: Call | None = None

    @property
    def has_driver(self) -> bool:
        """Whether the last reading has found a driver."""
        return any(backend is not None for backend in self._opened.values())

    def read(self, *, with_load: bool = True) -> list[GpuReading]:
        """Read all GPUs and their MIG devices.

        :param with_load: Ask for utilization, sensors and processes too; else they are None, but for the processes of
            GPUs that do not report their memory.
        :raises GpuError: A driver is there and does not work, and no other has a GPU; or one does not answer.
        """
        readings, problems = self._ask_in_time(with_load=with_load)
        if problems and not readings:
            raise next(iter(problems.values()))
        for vendor, problem in problems.items():
            self._reported.once(vendor, f'GPUs of {vendor} cannot be read: {problem}')
        self._reported.keep({_SLOW, *problems})
        lookup = ProcessLookup(compute_files=self._compute_files())
        return [_with_processes(reading, lookup) for reading in readings]

    def _compute_files(self) -> frozenset[str]:
        return frozenset().union(*(backend.compute_files for _, backend in self._backends()))

    def _backends(self) -> list[tuple[str, GpuBackend]]:
        return [(vendor, backend) for vendor, backend in self._opened.items() if backend is not None]

    def close(self) -> None:
        """Let go of the drivers; of one that still has to answer only the end of this process can let go."""
        if self._question is None:
            for _, backend in self._backends():
                backend.close()
        self._opened = {}

    def _ask_in_time(self, *, with_load: bool) -> _Answer:
        if self._question is not None:
            self._wait()  # for an earlier question, whose answer is old when it comes
        self._question = Call(lambda: self._ask(with_load=with_load))
        return self._wait()

    def _wait(self) -> _Answer:
        """Return the answer to the open question.

        :raises GpuError: It does not come in time.
        """
        question = self._question
        if question is None:
            return _Answer([], {})
        if not question.has_ended(min(_SLOW, self._timeout)):
            self._reported.once(_SLOW, 'waiting for the GPU driver to answer')
        if not question.has_ended(max(0, self._timeout - _SLOW)):
            raise GpuError(f'The GPU driver has not answered for {self._timeout:g} seconds.', 'timeout')
        self._question = None
        return question.result()  # type: ignore[return-value] # that of _ask

    def _ask(self, *, with_load: bool) -> _Answer:
        opened, answer = self._opened, _Answer([], {})
        for vendor, opener in self._openers.items():
            try:
                if vendor not in opened:
                    opened[vendor] = self._open(opener)
                backend = opened[vendor]
                found = [] if backend is None else backend.survey(with_load=with_load)
            except GpuError as error:
                answer.problems[vendor] = error
            else:
                answer.readings.extend(_of_vendor(reading, vendor) for reading in found)
        return answer

    def _open(self, opener: Callable[[], GpuBackend | None]) -> GpuBackend | None:
        backend = opener()
        if backend is not None and self._watches_errors:
            backend.watch_errors()
        return backend


def with_claims(gpus: Iterable[GpuReading], claims: Iterable[Claim]) -> list[GpuReading]:
    """Return the GPUs with the claims on them and on their MIG devices; of two claims on one GPU the first counts."""
    by_uuid: dict[str, Claim] = {}
    for claim in claims:
        for uuid in claim.uuids:
            by_uuid.setdefault(uuid, claim)

    def with_claim(gpu: GpuReading) -> GpuReading:
        parts = None if gpu.mig_devices is None else tuple(with_claim(part) for part in gpu.mig_devices)
        return gpu._replace(claim=by_uuid.get(gpu.uuid or ''), mig_devices=parts)

    return [with_claim(gpu) for gpu in gpus]


def without_claims(gpus: Iterable[GpuReading]) -> list[GpuReading]:
    """Return the GPUs as they are where the claims cannot be read."""

    def unknown(gpu: GpuReading) -> GpuReading:
        parts = None if gpu.mig_devices is None else tuple(unknown(part) for part in gpu.mig_devices)
        return gpu._replace(is_claim_known=False, mig_devices=parts)

    return [unknown(gpu) for gpu in gpus]


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
    """Remembers the GPUs of one opened driver, in which each keeps its place as long as it stays open.

    MIG devices are not remembered: they are made and removed while the driver stays open.
    """

    def __init__(self) -> None:
        self._known: dict[int, Gpu] = {}
        self._count: int | None = None

    def forget(self) -> None:
        """Remember nothing, since the driver is opened anew."""
        self._known = {}
        self._count = None

    def completed(self, readings: Sequence[GpuReading]) -> list[GpuReading]:
        """Return the readings of all GPUs, those with a problem as they were called before it.

        Nothing is filled in where a GPU may have another place than before: a wrong name is worse than none.
        """
        present = {reading.number: reading.gpu for reading in readings}
        if len(present) != self._count or len(present) != len(readings) or self._has_moved(present):
            self.forget()
        self._count = len(present)
        for number, gpu in present.items():
            if gpu.uuid is not None:
                self._known[number] = _with_names(gpu, self._known.get(number))
        return [
            reading
            if reading.problem is None
            else reading._replace(gpu=_with_names(reading.gpu, self._known.get(reading.number)))
            for reading in readings
        ]

    def _has_moved(self, present: Mapping[int, Gpu]) -> bool:
        """Return whether a GPU that can be read is in the place of another one."""
        numbers = {known.uuid: number for number, known in self._known.items()}
        return any(
            gpu.uuid is not None
            and (numbers.get(gpu.uuid, number) != number or (number in self._known and gpu.uuid not in numbers))
            for number, gpu in present.items()
        )


def _with_names(gpu: Gpu, known: Gpu | None) -> Gpu:
    if known is None:
        return gpu
    return gpu._replace(
        uuid=gpu.uuid or known.uuid, name=gpu.name or known.name, pci_bus_id=gpu.pci_bus_id or known.pci_bus_id
    )
