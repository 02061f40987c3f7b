"""Debian's Chromium, and pages in it that must neither complain nor ask anybody else for anything."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from support.programs import need_program
from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page

DESKTOP = {'width': 1440, 'height': 900}
PHONE = {'width': 390, 'height': 844}


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser, and end it."""
    need_program('chromium-headless-shell')  # half of the CPU time of chromium
    program = shutil.which('chromium-headless-shell')
    pytest.importorskip('playwright', reason='needs the package playwright')
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - other tests do without

    arguments = ['--disable-dev-shm-usage', *(['--no-sandbox'] if os.geteuid() == 0 else [])]
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=program, args=arguments) as browser,
    ):
        yield browser


_VISIBLE = """(isVisible) => {
  const told = { hidden: !isVisible, visibilityState: isVisible ? 'visible' : 'hidden' };
  for (const [name, value] of Object.entries(told)) {
    Object.defineProperty(document, name, { configurable: true, value });
  }
  document.dispatchEvent(new Event('visibilitychange'));
}"""
"""Tells a page what a browser does when its tab is left or returned to: playwright keeps all pages visible."""


@contextlib.contextmanager
def opened(
    browser: Browser, url: str, *, excused: tuple[str, ...] = (), is_visible: bool = True, **options: Any
) -> Iterator[Page]:
    """Open a page in a fresh profile; at the end it must have made no error and no request to another server.

    :param excused: Beginnings of messages that the test brings about.
    :param is_visible: Not where it is opened in a tab behind another one.
    :param options: Those of ``Browser.new_context``.
    """
    settings = {'viewport': DESKTOP, 'locale': 'en-GB', 'timezone_id': 'UTC'}
    complaints: list[str] = []
    elsewhere: list[str] = []
    origin = '/'.join(url.split('/')[:3])
    with browser.new_context(**(settings | options)) as context:
        context.set_default_timeout(1000 * TIMEOUT)
        page = context.new_page()
        if not is_visible:
            page.add_init_script(f'({_VISIBLE})(false)')
        page.on('console', lambda message: complaints.append(message.text) if message.type != 'log' else None)
        page.on('pageerror', lambda error: complaints.append(str(error)))
        page.on('dialog', lambda dialog: complaints.append(f'dialog: {dialog.message}') or dialog.dismiss())
        page.on('request', lambda request: None if request.url.startswith(origin) else elsewhere.append(request.url))
        page.goto(url)
        yield page
    unexcused = [text for text in complaints if not text.startswith(excused)]
    assert unexcused == [], unexcused  # pytest shows no values of what is outside the test
    assert elsewhere == []


def leave(page: Page) -> None:
    """Have the page think that another tab is looked at."""
    page.evaluate(_VISIBLE, False)


def come_back(page: Page) -> None:
    """Have the page think that it is looked at again."""
    page.evaluate(_VISIBLE, True)


def expect(target: Page | Locator) -> Any:
    """Return playwright's expectation, which polls until it is met."""
    from playwright.sync_api import expect as expectation  # noqa: PLC0415 - as above

    expectation.set_options(timeout=1000 * TIMEOUT)
    return expectation(target)


def host(page: Page, name: str) -> Locator:
    """Return the card of the host with this name."""
    return page.get_by_role('article', name=name, exact=True)


def row(page: Page, host_name: str, index: str) -> Locator:
    """Return the row of a GPU."""
    button = page.get_by_role('button', name=f'GPU {index}: open its chart and processes', exact=True)
    return host(page, host_name).locator('tbody tr').filter(has=button)


def cells(line: Locator) -> dict[str, str]:
    """Return what stands in the cells of a GPU, by their classes, without its surroundings of blanks."""
    names = (
        'index',
        'status',
        'model',
        'utilization',
        'memory',
        'temperature',
        'clock',
        'power',
        'users',
        'since',
        'program',
    )
    return {name: ' '.join(line.locator(f'.{name}').inner_text().split()) for name in names}


def shown_hosts(page: Page) -> list[str]:
    """Return the names of the hosts on the page, in order."""
    return page.locator('.host h3').all_inner_texts()


def summary(page: Page) -> dict[str, str]:
    """Return the figures of the fleet, by what they are."""
    pairs = page.locator('#summary dl > div:visible')
    texts = [(pair.locator('dt').inner_text(), pair.locator('dd').inner_text()) for pair in pairs.all()]
    return {' '.join(name.split()): ' '.join(text.split()) for name, text in texts}
