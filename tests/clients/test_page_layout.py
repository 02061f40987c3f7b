"""How a fleet is laid out: compact or not, what hosts are called, what moves, and what a phone shows first."""

from __future__ import annotations

import pytest

from support.fleet.page_browser import PHONE, expect, host, opened, row
from support.fleet.page_hosts import busy_gpu, free_gpu, made_up_hosts, process, split_gpu, up
from support.fleet.page_server import PageServer

DOMAIN = 'cluster.example.org'
LONG = 'accelerated-computing-hall-b-rack-07-node-{:04d}'
SMALL_PHONE = {'width': 360, 'height': 560}
"""What browsers leave of a small phone."""

BOXES = """() => [...document.querySelectorAll('#summary *, .host *')]
  .filter((part) => part.getClientRects().length > 0 && !part.closest('.fill, .spark, details'))
  .map((part) => {
    const { x, y, width, height } = part.getBoundingClientRect();
    return `${part.localName}.${part.className} ${x} ${y} ${width} ${height}`;
  })"""
"""Where everything is that can be seen, but for what shows a figure by its length."""


def hosts(count):
    return [up(str(number), f'node{number:03d}', free_gpu(0)) for number in range(count)]


def expect_view(page, view):
    expect(page.locator('body')).to_have_attribute('data-view', view)
    expect(page.locator('.tile' if view == 'compact' else 'tbody tr').first).to_be_visible()
    assert page.get_by_label('Compact').is_checked() == (view == 'compact')


def test_more_than_thirty_hosts_are_compact_by_themselves(browser):
    with PageServer(hosts(30)) as server, opened(browser, server.url) as page:
        expect_view(page, 'full')
        server.put(up('30', 'node030', free_gpu(0)))
        expect_view(page, 'compact')
        page.get_by_label('Search').fill('node007')
        expect(page.locator('.host')).to_have_count(1)
        expect_view(page, 'compact')
        server.remove('30')
        expect_view(page, 'full')
        expect(page).to_have_url(f'{server.url}/#q=node007')


def test_a_layout_that_was_chosen_stays(browser):
    with PageServer(hosts(30)) as server, opened(browser, server.url) as page:
        expect_view(page, 'full')
        page.get_by_label('Compact').check()
        expect_view(page, 'compact')
        expect(page).to_have_url(f'{server.url}/#compact=1')
        page.get_by_label('Compact').uncheck()
        expect_view(page, 'full')
        server.put(up('30', 'node030', free_gpu(0)))
        host(page, 'node030').wait_for(state='attached')
        expect_view(page, 'full')
        page.get_by_label('Search').fill('node00')
        page.get_by_role('button', name='Show all').click()
        expect(page).to_have_url(f'{server.url}/#compact=0')
        page.reload()
        expect(page.locator('.host')).to_have_count(31)
        expect_view(page, 'full')


@pytest.mark.parametrize('value', ['', '2', 'true', 'constructor', '__proto__'])
def test_a_layout_that_makes_no_sense_is_none(browser, value):
    with (
        PageServer(hosts(31)) as server,
        opened(browser, f'{server.url}/#compact={value}&chart={value}') as page,
    ):
        expect_view(page, 'compact')
        expect(page.locator('#fleet-past canvas')).to_be_visible()


def test_a_suffix_that_hosts_share_is_left_out_of_their_names(browser):
    named = [f'node1.{DOMAIN}', f'node2.{DOMAIN}', 'login.elsewhere.net']
    fleet = [up(str(number), name, free_gpu(0), busy_gpu(1)) for number, name in enumerate(named)]
    with PageServer(fleet) as server, opened(browser, server.url) as page:
        expect(page.locator('.host h3')).to_have_text(['login.elsewhere.net', 'node1', 'node2'])
        card = host(page, f'node1.{DOMAIN}')
        assert card.locator('h3 bdi').get_attribute('title') == f'node1.{DOMAIN}'
        assert page.get_by_role('heading', name=f'node1.{DOMAIN}', exact=True).count() == 1
        assert page.get_by_role('table', name=f'GPUs of node1.{DOMAIN}').count() == 1
        row(page, f'node1.{DOMAIN}', '0').click()
        assert page.locator('dialog .where').inner_text() == f'node1.{DOMAIN}'
        page.keyboard.press('Escape')
        server.put(up('3', 'gate.elsewhere.net', free_gpu(0)))
        expect(page.locator('.host h3')).to_have_text(['gate', 'login', 'node1', 'node2'])
        page.get_by_label('Search').fill('1.cluster.exam')
        expect(page.locator('.host h3')).to_have_text(['node1'])


