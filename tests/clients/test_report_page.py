"""``gpu-tracker report``: the page in a real browser, and the command that writes it."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.errors import RecordingError
from gpu_tracker.recording.reading.recording import load
from gpu_tracker.views.report_page.page import html_page
from support.cli_program import gpu_tracker
from support.fleet.page_browser import PHONE, expect, opened
from support.pictured_run import GIB, training
from support.recordings import DEFAULT_COLUMNS, busy_rows, region, write_recording

if TYPE_CHECKING:
    from pathlib import Path

NEAREST = """([key, line, time]) => {
  const { plot } = document.querySelector(`[data-key="${key}"]`);
  const { canvas } = plot.ctx;
  const at = plot.data[0].indexOf(time);
  const [x, y] = [plot.valToPos(time, 'x', true), plot.valToPos(plot.data[line][at], 'y', true)].map(Math.round);
  const wanted = document.createElement('canvas').getContext('2d');
  wanted.fillStyle = plot.series[line].stroke();
  wanted.fillRect(0, 0, 1, 1);
  const color = wanted.getImageData(0, 0, 1, 1).data;
  let nearest = null;
  for (let row = 0; row < canvas.height; row += 1) {
    const found = plot.ctx.getImageData(x, row, 1, 1).data;
    const isLine = [0, 1, 2].every((part) => Math.abs(found[part] - color[part]) < 40);
    if (isLine && (nearest === null || Math.abs(row - y) < Math.abs(nearest - y))) nearest = row;
  }
  return [plot.data[line][at], nearest === null ? null : Math.abs(nearest - y)];
}"""
"""The value of a line at a time, and how many pixels from where that lies the nearest pixel of its colour is."""

RANGES = """() => [...document.querySelectorAll('.chart')].map(({ plot }) => [plot.scales.x.min, plot.scales.x.max])"""


@pytest.fixture
def run(tmp_path: Path) -> str:
    return training(tmp_path / 'run.db')


def page_of(folder: Path, *files: str, **options) -> str:
    """Write a page, and return its address."""
    recordings = [load(file) for file in files]
    path = folder / 'page.html'
    path.write_text(html_page(recordings, **options))
    for recording in recordings:
        recording.close()
    return path.as_uri()


def test_what_is_drawn_is_what_was_recorded(browser, run: str, tmp_path: Path):
    with opened(browser, page_of(tmp_path, run), excused=('Canvas2D: Multiple readback',)) as page:
        page.locator('.chart canvas').nth(5).wait_for()
        with load(run) as recording:
            for row in list(recording.samples)[10:91:20]:
                value, away = page.evaluate(NEAREST, ['ram', 1, row.t])
                assert value == pytest.approx(row.combined_total_rss, rel=1e-4)
                assert away <= 2
        expect(page.locator('[data-key=ram] + .key')).to_contain_text('peak, between samples too: 13.8 MB')
        assert page.evaluate(NEAREST, ['cpu', 2, 5]) == [pytest.approx(50.0), pytest.approx(0, abs=2)]
        assert page.evaluate(NEAREST, ['gpu', 1, 5]) == [70, pytest.approx(0, abs=2)]
        assert page.evaluate(NEAREST, ['gpu_ram', 1, 5]) == [pytest.approx(4 * GIB, rel=1e-4), pytest.approx(0, abs=2)]


def test_figures_regions_and_processes_are_there_without_any_script(browser, run: str, tmp_path: Path):
    with opened(browser, page_of(tmp_path, run), java_script_enabled=False) as page:
        assert page.locator('h1').inner_text() == 'python train.py --epochs=3'
        tiles = page.locator('.figures > div').all()
        figures = {tile.locator('dt').inner_text(): tile.locator('dd').inner_text() for tile in tiles}
        assert figures == {
            'Time': '10 s',
            'Peak RAM': '13.8 MB',
            'CPU, mean': '0.00431 %',
            'CPU, most': '0.048 %',
            'Threads, most': '1',
            'Peak GPU memory': '3.22 GB',
            'GPU utilization, mean': '83.3 %',
        }
        lines = [' '.join(line.inner_text().split()) for line in page.locator('.regions tbody tr').all()]
        assert [line.split()[0:4] for line in lines] == [
            ['training', '1', '9', 's'],
            ['epoch', '3', '6', 's'],
            ['step', '3', '2.25', 's'],
        ]
        bars = page.locator('.processes rect')
        assert [bar.get_attribute('x') for bar in bars.all()] == ['0.0', '100.0']
        assert [bar.get_attribute('width') for bar in bars.all()] == ['1000.0', '900.0']
        assert 'warning: something to know' in page.locator('details li').all_text_contents()
        assert '<noscript><p>The charts need JavaScript' in page.content()


def test_all_charts_have_one_axis(browser, run: str, tmp_path: Path):
    with opened(browser, page_of(tmp_path, run)) as page:
        page.locator('.chart canvas').nth(5).wait_for()
        assert page.evaluate(RANGES) == [[0, 10]] * 6
        area = page.locator('[data-key=cpu] .u-over')
        area.scroll_into_view_if_needed()
        box = area.bounding_box()
        page.mouse.move(box['x'] + 0.25 * box['width'], box['y'] + 20)
        page.mouse.down()
        page.mouse.move(box['x'] + 0.75 * box['width'], box['y'] + 30, steps=4)
        page.mouse.up()
        ranges = page.evaluate(RANGES)
        assert ranges == [ranges[0]] * 6
        assert ranges[0] == [pytest.approx(2.5, abs=0.1), pytest.approx(7.5, abs=0.1)]
        area.dblclick()
        assert page.evaluate(RANGES) == [[0, 10]] * 6


def test_the_keyboard_does_what_the_mouse_does(browser, run: str, tmp_path: Path):
    with opened(browser, page_of(tmp_path, run)) as page:
        chart = page.locator('[data-key=ram]')
        chart.focus()
        page.keyboard.press('+')
        assert page.evaluate(RANGES) == [[2.5, 7.5]] * 6
        page.keyboard.press('Shift+ArrowRight')
        assert page.evaluate(RANGES) == [[3.75, 8.75]] * 6
        page.keyboard.press('0')
        page.keyboard.press('ArrowRight')
        page.keyboard.press('ArrowRight')
        key = page.locator('[data-key=ram] + .key')
        expect(key).to_contain_text('at 0.100 s')
        expect(key).to_contain_text('main process67.1 MB')
        expect(page.locator('[data-key=cpu] + .key')).to_contain_text('all processes150 %')
        page.get_by_role('button', name='+', exact=True).click()
        assert page.evaluate(RANGES) == [[2.5, 7.5]] * 6


def test_a_line_can_be_hidden_and_a_region_shaded(browser, run: str, tmp_path: Path):
    with opened(browser, page_of(tmp_path, run)) as page:
        page.locator('.chart canvas').nth(5).wait_for()
        hides = page.locator('[data-key=ram] + .key').get_by_role('button', name='main process')
        hides.click()
        expect(hides).to_have_attribute('aria-pressed', 'false')
        shown = "() => document.querySelector('[data-key=ram]').plot.series.map(({ show }) => show)"
        assert page.evaluate(shown) == [True, True, False, True]
        step = page.get_by_role('button', name='step', exact=True)
        step.click()
        expect(step).to_have_attribute('aria-pressed', 'true')
        page.get_by_role('button', name='epoch', exact=True).click()
        expect(step).to_have_attribute('aria-pressed', 'false')


@pytest.mark.parametrize('scheme', ['light', 'dark'])
@pytest.mark.parametrize('width', [PHONE['width'], 820, 1440])
def test_the_page_is_never_wider_than_the_screen(browser, run: str, tmp_path: Path, width: int, scheme: str):
    other = training(tmp_path / 'other.db', command='a_command_with_a_very_long_name' * 8, speed=2.0)
    for files in ([run], [run, other]):
        address = page_of(tmp_path, *files)
        with opened(browser, address, viewport={'width': width, 'height': 844}, color_scheme=scheme) as page:
            page.locator('.chart canvas').last.wait_for()
            assert page.evaluate('document.documentElement.scrollWidth') == width
            page.emulate_media(media='print')
            expect(page.locator('.tools')).to_be_hidden()


def test_runs_side_by_side_have_their_differences(browser, run: str, tmp_path: Path):
    other = training(tmp_path / 'other.db', speed=2.0)
    with opened(browser, page_of(tmp_path, run, other)) as page:
        page.locator('.chart canvas').nth(11).wait_for()
        assert page.evaluate(RANGES) == [[0, 10]] * 12
        figures = page.locator('table').first
        assert figures.locator('thead').inner_text().split() == ['Figure', 'run.db', 'other.db', 'difference']
        assert figures.locator('tbody tr').first.inner_text().split('\t') == ['Time', '10 s', '5 s', '-50.0 %']
        regions = page.locator('table.regions tbody tr').all_inner_texts()
        assert [[cell.strip() for cell in line.split('\t')] for line in regions] == [
            ['training', '9 s', '4 s', '-55.6 %'],
            ['epoch', '6 s', '3 s', '-50.0 %'],
            ['step', '2.25 s', '2.25 s', '='],
        ]


def test_the_cursor_reads_the_step_that_it_is_in(browser, run: str, tmp_path: Path):
    with opened(browser, page_of(tmp_path, run)) as page:
        area = page.locator('[data-key=cpu] .u-over')
        area.scroll_into_view_if_needed()
        box = area.bounding_box()
        for share, step in (
            (0.5025, '5.000 s to 5.100 s'),
            (0.5075, '5.000 s to 5.100 s'),
            (0.5125, '5.100 s to 5.200 s'),
        ):
            page.mouse.move(box['x'] + share * box['width'], box['y'] + 20)
            expect(page.locator('[data-key=cpu] + .key')).to_contain_text(f'from {step}')


def test_a_part_of_a_run_is_named_as_such(browser, run: str, tmp_path: Path):
    short = training(tmp_path / 'short.db', speed=5.0)
    with opened(browser, page_of(tmp_path, run, short, start=4.0, stop=6.05)) as page:
        page.locator('.chart canvas').last.wait_for()
        said = 'The charts show the part from 4 s to 6.05 s; all other figures are of the whole run.'
        assert page.locator('.part').inner_text() == said
        assert page.evaluate(RANGES) == [[4, 6]] * 6
        assert page.get_by_text('nothing in this part').count() == 6
    with (
        load(run) as recording,
        pytest.raises(RecordingError, match=r'^the recording has no samples from 1\.01 s to 1\.02 s$'),
    ):
        html_page([recording], start=1.01, stop=1.02)


def test_regions_behind_the_charts_are_named(browser, run: str, tmp_path: Path):
    with opened(browser, page_of(tmp_path, run)) as page:
        expect(page.locator('#bands')).to_have_text('Behind the charts: epoch ')
        page.get_by_role('button', name='step', exact=True).click()
        expect(page.locator('#bands')).to_have_text('Behind the charts: step ')


def test_of_many_regions_the_longest_are_shown(browser, tmp_path: Path):
    short = [region(number, f'setup {number}', 0.01 * number, 0.01 * number + 0.005) for number in range(1, 301)]
    inside = [region(400, 'training', 4.0, 9.0), region(401, 'epoch' * 1000, 5.0, 8.0, parent=400)]
    again = [region(402, 'epoch' * 1000, 5.5, 8.5, parent=400)]
    path = write_recording(tmp_path / 'run.db', rows=busy_rows(), regions=[*short, *inside, *again])
    with opened(browser, page_of(tmp_path, path)) as page:
        page.locator('.chart canvas').last.wait_for()
        names = page.locator('.regions button').all_inner_texts()
        assert len(names) == 200
        assert [len(name) for name in names[-2:]] == [len('training'), 80]
        assert '102 lines that took less time are left out' in page.locator('main').inner_text()
        spans = page.evaluate("() => JSON.parse(document.getElementById('numbers').textContent).runs[0].spans.at(-1)")
        assert spans == [[5, 8.5]]


def test_many_gpus_make_no_large_page(tmp_path: Path):
    path = write_recording(
        tmp_path / 'run.db',
        rows=busy_rows(2000),
        gpus=[(number, f'GPU-{number}', 'H100', 80 * 2**20) for number in range(8)],
        gpu_samples=[
            (1_000_000 * t, number, (t * 7919 + number) % 80_000_000, t * 104_729 % 80_000_000, t * 31 % 10_000)
            for t in range(2000)
            for number in range(8)
        ],
    )
    page_of(tmp_path, path)
    assert len(gzip.compress((tmp_path / 'page.html').read_bytes())) < 400_000


HOSTILE = '</script><img src=x onerror=alert(1)><script>alert(2)</script>"\'&amp;\x07\u202e'


def test_names_of_strangers_are_only_texts(browser, tmp_path: Path):
    path = write_recording(
        tmp_path / 'run.db',
        rows=busy_rows(),
        regions=[region(1, HOSTILE, 1.0, 2.0), region(2, HOSTILE, 3.0, 4.0)],
        meta={'command': json.dumps(['python', HOSTILE]), 'host': HOSTILE, 'started': HOSTILE, 'program': HOSTILE},
        gpus=[(0, HOSTILE, HOSTILE, None)],
        gpu_samples=[(0, 0, 1, 1, 1)],
        processes=[(0, 1, 0, HOSTILE, 0)],
        process_samples=[(0, 0, 1, 1, 1)],
        messages=[(0, 'warning', HOSTILE)],
    )
    with opened(browser, page_of(tmp_path, path)) as page:
        page.locator('.chart canvas').last.wait_for()
        assert page.locator('img').count() == 0
        assert page.locator('h1').inner_text().startswith('python </script><img src=x onerror=alert(1)><script>')
        assert '\u202e' not in page.content()


def test_many_samples_make_a_small_page_with_their_extremes(browser, tmp_path: Path):
    path = write_recording(tmp_path / 'run.db', rows=[])
    with closing(sqlite3.connect(path)) as connection:
        names = [column.name for column in DEFAULT_COLUMNS]
        cells = [
            f'i * {place + 1} % 10007' if name.endswith(('rss', 'ram')) else 'i' for place, name in enumerate(names)
        ]
        connection.execute(
            f'WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) '
            f'INSERT INTO samples (t, {", ".join(names)}) SELECT i * 1000000, {", ".join(cells)} FROM n'
        )
        connection.execute('UPDATE samples SET combined_shared_rss = 99999999 WHERE t = 123456000000')
        connection.commit()
    address = page_of(tmp_path, path)
    assert len(gzip.compress((tmp_path / 'page.html').read_bytes())) < 400_000
    with opened(browser, address) as page:
        page.locator('.chart canvas').last.wait_for()
        highest = page.evaluate(
            "() => document.querySelector('[data-key=ram]').plot.data[2].reduce((a, b) => Math.max(a, b))"
        )
        assert highest == pytest.approx(99_999_999 * 1024, rel=1e-3)
    part = page_of(tmp_path, path, start=123_450.0, stop=123_460.0)
    with opened(browser, part) as page:
        page.locator('.chart canvas').last.wait_for()
        times = page.evaluate("() => document.querySelector('[data-key=ram]').plot.data[0]")
        assert times == [123_450 + second for second in range(10)]


def test_a_recording_without_a_result_says_so(browser, tmp_path: Path):
    path = write_recording(
        tmp_path / 'run.db', rows=busy_rows(3), meta={'totals': None, 'ended': None, 'exit_code': None}
    )
    with opened(browser, page_of(tmp_path, path)) as page:
        assert page.locator('.problem').all_inner_texts() == [
            'The run goes on, or was killed with its sampler: figures are up to the last commit.'
        ]
        expect(page.locator('.figures')).to_have_count(0)


def test_the_command_writes_a_page_beside_the_recording(run: str, tmp_path: Path):
    done = gpu_tracker('report', run)
    assert (done.returncode, done.stdout, done.stderr) == (0, '', f'The report is in {tmp_path}/run.html\n')
    page = (tmp_path / 'run.html').read_text()
    assert page.startswith('<!doctype html>')
    assert gpu_tracker('report', run).returncode == 0  # again
    assert gpu_tracker('report', run, '-o', '-').stdout == page
    assert re.findall(r'(?:src|href)=.', page) == []
    (tmp_path / 'run.html').write_text('of somebody else')
    refused = gpu_tracker('report', run)
    assert (refused.returncode, (tmp_path / 'run.html').read_text()) == (125, 'of somebody else')
    assert (
        f'{tmp_path}/run.html exists, but is not a file of gpu-tracker. Choose another file with --output'
        in refused.stderr
    )
    assert gpu_tracker('report', run, '-o', str(tmp_path / 'run.html')).returncode == 0
    (tmp_path / 'same').symlink_to(run)
    assert 'same is the recording itself' in gpu_tracker('report', run, '-o', str(tmp_path / 'same')).stderr


def test_a_page_that_cannot_be_written_is_not_printed(run: str, tmp_path: Path):
    (tmp_path / 'folder.html').mkdir()
    for path in ('/dev/full', str(tmp_path / 'folder.html'), '/nowhere/page.html'):
        done = gpu_tracker('report', run, '-o', path)
        assert (done.returncode, done.stdout) == (125, '')
        assert done.stderr.startswith(f'gpu-tracker: cannot write {path}: ')
    (tmp_path / 'run.html').mkdir()
    done = gpu_tracker('report', run)
    assert (done.returncode, done.stdout) == (125, '')
    assert done.stderr.endswith('run.html: Is a directory. Choose another file with --output\n')
    (tmp_path / 'gone.html').mkdir()
    done = gpu_tracker('report', f'{tmp_path}/gone.db')
    assert done.stderr == f'gpu-tracker: cannot read {tmp_path}/gone.db: No such file or directory\n'


@pytest.mark.parametrize(
    ('words', 'message'),
    [
        (['report', '--from'], '--from needs a value'),
        (['report', '{run}', '--from=x'], "--from must be a number of seconds from the first sample, not 'x'"),
        (['report', '{run}', '--from=5', '--to=2'], "--to must be more than --from, which is 5, not '2'"),
        (['report', '{run}', '--from=10'], "--from must be less than the duration of the recording, 10 s, not '10'"),
        *(
            (
                ['report', '/nowhere/run.db', '-o', f'run{ending}'],
                (
                    f"--output must be a path that ends in .html, or - for standard output, not 'run{ending}'. "
                    'gpu-tracker plot draws a recording as .png, .svg or .pdf'
                ),
            )
            for ending in ('.pdf', '.PNG', '.json')
        ),
        (['report', '/dev/null'], '/dev/null is not a regular file'),
        (['report', '{run}', '-o', '/nowhere/page.html'], 'cannot write /nowhere/page.html: No such file or directory'),
    ],
)
def test_what_cannot_be_shown_is_said_in_a_line(run: str, words: list[str], message: str):
    done = gpu_tracker(*(word.format(run=run) for word in words))
    assert done.returncode == 125
    assert message in done.stderr
    assert 'Traceback' not in done.stderr
