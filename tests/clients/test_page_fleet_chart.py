"""The chart of the whole fleet at the top of the page."""

from __future__ import annotations

import pytest

from support.fleet.page_browser import PHONE, expect, opened
from support.fleet.page_hosts import NOW, busy_gpu, free_gpu, up
from support.fleet.page_server import PageServer

NODE = up('0', 'node01', busy_gpu(0, utilization_percent=80.0), free_gpu(1))

LINES = """async (colors) => {
  await new Promise(requestAnimationFrame); // when it has drawn
  const canvas = document.querySelector('#fleet-past canvas');
  const { width, height } = canvas;
  const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
  return colors.map((color) => {
    const text = getComputedStyle(canvas).getPropertyValue(color).trim();
    const wanted = [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
    const has = (x) => Array.from({ length: height }, (_, y) => 4 * (y * width + x))
      .some((at) => data[at + 3] > 128 && wanted.every((part, of) => Math.abs(part - data[at + of]) < 40));
    const drawn = Array.from({ length: width }, (_, x) => x).filter(has);
    return { span: drawn.at(-1) - drawn[0], gap: Math.max(...drawn.slice(1).map((x, place) => x - drawn[place])) };
  });
}"""
"""How wide each line of the chart is, and the widest gap in it, in pixels."""


def chart(page):
    return page.locator('#fleet-past .chart')


def test_the_last_half_hour_of_the_fleet_is_drawn_and_told(browser):
    with PageServer([NODE]) as server, opened(browser, server.url) as page:
        expect(chart(page).locator('canvas')).to_be_visible()
        assert chart(page).get_attribute('role') == 'img'
        assert chart(page).get_attribute('aria-label') == (
            'Chart of the whole fleet, last half hour: utilization mean 40 %, from 32 % to 49 %, now 40 %; '
            'memory mean 45 %, from 40 % to 49 %, now 45 %'
        )
        assert page.locator('#fleet-past summary').inner_text() == 'Last half hour means: utilization 40 %, memory 45 %'
        assert [label.strip(':') for label in chart(page).locator('.u-label').all_inner_texts()] == [
            'time',
            'utilization',
            'memory',
            'GPUs known',
            'hosts up',
        ]
        newest = chart(page).locator('.u-value').all_inner_texts()
        assert newest[1:] == ['40 %', '45 %', '2', '1']
        chart(page).locator('.u-over').hover()
        expect(chart(page).locator('.u-value').last).to_have_text('1')
        assert chart(page).locator('.u-value').nth(3).inner_text() == '2'


def test_the_chart_is_drawn_once_the_server_is_there_again(browser):
    time = [NOW]
    refused = ('Failed to load resource',)
    with (
        PageServer([NODE], now=lambda: time[0]) as server,
        opened(browser, f'{server.url}/#chart=0', excused=refused) as page,
    ):
        expect(page.locator('#fleet-past .means')).to_have_text('means: utilization 40 %, memory 45 %')
        page.route('**/uPlot.esm.js', lambda route: route.abort(), times=1)
        with page.expect_event('requestfailed'):
            page.locator('#fleet-past summary').click()
        assert chart(page).locator('canvas').count() == 0
        time[0] += 30
        server.put(NODE)
        expect(chart(page).locator('canvas')).to_be_visible()


@pytest.mark.parametrize('scheme', ['light', 'dark'])
def test_what_is_not_known_is_a_gap_in_the_lines(browser, scheme):
    with PageServer([NODE]) as server, opened(browser, server.url, color_scheme=scheme) as page:
        expect(chart(page).locator('canvas')).to_be_visible()
        for found in page.evaluate(LINES, ['--use', '--memory']):
            assert found['span'] > 1000
            # Two minutes of thirty, from the last value before to the first after.
            assert found['gap'] == pytest.approx(found['span'] * 13 / 179, rel=0.1)


def test_where_nothing_is_known_there_is_no_chart(browser):
    with PageServer([NODE.failed('gone')]) as server, opened(browser, server.url) as page:
        expect(page.locator('#fleet-past .means')).to_have_text('not known yet')
        assert not chart(page).is_visible()
        server.put(NODE)
        expect(chart(page)).to_have_attribute(
            'aria-label',
            'Chart of the whole fleet, last half hour: utilization mean 40 %, from 40 % to 40 %, now 40 %; '
            'memory mean 45 %, from 45 % to 45 %, now 45 %',
        )


