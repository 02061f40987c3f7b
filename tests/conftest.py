"""Fixtures of all tests."""

from __future__ import annotations

import os
import signal
import subprocess
from random import randrange
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from support.fleet.page_browser import chromium
from support.gpus.forking_interpreter import end_interpreters
from support.gpus.gpu_machine import Machine
from support.gpus.gpu_monitors import Monitors
from support.idle.guarded_program import nothing_left
from support.outcomes import (  # noqa: F401 - hooks
    pytest_configure,
    pytest_make_collect_report,
    pytest_runtest_makereport,
    pytest_runtest_setup,
    pytest_sessionfinish,
)
from support.own_network import OwnNetwork
from support.simulated_nvml import SimulatedDriver
from support.simulated_nvml.probe import end_probes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

    from support.cli_program import Marked

# Killed programs of tests leave their runs here, not in the home of whoever runs the tests.
_state = TemporaryDirectory(prefix='gpu-tracker-state-', ignore_cleanup_errors=True)
os.environ['XDG_STATE_HOME'] = _state.name
os.environ['GPU_TRACKER_KEEP'] = '0'

# A shell that starts a program in the background, and nohup, ignore these signals, and all descendants inherit that.
for name, handler in (('SIGINT', signal.default_int_handler), ('SIGHUP', signal.SIG_DFL), ('SIGQUIT', signal.SIG_DFL)):
    if signal.getsignal(getattr(signal, name)) is signal.SIG_IGN:
        signal.signal(getattr(signal, name), handler)

# Each run tries the same examples, so that no change fails by chance: --hypothesis-profile=fresh tries others. There is
# no deadline, since the time of an example depends on the machine's load.
settings.register_profile('same', deadline=None, derandomize=True, max_examples=50)
settings.register_profile('fresh', deadline=None, max_examples=200)
settings.load_profile('same')


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption('--no-skips', action='store_true', help='fail skipped tests')
    parser.addoption('--programs', type=int, default=500, help='random programs of the tier truth [%(default)s]')
    parser.addoption('--seed', type=int, default=randrange(1 << 32), help='their first seed [a random one]')  # noqa: S311


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


@pytest.fixture(autouse=True, scope='module')
def interpreters() -> Iterator[None]:
    """End the interpreters that run commands and probes in forks, after each file."""
    yield
    end_interpreters()
    end_probes()


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
    """Mark all processes that the test starts, and check at the end that none is left."""
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
