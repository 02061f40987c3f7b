"""What runs used, as the tables that notebooks show."""

from __future__ import annotations

import base64
import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.recording.comparing.comparison import compare
from gpu_tracker.recording.reading.recording import load
from gpu_tracker.resources.building import build
from gpu_tracker.tracker import Tracker
from gpu_tracker.units import Units
from gpu_tracker.views.html import MOST_ROWS, cell, growth, tracker_html, usage_html
from gpu_tracker.views.sparklines import Curve, sparkline
from support.compared_runs import MB, run
from support.html_tables import Page
from support.recordings import (
    DEFAULT_COLUMNS,
    ENERGY_COLUMNS,
    IO_COLUMNS,
    busy_rows,
    region,
    totals_of,
    write_recording,
)

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_tracker.result.usage import ResourceUsage

HARMLESS = {'table', 'thead', 'tbody', 'tr', 'th', 'td', 'div', 'b', 'img'}
TITLES = ['', 'Main', 'Descendants', 'Combined']


def usage_of(name: str, **changed: Any) -> ResourceUsage:
    totals: Any = totals_of(name)
    for section, values in changed.items():
        totals[section] = totals[section] | values
    return build(totals, Units('gigabytes', 'gigabytes', 'hours', None))


def rows_of(usage: ResourceUsage) -> list[list[str]]:
    (table,) = Page(usage._repr_html_()).tables
    return table


def page_of(path: str) -> Page:
    with load(path) as recording:
        return Page(recording._repr_html_())


def test_each_figure_has_the_unit_that_fits_it() -> None:
    assert rows_of(usage_of('plain')) == [
        TITLES,
        ['Time', '736 ms'],
        ['Peak RAM', '62.2 MB', '0 B', '62.2 MB'],
        ['CPU, most', '20.5 %', '0 %', '20.5 %'],
        ['CPU, mean', '15.7 %', '0 %', '15.7 %'],
        ['Threads, most', '1', '0', '1'],
    ]


def test_gpus_that_are_there_have_rows() -> None:
    rows = rows_of(usage_of('gpu'))
    assert rows[3] == ['Peak GPU memory', '3.22 GB', '0 B', '3.22 GB']
    assert rows[7:] == [['GPU utilization, most', '120 %'], ['GPU utilization, mean', '83.3 %']]


def test_what_is_not_known_is_no_zero() -> None:
    unknown = dict.fromkeys(('count', 'expected', 'main', 'descendants', 'combined', 'max_sum', 'mean_sum'))
    rows = rows_of(usage_of('plain', gpu=unknown))
    assert ['Peak GPU memory', 'N/A', 'N/A', 'N/A'] in rows
    assert rows[7:] == [['GPU utilization, most', 'N/A'], ['GPU utilization, mean', 'N/A']]


def test_a_lower_bound_is_marked() -> None:
    assert ['Peak RAM', '1.77 MB', '≥ 2.94 MB', '≥ 3.22 MB'] in rows_of(usage_of('io'))


def test_sections_that_were_asked_for_have_rows() -> None:
    assert rows_of(usage_of('io'))[6:8] == [
        ['Read from storage', '0 B', '90.1 kB', '90.1 kB'],
        ['Written to storage', '0 B', '21 MB', '21 MB'],
    ]
    assert rows_of(usage_of('energy'))[-2:] == [['Energy of GPUs', '20.5 J'], ['Energy of CPUs', 'N/A']]


def test_a_recording_has_its_run_its_curves_its_regions_and_its_messages(tmp_path: Path) -> None:
    path = write_recording(
        tmp_path / 'run.db',
        rows=busy_rows(),
        regions=[region(1, 'train', 0.0, 9.5), region(2, 'load', 0.5, 1.5, parent=1)],
        messages=[(0, 'warning', 'The driver is slow.')],
        meta={'totals': json.dumps(totals_of('gpu'))},
    )
    page = page_of(path)
    assert page.lines == [
        'python train.py',
        'node1, 2026-09-21T14:13:20+00:00, 11 samples every 1 s, with exit code 0',
        'warning: The driver is slow.',
    ]
    run_table, regions = page.tables
    assert run_table[0] == [*TITLES, 'Over time']
    assert regions == [
        ['Region', 'Calls', 'Time s', 'Share', 'All CPU s', 'RAM MB', 'GPU %', 'GPU RAM MB'],
        ['train', '1', '9.500', '95.0%', '~9.50', '>=19.9', '~50.0', '>=104.9'],
        ['  load', '1', '1.000', '10.0%', '~1.00', '>=11.5', '~50.0', '>=104.9'],
    ]
    assert [title for title, _ in page.images] == [
        'Peak RAM over 10 s: samples from 0 to 21 MB',
        'Peak GPU memory over 10 s: samples from 0 to 105 MB',
        'CPU over 10 s: samples from 0 to 100 %',
        'GPU utilization over 10 s: samples from 0 to 50 %',
    ]