def test_a_host_whose_own_name_is_its_whole_one_has_it_in_its_title(browser):
    whole = up('0', 'node1', free_gpu(0))
    whole = whole._replace(report=whole.report._replace(hostname=f'node1.{DOMAIN}'))
    with PageServer([whole]) as server, opened(browser, server.url) as page:
        row(page, 'node1', '0').wait_for()
        assert host(page, 'node1').locator('h3 bdi').get_attribute('title') == f'node1 · node1.{DOMAIN}'
        assert host(page, 'node1').locator('.host-facts .hostname').inner_text() == ''


def test_what_hosts_call_themselves_stands_without_the_suffix_too(browser):
    fleet = [up(str(number), f'rack{number}', free_gpu(0)) for number in range(2)]
    fleet = [node._replace(report=node.report._replace(hostname=f'node{node.id}.{DOMAIN}')) for node in fleet]
    with PageServer(fleet) as server, opened(browser, server.url) as page:
        hostname = host(page, 'rack1').locator('.host-facts .hostname')
        expect(hostname).to_have_text('node1')
        assert hostname.get_attribute('title') == f'node1.{DOMAIN}'
        server.put(up('0', 'rack0', free_gpu(0)))
        expect(hostname).to_have_text(f'node1.{DOMAIN}')
        server.put(fleet[0])
        expect(hostname).to_have_text('node1')
        page.get_by_label('Search').fill(f'node0.{DOMAIN}')
        expect(page.locator('.host h3')).to_have_text(['rack0'])


def test_names_without_their_suffix_are_never_alike(browser):
    script = """async (lists) => {
      const { shortNames } = await import('/static/host_names.js');
      return lists.map((names) => [...shortNames(names).values()]);
    }"""
    wanted = {
        ('a.x.org', 'b.x.org', 'c.y.org'): ['a', 'b', 'c.y'],
        ('a.x.org', 'a.y.org', 'b.y.org'): ['a.x', 'a', 'b'],
        ('a', 'a.x.org', 'b.x.org'): ['a', 'a.x', 'b'],
        ('a.x.org', 'b.y.net'): ['a.x.org', 'b.y.net'],
        ('10.0.0.7', '10.1.0.7', 'gpu-3.1', 'gpu-4.1'): ['10.0.0.7', '10.1.0.7', 'gpu-3.1', 'gpu-4.1'],
        ('a.x.org:1080', 'b.x.org:1080', 'c.x.org:1081'): ['a', 'b', 'c.x.org:1081'],
        ('a (b.x.org:1)', 'a (c.x.org:1)', '[::1]:80', '..', '.'): [
            'a (b.x.org:1)',
            'a (c.x.org:1)',
            '[::1]:80',
            '..',
            '.',
        ],
    }
    with PageServer([]) as server, opened(browser, server.url) as page:
        assert page.evaluate(script, [list(names) for names in wanted]) == list(wanted.values())


@pytest.mark.parametrize('width', [320, 390, 1440])
def test_a_name_that_does_not_fit_is_cut_in_its_middle(browser, width):
    fleet = [up(str(number), LONG.format(number), free_gpu(0)) for number in range(2)]
    size = {'width': width, 'height': 800}
    with PageServer(fleet) as server, opened(browser, f'{server.url}/#compact=1', viewport=size) as page:
        name = host(page, LONG.format(1)).locator('h3 bdi')
        begin = name.locator('.name-begin')
        assert begin.evaluate('part => part.scrollWidth > part.clientWidth')
        assert begin.evaluate('part => getComputedStyle(part).textOverflow') == 'ellipsis'
        shown = name.evaluate("part => getComputedStyle(part, '::after').content")
        assert shown.startswith('"ode-0001"')
        assert name.evaluate('part => part.scrollWidth - part.clientWidth') <= 1  # all of its end is seen
        assert begin.bounding_box()['width'] >= 24
        assert name.inner_text() == LONG.format(1)  # what is searched for or copied is the whole
        page.set_viewport_size({'width': 1440, 'height': 800})
        page.evaluate("location.hash = '#compact=0'")
        row(page, LONG.format(1), '0').wait_for()
        assert not begin.evaluate('part => part.scrollWidth > part.clientWidth')


@pytest.mark.parametrize('width', [390, 800, 1250, 1440])
@pytest.mark.parametrize('view', ['#compact=0', '#compact=1'])
def test_nothing_moves_when_a_gpu_becomes_fully_busy(browser, width, view):
    def fleet(busy):
        gpus = [busy_gpu(number, utilization_percent=busy) for number in range(8)]
        return up('0', 'node1', *gpus, split_gpu(8), group='lab')

    size = {'width': width, 'height': 900}
    with PageServer([fleet(7.0)]) as server, opened(browser, f'{server.url}/{view}', viewport=size) as page:
        figure = page.locator('.tile, .gpus .utilization').first
        expect(figure).to_contain_text('7 %')
        expect(page.locator('.mean-utilization')).to_contain_text('7 %')
        before = page.evaluate(BOXES)
        server.put(fleet(100.0))
        expect(figure).to_contain_text('100 %')
        expect(page.locator('.mean-utilization')).to_contain_text('100 %')
        assert page.evaluate(BOXES) == before


