"""Makes the pictures of the page in the documentation: a fleet that was never there, in Debian's Chromium.

PYTHONPATH=src:tests python scripts/screenshots.py     # writes docs/_static/fleet-{light,dark,phone}.png
"""  # noqa: INP001 - a program of its own

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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
    from gpu_tracker.fleet.hosts.host import HostState

FOLDER = Path(__file__).resolve().parent.parent / 'docs' / '_static'
WIDE = {'width': 1360, 'height': 740}
LARGEST = 200_000
"""Bytes of a picture: they are part of the source."""

PICTURES = {
    'light': {'viewport': WIDE, 'color_scheme': 'light'},
    'dark': {'viewport': WIDE, 'color_scheme': 'dark'},
    'phone': {'viewport': PHONE, 'color_scheme': 'light', 'device_scale_factor': 2},
}


def main() -> None:
    """Write all pictures."""
    with chromium() as browser, PageServer(_hosts()) as server:
        for name, options in PICTURES.items():
            file = FOLDER / f'fleet-{name}.png'
            with opened(browser, server.url, **options) as page:
                page.locator('.spark[aria-label]').nth(2).wait_for()
                page.screenshot(path=file)
            size = file.stat().st_size
            if size > LARGEST:
                raise SystemExit(f'{file} has {size} bytes; {LARGEST} at most are wanted')


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
