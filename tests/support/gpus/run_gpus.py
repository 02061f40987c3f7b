"""GPUs of one driver, as a run reads them, with readings that a test sets and calls that it may hold up."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from gpu_tracker.gpus.model import GpuActivity, Unseen
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from gpu_tracker.gpus.model import Gpu, GpuProcess, GpuReading


class FakeRunGpus:
    """See ``gpu_tracker.gpus.backend.RunGpus``. Calls wait while ``may_answer`` is not set.

    :ivar failure: What each call raises; None: it answers.
    """

    def __init__(self, *gpus: Gpu, files: frozenset[str] = frozenset()) -> None:
        self._gpus = gpus
        self.compute_files = files
        self.readings: dict[str, GpuReading] = {}
        self.present: dict[str, float | None] = {}
        self.joules: dict[str, float | None] = {}
        self.activities: dict[str, list[GpuActivity]] = {}
        self.unseen_on: dict[str, Unseen] = {}
        self.peaks: dict[tuple[str, int], int] = {}
        self.messages: list[tuple[str, str]] = []
        self.failure: Exception | None = None
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.members: frozenset[int] = frozenset()
        self.is_closed = False

    def _wait(self) -> None:
        self.may_answer.wait(TIMEOUT)
        if self.failure is not None:
            raise self.failure

    def gpus(self) -> tuple[Gpu, ...]:
        self._wait()
        return self._gpus

    def follow(self, members: frozenset[int]) -> None:
        self._wait()
        self.members = members

    def read(self, uuid: str) -> GpuReading:
        self._wait()
        return self.readings[uuid]

    def processes(self, uuid: str) -> list[GpuProcess] | None:
        self._wait()
        listed = self.readings[uuid].processes
        return None if listed is None else list(listed)

    def unseen(self, uuid: str) -> Unseen:
        self._wait()
        return self.unseen_on.get(uuid, Unseen())

    def utilization(self, uuid: str) -> float | None:
        self._wait()
        return self.present.get(uuid)

    def peak_memory(self, uuid: str, pid: int) -> int | None:
        self._wait()
        return self.peaks.get((uuid, pid))

    def energy(self, uuid: str) -> float | None:
        self._wait()
        return self.joules.get(uuid)

    def activity(self, uuid: str) -> list[GpuActivity]:
        self._wait()
        return self.activities[uuid]

    def take_messages(self) -> list[tuple[str, str]]:
        self._wait()
        messages, self.messages = self.messages, []
        return messages

    def close(self) -> None:
        self._wait()
        self.is_closed = True
