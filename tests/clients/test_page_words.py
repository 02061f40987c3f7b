"""The page's words, figures and ages, in whatever language the browser is."""

from __future__ import annotations

import json

from support.fleet.page_browser import expect, host, opened, row
from support.fleet.page_hosts import NOW, busy_gpu, process, up
from support.fleet.page_server import PageServer


def test_words_and_paths_are_as_they_should_be(browser):
    script = """async () => {
      const words = await import('/static/words.js');
      const spark = await import('/static/spark.js');
      return {
        printable: words.printable('a\\u202eb\\u0007c\\u200b d'), cut: words.printable('x'.repeat(1000)).length,
        sizes: [[1.5e9, 8e9], [null, 8e9], [2.5e12, 8e12], [null, null]].map((pair) => words.usedOf(...pair)),
        shares: [words.share(1, 4), words.share(null, 4), words.share(1, 0), words.share(9, 4)],
        ages: [-5, 9, 59, 61, 180, 7200, 86400, 200000].map((age) => words.ago(age)), absurd: words.figure(1e308, ' W'),
        dates: [words.machineReadable(0), words.isMoment(1e300), words.isMoment(null)],
        paths: [[], [null], [50], [0, 100], [0, null, 100], [null, 50, null]].map((values) => spark.sparkPath(values)),
        thinned: spark.thinned([0, 10, 20, 30, null, null], 3),
        long: spark.sparkPath(Array(1000).fill(7)).split('L').length,
        label: spark.sparkLabel([null]),
      };
    }"""
    with PageServer([]) as server, opened(browser, server.url) as page:
        assert json.loads(json.dumps(page.evaluate(script))) == {
            'printable': 'a?b?c? d',
            'cut': 301,
            'sizes': ['1.5 / 8.0 GB', 'N/A / 8.0 GB', '2.5 / 8.0 TB', 'N/A'],
            'shares': [25, None, None, 100],
            'ages': [
                'just now',
                'just now',
                '59 seconds ago',
                'a minute ago',
                '3 minutes ago',
                '2 hours ago',
                'a day ago',
                '2 days ago',
            ],
            'absurd': '1e+308 W',
            'dates': ['1970-01-01T00:00:00.000Z', False, False],
            'paths': ['', '', 'M0 10h1', 'M0 19L120 1', 'M0 19h1M120 1h-1', 'M60 10h1'],
            'thinned': [5, 25, None],
            'long': 60,
            'label': 'utilization of the last half hour: not known',
        }
        expect(
            page.get_by_text('No host is known, neither from the configuration nor from Prometheus.')
        ).to_be_visible()
        assert page.locator('option[value=memory]').text_content() == 'memory used (%)'


def test_words_are_english_whatever_the_browser_speaks(browser):
    lost = up('0', 'node01', busy_gpu(0)).failed('it does not answer')._replace(last_seen=NOW - 5 * 24 * 3600)
    with PageServer([lost]) as server, opened(browser, server.url, locale='de-DE') as page:
        row(page, 'node01', '0').wait_for()
        assert host(page, 'node01').locator('.note span').inner_text() == 'last seen 10.01.2027 08:00:00 (5 days ago)'
        assert row(page, 'node01', '0').locator('.since').inner_text() == '14 hours ago'


def test_the_longest_age_fits_its_column(browser):
    started = process(started=NOW - 59 * 60)
    with PageServer([up('0', 'node01', busy_gpu(0, processes=(started,)))]) as server:
        for width in (1250, 1440):
            with opened(browser, server.url, viewport={'width': width, 'height': 600}) as page:
                cell = row(page, 'node01', '0').locator('.since')
                expect(cell).to_have_text('59 minutes ago')
                assert cell.evaluate('cell => cell.scrollWidth - cell.clientWidth') <= 0