def test_counters_are_shown_as_rates(tmp_path: Path) -> None:
    rows = [
        (t, {'combined_io_read': 1000_000 * t, 'combined_io_written': 0, 'gpu_energy': 50 * t, 'cpu_package_energy': t})
        for t in range(5)
    ]
    totals = totals_of('io') | {'energy': totals_of('energy')['energy'], 'gpu': totals_of('gpu')['gpu']}
    page = page_of(
        write_recording(
            tmp_path / 'run.db',
            columns=(*IO_COLUMNS, *ENERGY_COLUMNS),
            rows=rows,
            meta={'totals': json.dumps(totals), 'sections': '["io", "energy"]'},
        )
    )
    assert [title for title, _ in page.images] == [
        'Read from storage over 4 s: samples from 0 to 1 MB/s',
        'Written to storage over 4 s: samples from 0 to 0 B/s',
        'Energy of GPUs over 4 s: samples from 0 to 50 W',
        'Energy of CPUs over 4 s: samples from 0 to 1 W',
    ]


def test_there_is_no_script_and_no_style_sheet(tmp_path: Path) -> None:
    page = page_of(write_recording(tmp_path / 'run.db', rows=busy_rows(), regions=[region(1, 'a', 0, 1)]))
    assert page.tags <= HARMLESS
    assert not {name for name in page.attributes if name.startswith('on') or name in {'id', 'class', 'href'}}
    assert all(address.startswith('data:image/svg+xml;base64,') for _, address in page.images)


@given(st.text(max_size=50))
def test_any_text_stays_text(text: str) -> None:
    page = Page(f'<table><tr>{cell(text, hint=text)}</tr></table>')
    assert page.tags == {'table', 'tr', 'td'}
    assert page.tables == [[[''.join(letter if letter.isprintable() else '?' for letter in text)]]]


def test_names_of_strangers_are_no_html(tmp_path: Path) -> None:
    evil = '<script>alert("1")</script>&amp;\x1b[2J'
    page = page_of(
        write_recording(
            tmp_path / 'run.db',
            rows=busy_rows(),
            regions=[region(1, evil, 0.0, 1.0)],
            meta={'command': json.dumps([evil]), 'host': evil},
            messages=[(0, 'warning', evil)],
        )
    )
    assert page.tags <= HARMLESS
    assert page.tables[1][1][0] == '<script>alert("1")</script>&amp;?[2J'
    assert page.lines[2] == 'warning: <script>alert("1")</script>&amp;?[2J'


@pytest.mark.parametrize('value', ['much', True, 10**400, float('inf'), float('nan'), [1], None])
def test_what_is_no_number_is_not_known(value: object) -> None:
    usage = usage_of('energy')
    strange: Any = dataclasses.replace(usage.energy, cpu_packages=value)
    assert rows_of(dataclasses.replace(usage, energy=strange))[-1] == ['Energy of CPUs', 'N/A']


def test_strange_times_and_counters_make_no_curve_and_no_error(tmp_path: Path) -> None:
    far = 4e12
    rows = [(-5.0, {'combined_cpu': 1.0}), (far, {'combined_cpu': 9.0}), (far + 0.001, {'combined_cpu': 3.0})]
    page = page_of(write_recording(tmp_path / 'run.db', rows=rows))
    assert [title for title, _ in page.images] == ['CPU over 1111111111 h: samples from 0 to 0 %']
    early = page_of(write_recording(tmp_path / 'early.db', rows=[(-5.0, {'combined_cpu': 1.0}), (-1.0, {})]))
    assert early.images == []


def test_a_result_without_a_recording_that_can_be_read_has_no_curves(tmp_path: Path) -> None:
    usage = usage_of('plain')
    (tmp_path / 'broken.db').write_text('nothing')
    for path in (None, str(tmp_path / 'gone.db'), str(tmp_path / 'broken.db')):
        assert tracker_html(usage, path) == usage_html(usage)
    path = write_recording(tmp_path / 'run.db', rows=busy_rows(1), columns=DEFAULT_COLUMNS)
    assert tracker_html(usage, path) == usage_html(usage)


def test_a_recording_that_is_closed_or_has_no_result_says_so(tmp_path: Path) -> None:
    path = write_recording(tmp_path / 'run.db', rows=busy_rows())
    with load(path) as recording:
        pass
    assert Page(recording._repr_html_()).lines == [
        path,
        f'{path} was closed: load the recording again',
    ]
    early = write_recording(tmp_path / 'early.db', meta={'totals': None, 'ended': None})
    assert page_of(early).lines[0] == 'python train.py'
    assert page_of(early).lines[2:] == [f'{early} has no result: the run ended before the first result was recorded']


