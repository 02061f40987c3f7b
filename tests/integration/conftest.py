"""Fixtures of the tests with real processes."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from support.fleet.page_browser import chromium
from support.gpus.gpu_machine import Machine
from support.gpus.gpu_monitors import Monitors
from support.idle.guarded_program import nothing_left
from support.own_network import OwnNetwork
from support.second_tries import pytest_runtest_protocol  # noqa: F401 - a hook
from support.simulated_nvml import SimulatedDriver

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

    from support.cli_program import Marked


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
