"""``gpu_tracker.track``: functions, coroutines and methods whose calls are tracked, and what becomes of the results."""

from __future__ import annotations

import asyncio
import inspect
import io
import logging
import os
import pickle
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

import gpu_tracker as gput
from support.tracked_program import answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

MEGABYTE = 1_000_000


class Used(list[gput.ResourceUsage]):
    """The results of calls, in the order of their ends."""

    @property
    def only(self) -> gput.ResourceUsage:
        assert len(self) == 1
        return self[0]


@pytest.fixture
def used() -> Used:
    return Used()


@gput.track
def fill(megabytes: int, *, by: str = '') -> tuple[int, str]:
    """Fill some memory."""
    return len(bytearray(megabytes * MEGABYTE)), by


def test_a_summary_of_each_call_is_printed_and_the_function_is_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    assert fill(1, by='me') == (MEGABYTE, 'me')
    out, errors = capsys.readouterr()
    assert out == ''
    lines = errors.splitlines()
    assert lines[0] == 'fill:'
    assert [line.split()[0] for line in lines[1:3]] == ['Time', 'Peak']
    assert all(line.startswith('   ') for line in lines[1:])
    assert (fill.__name__, fill.__doc__, fill.__module__) == ('fill', 'Fill some memory.', __name__)
    assert list(inspect.signature(fill).parameters) == ['megabytes', 'by']
    assert pickle.loads(pickle.dumps(fill)) is fill


def test_what_a_call_used_is_handed_over_in_the_units_asked_for(used: Used, capfd: pytest.CaptureFixture[str]) -> None:
    @gput.track(report=used.append, sleep_time=0.05, ram_unit='megabytes', sections=['io'])
    def work() -> int:
        block = b'x' * (80 * MEGABYTE)
        return len(block)

    assert work() == work() == 80 * MEGABYTE
    assert len(used) == 2
    for usage in used:
        assert usage.max_ram.unit == 'megabytes'
        assert 80 < usage.max_ram.main.total_rss < 800
        assert usage.io is not None
    assert capfd.readouterr() == ('', '')


def test_the_measured_process_stays_light() -> None:
    program = """
import json, sys
import gpu_tracker as gput
imported = [set(sys.modules)]

@gput.track(report=lambda usage: None)
def work():
    imported.append(set(sys.modules))

work()
heavy = {'dataclasses', 'inspect', 'logging', 'psutil', 'pynvml', 'subprocess', 'typing'}
print(json.dumps([sorted(heavy & (modules - imported[0])) for modules in imported]))
"""
    assert answer(program) == [[], []]


