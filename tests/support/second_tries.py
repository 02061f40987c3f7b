"""A second try for a test that fails while the host has taken the CPUs away, where a conftest.py imports the hook.

A virtual machine whose CPUs are its host's most of the time can have no sample in the moment that a test is about, or
no process ready when one is expected. How much the host has taken the kernel counts: *steal* in proc_stat(5). Without
it a failure is a failure at once; with it the next try waits until the host leaves the CPUs alone.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from _pytest.runner import runtestprotocol

if TYPE_CHECKING:
    import pytest

_MOST_STOLEN = 0.01
"""The part of all CPU time that the host may take before a failure may be due to that."""
_TRIES = 4
_CALM = 3.0
"""Seconds without more of that, after which a test is run again."""
_LONGEST_WAIT = 180.0
"""Seconds to wait for them."""


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports: list[pytest.TestReport] = []
    for number in range(_TRIES):
        if number:
            _wait_for_calm()
        stolen_before, all_before = _cpu_ticks()
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        stolen, passed = (now - before for now, before in zip(_cpu_ticks(), (stolen_before, all_before), strict=True))
        if stolen <= _MOST_STOLEN * passed or not any(report.failed for report in reports):
            break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _wait_for_calm() -> None:
    give_up = time.monotonic() + _LONGEST_WAIT
    share = 1.0
    while share > _MOST_STOLEN and time.monotonic() < give_up:
        stolen, passed = _cpu_ticks()
        time.sleep(_CALM)
        stolen_later, passed_later = _cpu_ticks()
        share = (stolen_later - stolen) / max(1, passed_later - passed)


def _cpu_ticks() -> tuple[int, int]:
    """Return the clock ticks of all CPUs that the host has taken since the machine was started, and all there were."""
    first = Path('/proc/stat').read_text().partition('\n')[0]
    ticks = [int(word) for word in first.split()[1:9]]
    return ticks[7], sum(ticks)
