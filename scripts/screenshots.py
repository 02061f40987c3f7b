"""Makes the pictures of the documentation: of runs that are recorded for it, and of a fleet that was never there.

PYTHONPATH=src:tests python scripts/screenshots.py [report] [plot] [notebook] [fleet]   # docs/_static; all by default

Needs Debian's Chromium, and the groups test and browser.
"""  # noqa: INP001 - a program of its own

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from nbconvert import HTMLExporter
from nbconvert.preprocessors import ExecutePreprocessor

from support.fleet.page_browser import PHONE, chromium, opened
from support.fleet.page_hosts import (
    NOW,
    busy_gpu,
    claimed_gpu,
    free_gpu,
    lost_gpu,
    made_up_hosts,
    process,
    split_gpu,
    unseen_gpu,
    up,
)
from support.fleet.page_server import PageServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from gpu_tracker.fleet.hosts.host import HostState

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / 'docs' / '_static'
LARGEST = 200_000
"""Bytes of a picture: they are part of the source."""
THEMES = ('light', 'dark')
GPU_TRACKER = [sys.executable, '-m', 'gpu_tracker']
TRAINING = ['python', 'examples/train_in_regions.py', '200']
REPORT = {'width': 900, 'height': 860}
WIDE = {'width': 1360, 'height': 740}
LOADING = 'import gpu_tracker as gput\n%load_ext gpu_tracker'
TRACKED = """\
%%track --st=0.05
with gput.region('square'):
    squares = [number * number for number in range(5_000_000)]
with gput.region('sort'):
    squares.sort(key=lambda square: -square)
sum(squares)"""
NOTEBOOK = {'width': 720, 'height': 500}
PICTURES = {
    'light': {'viewport': WIDE, 'color_scheme': 'light'},
    'dark': {'viewport': WIDE, 'color_scheme': 'dark'},
    'phone': {'viewport': PHONE, 'color_scheme': 'light', 'device_scale_factor': 2},
}


def main() -> None:
    """Write the pictures that are asked for."""
    wanted = sys.argv[1:] or ['report', 'plot', 'notebook', 'fleet']
    with chromium() as browser, tempfile.TemporaryDirectory() as folder:
        if {'report', 'plot'} & set(wanted):
            recording = _recorded(Path(folder))
        if 'report' in wanted:
            _report(browser, recording)
        if 'plot' in wanted:
            _run(*GPU_TRACKER, 'plot', str(recording), '--only=ram,cpu', '-o', str(FOLDER / 'plot.png'))
        if 'notebook' in wanted:
            _notebook(browser)
        if 'fleet' in wanted:
            _fleet(browser)
    for file in FOLDER.glob('*.png'):
        size = file.stat().st_size
        if size > LARGEST:
            raise SystemExit(f'{file} has {size} bytes; {LARGEST} at most are wanted')


def _run(*words: str) -> None:
    subprocess.run(words, check=True, cwd=ROOT, env={**os.environ, 'PATH': _path()})


def _path() -> str:
    """Return the search path with this interpreter's programs first: the example is a Python program."""
    return os.pathsep.join([os.path.dirname(sys.executable), os.environ['PATH']])


def _recorded(folder: Path) -> Path:
    """Return a recording of a training."""
    file = folder / 'run.db'
    _run(*GPU_TRACKER, f'--tf={file}', '--st=0.02', '--per-process', '-o', str(folder / 'usage.txt'), '--', *TRAINING)
    return file


def _report(browser: Browser, recording: Path) -> None:
    file = recording.with_suffix('.html')
    _run(*GPU_TRACKER, 'report', str(recording), '-o', str(file))
    for theme in THEMES:
        with opened(browser, file.as_uri(), viewport=REPORT, color_scheme=theme) as page:
            page.locator('.chart canvas').last.wait_for()
            page.screenshot(path=FOLDER / f'report-{theme}.png')


def _notebook(browser: Browser) -> None:
    """Write a tracked cell, which is run for it."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in (LOADING, TRACKED)])
    ExecutePreprocessor(timeout=60, kernel_name='python3').preprocess(notebook, {})
    for theme in THEMES:
        page = browser.new_page(viewport=NOTEBOOK, color_scheme=theme)
        page.route('http*://**', lambda route: route.abort())  # MathJax, which nothing here needs
        html, _ = HTMLExporter(theme=theme).from_notebook_node(notebook)
        page.set_content(html, wait_until='domcontentloaded')
        page.locator('.jp-Cell').nth(1).screenshot(path=FOLDER / f'notebook-{theme}.png')


def _fleet(browser: Browser) -> None:
    with PageServer(_hosts()) as server:
        for name, options in PICTURES.items():
            with opened(browser, server.url, **options) as page:
                page.locator('.spark[aria-label]').nth(2).wait_for()
                page.screenshot(path=FOLDER / f'fleet-{name}.png')


def _hosts() -> list[HostState]:
    """Return a fleet in which much of what can happen does."""
    shared = (process(5101, user='bob', program='evaluate.py'), process(5177, program='jupyter'))
    fleet = made_up_hosts(24)
    fleet[0] = up(
        '0',
        'node001',
        free_gpu(0),
        busy_gpu(1),
        busy_gpu(2, utilization_percent=58.0, temperature_celsius=55.0, processes=shared),
        unseen_gpu(3),
        claimed_gpu(4),
        lost_gpu(5),
        split_gpu(6),
        group='research',
    )
    fleet[1] = fleet[1].failed('it does not answer: connection refused')._replace(last_seen=NOW - 312)
    fleet[9] = fleet[9]._replace(state='stale', error='its GPU driver has not answered for 48 s', last_seen=NOW - 48)
    return fleet


if __name__ == '__main__':
    main()
