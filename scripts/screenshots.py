"""Makes the pictures of the documentation: of runs that are recorded for it, and of a fleet that was never there.

PYTHONPATH=src:tests python scripts/screenshots.py [NAME...]   # those of OF_TRAINING and OTHERS; all by default

They are written to docs/_static. GPUs and what they do are simulated; everything else in the pictures was measured
while they were made. Needs Debian's Chromium, and the groups test and clients; as root, for the probe, atop and the
monitor of idle GPUs.
"""

from __future__ import annotations

import base64
import contextlib
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from nbconvert import HTMLExporter
from nbconvert.preprocessors import ExecutePreprocessor
from pictures import gpu_table, terminals, training

from support.cli_program import Terminal
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
from support.live_screens import frames
from support.simulated_nvml import Gpu, Process, SimulatedDriver

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from gpu_tracker.fleet.hosts.host import HostState

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / 'docs' / '_static'
LARGEST = 150_000
"""Bytes of a picture: they are part of the source."""
OF_TRAINING = ('report', 'plot', 'watch', 'regions')
THEMES = ('light', 'dark')
GPU_TRACKER = [sys.executable, '-m', 'gpu_tracker']
REPORT = {'width': 900, 'height': 804}
WIDE = {'width': 1360, 'height': 740}
SCREEN = 84, 25
"""Columns and lines of the terminal with the live view."""
FIRST, LAST = 'train 0', f'train {training.TRAIN_STEPS - 1}'
"""The steps at which the live view is started and is taken; that of the last epoch stays."""
GIB = 2**30
TERMINAL = """<!doctype html><style>
body { margin: 0; background: transparent }
pre { margin: 0; display: inline-block; max-width: 116ch; white-space: pre-wrap; padding: 14px 18px;
      border-radius: 8px; background: #1c2128; color: #d8dee6; font: 14px/18px 'DejaVu Sans Mono', monospace }
.s1 { font-weight: bold; color: #fff } .s2 { color: #9aa4af } .s31 { color: #ff7b72 } .s32 { color: #5fd07a }
.s33 { color: #e8c04a } .s36 { color: #74b0ff }
</style><pre>"""
BOTH = """<!doctype html><style>
body { margin: 0; background: transparent }
div { position: relative; width: 900px; height: 804px; border-radius: 12px; overflow: hidden;
      box-shadow: inset 0 0 0 1px #8b949e }
img { position: absolute; inset: 0 }
img + img { clip-path: polygon(66% 0, 100% 0, 100% 100%, 40% 100%) }
</style><div><img src="data:image/png;base64,LIGHT"><img src="data:image/png;base64,DARK"></div>"""
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
    'phone': {'viewport': PHONE, 'color_scheme': 'light', 'device_scale_factor': 1.5},
}


def main() -> None:
    """Write the pictures that are asked for."""
    os.environ['PYTHONPATH'] = os.pathsep.join(map(os.path.abspath, os.environ['PYTHONPATH'].split(os.pathsep)))
    wanted = set(sys.argv[1:] or [*OF_TRAINING, *OTHERS])
    with chromium() as browser, tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if wanted & set(OF_TRAINING):
            _training(browser, folder, wanted)
        for name, take in OTHERS.items():
            if name in wanted:
                take(browser, folder)
    for file in FOLDER.glob('*.png'):
        size = file.stat().st_size
        if size > LARGEST:
            raise SystemExit(f'{file} has {size} bytes; {LARGEST} at most are wanted')


def _run(*words: str) -> None:
    subprocess.run(words, check=True, cwd=ROOT)


def _training(browser: Browser, folder: Path, wanted: set[str]) -> None:
    """Write the pictures of a training that are asked for."""
    recording, screen = _trained(folder)
    if 'report' in wanted:
        _report(browser, recording)
    if 'plot' in wanted:
        _run(*GPU_TRACKER, 'plot', str(recording), '--only=ram,gpu', '-o', str(FOLDER / 'plot.png'))
    if 'watch' in wanted:
        _terminal(browser, 'watch', [terminals.prompt('gpu-tracker watch run.db'), '', *screen])
    if 'regions' in wanted:
        _terminal(browser, 'regions', terminals.show_regions(recording))


