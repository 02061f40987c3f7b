"""The GPUs of several vendors, read as those of one driver; what fails or hangs in one driver is unknown of it alone.

Each driver is called in a thread of its own. One that does not answer in time leaves its GPUs unread until it does, and
one that fails leaves them unread for good. What is summed over all GPUs is then unknown: no sum leaves a GPU out.
"""

from __future__ import annotations

from gpu_tracker.background import Reported
from gpu_tracker.gpus.backend import OF_DRM
from gpu_tracker.gpus.driver import Driver, ask_all
from gpu_tracker.gpus.model import GpuActivity, GpuReading, Unseen
from gpu_tracker.vendors import title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeVar

    from gpu_tracker.gpus.backend import GpuBackend, RunGpus
    from gpu_tracker.gpus.model import Gpu, GpuProcess

    T = TypeVar('T')

OPENING_TIMEOUT = 60.0
"""Seconds that all drivers together have to open: up to 3 s a GPU where nothing else keeps one loaded."""
TIMEOUT = 1.5
"""Seconds that a driver has to answer a question; less than those after which a whole reading counts as late."""
_SILENT = 'its driver does not answer'


def open_together(
    openers: Mapping[str, Callable[[], GpuBackend | None]],
    report: Callable[[str], None],
    charge: Callable[[float], None] = lambda _: None,
    *,
    opening_timeout: float = OPENING_TIMEOUT,
    timeout: float = TIMEOUT,
) -> RunGpus | None:
    """Open several drivers at the same time, and return their GPUs as those of one.

    :param report: Takes why a driver does not work, if another one does.
    :param charge: Takes the CPU seconds that threads of drivers have used.
    :param opening_timeout: Seconds to wait for all drivers together.
    :param timeout: Seconds to wait for any later answer.
    :raises GpuError: A driver is there and does not work, and no other is there.
    """
    drivers = [Driver(name, opener, charge) for name, opener in openers.items()]
    found, problems = ask_all(drivers, lambda backend: (backend.gpus(), backend.compute_files), opening_timeout)
    working = [_Vendor(driver, timeout, *found[driver.name]) for driver in drivers if found.get(driver.name)]
    if not working and problems:
        raise next(iter(problems.values()))
    for problem in problems.values():
        report(str(problem))
    if len(working) > 1:
        return Together(working)
    return working[0].backend if working else None


class Together:
    """The GPUs of several vendors; see ``gpu_tracker.gpus.backend.RunGpus``."""

    def __init__(self, vendors: list[_Vendor]) -> None:
        self._vendors = vendors
        self._owners = {gpu.uuid: vendor for vendor in vendors for gpu in vendor.gpus if gpu.uuid is not None}
        self._by_uuid = {gpu.uuid: gpu for vendor in vendors for gpu in vendor.gpus}

    @property
    def compute_files(self) -> frozenset[str]:
        """The device files of those vendors whose drivers may report process IDs of another container."""
        return frozenset().union(
            *(vendor.compute_files for vendor in self._vendors if any(gpu.vendor not in OF_DRM for gpu in vendor.gpus))
        )

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the GPUs of all vendors, one vendor after the other."""
        return tuple(gpu for vendor in self._vendors for gpu in vendor.gpus)

    def follow(self, members: frozenset[int]) -> None:
        """Say to all drivers which processes the run tracks."""
        for vendor in self._vendors:
            vendor.ask(lambda backend: backend.follow(members), None)

    def read(self, uuid: str) -> GpuReading:
        """Read one GPU; nothing is known of it while its driver does not answer."""
        unread = GpuReading(self._by_uuid[uuid], _SILENT)
        return self._owners[uuid].ask(lambda backend: backend.read(uuid), unread)

    def processes(self, uuid: str) -> list[GpuProcess] | None:
        """Return the processes on one GPU."""
        return self._owners[uuid].ask(lambda backend: backend.processes(uuid), None)

    def unseen(self, uuid: str) -> Unseen:
        """Return who may be on one GPU without being listed; anybody while its driver does not answer."""
        return self._owners[uuid].ask(lambda backend: backend.unseen(uuid), Unseen(has_others=True))

    def utilization(self, uuid: str) -> float | None:
        """Return the percent that one GPU's driver reports of now."""
        return self._owners[uuid].ask(lambda backend: backend.utilization(uuid), None)

    def peak_memory(self, uuid: str, pid: int) -> int | None:
        """Return the bytes of a process' own peak on one GPU."""
        return self._owners[uuid].ask(lambda backend: backend.peak_memory(uuid, pid), None)

    def energy(self, uuid: str) -> float | None:
        """Return the joules that a whole GPU has used since its driver was loaded."""
        return self._owners[uuid].ask(lambda backend: backend.energy(uuid), None)

    def activity(self, uuid: str) -> list[GpuActivity]:
        """Return how busy the parts of one GPU were; nothing is known while its driver does not answer."""
        unread = [GpuActivity(problem=_SILENT)]
        return self._owners[uuid].ask(lambda backend: backend.activity(uuid), unread)

    def take_messages(self) -> list[tuple[str, str]]:
        """Return the messages of all drivers, and those on drivers that do not answer."""
        return [message for vendor in self._vendors for message in vendor.take_messages()]

    def close(self) -> None:
        """Let go of all drivers that answer."""
        for vendor in self._vendors:
            vendor.close()


class _Vendor:
    """One of the drivers, and its GPUs as it named them when it was opened.

    :param timeout: Seconds that it has to answer.
    """

    def __init__(self, driver: Driver, timeout: float, gpus: Sequence[Gpu], compute_files: frozenset[str]) -> None:
        self._driver = driver
        self.backend = driver.backend
        """None: it can no longer be read."""
        self.gpus = gpus
        self.compute_files = compute_files
        self._timeout = timeout
        self._messages: list[tuple[str, str]] = []
        self._reported = Reported(self._messages.append)

    def ask(self, question: Callable[[GpuBackend], T], otherwise: T) -> T:
        """Return the driver's answer, or what is to be taken for it while there is none."""
        if self.backend is None:
            return otherwise
        name = title(self._driver.name)
        try:
            self._driver.ask(question)
            answer: T = self._driver.answer(self._timeout)
        except TimeoutError:
            text = f'has not answered for {self._timeout:g} s; what its GPUs are part of is unknown until it does.'
            self._reported.once('silent', ('warning', f'The driver of {name} GPUs {text}'))
            return otherwise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one driver is not to hide the others' GPUs
            self.backend = None
            text = f'can no longer be read ({type(error).__name__}: {error}); their figures are incomplete.'
            self._messages.append(('warning', f'The GPUs of {name} {text}'))
            return otherwise
        self._reported.keep(set())
        return answer

    def take_messages(self) -> list[tuple[str, str]]:
        """Return the driver's messages, and those on its silence."""
        none: list[tuple[str, str]] = []
        messages = self.ask(lambda backend: backend.take_messages(), none)
        messages = [*self._messages, *messages]
        self._messages.clear()
        return messages

    def close(self) -> None:
        """Let go of the driver if it answers."""
        self.backend = None
        self._driver.close(self._timeout)
