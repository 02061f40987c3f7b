"""The dashboard's page in Chromium: how soon it shows something, and whether scrolling it stutters."""

from __future__ import annotations

import contextlib
import importlib
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.arithmetic import percentile
from benchmarks.fleet_agents import Crowd, agents
from benchmarks.fleet_rounds import MIXED
from benchmarks.fleet_servers import dashboard, wait_until_seen
from benchmarks.fleet_trace import CATEGORIES, tasks_of
from benchmarks.peers import OURS
from benchmarks.results import Gap
from benchmarks.session import FailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from benchmarks.fleet_servers import Server
    from benchmarks.session import Session

BLANK = 'empty page'
"""Chromium's own frames on this machine, beside which those of the page are to be seen."""
LONG_FRAME = 0.05
"""Seconds: what people see as a stutter begins there."""

_ROUNDS = 5
_QUICK_ROUNDS = 2
_WINDOW = {'width': 1400, 'height': 900}
_PATIENCE = 60_000
"""Milliseconds that the page may take."""
_MILLI = 1e-3
_FULL = '/#compact=0'
"""With a row for each GPU: more than 30 hosts are compact otherwise."""
_HOST_ROWS = '#hosts tbody tr'
"""The GPUs of a host, in the dashboard's page."""

_NOTE_ROWS = """
const look = () => {
  if (document.querySelector('ROWS') === null) requestAnimationFrame(look);
  else window.benchmarkRows = performance.now();
};
requestAnimationFrame(look);
""".replace('ROWS', _HOST_ROWS)
"""In the picture after the first rows are in the document, these have been painted."""
_PAINTED = """() => {
  const paint = performance.getEntriesByName('first-contentful-paint')[0];
  return window.benchmarkRows !== undefined && paint ? [paint.startTime, window.benchmarkRows] : null;
}"""
_SCROLL = """async (milliseconds) => {
  const frame = () => new Promise(requestAnimationFrame);
  const steps = [];
  let direction = 1;
  let last = await frame();
  const end = last + milliseconds;
  while (last < end) {
    const before = scrollY;
    scrollBy({ top: 120 * direction, behavior: 'instant' });
    if (scrollY === before) direction = -direction;
    const now = await frame();
    steps.push(now - last);
    last = now;
  }
  return steps;
}"""
_EMPTY = '<!doctype html><title>empty</title><div style="height: 40000px"></div>'


@dataclass(frozen=True)
class Opening:
    """A page that is opened by a browser that has never seen it."""

    name: str
    crowd: Crowd

    @property
    def row(self) -> str:
        """What it is called among all figures."""
        return f'open: {self.name}'


@dataclass(frozen=True)
class Scrolling:
    """A page that is scrolled all the time, while its figures change.

    :ivar seconds: For how long.
    """

    name: str
    crowd: Crowd
    seconds: float = 10

    @property
    def row(self) -> str:
        """What it is called among all figures."""
        return f'scroll: {self.name}'


OPENINGS = (Opening('1,000 hosts, 8,000 GPUs', MIXED), Opening('125 hosts, 1,000 GPUs', Crowd(125)))
SCROLLINGS = (Scrolling('125 hosts, 1,000 GPUs', Crowd(125)), Scrolling('1,000 hosts, 8,000 GPUs', MIXED))
QUICK_SCROLLINGS = (Scrolling('125 hosts, 1,000 GPUs', Crowd(125), seconds=8),)


def measure(session: Session, part: str, openings: Sequence[Opening], scrollings: Sequence[Scrolling]) -> None:
    """Measure both questions, where there is a browser."""
    openings = [opening for opening in openings if session.wants(opening.row)]
    scrollings = [scrolling for scrolling in scrollings if session.wants(scrolling.row)]
    if not openings and not scrollings:
        return
    with contextlib.ExitStack() as stack:
        try:
            browser = stack.enter_context(_chromium())
        except FailedError as error:
            rows = [*(opening.row for opening in openings), *(scrolling.row for scrolling in scrollings)]
            session.results.gaps += [Gap(part, row, OURS.name, str(error)) for row in rows]
            return
        session.results.versions['Chromium'] = browser.version
        for opening in openings:
            _measure(session, part, opening, lambda server: {OURS.name: lambda: _opened(browser, server)})
        for scrolling in scrollings:
            seconds = scrolling.seconds
            _measure(
                session,
                part,
                scrolling,
                lambda server, seconds=seconds: {  # type: ignore[misc]
                    OURS.name: lambda: _scrolled(browser, server, seconds),
                    BLANK: lambda: _scrolled(browser, None, seconds),
                },
            )


