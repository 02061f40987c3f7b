"""What a recording adds to advice, and where it is shown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.advice import advice_in
from gpu_tracker.advice.recorded import recorded_in
from gpu_tracker.cli import main
from gpu_tracker.recording.reading.recording import load
from gpu_tracker.views.report_page.page import html_page
from support.recordings import region, totals_of, write_recording

if TYPE_CHECKING:
    from pathlib import Path

MB = 1_024_000
TEXT = 'RAM grew by 102 MB per call of step, over 12 calls.'


def growing(path: Path) -> str:
    rows = [(float(t), {'combined_total_rss': 100 * MB * (t + 1), 'combined_cpu': t * 0.5}) for t in range(26)]
    regions = [
        region(1, 'train', 0.0, 25.0),
        *(region(2 + call, 'step', 2.0 * call + 0.5, 2.0 * call + 1.5, parent=1) for call in range(12)),
        region(20, 'tick', 1.0, 9.0, calls=1000, total=2.0),
    ]
    totals = totals_of()
    totals['ram']['combined'] = [1_000_000_000, 1_000_000_000, 0]
    return write_recording(path, rows=rows, regions=regions, meta={'totals': json.dumps(totals)})


def halved(path: Path) -> str:
    """Return a recording in which RAM grows by 102 MB a call: each call takes two seconds."""
    rows = [(float(t), {'combined_total_rss': 50 * MB * (t + 1)}) for t in range(26)]
    regions = [region(1 + call, 'step', 2.0 * call + 0.5, 2.0 * call + 1.5) for call in range(12)]
    return write_recording(path, rows=rows, regions=regions)


def test_ram_after_each_call_is_that_of_the_next_sample(tmp_path: Path) -> None:
    with load(growing(tmp_path / 'run.db')) as recording:
        step, train, tick = recorded_in(recording).regions
    assert (step.name, step.calls, step.seconds, step.cores_mean) == ('step', 12, 12.0, 0.5)
    assert step.ram_after_calls == tuple(100 * MB * (3 + 2 * call) for call in range(12))
    assert (train.name, train.ram_after_calls) == ('train', (2600 * MB,))
    assert (tick.name, tick.calls, tick.ram_after_calls) == ('tick', 1000, ())


def test_ram_at_the_end_of_each_minute(tmp_path: Path) -> None:
    rows = [(10.0 * t, {'combined_total_rss': MB * t}) for t in range(20)]
    with load(write_recording(tmp_path / 'run.db', rows=rows)) as recording:
        assert recorded_in(recording).ram_per_minute_bytes == (6 * MB, 12 * MB, 18 * MB)


def test_calls_between_the_same_samples_show_no_growth(tmp_path: Path) -> None:
    rows = [(float(t), {'combined_total_rss': 100 * MB * (t + 1)}) for t in range(10)]
    regions = [region(1 + call, 'step', 0.3 * call, 0.3 * call + 0.2) for call in range(20)]
    with load(write_recording(tmp_path / 'run.db', rows=rows, regions=regions)) as recording:
        assert recorded_in(recording).regions[0].ram_after_calls == ()


def test_a_recording_without_result_has_no_advice(tmp_path: Path) -> None:
    with load(write_recording(tmp_path / 'run.db', meta={'totals': None})) as recording:
        assert advice_in(recording) == ()


def test_show_prints_it_in_all_formats(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = halved(tmp_path / 'run.db')
    assert main(['show', path]) == 0
    assert f'\nAdvice:\n   {TEXT}\n' in capfd.readouterr().out
    assert main(['show', path, '-f', 'summary']) == 0
    assert capfd.readouterr().out.endswith(f'\nAdvice      {TEXT}\n')
    assert main(['show', path, '--json']) == 0
    shown = json.loads(capfd.readouterr().out)
    figures = {'bytes_per_call': 100.0 * MB, 'calls': 12}
    assert shown['advice'] == shown['summary']['advice'] == [{'rule': 'ram_grows', 'text': TEXT, 'figures': figures}]


@pytest.mark.parametrize('name', ['text', 'summary', 'json'])
def test_no_advice_leaves_it_out(tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str) -> None:
    assert main(['show', halved(tmp_path / 'run.db'), '-f', name, '--no-advice']) == 0
    assert 'dvice' not in capfd.readouterr().out


def test_the_page_begins_with_it(tmp_path: Path) -> None:
    with load(halved(tmp_path / 'run.db')) as recording:
        page = html_page([recording])
    assert f'<section class="advice"><h2>Advice</h2><ul><li>{TEXT}</li></ul></section>' in page
    assert page.index('class="advice"') < page.index('>Peak RAM<')
    with load(write_recording(tmp_path / 'other.db')) as recording:
        assert 'class="advice"' not in html_page([recording])
