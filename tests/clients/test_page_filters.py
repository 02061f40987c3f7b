"""Finding hosts and GPUs on the page: filters, order, the address, the keyboard."""

from __future__ import annotations

import itertools

import pytest

from support.fleet.page_browser import PHONE, expect, host, opened, row, shown_hosts
from support.fleet.page_hosts import (
    H100,
    H100_MEMORY,
    busy_gpu,
    claimed_gpu,
    free_gpu,
    made_up_hosts,
    process,
    split_gpu,
    unseen_gpu,
    up,
)
from support.fleet.page_server import PageServer

BOB = (process(5101, user='bob', program='evaluate.py', command='python evaluate.py --split test'),)

HOSTS = (
    up('0', 'node10', busy_gpu(0, temperature_celsius=70.0), free_gpu(1), free_gpu(2), group='lab'),
    up('1', 'node2', busy_gpu(0, utilization_percent=50.0, processes=BOB), claimed_gpu(1), group='lab'),
    up('2', 'big1', free_gpu(0, type=H100, memory_total_bytes=H100_MEMORY), unseen_gpu(1), group='hall'),
    up('3', 'mig1', split_gpu(0)),
    up('4', 'lost1', free_gpu(0)).failed('it does not answer'),
)

_ON_THE_LINE = """const facts = (host) => [...host.querySelectorAll('.host-facts > *')];
  const onTheLine = (host) => facts(host).filter((fact) => fact.offsetWidth > 0
    && fact.getBoundingClientRect().top < fact.parentElement.getBoundingClientRect().bottom - 2);"""
CUT_OFF = f"""() => {{ {_ON_THE_LINE}
  const isCut = (fact) => fact.getBoundingClientRect().right > fact.parentElement.getBoundingClientRect().right + 0.5
    || (fact.localName !== 'bdi' && fact.scrollWidth > fact.clientWidth);
  return [...document.querySelectorAll('.host')].flatMap(onTheLine).filter(isCut).map((fact) => fact.textContent);
}}"""
SEEN = f"""() => {{ {_ON_THE_LINE}
  const text = (fact) => fact.textContent.trim().replace(/\\s+/g, ' ');
  return onTheLine(document.querySelector('.host')).map(text).filter(Boolean);
}}"""
TOPS = 'parts => parts.map((part) => part.getBoundingClientRect().top)'


@pytest.fixture(scope='module')
def server():
    with PageServer(HOSTS) as running:
        yield running


def expect_indices(page, name, *indices):
    expect(host(page, name).locator('.index')).to_have_text(list(indices))


def expect_hosts(page, *names):
    expect(page.locator('.host h3')).to_have_text(list(names))


def test_filters_show_the_gpus_that_match_and_stand_in_the_address(browser, server):
    with opened(browser, server.url) as page:
        expect_hosts(page, 'big1', 'lost1', 'mig1', 'node2', 'node10')
        page.get_by_label('Free only').check()
        expect_hosts(page, 'big1', 'mig1', 'node10')  # what is down is not known to be free; of mig1 a MIG device is
        expect_indices(page, 'node10', '1', '2')
        expect(host(page, 'node10').locator('.host-facts .free')).to_have_text('2 of 3 free, 2 shown')
        expect(page.locator('output')).to_have_text('3 hosts and 4 GPUs shown')
        page.get_by_label('Model').select_option('NVIDIA H100 80GB HBM3')
        expect_hosts(page, 'big1')
        expect(page).to_have_url(f'{server.url}/#model=NVIDIA+H100+80GB+HBM3&free=1')
        page.get_by_role('button', name='Show all').click()
        expect_hosts(page, 'big1', 'lost1', 'mig1', 'node2', 'node10')
        expect(page).to_have_url(f'{server.url}/')
        page.locator('select[name=user]').select_option('bob')
        expect_hosts(page, 'node2')
        expect_indices(page, 'node2', '0')
        page.locator('select[name=user]').select_option('alice')
        expect_hosts(page, 'node2', 'node10')
        expect_indices(page, 'node2', '1')  # whose claim it is
        page.get_by_label('Group').select_option('lab')
        page.locator('select[name=user]').select_option('')
        expect_hosts(page, 'node2', 'node10')


def test_the_search_finds_hosts_and_what_runs_there(browser, server):
    with opened(browser, server.url) as page:
        row(page, 'node10', '0').wait_for()
        page.keyboard.press('/')
        page.keyboard.type('lab')
        expect_hosts(page, 'node2', 'node10')
        page.keyboard.type(' EVALUATE')
        expect_hosts(page, 'node2')
        expect_indices(page, 'node2', '0')
        page.keyboard.press('Escape')
        expect_hosts(page, 'big1', 'lost1', 'mig1', 'node2', 'node10')
        page.get_by_label('Search').fill('7007')
        expect_hosts(page, 'mig1')
        page.get_by_label('Search').fill('nothing like this')
        expect(page.get_by_text('No host matches.')).to_be_visible()
        page.locator('#everything').click()
        expect_hosts(page, 'big1', 'lost1', 'mig1', 'node2', 'node10')
        assert page.evaluate('document.activeElement.name') == 'text'