def _measure(
    session: Session,
    part: str,
    case: Opening | Scrolling,
    measures: Callable[[Server], Mapping[str, Callable[[], dict[str, float]]]],
) -> None:
    """Take all measures in turn, with one dashboard for all rounds, which has asked all hosts."""
    try:
        with agents(case.crowd) as there, dashboard(session.environments[OURS.name], there.urls) as server:
            wait_until_seen(server, case.crowd.well)
            session.take_turns(part, case.row, session.rounds(_ROUNDS, _QUICK_ROUNDS), measures(server))
    except FailedError as error:
        session.results.gaps.append(Gap(part, case.row, OURS.name, str(error)))


def _opened(browser: Any, server: Server) -> dict[str, float]:  # noqa: ANN401 - playwright may not be there
    """Open the page, and return when something and when the first GPUs were to be seen."""
    with _tab(browser) as tab:
        tab.add_init_script(_NOTE_ROWS)
        browser.start_tracing(page=tab, categories=CATEGORIES)
        tab.goto(f'{server.url}{_FULL}', timeout=_PATIENCE)
        painted, rows = tab.wait_for_function(_PAINTED, timeout=_PATIENCE).json_value()
        tasks = tasks_of(browser.stop_tracing())
    return {'first paint': painted * _MILLI, 'rows': rows * _MILLI, 'cpu': sum(tasks)}


def _scrolled(browser: Any, server: Server | None, seconds: float) -> dict[str, float]:  # noqa: ANN401 - as above
    """Scroll, and return how long frames were.

    :param server: None: a page with nothing in it.
    """
    with _tab(browser) as tab:
        if server is None:
            tab.set_content(_EMPTY)
        else:
            tab.goto(f'{server.url}{_FULL}', timeout=_PATIENCE)
            tab.wait_for_selector(_HOST_ROWS, timeout=_PATIENCE)
        browser.start_tracing(page=tab, categories=CATEGORIES)
        frames = [milliseconds * _MILLI for milliseconds in tab.evaluate(_SCROLL, seconds / _MILLI)]
        tasks = tasks_of(browser.stop_tracing())
    return {
        'frames': len(frames),
        'median': percentile(frames, 50),
        'p99': percentile(frames, 99),
        'longest': max(frames),
        'long': sum(frame > LONG_FRAME for frame in frames),
        'longest task': max(tasks, default=0),
    }


@contextlib.contextmanager
def _chromium() -> Iterator[Any]:
    """Run Chromium without a screen.

    :raises FailedError: where it, or what drives it, is not there.
    """
    program = shutil.which('chromium')
    if program is None:
        raise FailedError('chromium is not installed')
    try:
        playwright = importlib.import_module('playwright.sync_api')
    except ImportError:
        raise FailedError('playwright is not installed: pip install --group browser') from None
    with playwright.sync_playwright() as driver:
        # Chromium's own sandbox does not run as root; it opens pages of this machine only.
        browser = driver.chromium.launch(executable_path=program, args=['--no-sandbox'])
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def _tab(browser: Any) -> Iterator[Any]:  # noqa: ANN401 - as above
    """Open a tab of a browser that has never been used; what goes wrong in it is a reason for a table."""
    error = importlib.import_module('playwright.sync_api').Error
    context = browser.new_context(viewport=_WINDOW)
    try:
        yield context.new_page()
    except error as reason:
        raise FailedError(str(reason).splitlines()[0]) from None
    finally:
        context.close()
