"""Clocks and file systems that tests put in the place of the real ones do not change what is measured."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from support.tracked_program import environment, run
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from pathlib import Path

REPLACED = """
import fcntl, os, sys, time, types
import gpu_tracker as gput
import gpu_tracker.tracked_command

class Fake(types.ModuleType):
    def __getattr__(self, name):
        raise AssertionError(f'{self.__name__}.{name} is not the real one')

# As pyfakefs and freezegun do: modules and functions that are an attribute of a module.
modules = {os: Fake('os'), time: Fake('time'), fcntl: Fake('fcntl')}
functions = {getattr(time, name) for name in ('monotonic', 'monotonic_ns', 'perf_counter', 'time', 'time_ns')}

def replace():
    for name, module in list(sys.modules.items()):
        if name.startswith('gpu_tracker'):
            for attribute, value in list(vars(module).items()):
                if isinstance(value, types.ModuleType) and value in modules:
                    setattr(module, attribute, modules[value])
                elif isinstance(value, types.BuiltinFunctionType) and value in functions:
                    setattr(module, attribute, lambda: 0)
    for function in functions:
        setattr(time, function.__name__, lambda: 0)

"""
WITH_FREEZEGUN = """
import threading
from freezegun import freeze_time

with freeze_time('2030-01-01') as frozen:
    import gpu_tracker as gput
    with gput.Tracker(time_unit='seconds') as tracker:
        with gput.region('step'):
            threading.Event().wait(0.2)
            frozen.tick(3600)
    found = gput.run(['sleep', '0.2'], time_unit='seconds').resource_usage
assert 0.2 < tracker.resource_usage.compute_time.time < 100
assert 0.2 < found.compute_time.time < 100
assert 0.2 < tracker.regions[0].wall_time < 100
"""
WITH_TIME_MACHINE = """
import threading
import time_machine
import gpu_tracker as gput

with time_machine.travel('2030-01-01', tick=False) as traveller:
    with gput.Tracker(time_unit='seconds') as tracker:
        threading.Event().wait(0.2)
        traveller.shift(3600)
assert 0.2 < tracker.resource_usage.compute_time.time < 100
"""
WITH_PYFAKEFS = """
import pytest
import gpu_tracker as gput

@pytest.mark.limit_ram('1 TB')
def test_limit(fs):
    fs.create_file('/data')

def test_tracker(fs):
    with gput.Tracker(ram_unit='bytes') as tracker:
        data = bytearray(b'x') * 50_000_000
    assert tracker.resource_usage.max_ram.main.total_rss > 50_000_000

def test_stop(request):
    tracker = gput.Tracker(ram_unit='bytes')
    tracker.start()
    request.getfixturevalue('fs')
    tracker.stop()
    assert tracker.resource_usage.max_ram.main.total_rss > 1_000_000

def test_run(fs):
    assert gput.run(['true']).exit_code == 0
"""


def test_what_replaces_modules_and_clocks_does_not_reach_a_tracker_and_its_regions() -> None:
    answer = run(
        f"""
{REPLACED}
tracker = gput.Tracker(ram_unit='bytes', time_unit='seconds')
replace()
tracker.start()
with gput.region('step'):
    sum(range(1_000_000))
tracker.stop()
print(tracker.resource_usage.compute_time.time > 0, tracker.resource_usage.max_ram.main.total_rss > 1_000_000)
print([region.wall_time > 0 for region in tracker.regions])
"""
    ).stdout
    assert answer == 'True True\n[True]\n'


def test_what_replaces_modules_and_clocks_does_not_reach_the_tracker_of_a_command() -> None:
    answer = run(
        f"""
{REPLACED}
replace()
result = gput.run([sys.executable, '-c', 'pass'], ram_unit='bytes', time_unit='seconds')
print(result.exit_code, result.resource_usage.compute_time.time > 0)
"""
    ).stdout
    assert answer == '0 True\n'


@pytest.mark.parametrize(
    ('package', 'program'), [('freezegun', WITH_FREEZEGUN), ('time_machine', WITH_TIME_MACHINE)]
)  # fmt: skip
def test_a_stopped_clock_stops_no_measurement(package: str, program: str) -> None:
    pytest.importorskip(package, reason=f'needs the package {package}')
    run(program)


def test_a_fake_file_system_is_not_that_of_the_tracker(tmp_path: Path) -> None:
    pytest.importorskip('pyfakefs', reason='needs the package pyfakefs')
    (tmp_path / 'test_fakes.py').write_text(textwrap.dedent(WITH_PYFAKEFS))
    words = [sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider']
    words += ['--disable-plugin-autoload', '-p', 'gpu_tracker.pytest_plugin', '-p', 'pyfakefs.pytest_plugin']
    found = subprocess.run(
        [*words, 'test_fakes.py'],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert '4 passed' in found.stdout, found.stdout + found.stderr
