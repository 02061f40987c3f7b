"""The dialog of one GPU: its chart, its figures and the whole command lines."""

from __future__ import annotations

import re

import pytest

from support.fleet.page_browser import PHONE, expect, host, opened, row
from support.fleet.page_hosts import NOW, busy_gpu, claimed_gpu, free_gpu, lost_gpu, process, up
from support.fleet.page_server import PageServer

JOBS = (
    process(4242, utilization_percent=61.0),
    process(5101, user='bob', command='python evaluate.py ' + '--option ' * 100, started=None, memory_bytes=None),
)

DRAWN = """async (utilization) => {
  const { Chart } = await import('/static/chart.js');
  const place = document.createElement('div');
  document.body.prepend(place);
  const chart = new Chart(place);
  const color = getComputedStyle(place).getPropertyValue('--use').trim();
  await chart.show(utilization.map((_, step) => 10 * step), { utilization, memory: utilization.map(() => null) });
  await new Promise(requestAnimationFrame); // when it has drawn
  const canvas = place.querySelector('canvas');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const wanted = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  let count = 0;
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] > 0 && wanted.every((part, of) => Math.abs(part - data[at + of]) < 8)) count += 1;
  }
  chart.clear();
  place.remove();
  return { utilization: count };
}"""
"""How many pixels of the chart have the colour of utilization."""


@pytest.fixture
def server():
    with PageServer(
        [up('0', 'node01', busy_gpu(0, processes=JOBS), claimed_gpu(1), lost_gpu(2), free_gpu(3))]
    ) as running:
        yield running


def facts(page):
    pairs = page.locator('dialog .facts > div').all()
    return {pair.locator('dt').inner_text(): pair.locator('dd').inner_text() for pair in pairs}


def test_a_gpu_is_opened_by_keyboard_and_escape_leads_back(browser, server):
    with opened(browser, server.url) as page:
        button = row(page, 'node01', '0').locator('.open')
        button.focus()
        page.keyboard.press('Enter')
        dialog = page.get_by_role('dialog', name='node01 GPU 0 A100-SXM4-40GB')
        expect(dialog).to_be_visible()
        expect(dialog.get_by_role('button', name='Close')).to_be_focused()
        expect(dialog.locator('.chart canvas')).to_be_visible()
        assert (
            dialog.locator('.chart')
            .get_attribute('aria-label')
            .startswith('Chart: utilization of the last half hour: mean')
        )
        assert [text.strip(':') for text in dialog.locator('.u-legend .u-label').all_inner_texts()] == [
            'time',
            'utilization',
            'memory',
        ]
        page.keyboard.press('Escape')
        expect(dialog).to_be_hidden()
        expect(button).to_be_focused()
        expect(page.locator('dialog canvas')).to_have_count(0)  # the browser says later that the dialog has closed


def test_a_gpu_is_told_in_full(browser, server):
    with opened(browser, server.url) as page:
        row(page, 'node01', '0').click()
        expect(page.locator('dialog')).to_be_visible()
        assert facts(page) == {
            'Status': '[~] in use',
            'Utilization': '97 %',
            'Memory': '38.2 / 42.9 GB',
            'Temperature': '64 °C',
            'SM clock': '1410 MHz',
            'Power': '287 W of 400 W',
            'UUID': 'GPU-00000000-0000-0000-0000-000000000000',
            'PCI bus': '00000000:01:00.0',
        }
        lines = [line.locator('td').all_inner_texts() for line in page.locator('dialog .processes tbody tr').all()]
        assert lines == [
            ['4242', 'alice', '14 hours ago', '61 %', '37.8 GB', JOBS[0].command],
            ['5101', 'bob', 'N/A', 'N/A', 'N/A', 'python evaluate.py ' + '--option ' * 100],
        ]


def test_a_claim_and_a_gpu_that_cannot_be_read_are_told(browser, server):
    with opened(browser, server.url) as page:
        row(page, 'node01', '1').click()
        expect(page.locator('dialog .no-processes')).to_have_text('No process is listed.')
        assert facts(page)['Claim'] == 'claimed by alice for python sweep.py --seed 7'
        page.locator('dialog .close').click()
        row(page, 'node01', '2').click()
        expect(page.locator('dialog .no-processes')).to_have_text('Its processes are not known.')
        assert facts(page)['Problem'].startswith('lost: fallen off the bus')
        expect(page.locator('dialog .no-chart')).to_have_text('Nothing is known of the last half hour.')