@pytest.mark.parametrize('size', [PHONE, SMALL_PHONE], ids=['phone', 'small phone'])
@pytest.mark.parametrize('count', [3, 61])
def test_the_first_gpu_is_on_the_first_screen_of_a_phone(browser, size, count):
    with PageServer(made_up_hosts(count)) as server, opened(browser, server.url, viewport=size) as page:
        first = host(page, 'node001').locator('.tile, tbody tr').first
        first.wait_for()
        expect(page.locator('#fleet-past .means')).to_contain_text('utilization')
        box = first.bounding_box()
        assert box['y'] + box['height'] <= size['height']
        assert page.evaluate('scrollY') == 0


def test_a_phone_has_the_filters_behind_a_button(browser):
    with PageServer(made_up_hosts(3)) as server, opened(browser, server.url, viewport=PHONE) as page:
        button = page.get_by_role('button', name='Filters')
        expect(button).to_have_attribute('aria-expanded', 'false')
        assert page.get_by_role('searchbox').is_visible()
        assert not page.get_by_label('Model').is_visible()
        button.focus()
        page.keyboard.press('Enter')
        expect(button).to_have_attribute('aria-expanded', 'true')
        page.get_by_label('Free only').check()
        page.get_by_label('Group').select_option('training')
        expect(button).to_have_text('Filters (2)')
        button.click()
        assert not page.get_by_label('Model').is_visible()
        expect(page.locator('.host')).to_have_count(1)
        page.get_by_role('button', name='Show all').click()
        expect(button).to_have_text('Filters')
        page.set_viewport_size({'width': 1440, 'height': 900})
        expect(page.get_by_label('Model')).to_be_visible()
        expect(button).to_be_hidden()


@pytest.mark.parametrize('size', [PHONE, {'width': 800, 'height': 900}, {'width': 1440, 'height': 900}])
def test_compact_hosts_far_away_are_as_high_as_they_will_be(browser, size):
    fleet = [host.failed('gone') if place % 9 == 4 else host for place, host in enumerate(made_up_hosts(61))]
    with PageServer(fleet) as server, opened(browser, server.url, viewport=size) as page:
        host(page, 'node001').locator('.tile').first.wait_for()
        height = page.evaluate('document.documentElement.scrollHeight')
        page.evaluate('scrollTo(0, document.documentElement.scrollHeight)')
        host(page, 'node061').locator('.tile').first.wait_for()
        expect(host(page, 'node001').locator('.tile')).to_have_count(0)
        assert abs(page.evaluate('document.documentElement.scrollHeight') - height) <= 2


CUT = """() => [...document.querySelectorAll('.host h3 bdi, .host .model, .host .users, .host-users, .processes td')]
  .filter((part) => part.getClientRects().length > 0 && part.scrollWidth > part.clientWidth + 1)
  .map((part) => part.textContent)"""
"""What of names, models, users and processes is cut off."""


SHARED = busy_gpu(0, processes=(process(1, user='bob'), process(2, user='alice')))


@pytest.mark.parametrize('count', [3, 40])
@pytest.mark.parametrize('size', [{'width': 1280, 'height': 900}, PHONE])
def test_eight_gpus_and_four_users_of_a_host_fit(browser, size, count):
    with (
        PageServer([*made_up_hosts(count), up('-1', 'login01', group='lab'), up('-2', 'shared', SHARED)]) as server,
        opened(browser, server.url, viewport=size) as page,
    ):
        expect(host(page, 'node001')).to_be_visible()
        assert page.evaluate(CUT) == []
        empty = host(page, 'login01')
        empty.scroll_into_view_if_needed()
        expect(empty.get_by_text('no GPUs')).to_be_visible()
        assert empty.bounding_box()['height'] < 40
        if size != PHONE:
            tops = {tile.bounding_box()['y'] for tile in host(page, 'node001').locator('.tile').all()}
            assert len(tops) == (1 if count > 30 else 0)


def test_a_phone_shows_whole_commands(browser):
    with PageServer(made_up_hosts(1)) as server, opened(browser, server.url, viewport=PHONE) as page:
        page.get_by_role('button', name='GPU 0: open its chart and processes').click()
        command = page.locator('dialog .processes .command')
        expect(command).to_be_visible()
        assert page.evaluate(CUT) == []
        box = command.bounding_box()
        assert box['x'] + box['width'] <= PHONE['width']
