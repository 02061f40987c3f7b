"""How long the page of a large recording takes to be made and to be opened, and its plot and comparison to be made.

Usage:
    pictures [--samples=N] [--regions=N] [--rounds=N]

It is run as python -m benchmarks.pictures, in the checkout, where gpu-tracker is installed with the group browser.

Options:
    --samples=N  Samples of the recording, one a second [default: 1000000].
    --regions=N  Names of regions in it, each called once [default: 0].
    --rounds=N   How often each is measured; the median is printed [default: 5].
    -h --help    Show this text.

A page that is opened has drawn its last chart. Without playwright and Chromium that row is left out.
"""

from __future__ import annotations

import gzip
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from docopt import docopt

from gpu_tracker.recording import schema
from gpu_tracker.recording.comparing.comparison import compare
from gpu_tracker.recording.comparing.comparison_text import as_text
from gpu_tracker.recording.reading.recording import load
from gpu_tracker.resources import GAUGE
from gpu_tracker.resources.cpu import Cpu
from gpu_tracker.resources.gpu import Gpu
from gpu_tracker.resources.ram import Ram
from gpu_tracker.views.plot import picture
from gpu_tracker.views.report_page.page import html_page

if TYPE_CHECKING:
    from collections.abc import Callable

_COLUMNS = (*Gpu.columns, *Cpu.columns, *Ram.columns)
_OPENED = 'document.querySelectorAll(".chart canvas").length === document.querySelectorAll(".chart").length'


def main() -> None:
    """Make a recording, measure, and print a table."""
    options = docopt(__doc__, sys.argv[1:])
    samples, regions, rounds = (int(options[name]) for name in ('--samples', '--regions', '--rounds'))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, 'run.db')
        _write(path, samples, regions)
        other = shutil.copy(path, Path(folder, 'other.db'))
        page = ''

        def make() -> None:
            nonlocal page
            with load(path) as recording:
                page = html_page([recording])

        def draw() -> None:
            with load(path) as recording:
                picture(recording.plot(), 'png')

        def compared() -> None:
            as_text(compare({'first': path, 'other': other}))

        print(f'{samples:,} samples, {regions:,} regions, {path.stat().st_size / 1e6:.0f} MB')  # noqa: T201 - that is what it is for
        print(f'report, made      {_median(make, rounds):6.2f} s')  # noqa: T201 - as above
        print(f'plot, made        {_median(draw, rounds):6.2f} s')  # noqa: T201 - as above
        print(f'comparison, made  {_median(compared, rounds):6.2f} s')  # noqa: T201 - as above
        size = len(page.encode())
        print(f'report, size      {size / 1e3:6.0f} kB, {len(gzip.compress(page.encode())) / 1e3:.0f} kB compressed')  # noqa: T201 - as above
        _open(page, Path(folder, 'run.html'), rounds)


def _write(path: Path, samples: int, regions: int) -> None:
    """Write a recording in which every figure changes all the time."""
    names = [column.name for column in _COLUMNS]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f'PRAGMA application_id = {schema.APPLICATION_ID}')
        connection.execute(f'PRAGMA user_version = {schema.VERSION}')
        connection.executescript(schema.TABLES)
        connection.execute(schema.samples_table(_COLUMNS))
        connection.executemany(
            'INSERT INTO columns VALUES (?, ?, ?, ?, ?, ?, ?)',
            [
                (place, one.name, one.unit, one.kind, schema.small_unit(one),
                 ' '.join(schema.stored_sum(one.name, names)), one.meaning)
                for place, one in enumerate(_COLUMNS)
            ],
        )  # fmt: skip
        connection.execute("INSERT INTO meta VALUES ('interval', 1.0)")
        cells = [f'n * {place + 7} % 100003' if one.kind == GAUGE else 'n * 1000' for place, one in enumerate(_COLUMNS)]
        connection.execute(
            f'WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < {samples - 1}) '  # noqa: S608 - numbers
            f'INSERT INTO samples (t, {", ".join(names)}) SELECT n * 1000000, {", ".join(cells)} FROM numbers'
        )
        length = 1_000_000 * samples // max(regions, 1)
        connection.executemany(
            'INSERT INTO regions (pid, name, start, stop, thread_cpu, calls, errors) VALUES (1, ?, ?, ?, 10, 1, 0)',
            ((f'step {number}', number * length, (number + 1) * length - number % 7) for number in range(regions)),
        )
        connection.commit()


def _open(page: str, path: Path, rounds: int) -> None:
    program = shutil.which('chromium')
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - may be missing
    except ImportError:
        return
    if program is None:
        return
    path.write_text(page, encoding='utf-8')
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=['--no-sandbox'])

        def show() -> None:
            tab = browser.new_page()
            tab.goto(path.as_uri())
            tab.wait_for_function(_OPENED)
            tab.close()

        print(f'report, opened    {_median(show, rounds):6.2f} s')  # noqa: T201 - as above
        browser.close()


def _median(work: Callable[[], None], rounds: int) -> float:
    found = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return statistics.median(found)


if __name__ == '__main__':
    main()
