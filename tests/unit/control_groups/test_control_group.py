"""The control group in the sampler and in reports, with limits and a counter that the test sets."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpu_tracker.control_groups.allowed import Limits
from gpu_tracker.control_groups.oom_kills import OOMKills
from gpu_tracker.control_groups.places import Group, Mount
from gpu_tracker.processes.process import Process
from gpu_tracker.resources import FIRST, LAST, MIDDLE
from gpu_tracker.resources.building import build
from gpu_tracker.resources.control_group import ControlGroup
from gpu_tracker.result.cuda_usage import cuda_usage
from gpu_tracker.result.formats import FORMATS
from gpu_tracker.result.usage import EnergyUsage, IOUsage, IOValues, RSSValues
from gpu_tracker.units import Units
from gpu_tracker.views.html import usage_html
from support.control_group_trees import make_group

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN = Path(__file__).parents[2] / 'data' / 'recorded_runs' / 'gpu.totals.json'
"""That of a machine with 25.3 GB of RAM and 2 cores."""
CAPACITY = 25_276_510_208
UNITS = Units('gigabytes', 'megabytes', 'hours', None)
LIMITS = Limits(8_000_000_000, 1.5, 4)
UNLIMITED = {'folder': '/g', 'memory_limit': CAPACITY, 'cpu_limit': 2.0, 'allowed_cores': 2.0, 'oom_kills': 0}
"""On that machine."""


class Counted:
    """A group whose kills the test counts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.killed(2)
        self.counter = OOMKills([Group((), '/')], [Mount('cgroup2', (), '/', str(folder))])
        self.root = Process(1)
        self.resource = ControlGroup(LIMITS, self.counter, self.root)

    def killed(self, total: int) -> None:
        make_group(self._folder, {'memory.events': f'oom 0\noom_kill {total}'})

    def count_at(self, now: float, kind: str = MIDDLE) -> object:
        self.resource.sample(now, kind)
        return self.resource.totals()['oom_kills']


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Counted]:
    made = Counted(tmp_path)
    yield made
    made.counter.close()


def test_kills_are_read_once_a_second_and_at_the_end(counted: Counted) -> None:
    assert counted.count_at(10.0, FIRST) == 0
    counted.killed(3)
    assert counted.count_at(10.9) == 0
    assert counted.count_at(11.0) == 1
    counted.killed(5)
    assert counted.count_at(11.1) == 1
    assert counted.count_at(11.2, LAST) == 3


def test_they_are_read_as_soon_as_the_tracked_process_has_ended(counted: Counted) -> None:
    counted.count_at(10.0, FIRST)
    counted.killed(3)
    counted.root.ended = True
    assert counted.count_at(10.1) == 1
    counted.killed(4)
    assert counted.count_at(10.2) == 1
    assert counted.count_at(11.1) == 2


def test_of_a_process_that_had_ended_at_the_start_nothing_is_known(counted: Counted) -> None:
    counted.root.ended = True
    counted.killed(3)
    assert counted.count_at(10.0, FIRST) is None
    assert counted.count_at(12.0, LAST) is None
    assert set(counted.resource.totals().values()) == {None}


def test_the_totals(counted: Counted, tmp_path: Path) -> None:
    counted.resource.sample(10.0, FIRST)
    assert counted.resource.totals() == {
        'folder': str(tmp_path),
        'memory_limit': 8_000_000_000,
        'cpu_limit': 1.5,
        'allowed_cores': 1.5,
        'oom_kills': 0,
        'oom_kills_before': 2,
        'inode': tmp_path.stat().st_ino,
        'throttled_seconds': None,
        'group_swap': None,
        'shmem_growth': None,
        'swapped_out': None,
    }


def result(**changes: object) -> Any:
    totals = json.loads(RUN.read_text())['totals']
    return build({**totals, 'control_group': {**UNLIMITED, **changes}}, UNITS)


def text_without() -> str:
    return FORMATS['text'](build(json.loads(RUN.read_text())['totals'], UNITS))


