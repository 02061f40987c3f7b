"""A page that nobody looks at: it asks for nothing, and is right at once when somebody comes back."""

from __future__ import annotations

import re

from support.fleet.page_browser import come_back, expect, leave, opened, row
from support.fleet.page_hosts import busy_gpu, free_gpu, up
from support.fleet.page_server import PageServer

NODE = up('0', 'node01', free_gpu(0))


def expect_connection(page, state):
    expect(page.locator('body')).to_have_attribute('data-connection', state)


def test_more_pages_can_be_open_than_a_browser_has_connections(browser):
    with PageServer([NODE]) as server, opened(browser, server.url) as first:
        expect_connection(first, 'live')
        left = first
        for _ in range(6):
            leave(left)
            left = first.context.new_page()
            left.goto(server.url)
            expect_connection(left, 'live')
        come_back(first)
        expect_connection(first, 'live')


def test_who_comes_back_to_a_page_sees_what_is_there_now(browser):
    with PageServer([NODE]) as server, opened(browser, server.url) as page:
        row(page, 'node01', '0').locator('.spark[aria-label]').wait_for()
        expect(page).to_have_title('1 free · GPU fleet')
        row(page, 'node01', '0').click()
        expect(page.locator('dialog canvas')).to_be_visible()
        leave(page)
        expect(page).to_have_title('GPU fleet')
        expect_connection(page, 'connecting')
        assert re.fullmatch(
            r'connecting… The figures are of 08:00:00 \((just now|\d+ seconds ago)\)\.',
            page.locator('#connection').inner_text(),
        )
        server.put(up('0', 'node01', busy_gpu(0)))
        come_back(page)
        expect_connection(page, 'live')
        expect(page.locator('#connection')).to_have_text('live')
        expect(page).to_have_title('0 free · GPU fleet')
        expect(page.locator('dialog .facts')).to_contain_text('97 %')
        expect(row(page, 'node01', '0')).to_contain_text('97 %')
        page.wait_for_function(
            "performance.getEntriesByType('resource').filter(({ name }) => /history/.test(name)).length > 1"
        )


def test_a_page_in_a_tab_that_was_never_seen_is_filled_once(browser):
    with PageServer([NODE]) as server, opened(browser, server.url, is_visible=False) as page:
        row(page, 'node01', '0').wait_for(state='attached')
        expect_connection(page, 'connecting')
        assert page.locator('.kind.free .number').inner_text() == '1'
        come_back(page)
        expect_connection(page, 'live')
        expect(page).to_have_title('1 free · GPU fleet')


def test_who_comes_back_when_the_server_is_gone_is_told(browser):
    excused = ('Failed to load resource',)
    with PageServer([NODE]) as server, opened(browser, server.url, excused=excused) as page:
        expect_connection(page, 'live')
        leave(page)
        server.stop()
        expect_connection(page, 'connecting')
        come_back(page)
        expect_connection(page, 'lost')
        expect(page).to_have_title('GPU fleet')
