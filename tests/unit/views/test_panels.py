from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.recording.reading.recording import Recording, load
from gpu_tracker.resources.gpu_activity import Activity
from gpu_tracker.views import plot, report_page
from gpu_tracker.views.bands import Band, Shading, shading_of
from gpu_tracker.views.panels import panels_of, stacked
from support.pictured_run import GIB, MB, training
from support.recordings import DEFAULT_COLUMNS, ENERGY_COLUMNS, busy_rows, region, totals_of, write_recording

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Recording]:
    with load(training(tmp_path / 'run.db')) as found:
        yield found


def test_all_that_is_known_is_drawn_and_nothing_else(recording: Recording) -> None:
    found = {panel.key: [line.title for line in panel.lines] for panel in panels_of(recording)}
    assert found == {
        'ram': ['all processes', 'main process', 'descendants'],
        'cpu': ['all processes', 'main process', 'descendants', 'whole machine'],
        'gpu_ram': ['GPU 0, tracked', 'GPU 1, tracked', 'GPU 0, all users', 'GPU 1, all users'],
        'gpu': ['GPU 0', 'GPU 1'],
        'io': ['read from storage', 'written to storage'],
        'power': ['GPUs in use'],
    }


def test_lines_are_in_the_unit_of_their_panel(recording: Recording) -> None:
    panels = {panel.key: panel for panel in panels_of(recording)}
    last = {key: {line.title: line.series.mean[-1] for line in panel.lines} for key, panel in panels.items()}
    assert last['ram'] == {'all processes': 240 * 2**20, 'main process': 64 * 2**20, 'descendants': 176 * 2**20}
    assert last['cpu'] == pytest.approx(
        {'all processes': 150.0, 'main process': 50.0, 'descendants': 100.0, 'whole machine': 175.0}
    )
    assert last['gpu_ram']['GPU 0, tracked'] == 4 * GIB
    assert last['gpu'] == {'GPU 0': 120.0, 'GPU 1': 50.0}
    assert last['io'] == pytest.approx({'read from storage': 4 * MB, 'written to storage': 1 * MB})
    assert last['power'] == pytest.approx({'GPUs in use': 300.0})
    assert {key: (panel.unit, panel.is_rate) for key, panel in panels.items()} == {
        'ram': ('bytes', False),
        'cpu': ('percent', True),
        'gpu_ram': ('bytes', False),
        'gpu': ('percent', False),
        'io': ('bytes/s', True),
        'power': ('watts', True),
    }


def test_panels_of_gpus_come_first_if_the_run_had_memory_on_one(recording: Recording) -> None:
    assert [panel.key for panel in panels_of(recording)] == ['gpu_ram', 'gpu', 'ram', 'cpu', 'io', 'power']


def test_a_power_of_which_nothing_is_known_but_0_has_no_panel(tmp_path: Path) -> None:
    rows = [(t, {**values, 'gpu_energy': 0.0}) for t, values in busy_rows(3)]
    path = write_recording(tmp_path / 'run.db', columns=(*DEFAULT_COLUMNS, *ENERGY_COLUMNS), rows=rows)
    with load(path) as found:
        assert panels_of(found, only=['power']) == []


def test_main_and_descendants_are_stacked_up_to_what_both_have(recording: Recording) -> None:
    panels = {panel.key: panel for panel in panels_of(recording)}
    found = {name: (lower[-1], upper[-1]) for name, (lower, upper) in stacked(panels['ram']).items()}
    assert found == {
        'main_total_rss': (0.0, 64 * 2**20),
        'descendants_total_rss': (64 * 2**20, 240 * 2**20),
    }
    assert stacked(panels['gpu_ram']) == stacked(panels['io']) == {}


def test_pictures_have_the_same_colours() -> None:
    style = (Path(report_page.__file__).parent / 'static' / 'report.css').read_text().partition('@media')[0]
    assert dict(re.findall(r'--(main|descendants|combined|system|other|lesser): (#\w+);', style)) == plot.COLORS


def test_a_limit_is_drawn_where_much_of_it_was_used(recording: Recording) -> None:
    panels = {panel.key: panel for panel in panels_of(recording)}
    shown = {key: (panel.limit, panel.shows_limit) for key, panel in panels.items() if panel.limit is not None}
    assert shown == {
        'ram': (16 * GIB, False),
        'cpu': (800.0, False),
        'gpu_ram': (40 * GIB, False),
        'gpu': (100.0, True),
    }


def test_the_activity_of_gpus_is_one_panel(tmp_path: Path) -> None:
    columns = (*DEFAULT_COLUMNS, *Activity.columns)
    rows = [(float(t), {'gpu_sm_activity': 10.0 * t, 'gpu_dram_activity': 5.0}) for t in range(4)]
    path = write_recording(
        tmp_path / 'run.db', columns=columns, rows=rows, meta={'totals': json.dumps(totals_of('gpu'))}
    )
    with load(path) as recording:
        (panel,) = panels_of(recording, only=['gpu_activity'])
    assert (panel.title, panel.unit, panel.is_rate) == ('GPU activity', 'percent', False)
    assert {line.title: line.series.mean[-1] for line in panel.lines} == {'SMs': 30.0, 'memory bandwidth': 5.0}