def _trained(folder: Path) -> tuple[Path, list[str]]:
    """Return the recording of a training on a simulated GPU, and what the live view has shown of it."""
    shutil.copy(training.__file__, folder / 'train.py')
    driver = SimulatedDriver(folder)
    driver.write(gpus=_gpus(None, '', 0))
    programs = os.pathsep.join([os.path.dirname(sys.executable), os.environ['PATH']])
    variables = {**os.environ, **driver.environment(), 'PATH': programs}
    columns, lines = SCREEN
    watching = ['sh', '-c', f'stty cols {columns} rows {lines}; exec "$@"', 'sh', *GPU_TRACKER, 'watch', 'run.db']
    tracking = [*GPU_TRACKER, '--tf=run.db', '--st=0.1', '--per-process', '-o', 'usage.txt', 'python', 'train.py']
    screen: list[str] = []
    with (
        contextlib.chdir(folder),
        subprocess.Popen(tracking, stdout=subprocess.PIPE, text=True, env=variables) as tracker,
    ):
        for line in tracker.stdout or ():
            pid, phase, step = line.split()
            driver.write(gpus=_gpus(int(pid), phase, int(step)))
            if f'{phase} {step}' == FIRST:
                watcher = Terminal(watching, variables | {'LC_ALL': 'C.UTF-8', 'TERM': 'xterm'})
            if f'{phase} {step}' == LAST:
                screen = frames(watcher)[-1]
                watcher.process.kill()
    return folder / 'run.db', screen


def _gpus(pid: int | None, phase: str, step: int) -> list[Gpu]:
    """Return the GPU on which the training is: it has its memory from the first batch on, and computes in waves."""
    busy = {'load': 4, 'train': 88 + round(9 * math.sin(step / 2)), 'validate': 46 + 3 * (step % 3)}.get(phase, 0)
    used = 0 if pid is None else {'load': 6, 'train': 27, 'validate': 19}[phase] * GIB
    processes = [] if pid is None else [Process(pid, memory=used, sm=busy)]
    kind = {'name': 'NVIDIA A100-SXM4-40GB', 'total': 40 * GIB, 'power': 60_000 + 2_600 * busy, 'power_limit': 400_000}
    return [Gpu(**kind, used=GIB // 2 + used, util=busy, processes=processes)]


def _report(browser: Browser, recording: Path) -> None:
    """Write the page of a recording: in each theme, and in both at once for where nothing knows the theme."""
    file = recording.with_suffix('.html')
    _run(*GPU_TRACKER, 'report', str(recording), '-o', str(file))
    parts = {}
    for theme in THEMES:
        with opened(browser, file.as_uri(), viewport=REPORT, color_scheme=theme) as page:
            page.locator('.chart canvas').last.wait_for()
            parts[theme] = page.screenshot(path=FOLDER / f'report-{theme}.png')
    light, dark = (base64.b64encode(parts[theme]).decode() for theme in THEMES)
    with contextlib.closing(browser.new_page(viewport=REPORT)) as page:
        page.set_content(BOTH.replace('LIGHT', light).replace('DARK', dark))
        page.locator('div').screenshot(path=FOLDER / 'report.png', omit_background=True)


def _job(browser: Browser, folder: Path) -> None:
    """Write the page of a job of four ranks."""
    with contextlib.chdir(folder):
        places = [
            {'GPU_TRACKER_JOB': 'demo', 'GPU_TRACKER_RANK': str(rank), 'GPU_TRACKER_SIZE': '4'} for rank in range(4)
        ]
        words = [
            *GPU_TRACKER,
            '--st=0.05',
            '--job=results',
            '--',
            sys.executable,
            str(ROOT / 'examples/steps_in_ranks.py'),
        ]
        for rank in [subprocess.Popen(words, env=os.environ | place) for place in places]:
            rank.wait()
    file = folder / 'job.html'
    _run(*GPU_TRACKER, 'report', str(folder / 'results'), '-o', str(file))
    for theme in THEMES:
        with opened(browser, file.as_uri(), viewport=REPORT, color_scheme=theme) as page:
            page.screenshot(path=FOLDER / f'job-{theme}.png')


def _terminal(browser: Browser, name: str, lines: list[str]) -> None:
    """Write what a terminal shows, whose colours are those of ECMA-48."""
    text = escape('\n'.join(lines).rstrip(), quote=False)
    text = re.sub(r'\x1b\[(\d+)m', r'<span class="s\1">', text.replace('\x1b[0m', '</span>'))
    with contextlib.closing(browser.new_page(viewport=WIDE)) as page:
        page.set_content(TERMINAL + text)
        page.locator('pre').screenshot(path=FOLDER / f'{name}.png', omit_background=True)


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


OTHERS = {
    'compare': lambda browser, folder: _terminal(browser, 'compare', terminals.compare(folder)),
    'probe': lambda browser, folder: _terminal(browser, 'probe', terminals.probe(folder)),
    'atop': lambda browser, folder: _terminal(browser, 'atop', terminals.atop(folder)),
    'idle': lambda browser, folder: _terminal(browser, 'idle', terminals.idle(folder)),
    'gpus': lambda *_: gpu_table.write(FOLDER / 'gpus.svg'),
    'job': _job,
    'notebook': lambda browser, _: _notebook(browser),
    'fleet': lambda browser, _: _fleet(browser),
}


if __name__ == '__main__':
    main()
