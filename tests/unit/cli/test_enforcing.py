from __future__ import annotations

import os
import signal
import time
from typing import NamedTuple

import pytest

from gpu_tracker.limits import TIME, Limit, RunLimits
from gpu_tracker.running.enforcing import Enforcement

COMMAND = 2**22 + 1
"""A pid that no process has."""


class Received(NamedTuple):
    """A signal, as ``signal.struct_siginfo``."""

    si_signo: int


class Kernel:
    """A command that ends when it is said that a limit was exceeded, and a clock that only waiting for signals moves.

    :param signals: When signals come that nothing follows from.
    """

    def __init__(self, output: pytest.CaptureFixture[str], signals: list[float]) -> None:
        self.now = 100.0
        self.waits: list[float] = []
        self.said = ''
        self._output = output
        self._signals = list(signals)

    def monotonic(self) -> float:
        return self.now

    def waitid(self, kind: int, pid: int, options: int) -> str | None:
        self.said += self._output.readouterr().out
        return self.said or None

    def sigtimedwait(self, watched: set[int], seconds: float) -> Received | None:
        assert seconds > 0
        self.waits.append(seconds)
        if self._signals and self._signals[0] <= self.now + seconds:
            self.now = self._signals.pop(0)
            return Received(signal.SIGCHLD)
        self.now += seconds
        return None


@pytest.mark.parametrize(
    ('signals', 'waits'),
    [([], [5.0]), ([142.0, 144.5], [5.0, 3.0, 0.5])],
)
def test_a_time_limit_is_looked_at_when_it_is_reached_and_what_is_left_until_then_is_waited_for(
    signals: list[float], waits: list[float], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel(capfd, signals)
    monkeypatch.setattr(time, 'monotonic', kernel.monotonic)
    monkeypatch.setattr(os, 'waitid', kernel.waitid)
    monkeypatch.setattr(signal, 'sigtimedwait', kernel.sigtimedwait)
    enforcement = Enforcement(COMMAND, RunLimits((Limit(TIME, 5.0, '5s'),), 10.0), None, print)
    kernel.now = 140.0
    enforcement.begin()
    assert enforcement._next_check() == 145.0
    enforcement.wait_for_end()
    assert kernel.waits == waits
    assert kernel.said == (
        '--time-limit=5s was exceeded: the command and its descendants have run for 5 s. '
        'All of them get SIGTERM, and SIGKILL after 10 s.\n'
    )
    assert enforcement.reason == 'time_limit'