def test_a_part_of_a_run_and_some_panels(recording: Recording) -> None:
    (panel,) = panels_of(recording, 4, 2.0, 6.05, ['ram'])
    assert (panel.key, len(panel.times), panel.times[-1]) == ('ram', 4, 6.0)
    assert panel.lines[0].series.lowest[0] == (64 + 16 * 3) * 2**20


def test_a_process_without_descendants_has_one_line_and_a_machine_without_gpus_no_panel(tmp_path: Path) -> None:
    totals = totals_of('plain')
    totals['record']['has_descendants'] = False
    totals['gpu']['count'] = 0
    path = write_recording(tmp_path / 'run.db', rows=busy_rows(), meta={'totals': json.dumps(totals)})
    with load(path) as found:
        assert {panel.key: [line.title for line in panel.lines] for panel in panels_of(found)} == {
            'ram': ['all processes'],
            'cpu': ['all processes', 'whole machine'],
        }


def test_a_recording_without_samples_has_no_panels(tmp_path: Path) -> None:
    with load(write_recording(tmp_path / 'run.db')) as found:
        assert panels_of(found) == []


def test_the_machine_is_never_busier_than_it_can_be(tmp_path: Path) -> None:
    rows = [(t, {**values, 'system_cpu': 9.0 * t}) for t, values in busy_rows(3)]
    with load(write_recording(tmp_path / 'run.db', rows=rows)) as found:
        (panel,) = panels_of(found, only=['cpu'])
    assert {line.title: line.series.mean for line in panel.lines}['whole machine'] == [800.0, 800.0]


@pytest.mark.parametrize(('interval', 'between_samples', 'step'), [(0.01, 0.01, 0.05), (0.2, 0.05, 0.2)])
def test_rates_are_taken_over_the_interval_and_50_ms_at_least(
    tmp_path: Path, interval: float, between_samples: float, step: float
) -> None:
    """Counters of CPU time come in ticks of 10 ms: over less than some of them a rate is 0 or far too high."""
    rows = busy_rows(round(1 / between_samples) + 1, between_samples)
    path = write_recording(tmp_path / 'run.db', rows=rows, meta={'interval': interval})
    with load(path) as found:
        (panel,) = panels_of(found, only=['cpu'])
    assert panel.times == pytest.approx([step * number for number in range(1, round(1 / step) + 1)])


def test_the_reported_peak_of_a_whole_run_is_drawn(recording: Recording) -> None:
    peaks = {panel.key: panel.peak for panel in panels_of(recording) if panel.peak is not None}
    assert peaks == {'ram': totals_of('gpu')['ram']['combined'][0]}
    assert {panel.peak for panel in panels_of(recording, start=1.0)} == {None}


@pytest.mark.parametrize(('reported', 'peak'), [(GIB, GIB), (0, None), (float('inf'), None), ('1', None)])
def test_a_picture_has_room_for_the_reported_peak(tmp_path: Path, reported: object, peak: float | None) -> None:
    totals = totals_of('plain')
    totals['ram']['combined'] = [reported]
    path = write_recording(tmp_path / 'run.db', rows=busy_rows(), meta={'totals': json.dumps(totals)})
    with load(path) as found:
        (panel,) = panels_of(found, only=['ram'])
    in_lines = max(line.series.largest for line in panel.lines)
    assert (panel.peak, panel.largest) == (peak, peak or in_lines)


def test_regions_are_shaded_where_there_are_several(recording: Recording) -> None:
    assert shading_of(recording.regions).bands == [
        Band('epoch', 1.0, 3.0),
        Band('epoch', pytest.approx(3.666667), pytest.approx(5.666667)),
        Band('epoch', pytest.approx(6.333333), pytest.approx(8.333333)),
    ]


def test_calls_that_overlap_are_one_span_and_what_only_waits_for_others_is_left_out(tmp_path: Path) -> None:
    regions = [
        region(1, 'wait', 0.0, 10.0),
        region(2, 'work', 1.0, 4.0, pid=5),
        region(3, 'work', 2.0, 5.0, pid=6),
        region(4, 'work', 6.0, None),
    ]
    with load(write_recording(tmp_path / 'run.db', rows=busy_rows(), regions=regions)) as found:
        assert shading_of(found.regions) == Shading([Band('work', 1.0, 5.0), Band('work', 6.0, 10.0)], 0)
    assert shading_of([]) == Shading([], 0)


class _Counted(float):
    """Seconds that count how often they are compared."""

    comparisons = 0

    def __le__(self, other: float) -> bool:
        _Counted.comparisons += 1
        return super().__le__(other)

    def __lt__(self, other: float) -> bool:
        _Counted.comparisons += 1
        return super().__lt__(other)


def test_many_names_are_compared_in_linear_time_and_the_longest_are_shaded(tmp_path: Path) -> None:
    with load(write_recording(tmp_path / 'run.db', rows=busy_rows(), regions=[region(1, 'any', 0.0, 1.0)])) as found:
        (call,) = found.regions
    calls = [
        replace(call, id=number, name=f'step {number}', start=_Counted(number), seen_until=_Counted(number + 0.5))
        for number in range(5000)
    ]
    calls[4321] = replace(calls[4321], seen_until=_Counted(4321.9))
    _Counted.comparisons = 0
    shading = shading_of(calls)
    assert _Counted.comparisons < 2 * 400 * 400 + 10 * len(calls)
    assert (len(shading.bands), shading.more) == (400, 4600)
    assert Band('step 4321', 4321.0, 4321.9) in shading.bands
