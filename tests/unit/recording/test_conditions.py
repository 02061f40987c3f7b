"""Conditions on which a comparison fails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.errors import ParameterError
from gpu_tracker.gpus.model import Gpu, GpuProcess, GpuReading
from gpu_tracker.recording.comparing.comparison import compare
from gpu_tracker.recording.comparing.conditions import Condition, parse
from gpu_tracker.recording.comparing.quantities import change_text, limit_of
from gpu_tracker.recording.comparing.run_values import written
from gpu_tracker.resources import GROUPS
from gpu_tracker.resources.gpu.device import DeviceFigures
from gpu_tracker.units import text_of
from support.compared_runs import run, runs
from support.recordings import totals_of, write_recording

if TYPE_CHECKING:
    from pathlib import Path

RAM = ('max_ram', 'combined', 'total_rss')


@pytest.mark.parametrize(
    ('expression', 'name', 'is_upper', 'limit', 'ratio'),
    [
        ('max_ram.combined > +5 %', RAM, True, '+5 %', 1.05),
        ('max_ram.combined.total_rss>+5%', RAM, True, '+5%', 1.05),
        ('  max_ram . combined < - 12.5 % ', RAM, False, '- 12.5 %', 0.875),
        ('max_ram.combined > 2 GB', RAM, True, '2 GB', None),
        ('compute_time > 90 s', ('compute_time', 'time'), True, '90 s', None),
        ('energy.gpu > 2 kJ', ('energy', 'gpu'), True, '2 kJ', None),
        ('cpu_utilization.main_n_threads > 8', ('cpu_utilization', 'main_n_threads'), True, '8', None),
        ('regions.load.wall_time > +10 %', ('regions', 'load', 'wall_time'), True, '+10 %', 1.1),
        ('regions.a.b c.cpu > 1 s', ('regions', 'a.b c', 'cpu'), True, '1 s', None),
        ('regions."my step".ram > 1 GiB', ('regions', 'my step', 'ram'), True, '1 GiB', None),
        ("regions.'a > b'.calls > 3", ('regions', 'a > b', 'calls'), True, '3', None),
        (r'regions."a\"b\\".calls > 3', ('regions', 'a"b\\', 'calls'), True, '3', None),
        ('regions.load.io.read > +3 %', ('regions', 'load', 'io', 'read'), True, '+3 %', 1.03),
        ('regions.regions.calls > 1', ('regions', 'regions', 'calls'), True, '1', None),
    ],
)
def test_conditions(expression: str, name: tuple[str, ...], is_upper: bool, limit: str, ratio: float | None) -> None:
    expected = Condition(expression, name, is_upper, limit, None if ratio is None else pytest.approx(ratio))
    assert parse(expression) == expected


@pytest.mark.parametrize(
    ('expression', 'text'),
    [
        ('', "a figure's name, > or <, and a limit, such as 'max_ram.combined > \\+5 %'"),
        ('max_ram.combined', "a figure's name, > or <"),
        ('> +5 %', "a figure's name, > or <"),
        ('max_ram.combined >', "a figure's name, > or <"),
        ('max_ram..combined > 5', "a figure's name, > or <"),
        ('a >= 5%', '^expression must be a condition with the operator > or <, not .a >= 5%.$'),
        ('max_ram.combined << 5 GB', 'with the operator > or <'),
        ('max_ram.combined = 5', "a figure's name, > or <"),
        ('regions."load.calls > 5', "a figure's name, > or <"),
        ('x' * 2000 + ' > 5', "a figure's name, > or <"),
        ('max_ram.combind > +5 %', 'the name of a figure of the report, such as max_ram.combined,'),
        (
            'max_ram > +5 %',
            'the name of a figure of the report, such as max_ram.main, max_ram.system, max_ram.combined',
        ),
        ('?! > +5 %', 'the name of a figure of the report, such as max_ram.combined or compute_time'),
        ('max_ram.system_capacity > 5', 'the name of a figure of the report, such as'),
        ('regions.load > +5 %', 'such as regions.load.'),
        ('regions.load.wall > +5 %', r'such as .*regions\.load\.wall_time'),
        ('regions."my step".walltime > +5 %', r'such as regions\."my step"\.wall_time'),
        ('regions > +5 %', 'the name of a figure'),
        ('max_ram.combined > 5 %', r'a size with its unit, such as 2 GB, or a change with its sign, such as \+5 %'),
        ('max_ram.combined > 5', 'a size with its unit'),
        ('max_ram.combined > 5 s', 'a size with its unit'),
        ('compute_time > 5 GB', 'a time with its unit, such as 90 s'),
        ('cpu_utilization.main_n_threads > 5 s', 'a number without a unit'),
        ('cpu_utilization.main.max_sum_percent > 5', 'a percentage, such as 80 %'),
        ('io.main.max_read_per_second > 5 MB', 'a rate with its unit, such as 100 MB/s'),
        ('energy.gpu > 5', 'an energy with its unit'),
        ('max_ram.combined > +5', 'a change with its sign'),
        ('max_ram.combined < -101 %', 'a change of -100 % or more'),
    ],
)
def test_what_is_no_condition_is_refused(expression: str, text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        parse(expression)


@given(st.text(max_size=60))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    try:
        parse(text)
    except ParameterError:
        pass  # what is accepted is in its text


@given(st.text(min_size=1, max_size=30))
def test_every_name_of_a_region_can_be_written(name: str) -> None:
    quoted = name.replace('\\', '\\\\').replace('"', '\\"')
    assert parse(f'regions."{quoted}".calls > 3').name == ('regions', name, 'calls')
    assert parse(f'{written(("regions", name, "calls"))} > 3').name == ('regions', name, 'calls')


OLD, NEW = [100.0], [112.0]
NOISY = [112.0, 150.0, 90.0]


@pytest.mark.parametrize(
    ('old', 'new', 'expression', 'passed', 'text'),
    [
        (OLD, NEW, '> +5 %', False, 'grew by 12.0 % (limit +5 %): from 100 MB in old to 112 MB in new'),
        (OLD, NEW, '> +12.5 %', True, 'grew by 12.0 % (limit +12.5 %): from 100 MB in old to 112 MB in new'),
        (NEW, OLD, '> +5 %', True, 'shrank by 10.7 % (limit +5 %): from 112 MB in old to 100 MB in new'),
        (NEW, OLD, '< -5 %', False, 'shrank by 10.7 % (limit -5 %): from 112 MB in old to 100 MB in new'),
        (OLD, OLD, '> +0 %', True, 'has not changed (limit +0 %): from 100 MB in old to 100 MB in new'),
        (OLD, OLD, '> -5 %', False, 'has not changed (limit -5 %): from 100 MB in old to 100 MB in new'),
        (
            [100, 101, 99], [112, 113, 111], '> +5 %', False,
            'grew by 12.0 % (limit +5 %): from 100 MB in old to 112 MB in new, 95 % interval +9.6 % to +14.4 %',
        ),
        (
            [100, 101, 99], NOISY, '> +5 %', True,
            (
                'grew by 14.8 % (limit +5 %): from 100 MB in old to 114.8 MB in new, 95 % interval -39.2 % to +116.7 %'
                '; the runs differ so much that this may be chance: record more runs'
            ),
        ),
        (
            NOISY, [100, 101, 99], '< -5 %', True,
            (
                'shrank by 12.9 % (limit -5 %): from 114.8 MB in old to 100 MB in new, 95 % interval -53.8 % to +64.5 %'
                '; the runs differ so much that this may be chance: record more runs'
            ),
        ),
        (
            [100, 110, 95], [100, 110, 96], '> +5 %', True,
            (
                'grew by 0.3 % (limit +5 %): from 101.5 MB in old to 101.8 MB in new, 95 % interval -14.8 % to +18.2 %'
                '; the runs differ so much that more than the limit is possible: record more runs'
            ),
        ),
        ([None], NEW, '> +5 %', False, 'unknown in old'),
        (OLD, [1.0, None], '> +5 %', False, 'unknown in 1 of 2 runs of new'),
        ([0.0], [0.0], '> +5 %', False, '0 in all runs'),
        ([0.0], NEW, '> +5 %', False, 'not above 0 in old'),
        (OLD, NEW, '> 110 MB', False, 'is 112 MB in new, more than 110 MB'),
        (OLD, NEW, '> 112 MB', True, 'is 112 MB in new, not more than 112 MB'),
        (OLD, NEW, '< 120 MB', False, 'is 112 MB in new, less than 120 MB'),
        (OLD, NEW, '< 1 MB', True, 'is 112 MB in new, not less than 1 MB'),
        (OLD, [90.0, 120.0], '> 110 MB', False, 'is 120 MB in a run of new, more than 110 MB'),
        (OLD, [0.0], '> 110 MB', True, 'is 0 B in new, not more than 110 MB'),
        ([None], [100.0], '> 110 MB', True, 'is 100 MB in new, not more than 110 MB'),
        (OLD, [None, 120.0], '> 110 MB', False, 'is 120 MB in a run of new, more than 110 MB'),
        (OLD, [None, 100.0], '> 110 MB', False, 'is unknown in 1 of 2 runs of new'),
    ],
)  # fmt: skip
def test_findings(tmp_path: Path, old: list[float], new: list[float], expression: str, passed: bool, text: str) -> None:
    comparison = compare({'old': runs(tmp_path, 'a', old), 'new': runs(tmp_path, 'b', new)})
    finding = comparison.check(f'max_ram.combined {expression}')
    assert finding.expression == f'max_ram.combined {expression}'
    assert (finding.passed, text in finding.text) == (passed, True), finding.text
    if '0' not in text.partition(' ')[0] and not text.startswith(('unknown', 'not above')):
        assert finding.text == f'max_ram.combined.total_rss {text}'


def test_a_region_that_one_group_lacks_does_not_pass(tmp_path: Path) -> None:
    old, new = run(tmp_path / 'a.db', regions={'load': 1.0}), run(tmp_path / 'b.db', regions={'loading': 1.0})
    comparison = compare({'old': [old], 'new': [new]})
    finding = comparison.check('regions.load.wall_time > +5 %')
    assert not finding.passed
    assert finding.text == 'the change of regions.load.wall_time is not known: it is unknown in new'
    finding = comparison.check('regions.lode.wall_time > +5 %')
    assert not finding.passed
    assert finding.text == 'regions.lode.wall_time is not known of any run; there is regions.load.wall_time'


def test_a_section_that_was_not_recorded_does_not_pass(tmp_path: Path) -> None:
    comparison = compare({'old': runs(tmp_path, 'a', [1]), 'new': runs(tmp_path, 'b', [1])})
    finding = comparison.check('io.combined.read > 1 GB')
    assert (finding.passed, finding.text.partition(';')[0]) == (False, 'io.combined.read is not known of any run')


def test_incomplete_runs_do_not_pass(tmp_path: Path) -> None:
    killed = [run(tmp_path / f'{number}.db', ended=None) for number in range(2)]
    comparison = compare({'old': runs(tmp_path, 'a', [100]), 'new': killed})
    finding = comparison.check('max_ram.combined > +5 %')
    assert not finding.passed
    assert finding.text == (
        'max_ram.combined.total_rss is not known for certain: '
        f'the recording {killed[0]} and 1 more does not have all of its run'
    )


def test_what_an_incomplete_run_has_already_is_said_first(tmp_path: Path) -> None:
    killed = run(tmp_path / 'killed.db', ended=None, ram=200e6)
    finding = compare({'old': runs(tmp_path, 'a', [100]), 'new': [killed]}).check('max_ram.combined > +5 %')
    assert finding.text.startswith('max_ram.combined.total_rss grew by 100.0 %')


def test_every_group_but_the_first_has_to_keep_the_condition(tmp_path: Path) -> None:
    comparison = compare({name: runs(tmp_path, name, [ram]) for name, ram in (('a', 100), ('b', 120), ('c', 130))})
    finding = comparison.check('max_ram.combined > +25 %')
    assert finding.text == 'max_ram.combined.total_rss grew by 30.0 % (limit +25 %): from 100 MB in a to 130 MB in c'
    assert comparison.check('max_ram.combined > +5 %').text.count('grew by') == 2
    assert comparison.check('max_ram.combined > +50 %').passed


@pytest.mark.parametrize(
    ('value', 'unit', 'text'),
    [
        (0, 'bytes', '0 B'),
        (999, 'bytes', '999 B'),
        (1_234_567, 'bytes', '1.235 MB'),
        (2.5e15, 'bytes', '2500 TB'),
        (-5e6, 'bytes', '-5 MB'),
        (1e8, 'bytes/s', '100 MB/s'),
        (0, 'seconds', '0 s'),
        (1.5e-5, 'seconds', '15 µs'),
        (0.25, 'seconds', '250 ms'),
        (90, 'seconds', '90 s'),
        (5400, 'seconds', '90 min'),
        (90_000, 'seconds', '25 h'),
        (97.26, 'percent', '97.26 %'),
        (12, 'joules', '12 J'),
        (7, 'count', '7'),
        (1234.5, 'count', '1234'),
        (2e18, 'count', '2e+18'),
    ],
)
def test_quantities(value: float, unit: str, text: str) -> None:
    assert text_of(value, unit) == text


@pytest.mark.parametrize(
    ('text', 'unit', 'value'),
    [
        ('2 GB', 'bytes', 2_000_000_000),
        ('1GiB', 'bytes', 2**30),
        ('100 MB/s', 'bytes/s', 100_000_000),
        ('1.5 min', 'seconds', 90),
        ('200ms', 'seconds', 0.2),
        ('80 %', 'percent', 80),
        ('12', 'count', 12),
        ('2 kJ', 'joules', 2000),
        ('2', 'bytes', None),
        ('2 GB', 'seconds', None),
        ('nan s', 'seconds', None),
        ('1e3', 'count', None),
        ('٣', 'count', None),
        ('-1 s', 'seconds', None),
    ],
)
def test_limits(text: str, unit: str, value: float | None) -> None:
    assert limit_of(text, unit) == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize(('ratio', 'text'), [(1.123, '+12.3 %'), (0.5, '-50.0 %'), (12.5, '+1150 %'), (3.0, '+200 %')])
def test_changes(ratio: float, text: str) -> None:
    assert change_text(ratio) == text


def with_gpus(path: Path, **gigabytes: float) -> str:
    """Write a recording of a run that had so much on each GPU; ``_3`` is GPU 3."""
    figures = totals_of()
    devices = []
    for place, used in gigabytes.items():
        device = DeviceFigures(Gpu(int(place[1:]), f'GPU{place}'), is_visible=False)
        size = round(used * 1e9)
        process = GpuProcess(1, size)
        device.note_memory(
            GpuReading(device.gpu, memory_used=size, processes=(process,)), {group: [process] for group in GROUPS}
        )
        device.note_own([process], 0, None)
        devices.append(device.totals(is_hidden=False))
    figures['gpu']['devices'] = devices
    return write_recording(path, meta={'totals': json.dumps(figures)})


@pytest.mark.parametrize(
    ('expression', 'passed', 'text'),
    [
        (
            'gpus.3.max_ram.combined > 20 GB',
            False,
            'gpus.3.max_ram.combined is 25 GB in new, more than 20 GB',
        ),
        ('gpus.0.max_ram.combined > 20 GB', True, 'gpus.0.max_ram.combined is 10 GB in new, not more than 20 GB'),
        (
            'gpus.3.max_ram.combined > +10 %',
            False,
            'gpus.3.max_ram.combined grew by 25.0 % (limit +10 %): from 20 GB in old to 25 GB in new',
        ),
        ('gpus.1.max_ram.main > 1 GB', True, 'gpus.1.max_ram.main is 0 B in new, not more than 1 GB'),
        ('gpus.7.max_ram.combined > 1 GB', False, 'gpus.7.max_ram.combined is not known: the runs used GPU 0, 1, 3'),
        ('gpus.amd:0.max_ram.main > 1 B', False, 'gpus.amd:0.max_ram.main is not known: the runs used GPU 0, 1, 3'),
    ],
)
def test_the_figure_of_one_gpu(tmp_path: Path, expression: str, passed: bool, text: str) -> None:
    old, new = with_gpus(tmp_path / 'a.db', _3=20, _1=5), with_gpus(tmp_path / 'b.db', _3=25, _0=10)
    finding = compare({'old': [old], 'new': [new]}).check(expression)
    assert (finding.passed, finding.text) == (passed, text)


def test_the_figure_of_one_gpu_of_runs_that_used_none(tmp_path: Path) -> None:
    old, new = with_gpus(tmp_path / 'a.db'), with_gpus(tmp_path / 'b.db')
    finding = compare({'old': [old], 'new': [new]}).check('gpus.3.max_ram.combined > 20 GB')
    assert finding.text == 'gpus.3.max_ram.combined is not known: the runs used no GPU'


@pytest.mark.parametrize('name', ['gpus.x.max_ram.combined', 'gpus.3', 'gpus.3.max_ram', 'io.3.combined.read'])
def test_what_is_no_figure_of_a_gpu_is_refused(name: str) -> None:
    with pytest.raises(ParameterError, match='a condition with the name of a figure'):
        parse(f'{name} > 1 GB')
