"""Who holds GPUs, and who holds them idle, on the page."""

from __future__ import annotations

import pytest

from support.fleet.page_browser import PHONE, expect, host, opened, row, shown_hosts
from support.fleet.page_hosts import HOUR, NOW, busy_gpu, claimed_gpu, free_gpu, process, split_gpu, unseen_gpu, up
from support.fleet.page_server import PageServer

GB = 1_000_000_000


def held_by(number, user, *, idle_since=None, utilization=50.0):
    of_user = process(4000 + number, user=user, memory_bytes=10 * GB)
    return busy_gpu(number, processes=(of_user,), idle_since=idle_since, utilization_percent=utilization)


IDLE = held_by(1, 'bob', idle_since=NOW - 3 * HOUR, utilization=0.0)
HOSTS = [
    up('0', 'node1', held_by(0, 'bob'), IDLE, unseen_gpu(2)),
    up('1', 'node2', held_by(0, 'alice', utilization=30.0), claimed_gpu(1), split_gpu(2)),
    up('2', 'node3'),
    up('3', 'node4', held_by(0, 'carol')).failed('no answer'),
]


def users_of(page) -> list[list[str]]:
    lines = page.locator('#users tbody tr').all()
    return [[' '.join(cell.inner_text().split()) for cell in line.locator('th, td').all()] for line in lines]


def test_each_user_is_a_line_with_gpus_memory_and_what_is_idle(browser):
    with PageServer(HOSTS) as server, opened(browser, server.url) as page:
        page.locator('#users summary').click()
        expect(page.locator('#users tbody tr')).to_have_count(4)
        assert users_of(page) == [
            ['alice', '2', '10.0 GB', '15 %', ''],
            ['bob', '2', '20.0 GB', '25 %', '1 GPU, 3 hours'],
            ['?', '1', '11.6 GB', '12 %', ''],
            ['dara', '1', '9.1 GB', 'N/A', ''],
        ]
        expect(page.locator('#users .u-idle[data-idle]')).to_have_count(1)
        server.put(up('0', 'node1', free_gpu(0)))
        expect(page.locator('#users tbody tr')).to_have_count(2)


def test_a_gpu_that_is_held_idle_for_more_than_an_hour_is_marked(browser):
    hour = held_by(0, 'bob', idle_since=NOW - HOUR + 60, utilization=0.0)
    with PageServer([up('0', 'node1', hour, IDLE)]) as server, opened(browser, server.url) as page:
        assert row(page, 'node1', '0').locator('.status').inner_text() == '[~] in use'
        status = row(page, 'node1', '1').locator('.status')
        assert status.inner_text() == '[z] idle 3 hours'
        assert status.get_attribute('title') == 'in use, idle 3 hours'
        page.get_by_label('Compact').check()
        tile = host(page, 'node1').locator('.tile').nth(1)
        assert tile.get_attribute('aria-label') == 'GPU 1, A100-SXM4-40GB, idle 3 hours, 0 %, bob'
        assert tile.locator('.sign').inner_text() == '[z]'


def test_hosts_are_sorted_by_their_users(browser):
    with PageServer(HOSTS) as server, opened(browser, f'{server.url}/#sort=user') as page:
        expect(page.locator('.host h3').first).to_have_text('node2')
        assert shown_hosts(page) == ['node2', 'node1', 'node3', 'node4']


@pytest.mark.parametrize('width', [390, 1280])
def test_users_are_seen_in_the_compact_form(browser, width):
    size = {'width': width, 'height': 900}
    with (
        PageServer(HOSTS) as server,
        opened(browser, f'{server.url}/#compact=1', viewport=size) as page,
    ):
        users = host(page, 'node2').locator('.host-users')
        expect(users).to_be_visible()
        assert users.inner_text() == 'alice, dara'
        assert users.evaluate('part => part.scrollWidth <= part.clientWidth')


@pytest.mark.parametrize('width', [1280, 1440])
def test_eight_gpus_stand_in_one_line(browser, width):
    gpus = [busy_gpu(number, utilization_percent=100.0) for number in range(8)]
    size = {'width': width, 'height': 900}
    with (
        PageServer([up('0', 'node1', *gpus)]) as server,
        opened(browser, f'{server.url}/#compact=1', viewport=size) as page,
    ):
        tiles = host(page, 'node1').locator('.tile')
        expect(tiles).to_have_count(8)
        assert len({tile.bounding_box()['y'] for tile in tiles.all()}) == 1
        assert tiles.evaluate_all('tiles => tiles.map((tile) => tile.scrollWidth - tile.clientWidth)') == [0] * 8


@pytest.mark.parametrize('size', [PHONE, {'width': 1280, 'height': 900}])
@pytest.mark.parametrize('view', ['#compact=0', '#compact=1'])
def test_a_host_without_gpus_takes_one_line(browser, size, view):
    hosts = [up('0', 'node1', driver_problem='no driver is loaded'), up('1', 'node2')]
    with PageServer(hosts) as server, opened(browser, f'{server.url}/{view}', viewport=size) as page:
        expect(host(page, 'node1').locator('.note')).to_be_visible()
        assert host(page, 'node1').locator('.note').bounding_box()['width'] > 150
        heights = [host(page, name).bounding_box()['height'] for name in ('node1', 'node2')]
        assert max(heights) <= 40
