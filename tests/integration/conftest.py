"""What fails with real processes is run again where the host has taken the CPUs away meanwhile.

A virtual machine whose CPUs are its host's most of the time can have no sample in the moment that a test is about, or
no process ready when one is expected. How much the host has taken the kernel counts: *steal* in proc_stat(5). Without
it a failure is a failure at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from _pytest.runner import runtestprotocol

if TYPE_CHECKING:
    import pytest

_MOST_STOLEN = 0.02
"""The part of all CPU time that the host may take before a failure may be due to that."""
_TRIES = 3


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports: list[pytest.TestReport] = []
    for _ in range(_TRIES):
        stolen_before, all_before = _cpu_ticks()
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        stolen, passed = (now - before for now, before in zip(_cpu_ticks(), (stolen_before, all_before), strict=True))
        if stolen <= _MOST_STOLEN * passed or not any(report.failed for report in reports):
            break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _cpu_ticks() -> tuple[int, int]:
    """Return the clock ticks of all CPUs that the host has taken since the machine was started, and all there were."""
    first = Path('/proc/stat').read_text().partition('\n')[0]
    ticks = [int(word) for word in first.split()[1:9]]
    return ticks[7], sum(ticks)
