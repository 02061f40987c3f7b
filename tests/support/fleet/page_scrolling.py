"""How smoothly the page scrolls through a large fleet that changes all the while, in figures."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, NamedTuple

from support.fleet.page_browser import chromium, opened
from support.fleet.page_hosts import made_up_hosts
from support.fleet.page_server import PageServer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.fleet.hosts.host import HostState

ROUND = 5.0
"""Seconds in which every host has reported once."""
_PIECES = 50

_SCROLL = """async ([pixels, milliseconds]) => {
  const frames = [], tasks = [];
  new PerformanceObserver((list) => tasks.push(...list.getEntries().map((entry) => entry.duration)))
    .observe({ type: 'longtask' });
  await new Promise((done) => {
    const end = performance.now() + milliseconds;
    let last = null, way = pixels;
    requestAnimationFrame(function step(now) {
      if (last !== null) frames.push(now - last);
      last = now;
      if (scrollY <= 0) way = pixels;
      if (scrollY + innerHeight >= document.documentElement.scrollHeight - 1) way = -pixels;
      scrollBy(0, way);
      if (now < end) requestAnimationFrame(step); else done();
    });
  });
  await new Promise((done) => setTimeout(done, 100));
  return { frames, tasks };
}"""

_PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
_ROWS_AT = """() => new Promise((done) => {
  const look = () => requestAnimationFrame(document.querySelector('.host tbody tr') ? done : look);
  look();
})"""


class Scrolling(NamedTuple):
    """Milliseconds."""

    first_paint: float
    """From the start of the navigation until something stands on the page."""
    first_rows: float
    """From there until the first GPUs do."""
    frames: Sequence[float]
    """Between two pictures each, in order of length."""
    long_tasks: Sequence[float]
    """What kept the page from reacting for more than 50 ms."""

    def frame(self, share: float) -> float:
        """Return how long at most the given share of the frames took."""
        return self.frames[min(len(self.frames) - 1, int(share * len(self.frames)))]


def scrolling(hosts: int, gpus: int = 8, *, pixels: int = 40, seconds: float = 10.0) -> Scrolling:
    """Measure a page of a fleet all of whose hosts report anew every five seconds.

    :param pixels: To scroll in each frame.
    """
    fleet = made_up_hosts(hosts, gpus)
    with chromium() as browser, PageServer(fleet) as server, opened(browser, f'{server.url}/#compact=0') as page:
        first_rows = page.evaluate(_ROWS_AT)
        painted = page.evaluate(_PAINTED)
        ended = threading.Event()
        reporting = threading.Thread(target=_report, args=(server, fleet, ended))
        reporting.start()
        try:
            found = page.evaluate(_SCROLL, [pixels, seconds * 1000])
        finally:
            ended.set()
            reporting.join()
    return Scrolling(painted, first_rows, sorted(found['frames']), sorted(found['tasks']))


def _report(server: PageServer, hosts: Sequence[HostState], ended: threading.Event) -> None:
    chance = random.Random(7)  # noqa: S311 - figures, not secrets
    at_once = -(-len(hosts) // _PIECES)
    place = 0
    while not ended.wait(ROUND / _PIECES):
        server.put(*(_changed(host, chance) for host in hosts[place : place + at_once]))
        place = (place + at_once) % len(hosts)


def _changed(host: HostState, chance: random.Random) -> HostState:
    gpus = tuple(gpu._replace(utilization_percent=float(chance.randint(0, 100))) for gpu in host.report.gpus)
    return host._replace(report=host.report._replace(gpus=gpus))


if __name__ == '__main__':
    for count in (125, 1000):
        figures = scrolling(count)
        print(
            f'{8 * count} GPUs: first paint {figures.first_paint:.0f} ms, rows {figures.first_rows:.0f} ms, '
            f'{len(figures.frames)} frames: median {figures.frame(0.5):.1f} ms, 99 % {figures.frame(0.99):.1f} ms, '
            f'longest {figures.frames[-1]:.1f} ms; {len(figures.long_tasks)} tasks above 50 ms'
        )
