"""What type checkers see of the public interface: mypy and pyright check this file, and nothing runs it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_type

import gpu_tracker as gput
from gpu_tracker.tracked_command import CommandInterrupted, CommandResult

if TYPE_CHECKING:
    from collections.abc import Callable


@gput.track
def bare(size: int, *, name: str = '') -> bytes:
    """Be decorated without parameters."""
    return bytes(size) + name.encode()


@gput.track(report=print, sleep_time=0.1, sections=['io'], tracking_file=Path('run.db'), n_expected_cores='allowed')
def with_options(size: int) -> bytes:
    """Be decorated with parameters."""
    return bytes(size)


@gput.track()
async def coroutine(size: int) -> bytes:
    """Be a coroutine function."""
    return bytes(size)


class Model:
    """Has methods of all kinds."""

    @gput.track
    def fit(self, size: int) -> bytes:
        """Be a method."""
        return bytes(size)

    @classmethod
    @gput.track
    def make(cls, size: int) -> Model:
        """Be a method of the class."""
        return cls() if size else Model()

    @staticmethod
    @gput.track(report=print)
    def scale(size: int) -> int:
        """Be a static method."""
        return 2 * size

    @gput.region
    def name(self, size: int) -> str:
        """Be a region."""
        return str(size)


async def decorated_functions_have_the_types_of_their_own() -> None:
    """Call what is decorated."""
    assert_type(bare(3, name='x'), bytes)
    assert_type(with_options(3), bytes)
    assert_type(await coroutine(3), bytes)
    assert_type(Model().fit(3), bytes)
    assert_type(Model.make(3), Model)
    assert_type(Model.scale(3), int)
    assert_type(Model().name(3), str)
    function: Callable[[int], bytes] = with_options
    assert_type(function(3), bytes)


def commands_have_a_code_and_a_usage() -> None:
    """Run commands."""
    code, usage = gput.run(['sort', Path('numbers')], stdout=subprocess.DEVNULL, cwd='/', env={}, time_unit='seconds')
    assert_type(code, int)
    assert_type(usage, gput.ResourceUsage)
    try:
        assert_type(gput.run(('true',)), CommandResult)
    except CommandInterrupted as stop:
        assert_type(stop.result.resource_usage, gput.ResourceUsage)


def results_have_figures_that_may_be_unknown() -> None:
    """Read a result."""
    with gput.Tracker(ram_unit='megabytes', process_id=1) as tracker:
        assert_type(tracker.state, gput.Tracker.State)
        assert_type(tracker.so_far(), gput.ResourceUsage)
    usage = tracker.resource_usage
    assert_type(usage, gput.ResourceUsage)
    assert_type(usage.max_ram.combined.total_rss, float | None)
    assert_type(usage.compute_time.time, float)
    assert_type(usage.cpu_utilization.main_n_threads, int | None)
    if usage.io is not None:
        assert_type(usage.io.combined.read, float | None)
    if usage.cuda is not None:
        assert_type(usage.cuda.combined.launches, int | None)
    assert_type(usage.to_dict(), dict[str, Any])
    assert_type(gput.ResourceUsage.from_json(b'{}'), gput.ResourceUsage)
    assert_type(gput.ResourceUsage.from_dict(tracker.to_json()), gput.ResourceUsage)


def wrong_calls_are_reported() -> None:
    """Call what type checkers have to refuse: without an error, the comment would be one."""
    bare('3')  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Model().fit()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    gput.track(interval=1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    gput.run(['true'], process_id=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    gput.Tracker(ram_units='bytes')  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
