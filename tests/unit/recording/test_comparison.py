"""Groups of recordings compared."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_tracker.errors import ParameterError, RecordingError
from gpu_tracker.recording.comparing.compared import (
    ComparedFigure,
    ComparedRun,
    Difference,
    Group,
    GroupValues,
    UnpairedRegion,
)
from gpu_tracker.recording.comparing.comparison import Comparison, compare
from gpu_tracker.recording.comparing.comparison_text import as_text
from gpu_tracker.recording.reading.recording import load
from support.compared_runs import MB, run, runs
from support.recordings import region, totals_of, write_recording

if TYPE_CHECKING:
    from pathlib import Path

RAM = 'max_ram.combined.total_rss'


def figure(comparison: Comparison, name: str, other: str | None = None) -> ComparedFigure:
    (found,) = (
        each for each in comparison.figures if each.name == name and (other is None or each.other.group == other)
    )
    return found


def test_one_run_each_has_a_ratio_and_no_verdict(tmp_path: Path) -> None:
    comparison = compare({'old': runs(tmp_path, 'a', [100.0]), 'new': runs(tmp_path, 'b', [125.0])})
    assert figure(comparison, RAM) == ComparedFigure(
        name=RAM,
        unit='bytes',
        first=GroupValues('old', (100 * MB,), 100 * MB),
        other=GroupValues('new', (125 * MB,), 125 * MB),
        ratio=pytest.approx(1.25),
        low=None,
        high=None,
        verdict=None,
        problem=None,
    )


@pytest.mark.parametrize(
    ('old', 'new', 'ratio', 'verdict'),
    [
        ([100, 101, 99], [120, 121, 119], 1.2, 'larger'),
        ([120, 121, 119], [100, 101, 99], 1 / 1.2, 'smaller'),
        ([100, 150, 70], [110, 160, 80], 1.103, 'unclear'),
        ([100, 100], [100, 100, 100], 1, 'unchanged'),
        ([100, 100], [101, 101], 1.01, 'larger'),
    ],
)
def test_verdicts(tmp_path: Path, old: list[float], new: list[float], ratio: float, verdict: str) -> None:
    found = figure(compare({'old': runs(tmp_path, 'a', old), 'new': runs(tmp_path, 'b', new)}), RAM)
    assert found.ratio == pytest.approx(ratio, rel=1e-3)
    assert found.verdict == verdict
    assert found.low <= found.ratio <= found.high


@pytest.mark.parametrize(
    ('old', 'new', 'has_changed'),
    [
        ([100, 101, 99], [120, 121, 119], True),
        ([100, 150, 70], [110, 160, 80], False),
        ([100, 100], [100, 100], False),
        ([100], [100.9], False),
        ([100], [98.9], True),
        ([0], [1], True),
        ([0], [0], False),
        ([100], [None], True),
        ([None], [None], False),
        ([100, None], [100, 100], True),
    ],
)
def test_what_has_changed(
    tmp_path: Path, old: list[float | None], new: list[float | None], *, has_changed: bool
) -> None:
    found = figure(compare({'old': runs(tmp_path, 'a', old), 'new': runs(tmp_path, 'b', new)}), RAM)
    assert found.has_changed is has_changed


def test_the_interval(tmp_path: Path) -> None:
    found = figure(
        compare({'old': runs(tmp_path, 'a', [100, 110, 90]), 'new': runs(tmp_path, 'b', [120, 130, 125])}), RAM
    )
    assert (found.low, found.high) == (pytest.approx(1.0101451931), pytest.approx(1.5555446313))


@pytest.mark.parametrize(
    ('old', 'new', 'problem'),
    [
        ([None], [1.0], 'unknown in old'),
        ([1.0, 2.0], [1.0, None], 'unknown in 1 of 2 runs of new'),
        ([None, None], [None], 'unknown in all runs of old and new'),
        ([0.0], [0.0, 0.0], '0 in all runs'),
        ([0.0, 1.0], [0.0], 'not above 0 in 1 of 2 runs of old and new'),
        ([1.0], [-1.0], 'not above 0 in new'),
        ([0.0], [None], 'unknown in new'),
    ],
)
def test_what_is_unknown_or_zero_has_no_ratio(
    tmp_path: Path, old: list[float | None], new: list[float | None], problem: str
) -> None:
    found = figure(compare({'old': runs(tmp_path, 'a', old), 'new': runs(tmp_path, 'b', new)}), RAM)
    assert found.problem == problem
    assert (found.ratio, found.low, found.high, found.verdict) == (None, None, None, None)


@pytest.mark.parametrize('value', ['NaN', 'Infinity', 'true', '"12"', '1' + '0' * 330])
def test_what_a_file_has_in_place_of_numbers_is_unknown(tmp_path: Path, value: str) -> None:
    totals = totals_of()
    totals['cpu']['threads'][0] = 'HERE'
    hostile = write_recording(tmp_path / 'b.db', meta={'totals': json.dumps(totals).replace('"HERE"', value)})
    comparison = compare({'old': [run(tmp_path / 'a.db')], 'new': [hostile]})
    assert figure(comparison, 'cpu_utilization.main_n_threads').problem == 'unknown in new'


@pytest.mark.parametrize('value', ['NaN', 'Infinity'])
def test_sizes_that_are_no_numbers_are_unknown(tmp_path: Path, value: str) -> None:
    comparison = compare({'old': [run(tmp_path / 'a.db')], 'new': [run(tmp_path / 'b.db', ram=float(value))]})
    assert figure(comparison, RAM).problem == 'unknown in new'


def test_runs_in_different_units_are_compared_in_base_units(tmp_path: Path) -> None:
    old = run(tmp_path / 'a.db', units='["gigabytes", "gigabytes", "hours", null]', ram=62_345_679, seconds=7.5)
    new = run(tmp_path / 'b.db', units='["kilobytes", "bytes", "days", null]', ram=62_345_679, seconds=15)
    comparison = compare({'old': [old], 'new': [new]})
    assert figure(comparison, RAM).first.values == figure(comparison, RAM).other.values == (62_345_679,)
    assert figure(comparison, 'compute_time.time').ratio == pytest.approx(2)
    assert figure(comparison, 'compute_time.time').unit == 'seconds'


def test_the_figures_of_a_run_without_optional_sections(tmp_path: Path) -> None:
    comparison = compare({'old': [run(tmp_path / 'a.db')], 'new': [run(tmp_path / 'b.db')]})
    units = {each.name: each.unit for each in comparison.figures}
    assert len(units) == 38
    assert units['max_gpu_ram.combined'] == 'bytes'
    assert units['cpu_utilization.combined.mean_sum_percent'] == 'percent'
    assert units['cpu_utilization.main_n_threads'] == 'count'
    assert not any('capacity' in name or 'expected' in name or name.endswith('_count') for name in units)


@pytest.mark.parametrize(
    ('totals', 'name', 'unit'),
    [
        ('io', 'io.combined.read', 'bytes'),
        ('io', 'io.combined.max_read_per_second', 'bytes/s'),
        ('io', 'io.main.minor_page_faults', 'count'),
        ('energy', 'energy.gpu', 'joules'),
        ('cuda', 'cuda.combined.launches', 'count'),
        ('cuda', 'cuda.combined.synchronising_seconds', 'seconds'),
        ('cuda', 'cuda.combined.memory_max', 'bytes'),
    ],
)
def test_optional_sections(tmp_path: Path, totals: str, name: str, unit: str) -> None:
    paths = [run(tmp_path / f'{letter}.db', totals=totals) for letter in 'ab']
    found = figure(compare({'old': paths[:1], 'new': paths[1:]}), name)
    assert found.unit == unit
    assert found.first.values == found.other.values


def test_a_section_that_only_one_group_has_is_unknown_in_the_other(tmp_path: Path) -> None:
    comparison = compare({'old': [run(tmp_path / 'a.db')], 'new': [run(tmp_path / 'b.db', totals='io')]})
    assert figure(comparison, 'io.combined.read').problem == 'unknown in old'


def test_regions(tmp_path: Path) -> None:
    rows = [
        region(1, 'load', 0, 1, thread_cpu=0.5, peaks=(100 * 2**20, 200 * 2**20)),
        region(2, 'load', 1, 4, thread_cpu=1.0, error='ValueError', errors=1, peaks=(200 * 2**20, 400 * 2**20)),
    ]
    old = write_recording(tmp_path / 'a.db', regions=rows)
    new = write_recording(tmp_path / 'b.db', regions=rows[1:])
    comparison = compare({'old': [old], 'new': [new]})
    values = {
        each.name.removeprefix('regions.load.'): (each.first.values[0], each.other.values[0])
        for each in comparison.figures
        if each.name.startswith('regions.')
    }
    assert values == {
        'wall_time': (4.0, 3.0),
        'mean_wall_time': (2.0, 3.0),
        'longest_call': (3.0, 3.0),
        'calls': (2, 1),
        'errors': (1, 1),
        'thread_cpu': (1.5, 1.0),
        'cpu': (None, None),
        'ram': (400 * 2**20, 400 * 2**20),
        'combined_ram': (None, None),
        'gpu_ram': (None, None),
        'gpu_utilization': (None, None),
        'energy': (None, None),
    }


def test_folded_calls_count_as_often_as_they_were_called(tmp_path: Path) -> None:
    rows = [
        region(1, 'step', 0, 1),
        region(2, 'step', 1, 9, calls=3, total=2.0, shortest=0.25, longest=1.5, squares=2.5, errors=1),
    ]
    old = write_recording(tmp_path / 'a.db', regions=rows)
    comparison = compare({'old': [old], 'new': [run(tmp_path / 'b.db', regions={'step': 1.5})]})
    assert figure(comparison, 'regions.step.calls').first.values == (4,)
    assert figure(comparison, 'regions.step.wall_time').first.values == (3.0,)
    assert figure(comparison, 'regions.step.mean_wall_time').first.values == (0.75,)
    assert figure(comparison, 'regions.step.longest_call').first.values == (1.5,)


def test_a_region_that_has_not_ended_has_no_time(tmp_path: Path) -> None:
    old, new = run(tmp_path / 'a.db', regions={'load': 1.0}), run(tmp_path / 'b.db', regions={'load': None})
    comparison = compare({'old': [old], 'new': [new]})
    assert figure(comparison, 'regions.load.wall_time').problem == 'unknown in new'
    assert figure(comparison, 'regions.load.calls').ratio == 1


@pytest.mark.parametrize(
    ('region_name', 'written'),
    [
        ('load', 'regions.load.calls'),
        ('größe_2-b', 'regions.größe_2-b.calls'),
        ('my step', 'regions."my step".calls'),
        ('a.b', 'regions."a.b".calls'),
        ('2nd', 'regions."2nd".calls'),
        ('say "hi" \\', r'regions."say \"hi\" \\".calls'),
    ],
)
def test_names_of_regions(tmp_path: Path, region_name: str, written: str) -> None:
    paths = [run(tmp_path / f'{letter}.db', regions={region_name: 1.0}) for letter in 'ab']
    comparison = compare({'old': paths[:1], 'new': paths[1:]})
    assert figure(comparison, written).ratio == 1
    assert comparison.check(f'{written} > +5 %').passed


def test_regions_of_one_side_only_are_listed(tmp_path: Path) -> None:
    old = run(tmp_path / 'a.db', regions={'load': 1.0, 'old one': 1.0})
    new = run(tmp_path / 'b.db', regions={'load': 1.0, 'new one': 1.0})
    assert compare({'old': [old], 'new': [new]}).unpaired_regions == (
        UnpairedRegion('old one', ('old',), ('new',)),
        UnpairedRegion('new one', ('new',), ('old',)),
    )


def test_what_differs_beside_the_figures_is_named(tmp_path: Path) -> None:
    old = [run(tmp_path / f'{letter}.db') for letter in 'ab']
    new = [
        run(tmp_path / 'c.db', host='node2', interval=0.5, python='3.13.1', program='gpu-tracker 6.1.0'),
        run(tmp_path / 'd.db', command='["python", "my train.py"]', sections='["io"]', cores=None),
    ]
    assert compare({'old': old, 'new': new}).differences == (
        Difference('host', (('old', ('node1',)), ('new', ('node2', 'node1')))),
        Difference('cores', (('old', ('8',)), ('new', ('8', 'unknown')))),
        Difference('program', (('old', ('gpu-tracker 6.0.0',)), ('new', ('gpu-tracker 6.1.0', 'gpu-tracker 6.0.0')))),
        Difference('python', (('old', ('3.11.7',)), ('new', ('3.13.1', '3.11.7')))),
        Difference('interval', (('old', ('1.0',)), ('new', ('0.5', '1.0')))),
        Difference('sections', (('old', ('none',)), ('new', ('none', 'io')))),
        Difference('command', (('old', ('python train.py',)), ('new', ('python train.py', "python 'my train.py'")))),
    )


def test_incomplete_runs_are_named(tmp_path: Path) -> None:
    old = run(tmp_path / 'a.db')
    killed = run(tmp_path / 'b.db', ended=None, exit_code=None)
    at_once = write_recording(tmp_path / 'c.db', meta={'ended': None, 'totals': None, 'exit_code': None})
    comparison = compare({'old': [old], 'new': [killed, at_once]})
    assert comparison.incomplete == (killed, at_once)
    assert comparison.groups == (
        Group('old', (ComparedRun(old, '2026-09-21T14:13:20+00:00', is_complete=True, exit_code=0),)),
        Group(
            'new',
            (
                ComparedRun(killed, '2026-09-21T14:13:20+00:00', is_complete=False, exit_code=None),
                ComparedRun(at_once, '2026-09-21T14:13:20+00:00', is_complete=False, exit_code=None),
            ),
        ),
    )
    assert figure(comparison, RAM).problem == 'unknown in 1 of 2 runs of new'


def test_each_group_is_compared_with_the_first(tmp_path: Path) -> None:
    comparison = compare({name: runs(tmp_path, name, [ram]) for name, ram in (('a', 10), ('b', 20), ('c', 5))})
    assert figure(comparison, RAM, 'b').ratio == pytest.approx(2)
    assert figure(comparison, RAM, 'c').ratio == pytest.approx(0.5)
    assert {each.first.group for each in comparison.figures} == {'a'}


def test_recordings_that_are_open_stay_open(tmp_path: Path) -> None:
    old, new = runs(tmp_path, 'a', [10, 20])
    with load(old) as recording:
        comparison = compare({'old': recording, 'new': new})
        assert recording.regions == ()
    assert figure(comparison, RAM).ratio == pytest.approx(2)


def test_a_recording_twice_in_a_group_is_refused(tmp_path: Path) -> None:
    path = run(tmp_path / 'a.db')
    os.link(path, tmp_path / 'link.db')
    with pytest.raises(ParameterError, match='groups without duplicate recordings'):
        compare({'old': [path, tmp_path / 'link.db'], 'new': [path]})
    assert figure(compare({'old': path, 'new': path}), RAM).ratio == 1


@pytest.mark.parametrize('groups', [{}, {'old': ['a.db']}, {'old': ['a.db'], 'new': []}])
def test_too_few_groups_or_recordings_are_refused(groups: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match='groups must be'):
        compare(groups)


def test_a_missing_recording_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r'missing\.db'):
        compare({'old': [run(tmp_path / 'a.db')], 'new': [tmp_path / 'missing.db']})


def test_a_lower_bound_is_marked(tmp_path: Path) -> None:
    bounded = run(tmp_path / 'new.db', totals='io', ram=125 * MB)  # this run has marks
    comparison = compare({'old': run(tmp_path / 'old.db'), 'new': bounded})
    assert (figure(comparison, RAM).first.is_lower_bound, figure(comparison, RAM).other.is_lower_bound) == (False, True)
    assert [line.split() for line in as_text(comparison).splitlines() if line.startswith(RAM)] == [
        [RAM, '100', 'MB', '≥', '125', 'MB', '1.250']
    ]
    assert comparison.check('max_ram.combined > 2 GB').text == f'{RAM} is ≥ 125 MB in new, not more than 2 GB'


def test_the_dictionary_is_plain(tmp_path: Path) -> None:
    old = run(tmp_path / 'a.db', regions={'load': 1.0})
    new = run(tmp_path / 'b.db', host='node2', ended=None)
    plain = compare({'old': [old], 'new': [new]}).to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert sorted(plain) == ['differences', 'figures', 'figures_by_gpu', 'groups', 'incomplete', 'unpaired_regions']
    assert plain['incomplete'] == [new]
    assert plain['differences'] == [{'name': 'host', 'values': {'old': ['node1'], 'new': ['node2']}}]
    assert plain['unpaired_regions'] == [{'name': 'load', 'present': ['old'], 'missing': ['new']}]
    assert plain['figures'][7] == {
        'name': RAM,
        'unit': 'bytes',
        'first': {'group': 'old', 'values': [100 * MB], 'mean': 100 * MB, 'is_lower_bound': False},
        'other': {'group': 'new', 'values': [100 * MB], 'mean': 100 * MB, 'is_lower_bound': True},
        'ratio': 1.0,
        'low': None,
        'high': None,
        'verdict': None,
        'problem': None,
    }


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(min_value=1, max_value=10**6), min_size=1, max_size=3), st.data())
def test_swapping_groups_inverts_the_ratios(
    tmp_path_factory: pytest.TempPathFactory, values: list[float], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp('runs')
    others = data.draw(st.lists(st.integers(min_value=1, max_value=10**6), min_size=1, max_size=3))
    one, two = runs(folder, 'a', values), runs(folder, 'b', others)
    there, back = figure(compare({'a': one, 'b': two}), RAM), figure(compare({'b': two, 'a': one}), RAM)
    assert back.ratio == pytest.approx(1 / there.ratio)
    opposite = {'larger': 'smaller', 'smaller': 'larger'}
    assert back.verdict == opposite.get(there.verdict, there.verdict)
