"""The GPUs of this machine as they stand now."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gpu_tracker.background import Reported
from gpu_tracker.gpus.backend import OF_DRM
from gpu_tracker.gpus.driver import Driver, ask_all
from gpu_tracker.gpus.opening import BACKENDS
from gpu_tracker.gpus.processes import ProcessLookup
from gpu_tracker.vendors import title, vendor_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gpu_tracker.gpus.backend import GpuBackend
    from gpu_tracker.gpus.claim import Claim
    from gpu_tracker.gpus.model import GpuReading

DRIVER_TIMEOUT = 60.0
"""Seconds. Opening the driver takes up to 3 s a GPU where nothing else keeps it loaded; some drivers hang for ever."""

_BETWEEN_SEARCHES = 30.0
"""Seconds between two searches for a driver that was not there: some libraries start a program to load it."""
_DELAY = 'delay'


class Inventory:
    """The drivers of this machine's GPUs, opened at the first reading; one that is loaded later is found later.

    A driver that does not work, or does not answer, hides nothing of the others.

    :param backends: The vendors' openers.
    :param timeout: Seconds to wait for an answer.
    :param report: Called once with a text for people if an answer is long in coming, or if one driver of several does
        not work.
    :param watches_errors: Have the drivers count the errors that they report, as long as they are open.
    :param watches_activity: Read how busy the parts of GPUs are, between each two readings.
    :param clock: Monotonic seconds.
    """

    def __init__(
        self,
        backends: Mapping[str, Callable[[], GpuBackend | None]] = BACKENDS,
        timeout: float = DRIVER_TIMEOUT,
        report: Callable[[str], None] = lambda _: None,
        *,
        watches_errors: bool = False,
        watches_activity: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        openers = {
            name: _watching(opener, errors=watches_errors, activity=watches_activity)
            for name, opener in backends.items()
        }
        self._drivers = [Driver(name, opener) for name, opener in openers.items()]
        self._reported = Reported(report)
        self._timeout = timeout
        self._clock = clock
        self._search_due: dict[str, float] = {}
        """By driver that was not there. One that could not be opened is tried again at the next reading."""

    @property
    def has_driver(self) -> bool:
        """Whether the last reading has found a driver."""
        return any(driver.backend is not None for driver in self._drivers)

    def read(self, *, with_load: bool = True, with_sensors: bool = True) -> list[GpuReading]:
        """Read all GPUs and their MIG devices, in PCI bus order, one vendor after the other.

        A driver that has not answered the last question yet is asked nothing more until it does; that answer is old.

        :param with_load: Ask for utilization, processes and sensors too; else they are None, but for the processes of
            GPUs that do not report their memory.
        :param with_sensors: Ask for temperature, clock, power and health too.
        :raises GpuError: A driver is there and does not work, or does not answer, and no other has a GPU.
        """
        drivers = [
            driver
            for driver in self._drivers
            if driver.backend is not None or self._clock() >= self._search_due.get(driver.name, 0.0)
        ]
        answers, problems = ask_all(
            drivers,
            lambda backend: backend.survey(with_load=with_load, with_sensors=with_sensors),
            self._timeout,
            lambda: self._reported.once(_DELAY, 'waiting for the GPU driver to respond'),
        )
        if problems and not any(answers.values()):
            raise next(iter(problems.values()))
        for name, problem in problems.items():
            self._reported.once(name, f'GPUs of {title(name)} cannot be read: {problem}')
        self._reported.keep({_DELAY, *problems})
        found: list[GpuReading] = []
        for driver in drivers:
            if driver.name in answers and driver.backend is None:
                self._search_due[driver.name] = self._clock() + _BETWEEN_SEARCHES
            elif answers.get(driver.name) and driver.backend is not None:
                is_certain = True if driver.name in OF_DRM else None
                lookup = ProcessLookup(compute_files=driver.backend.compute_files, is_certain=is_certain)
                found += [_completed(reading, lookup) for reading in answers[driver.name]]
        return sorted(found, key=lambda reading: (vendor_order(reading.gpu.vendor), reading.number))

    def close(self) -> None:
        """Let go of the drivers."""
        for driver in self._drivers:
            driver.close()


def _watching(
    opener: Callable[[], GpuBackend | None],
    *,
    errors: bool,
    activity: bool,
) -> Callable[[], GpuBackend | None]:
    """Return a function that opens a driver and switches on what is to be watched."""

    def open_backend() -> GpuBackend | None:
        backend = opener()
        if backend is not None and errors:
            backend.watch_errors()
        if backend is not None and activity:
            backend.watch_activity()
        return backend

    return open_backend


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


def _completed(reading: GpuReading, lookup: ProcessLookup) -> GpuReading:
    """Return a reading with its processes looked up, whose MIG devices name the GPU that they are on."""
    whole = reading._replace(
        processes=None if reading.processes is None else lookup.describe(reading.processes),
        mig_devices=None,
    )
    if reading.mig_devices is None:
        return whole
    parts = (_completed(part, lookup)._replace(parent=whole) for part in reading.mig_devices)
    return whole._replace(mig_devices=tuple(parts))