def test_only_so_many_regions_are_shown(tmp_path: Path) -> None:
    regions = [region(n, f'r{n}', n / 10, n / 10 + 0.05) for n in range(1, MOST_ROWS + 11)]
    page = page_of(write_recording(tmp_path / 'run.db', rows=busy_rows(), regions=regions))
    assert len(page.tables[1]) == 1 + MOST_ROWS
    assert page.lines[-1] == '10 more lines are left out'


def drawn(*points: tuple[float, float]) -> str:
    ((_, address),) = Page(sparkline(Curve(points, points[-1][0]), '')).images
    return base64.b64decode(address.removeprefix('data:image/svg+xml;base64,'), validate=True).decode()


def test_a_curve_is_drawn_from_its_first_moment_to_its_last() -> None:
    assert drawn((0.0, 0.0), (5.0, 4.0), (10.0, 1.0)) == (
        '<svg xmlns="http://www.w3.org/2000/svg" width="120" height="24">'
        '<path d="M0.0,22L0.0,22.0L60.0,2.0L120.0,17.0L120.0,22Z" fill="#4a8fd8" fill-opacity="0.2"/>'
        '<path d="M0.0,22.0L60.0,2.0L120.0,17.0" fill="none" stroke="#4a8fd8" stroke-width="1.5"'
        ' stroke-linejoin="round"/></svg>'
    )


def test_a_curve_of_zeros_lies_at_the_bottom() -> None:
    assert 'd="M0.0,22.0L120.0,22.0" fill="none"' in drawn((0.0, 0.0), (1.0, 0.0))


def test_the_title_of_a_curve_is_escaped() -> None:
    ((title, _),) = Page(sparkline(Curve([(0.0, 1.0), (1.0, 2.0)], 1.0), '<RAM> & "more"')).images
    assert title == '<RAM> & "more"'


def test_a_long_recording_is_no_long_curve(tmp_path: Path) -> None:
    path = write_recording(tmp_path / 'run.db', rows=busy_rows(5000, 0.1))
    with load(path) as recording:
        html = recording._repr_html_()
    assert len(html) < 25_000
    assert 'from 0 to 5.25 GB' in html  # the largest value of each pixel is kept


def test_a_tracker_has_nothing_to_show_before_its_end() -> None:
    assert Tracker()._repr_html_() is None


def test_a_comparison_has_the_tables_and_notes_of_its_text(tmp_path: Path) -> None:
    paths = [
        run(tmp_path / f'{number}.db', ram=ram * MB, regions={'<load>': seconds})
        for number, (ram, seconds) in enumerate([(100, 1.0), (125, 2.0)])
    ]
    page = Page(compare({'old': paths[0], 'new': paths[1]})._repr_html_())
    assert page.lines == [
        '1 run of old, 1 run of new',
        'One run a group has no interval and no verdict: two runs of the same program differ as well.',
    ]
    result, regions = page.tables
    assert result[0] == ['', 'old', 'new', 'ratio']
    assert ['max_ram.combined.total_rss', '100 MB', '125 MB', '1.250'] in result
    assert regions[:2] == [['', 'old', 'new', 'ratio'], ['regions."<load>".wall_time', '1 s', '2 s', '2.000']]
    assert page.tags <= HARMLESS


@pytest.mark.parametrize('name', ['plain', 'gpu', 'mig', 'io', 'energy', 'cuda', 'foreign_process'])
def test_every_recorded_run_has_a_table(name: str) -> None:
    assert rows_of(usage_of(name))[1][0] == 'Time'


def test_memory_that_was_added_is_the_peak_without_what_was_there_before(tmp_path: Path) -> None:
    rows = [(float(t), {'combined_total_rss': (80 + t) * MB, 'combined_gpu_ram': 2000 * MB}) for t in range(3)]
    usage = usage_of('plain', ram={'combined': [200 * MB, None, None]}, gpu={'combined': 5000 * MB})
    with load(write_recording(tmp_path / 'run.db', rows=rows)) as recording:
        lines = growth(usage, recording)
    assert lines == [
        'RAM: before 80 MB, peak 200 MB, added 120 MB',
        'GPU memory: before 2 GB, peak 5 GB, added 3 GB',
    ]


def test_memory_before_is_unknown_without_a_sample(tmp_path: Path) -> None:
    with load(write_recording(tmp_path / 'run.db')) as recording:
        assert growth(usage_of('plain', ram={'combined': [200 * MB, None, None]}), recording) == [
            'RAM: before N/A, peak 200 MB, added N/A'
        ]