def test_after_two_rounds_nothing_is_awaited_any_more(browser):
    time = [NOW]
    with PageServer([NODE.failed('gone')], now=lambda: time[0]) as server, opened(browser, server.url) as page:
        expect(page.locator('#fleet-past .means')).to_have_text('not known yet')
        time[0] += 11
        server.put(NODE.failed('still gone'))
        expect(page.locator('#fleet-past .means')).to_have_text('N/A')


def test_the_chart_goes_on_with_what_comes_in(browser):
    time = [NOW]
    with PageServer([NODE], now=lambda: time[0]) as server, opened(browser, server.url) as page:
        expect(chart(page).locator('canvas')).to_be_visible()
        time[0] += 30
        server.put(up('0', 'node01', free_gpu(0), free_gpu(1)))
        label = 'utilization mean 40 %, from 0 % to 49 %, now 0 %; memory mean 45 %, from 1 % to 49 %, now 1 %'
        expect(chart(page)).to_have_attribute('aria-label', f'Chart of the whole fleet, last half hour: {label}')
        time[0] += 60
        server.put(NODE.failed('gone'))
        label = (
            'utilization mean 39 %, from 0 % to 49 %, now not known; memory mean 43 %, from 1 % to 49 %, now not known'
        )
        expect(chart(page)).to_have_attribute('aria-label', f'Chart of the whole fleet, last half hour: {label}')


def test_the_chart_is_folded_and_stays_so(browser):
    with PageServer([NODE]) as server, opened(browser, server.url) as page:
        expect(chart(page).locator('canvas')).to_be_visible()
        page.locator('#fleet-past summary').focus()
        page.keyboard.press('Enter')
        expect(chart(page)).to_be_hidden()
        expect(page).to_have_url(f'{server.url}/#chart=0')
        page.reload()
        expect(page.locator('#fleet-past .means')).to_have_text('means: utilization 40 %, memory 45 %')
        expect(chart(page)).to_be_hidden()
        assert page.locator('canvas').count() == 0
        page.locator('#fleet-past summary').click()
        expect(chart(page).locator('canvas')).to_be_visible()
        expect(page).to_have_url(f'{server.url}/#chart=1')


def test_a_phone_has_the_chart_folded(browser):
    with PageServer([NODE]) as server, opened(browser, server.url, viewport=PHONE) as page:
        expect(page.locator('#fleet-past .means')).to_have_text('means: utilization 40 %, memory 45 %')
        expect(chart(page)).to_be_hidden()
        page.locator('#fleet-past summary').click()
        expect(chart(page).locator('canvas')).to_be_visible()
        assert page.evaluate('document.documentElement.scrollWidth') == PHONE['width']
        page.evaluate("location.hash = ''")
        expect(chart(page)).to_be_hidden()
        page.set_viewport_size({'width': 1440, 'height': 900})
        expect(chart(page).locator('canvas')).to_be_visible()


@pytest.mark.parametrize('size', [PHONE, {'width': 800, 'height': 900}, {'width': 1440, 'height': 900}])
def test_nothing_jumps_when_the_chart_comes(browser, size):
    place = "document.querySelector('#hosts').getBoundingClientRect().top"
    with PageServer([NODE]) as server, opened(browser, f'{server.url}/#chart=1', viewport=size) as page:
        expect(chart(page).locator('canvas')).to_be_visible()
        with_chart = page.evaluate(place)
        page.evaluate("document.querySelector('#fleet-past .chart').hidden = true")
        assert page.evaluate(place) == with_chart


def test_a_page_without_the_half_hour_shows_everything_else(browser):
    excused = ('Failed to load resource',)
    with PageServer([NODE]) as server, opened(browser, server.url, excused=excused) as page:
        page.route('**/api/v1/fleet/history*', lambda route: route.fulfill(status=503))
        page.reload()
        expect(page.locator('#connection')).to_have_text('live')
        expect(page.locator('tbody tr')).to_have_count(2)
        assert not chart(page).is_visible()