def test_hosts_are_sorted_and_what_is_unknown_comes_last(browser, server):
    with opened(browser, server.url) as page:
        for sort, order in (
            ('temperature', ['node10', 'big1', 'mig1', 'node2', 'lost1']),
            ('free', ['node10', 'big1', 'mig1', 'node2', 'lost1']),
            ('utilization', ['node10', 'node2', 'big1', 'lost1', 'mig1']),
            ('memory', ['node2', 'node10', 'big1', 'mig1', 'lost1']),
            ('name', ['big1', 'lost1', 'mig1', 'node2', 'node10']),
        ):
            page.get_by_label('Sort by').select_option(sort)
            expect_hosts(page, *order)
        page.get_by_label('Reversed').check()
        expect_hosts(page, 'node10', 'node2', 'mig1', 'lost1', 'big1')


def test_an_address_that_was_shared_shows_the_same(browser, server):
    with opened(browser, f'{server.url}/#q=node&user=bob&sort=name&reverse=1&compact=1&unheard=of&free=maybe') as page:
        expect_hosts(page, 'node2')
        assert page.locator('select[name=user]').input_value() == 'bob'
        assert page.get_by_label('Search').input_value() == 'node'
        assert [page.get_by_label(name).is_checked() for name in ('Reversed', 'Compact', 'Free only')] == [
            True,
            True,
            False,
        ]
        page.evaluate("location.hash = '#reverse=1&model=none'")
        expect(page.get_by_text('No host matches.')).to_be_visible()
        assert page.get_by_label('Model').input_value() == 'none'
        page.evaluate("location.hash = '#sort=worst&reverse=1'")
        expect_hosts(page, 'node10', 'node2', 'mig1', 'lost1', 'big1')


def test_a_filter_holds_for_what_comes_later(browser):
    with PageServer(HOSTS[:2]) as server, opened(browser, f'{server.url}/#free=1') as page:
        expect_hosts(page, 'node10')
        server.put(up('1', 'node2', free_gpu(0), free_gpu(1)))
        expect_hosts(page, 'node2', 'node10')
        server.put(up('0', 'node10', busy_gpu(0), busy_gpu(1), busy_gpu(2)))
        expect_hosts(page, 'node2')
        server.put(up('5', 'node5', free_gpu(0, type='NVIDIA T4')))
        expect_hosts(page, 'node2', 'node5')
        expect(page.locator('option', has_text='NVIDIA T4')).to_have_count(1)


def test_a_compact_row_has_a_button_for_each_gpu(browser, server):
    with opened(browser, f'{server.url}/#compact=1') as page:
        tiles = host(page, 'node10').locator('.tile')
        expect(tiles).to_have_count(3)
        assert tiles.first.inner_text().split() == ['0', '[~]', '97', '%']
        assert tiles.nth(1).inner_text().split() == ['1', '[', ']', '0', '%']
        assert tiles.first.get_attribute('aria-label') == 'GPU 0, A100-SXM4-40GB, in use, 97 %, alice'
        parts = host(page, 'mig1').locator('.tile')
        expect(parts).to_have_count(4)
        assert [' '.join(text.split()) for text in parts.all_inner_texts()] == [
            '0 [-] N/A',
            '0:0 [~]',
            '0:1 [ ]',
            '0:2 [ ]',
        ]
        boxes = [part.bounding_box() for part in parts.all()]
        for before, after in itertools.pairwise(boxes):  # they stand together as one
            assert after['x'] <= before['x'] + before['width']
        tiles.first.click()
        expect(page.get_by_role('heading', name='node10 GPU 0 A100-SXM4-40GB')).to_be_visible()


def test_everything_is_reached_by_keyboard_in_the_order_of_reading(browser, server):
    with opened(browser, server.url) as page:
        row(page, 'node10', '2').wait_for()
        expect(page.locator('#fleet-past .means')).to_contain_text('utilization')
        reached = []
        for _ in range(20):
            page.keyboard.press('Tab')
            reached.append(page.evaluate('document.activeElement.name || document.activeElement.textContent.trim()'))
            outline = page.evaluate('getComputedStyle(document.activeElement).outlineStyle')
            assert outline != 'none', reached[-1]
        filters = ['text', 'group', 'model', 'user', 'sort', 'reversed', 'free', 'compact']
        assert reached.pop(1).startswith('Last half hour means: utilization ')
        assert reached == ['Skip to the hosts', 'Users', *filters, '0', '1', '0', '0', '0:0', '0:1', '0:2', '0', '1']


