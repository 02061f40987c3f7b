from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.recording.reading.recording import load
from gpu_tracker.views.report_page.elements import element, table, text_of
from gpu_tracker.views.tiles import difference, tiles_of
from support.recordings import totals_of, write_recording

if TYPE_CHECKING:
    from pathlib import Path


def shown(folder: Path, name: str) -> dict[str, tuple[str, str]]:
    totals = json.dumps(totals_of(name))
    with load(write_recording(folder / 'run.db', meta={'totals': totals})) as recording:
        return {one.title: (one.text, one.note) for one in tiles_of(recording)}


def test_the_figures_of_a_run_with_descendants_and_io(tmp_path: Path) -> None:
    assert shown(tmp_path, 'io') == {
        'Time': ('638 ms', ''),
        'Peak RAM': ('≥ 3.22 MB', 'main process 1.77 MB, descendants ≥ 2.94 MB; of 25.3 GB'),
        'CPU, mean': ('≥ 2.66 %', '100 % is one core'),
        'CPU, most': ('≥ 2.66 %', 'in any half a second; 2 cores'),
        'Threads, most': ('2', ''),
        'Read from storage': ('90.1 kB', 'written 21 MB'),
    }


def test_unknown_figures_are_not_0(tmp_path: Path) -> None:
    found = shown(tmp_path, 'mig')
    assert found['GPU utilization, mean'] == ('N/A', 'peak N/A; 100 % is one GPU')
    assert found['Energy of GPUs'] == ('N/A', '')
    (tmp_path / 'foreign').mkdir()
    assert shown(tmp_path / 'foreign', 'foreign_process')['Read from storage'] == ('N/A', 'written N/A')


def test_there_are_ten_figures_at_most(tmp_path: Path) -> None:
    for name in ('gpu', 'cuda', 'energy', 'plain'):
        (tmp_path / name).mkdir()
        assert len(shown(tmp_path / name, name)) <= 10


@pytest.mark.parametrize(
    ('value', 'first', 'text'),
    [
        (110.0, 100.0, '+10.0 %'),
        (50.0, 100.0, '-50.0 %'),
        (100.0, 100.0, '='),
        (100.01, 100.0, '='),
        (0.0, 0.0, '='),
        (5.0, 0.0, ''),
        (None, 1.0, ''),
        (1.0, None, ''),
        (2000.0, 100.0, '20 times'),
    ],
)
def test_differences(value: float | None, first: float | None, text: str) -> None:
    assert difference(value, first) == text


def test_elements_escape_what_is_in_them() -> None:
    found = element('p', 'a < b', element('b', '&'), ' \x1b[1m', class_='"x"', data_y=None, aria_label='<')
    assert text_of(found) == '<p class="&quot;x&quot;" aria-label="<">a &lt; b<b>&amp;</b> ?[1m</p>'


def test_figures_of_gpus_come_first_if_the_run_had_memory_on_one(tmp_path: Path) -> None:
    (tmp_path / 'plain').mkdir()
    assert list(shown(tmp_path, 'gpu'))[:3] == ['Time', 'Peak GPU memory', 'GPU utilization, mean']
    assert list(shown(tmp_path / 'plain', 'plain'))[:2] == ['Time', 'Peak RAM']


def test_a_table_has_no_empty_columns() -> None:
    found = text_of(table(['A', 'B', 'C'], [['x', '', '1'], ['y', '', '']]))
    assert (found.count('<th scope="col"'), found.count('<td')) == (2, 2)


def test_a_table_names_its_rows_and_columns() -> None:
    found = text_of(table(['A', 'B'], [['x', '1']]))
    assert found == (
        '<div class="wide"><table><thead><tr><th scope="col">A</th><th scope="col" class="number">B</th></tr></thead>'
        '<tbody><tr><th scope="row">x</th><td class="number">1</td></tr></tbody></table></div>'
    )
