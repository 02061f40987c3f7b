"""Fixtures of the tests with real processes, and a second try for what fails while the host has taken the CPUs away.

A virtual machine whose CPUs are its host's most of the time can have no sample in the moment that a test is about, or
no process ready when one is expected. How much the host has taken the kernel counts: *steal* in proc_stat(5). Without
it a failure is a failure at once; with it the next try waits until the host leaves the CPUs alone.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.runner import runtestprotocol

from support.fleet.page_browser import chromium
from support.gpus.gpu_machine import Machine
from support.gpus.gpu_monitors import Monitors
from support.idle.guarded_program import nothing_left
from support.own_network import OwnNetwork
from support.simulated_nvml import SimulatedDriver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from support.cli_program import Marked

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


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark each test of this folder as one with real processes."""
    item.add_marker('integration')


@pytest.fixture
def driver(tmp_path: Path) -> SimulatedDriver:
    """Return a simulated driver without GPUs."""
    return SimulatedDriver(tmp_path)


@pytest.fixture
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Machine:
    """Return a machine whose simulated driver has the GPUs of the mark ``machine``, or none."""
    made = Machine(tmp_path)
    mark = request.node.get_closest_marker('machine')
    if mark is not None:
        made.write(**mark.kwargs)
    return made


@pytest.fixture(scope='module')
def monitors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitors]:
    """Give a process that monitors the GPUs of a simulated machine, whose state each test writes."""
    with Monitors(tmp_path_factory.mktemp('machine')) as started:
        yield started


@pytest.fixture
def network() -> Iterator[OwnNetwork]:
    """Give a network of the test's own."""
    with OwnNetwork() as made:
        yield made


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Marked]:
    """Mark all processes that the test starts, and check that none is left in the end."""
    yield from nothing_left(monkeypatch)


@pytest.fixture
def target() -> Iterator[subprocess.Popen[bytes]]:
    """Give a process that lives until its standard input is closed."""
    with subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        yield process
        process.kill()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return where a program may write its log."""
    return tmp_path / 'log'


@pytest.fixture(scope='module')
def browser() -> Iterator[Browser]:
    """Give a browser without pages."""
    with chromium() as running:  # not for the whole session: while it runs, so does an event loop in this thread
        yield running
