"""The parts that kernels have in the time of spans."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_tracker.cuda_probe.model.span import Span
    from gpu_tracker.cuda_probe.model.window import Losses

MORE_KERNELS = 0
"""The address that stands for all kernels past the limit."""


class KernelTimes:
    """The kernels of one process, and their times since they were last asked for.

    :param room: So many kernels are told apart.
    """

    def __init__(self, room: int, losses: Losses) -> None:
        self._room = room
        self._losses = losses
        self._known: set[int] = set()
        self._times: dict[int, int] = {}

    def admitted(self, address: int) -> int:
        """Return the address by which a kernel is told: its own, or the one for all that found no room."""
        if address in self._known:
            return address
        if len(self._known) >= self._room:
            self._losses.kernel_launches += 1
            return MORE_KERNELS
        self._known.add(address)
        return address

    def share(self, span: Span) -> None:
        """Share a span's time among its kernels by their launches, to the nanosecond."""
        times = self._times
        time = span.end - span.begin
        if len(span.kernels) == 1:  # most spans, where each launch is waited for
            (address,) = span.kernels
            times[address] = times.get(address, 0) + time
            return
        launches = sum(span.kernels.values())
        before = given = 0
        for address, count in span.kernels.items():
            before += count
            part = time * before // launches - given
            given += part
            times[address] = times.get(address, 0) + part

    def take(self) -> dict[int, int]:
        """Return the nanoseconds by kernel since this was last asked."""
        times, self._times = self._times, {}
        return times