def test_nothing_has_to_be_scrolled_sideways(browser, server):
    with opened(browser, server.url) as page:
        for width in (320, 390, 890, 1010, 1090, 1440, 2560):
            page.set_viewport_size({'width': width, 'height': 800})
            row(page, 'big1', '1').wait_for()
            assert page.evaluate('document.documentElement.scrollWidth') == width
            for name in ('index', 'status', 'model', 'utilization', 'memory', 'program'):
                assert row(page, 'big1', '1').locator(f'.{name}').is_visible(), name


def test_no_fact_of_a_host_is_cut_off(browser):
    groups = ('serving', 'the-group-with-the-longest-name-of-all')
    hosts = [up(str(number), f'node{number}', free_gpu(0), busy_gpu(1), group=groups[number]) for number in range(2)]
    with PageServer(hosts) as server, opened(browser, server.url) as page:
        for view in ('', '#free=1', '#compact=1', '#compact=1&free=1'):
            page.evaluate('hash => { location.hash = hash; }', view)
            for width in (320, 390, 890, 1200, 1440):
                page.set_viewport_size({'width': width, 'height': 800})
                host(page, 'node1').locator('.host-facts').wait_for()
                assert page.evaluate(CUT_OFF) == [], (view, width)
        assert page.evaluate(SEEN) == ['● up', '1 of 2 free, 1 shown', 'utilization 49 %']
        page.set_viewport_size(PHONE)
        page.evaluate("location.hash = ''")
        expect(host(page, 'node0').locator('.free')).to_have_text('1 of 2 free')
        assert page.evaluate(SEEN) == ['● up', '1 of 2 free', 'utilization 49 %', 'serving']


def test_nothing_stands_alone_on_a_line_of_its_own(browser, server):
    with opened(browser, server.url) as page:
        expect(page.locator('.kind.unknown')).to_be_visible()
        for width in (900, 1000, 1100, 1200, 1300, 1440, 1920):
            page.set_viewport_size({'width': width, 'height': 800})
            assert len(set(page.locator('#summary dl > div').evaluate_all(TOPS))) == 1, width
            assert len(set(page.locator('#filters .check').evaluate_all(TOPS))) == 1, width
            assert page.evaluate('document.documentElement.scrollWidth') == width


def test_the_page_is_dark_where_the_viewer_wants_it_dark(browser, server):
    with opened(browser, server.url, color_scheme='dark') as page:
        for scheme, ground in (('dark', 'rgb(14, 18, 23)'), ('light', 'rgb(244, 246, 248)')):
            page.emulate_media(color_scheme=scheme)
            expect(page.locator('body')).to_have_css('background-color', ground)


def test_a_thousand_gpus_are_drawn_only_where_they_can_be_seen(browser):
    hosts = made_up_hosts(125)
    with PageServer(hosts) as server, opened(browser, f'{server.url}/#compact=0') as page:
        row(page, 'node001', '7').wait_for()
        assert len(shown_hosts(page)) == 125
        height = page.evaluate('document.documentElement.scrollHeight')
        drawn = page.locator('tbody tr').count()
        assert drawn < 250
        page.evaluate('scrollTo(0, document.documentElement.scrollHeight / 2)')
        row(page, 'node063', '0').wait_for()
        page.evaluate('scrollTo(0, document.documentElement.scrollHeight)')
        row(page, 'node125', '7').wait_for()
        expect(row(page, 'node001', '0')).to_have_count(0)
        assert page.locator('tbody tr').count() < 250
        # What is far away is as high as what is drawn: nothing jumps.
        assert abs(page.evaluate('document.documentElement.scrollHeight') - height) <= 2
        server.put(hosts[0].failed('gone'), hosts[124].failed('gone'))
        host(page, 'node125').locator('.note').wait_for()
        page.evaluate('scrollTo(0, 0)')
        host(page, 'node001').locator('.note').wait_for()


def test_the_place_of_the_focus_is_kept_when_it_is_scrolled_away(browser):
    with PageServer(made_up_hosts(125)) as server, opened(browser, f'{server.url}/#compact=0') as page:
        button = row(page, 'node001', '3').locator('.open')
        button.focus()
        page.evaluate('scrollTo(0, document.documentElement.scrollHeight)')
        row(page, 'node125', '7').wait_for()
        expect(button).to_be_focused()


def test_assistive_technology_finds_names_headings_and_tables(browser, server):
    with opened(browser, server.url) as page:
        row(page, 'node10', '0').wait_for()
        assert page.get_by_role('heading', level=1).all_inner_texts() == ['GPU fleet']
        assert page.get_by_role('heading', level=2).count() == 3
        assert page.get_by_role('search', name='Filter and sort').count() == 1
        assert page.get_by_role('main').count() == 1
        table = page.get_by_role('table', name='GPUs of node10')
        assert table.get_by_role('columnheader').count() == 12
        meter = row(page, 'node10', '0').get_by_role('meter', name='utilization')
        assert (meter.get_attribute('aria-valuenow'), meter.get_attribute('aria-valuetext')) == ('97', '97 %')