def test_the_end_of_the_tracking_imports_nothing() -> None:
    program = """
import json, sys
import gpu_tracker as gput
tracker = gput.Tracker()
tracker.start()
before = set(sys.modules)
tracker.stop()
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    assert answer(program) == []


def test_an_exception_is_passed_on_after_the_report(used: Used) -> None:
    @gput.track(report=used.append)
    def fail() -> None:
        raise KeyError('missing')

    with pytest.raises(KeyError, match='missing') as raised:
        fail()
    assert raised.value.__context__ is None
    assert used.only.compute_time.time > 0


def test_an_exit_is_reported_too(used: Used) -> None:
    @gput.track(report=used.append)
    def leave() -> None:
        sys.exit(3)

    with pytest.raises(SystemExit):
        leave()
    assert used.only


def test_a_recursive_function_is_tracked_once(used: Used) -> None:
    @gput.track(report=used.append)
    def count_down(number: int) -> int:
        assert not used
        return count_down(number - 1) + 1 if number else 0

    assert count_down(20) == 20
    assert used.only
    used.clear()
    assert count_down(0) == 0
    assert used.only


def test_tracked_functions_may_call_each_other(used: Used) -> None:
    @gput.track(report=used.append, ram_unit='megabytes')
    def inner() -> None:
        bytearray(60 * MEGABYTE)

    @gput.track(report=used.append)
    def outer() -> None:
        inner()

    outer()
    assert [usage.max_ram.unit for usage in used] == ['megabytes', 'gigabytes']


def test_calls_in_threads_are_tracked_by_themselves(used: Used) -> None:
    together = threading.Barrier(3)

    @gput.track(report=used.append)
    def meet() -> None:
        together.wait()

    threads = [threading.Thread(target=meet) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(used) == 3


@pytest.mark.figures
def test_a_coroutine_is_tracked_to_its_end(used: Used) -> None:
    @gput.track(report=used.append, time_unit='seconds')
    async def work(value: int) -> int:
        await asyncio.sleep(0.2)
        return value

    async def both() -> list[int]:
        return await asyncio.gather(work(1), work(2))

    assert inspect.iscoroutinefunction(work)
    assert asyncio.run(work(1)) == 1
    assert used.only.compute_time.time >= 0.2
    used.clear()
    assert asyncio.run(both()) == [1, 2]
    assert len(used) == 2


def test_methods_of_all_kinds_are_tracked(used: Used) -> None:
    class Model:
        size = 3

        @gput.track(report=used.append)
        def fit(self, by: int) -> int:
            return self.size * by

        @classmethod
        @gput.track(report=used.append)
        def make(cls) -> type:
            return cls

        @staticmethod
        @gput.track(report=used.append)
        def scale(value: int) -> int:
            return value * 2

        @property
        @gput.track(report=used.append)
        def twice(self) -> int:
            return self.size * 2

    assert (Model().fit(2), Model.make(), Model.scale(2), Model().twice) == (6, Model, 4, 6)
    assert len(used) == 4


def test_what_cannot_be_tracked_is_refused() -> None:
    def items() -> Iterator[int]:
        yield 1

    async def later() -> AsyncIterator[int]:
        yield 1

    for generator in (items, later):
        with pytest.raises(TypeError, match=r'cannot measure the generator .*Track the function that reads the items'):
            gput.track(generator)
    for thing in (int, 3, classmethod(len), staticmethod(len)):
        with pytest.raises(TypeError, match='track decorates only functions and methods, not '):
            gput.track(thing)


def test_wrong_parameters_are_refused_where_the_function_is_decorated() -> None:
    with pytest.raises(ValueError, match=r"ram_unit must be .*, not 'pages'"):
        gput.track(ram_unit='pages')
    with pytest.raises(TypeError, match='track has no parameter process_id'):
        gput.track(process_id=1)
    with pytest.raises(TypeError, match="there is no option 'interval'"):
        gput.track(interval=1)


def test_where_nothing_can_be_measured_the_function_runs_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, used: Used
) -> None:
    @gput.track(report=used.append)
    def work() -> int:
        return 7

    monkeypatch.setattr(sys, 'executable', '')
    assert work() == 7
    assert used == []
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert 'work was not measured: The sampler runs in a Python interpreter' in record.message


def test_a_process_that_the_function_forks_reports_nothing(used: Used) -> None:
    @gput.track(report=used.append)
    def fork() -> int:
        return os.fork()

    pid = fork()
    if pid == 0:
        os._exit(len(used))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert used.only


@pytest.mark.parametrize('stream', [None, io.StringIO()])
def test_where_nobody_reads_standard_error_nothing_is_lost(monkeypatch: pytest.MonkeyPatch, stream: Any) -> None:
    if stream is not None:
        stream.close()
    monkeypatch.setattr(sys, 'stderr', stream)
    assert fill(1) == (MEGABYTE, '')


def test_a_call_can_be_recorded(tmp_path: Path, used: Used) -> None:
    @gput.track(report=used.append, tracking_file=tmp_path / 'run.db')
    def work() -> None:
        with gput.region('part'):
            pass

    work()
    with gput.load(tmp_path / 'run.db') as recording:
        assert recording.summary() == used.only
        assert [region.name for region in recording.regions] == ['part']