@pytest.mark.parametrize(
    'changes',
    [
        {},
        {'oom_kills': None, 'folder': None},
        {'memory_limit': None, 'cpu_limit': None, 'oom_kills': None},
        {'memory_limit': None, 'cpu_limit': None, 'allowed_cores': None, 'oom_kills': None, 'folder': None},
    ],
)
def test_a_report_without_limits_is_as_it_always_was(changes: dict[str, object]) -> None:
    assert result(**changes).control_group is None
    assert FORMATS['text'](result(**changes)) == text_without()


@pytest.mark.parametrize(
    'changes',
    [{'memory_limit': CAPACITY - 1}, {'cpu_limit': 1.5, 'allowed_cores': 1.5}, {'allowed_cores': 1.0}],
)
def test_a_limit_is_reported(changes: dict[str, object]) -> None:
    assert result(**changes).control_group.problem is None


def test_the_text_of_a_limited_run() -> None:
    limited = result(memory_limit=8_000_000_000, cpu_limit=1.5, allowed_cores=1.5, folder='/sys/fs/cgroup/job\x1b')
    assert FORMATS['text'](limited) == (
        f'{text_without()}\n'
        'Control group:\n'
        '   Unit: gigabytes\n'
        '   Folder: /sys/fs/cgroup/job?\n'
        '   Memory limit: 8.0\n'
        '   CPU limit: 1.5\n'
        '   Allowed cores: 1.5\n'
        '   OOM kills: 0'
    )


def test_kills_are_reported_where_nothing_limits_too() -> None:
    killed = result(oom_kills=2)
    assert json.loads(FORMATS['json'](killed))['control_group'] == {
        'unit': 'gigabytes',
        'folder': '/g',
        'memory_limit': 25.276510208,
        'cpu_limit': 2.0,
        'allowed_cores': 2.0,
        'oom_kills': 2,
        'problem': '2 processes of this control group were killed for lack of memory.',
    }
    assert FORMATS['text'](killed).endswith(
        '   OOM kills: 2\n   Problem: 2 processes of this control group were killed for lack of memory.'
    )


def test_the_summary_of_a_limited_run_in_which_something_was_killed() -> None:
    limited = result(memory_limit=8_000_000_000, cpu_limit=1.5, allowed_cores=1.5, oom_kills=1)
    assert FORMATS['summary'](limited).splitlines()[2:5] == [
        'Machine     peak 884 MB of 25.3 GB RAM in use by everybody',
        'Allowed     8 GB RAM and 1.5 cores, by control groups and affinity',
        'Killed      1 process of this control group was killed for lack of memory.',
    ]


def test_the_table_of_a_notebook_says_what_was_killed() -> None:
    assert 'Killed for lack of memory' in usage_html(result(oom_kills=2))
    assert 'Killed' not in usage_html(result(memory_limit=8_000_000_000))


def test_a_summary_has_twelve_lines_at_most_whatever_there_is() -> None:
    limited = result(memory_limit=8_000_000_000, allowed_cores=1.0, oom_kills=1)
    rss = RSSValues(3.0, 2.0, 1.0)
    cpu = replace(limited.cpu_utilization, descendants_n_threads=3)
    most = replace(
        limited,
        max_ram=replace(limited.max_ram, descendants=rss),
        cpu_utilization=cpu,
        io=IOUsage('bytes', *[IOValues(*[1] * 13)] * 3),
        energy=EnergyUsage('joules', 1.0, (), 1.0),
        cuda=cuda_usage({'problem': 'none'}, 'bytes'),
    )
    titles = [line[:12].strip() for line in FORMATS['summary'](most).splitlines()]
    assert len(titles) == 12
    assert {'Allowed', 'Killed', 'Time', 'Peak RAM', 'CUDA'} <= set(titles)


def test_what_a_stranger_has_recorded_in_place_of_numbers_is_an_error_that_is_expected() -> None:
    with pytest.raises(TypeError):
        result(memory_limit='much')
