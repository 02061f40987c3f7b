"""A machine that is polled without a driver: it has the GPUs that the test says, and answers when the test says."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from gpu_tracker.gpus.machine import Seen
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.gpus.model import Gpu


NOW = 1_800_000_000.0


class PolledMachine:
    """Stands in for ``gpu_tracker.gpus.machine.Machine``.

    :param answers: False: the driver hangs until ``may_answer`` is set.
    """

    def __init__(self, gpus: Sequence[Gpu] | None = (), *, answers: bool = True) -> None:
        self.gpus = gpus
        self.failure: Exception | None = None
        self.looks = 0
        self.told: list[str] = []
        self.may_answer = threading.Event()
        if answers:
            self.may_answer.set()

    def read_again(self) -> Seen:
        self.looks += 1
        self.may_answer.wait(TIMEOUT)
        if self.failure is not None:
            raise self.failure
        return Seen(NOW, None if self.gpus is None else list(self.gpus))

    def absence(self, seen: Seen) -> str | None:
        return None if seen.gpus else 'nothing is here'

    def report(self, problem: str | None) -> None:
        self.told.append(problem)