def test_an_open_dialog_goes_on_with_its_gpu(browser, server):
    with opened(browser, server.url) as page:
        row(page, 'node01', '3').click()
        expect(page.locator('dialog canvas')).to_be_visible()
        server.put(up('0', 'node01', busy_gpu(3, processes=(process(77, command='python new.py'),))))
        expect(page.locator('dialog .processes .command')).to_have_text('python new.py')
        assert facts(page)['Utilization'] == '97 %'
        server.put(up('0', 'node01', busy_gpu(3)).failed('gone'))
        expect(page.locator('dialog .gone')).to_have_text('The host is down: what follows was seen last.')
        server.put(up('0', 'node01', busy_gpu(0)))
        expect(page.locator('dialog .gone')).to_contain_text('not there any more')
        page.keyboard.press('Escape')
        expect(page.locator('dialog')).to_be_hidden()


def test_a_gpu_that_is_lost_while_it_is_open_shows_why_and_no_figure_of_before(browser, server):
    with opened(browser, server.url) as page:
        server.put(up('0', 'node01', busy_gpu(0)))
        row(page, 'node01', '0').click()
        expect(page.locator('dialog canvas')).to_be_visible()
        assert facts(page)['Utilization'] == '97 %'
        server.put(up('0', 'node01', lost_gpu(0)._replace(key=busy_gpu(0).key)))
        expect(page.locator('dialog .no-processes')).to_have_text('Its processes are not known.')
        shown = facts(page)
        assert shown['Status'] == '[x] unreadable'
        assert shown['Problem'].startswith('lost: fallen off the bus')
        assert {shown[name] for name in ('Utilization', 'Memory', 'Temperature', 'SM clock', 'Power')} == {'N/A'}
        expect(page.locator('dialog .gone')).to_have_text('')


def test_a_value_between_gaps_is_drawn_as_a_point(browser):
    with PageServer([up('0', 'node01', busy_gpu(0))]) as server, opened(browser, f'{server.url}/') as page:
        row(page, 'node01', '0').locator('.spark[aria-label]').wait_for()
        shown = page.evaluate(DRAWN, [None, None, 50.0, None, None])
        assert shown['utilization'] > 5
        assert shown['utilization'] < page.evaluate(DRAWN, [50.0, 50.0, 50.0, 50.0, 50.0])['utilization']
        assert page.evaluate(DRAWN, [None, None, None, None, None])['utilization'] == 0


def test_a_line_does_not_fill_the_gap_of_a_host_that_was_down(browser):
    time = [NOW]
    node = up('0', 'node01', busy_gpu(0))
    with PageServer([node], now=lambda: time[0]) as server, opened(browser, server.url) as page:
        path = row(page, 'node01', '0').locator('.spark[aria-label] path')
        assert path.get_attribute('d').count('M') == 1
        server.put(node.failed('gone'))
        host(page, 'node01').locator('.note').wait_for()
        time[0] += 120  # nothing else is told meanwhile
        server.put(node)
        host(page, 'node01').locator('.note').wait_for(state='detached')
        expect(path).to_have_attribute('d', re.compile(r'^M[^M]+M120 [0-9.]+h-1$'))


def test_lines_of_the_past_go_on_with_what_comes_in(browser):
    time = [NOW]
    with (
        PageServer([up('0', 'node01', busy_gpu(0))], now=lambda: time[0]) as server,
        opened(browser, server.url) as page,
    ):
        path = row(page, 'node01', '0').locator('.spark[aria-label] path')
        before = path.get_attribute('d')
        assert not before.endswith('L120 19')
        for clock in ('210', '1410'):  # three steps each: so many are one point of the line
            time[0] += 30
            idle = busy_gpu(0, utilization_percent=0.0, sm_clock_hertz=int(clock) * 1_000_000)
            server.put(up('0', 'node01', idle))
            expect(row(page, 'node01', '0').locator('.clock')).to_have_text(f'{clock} MHz')
        expect(path).to_have_attribute('d', re.compile('L120 19$'))
        assert server.source.asked == ['0']


def test_the_dialog_fits_a_phone_and_a_dark_room(browser, server):
    with opened(browser, server.url, viewport=PHONE, color_scheme='dark') as page:
        row(page, 'node01', '0').locator('.open').click()
        expect(page.locator('dialog canvas')).to_be_visible()
        assert page.evaluate("document.querySelector('dialog').scrollWidth") <= PHONE['width']
        assert page.evaluate('document.documentElement.scrollWidth') == PHONE['width']
