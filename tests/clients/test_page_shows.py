"""What people see of a fleet in a real browser."""

from __future__ import annotations

import re

from gpu_tracker.fleet.hosts.host import HostState
from support.fleet.page_browser import cells, expect, host, opened, row, shown_hosts, summary
from support.fleet.page_hosts import (
    NOW,
    busy_gpu,
    claimed_gpu,
    free_gpu,
    lost_gpu,
    process,
    report,
    split_gpu,
    unseen_gpu,
    up,
)
from support.fleet.page_server import PageServer


def test_gpus_of_several_vendors_with_one_number_are_told_apart(browser):
    gpus = (
        free_gpu(0, vendor='nvidia'),
        free_gpu(0, key='GPU-amd', uuid='GPU-amd', vendor='amd', type='AMD Instinct MI300X'),
        free_gpu(0, key='intel-0', uuid='intel-0', vendor='intel', type=None),
    )
    with PageServer([up('0', 'node01', *gpus)]) as server, opened(browser, server.url) as page:
        models = {
            index: row(page, 'node01', index).locator('.model').inner_text() for index in ('0', 'amd:0', 'intel:0')
        }
    assert models == {'0': 'A100-SXM4-40GB', 'amd:0': 'AMD Instinct MI300X', 'intel:0': 'N/A'}


def test_every_kind_of_gpu_is_shown_with_a_sign_and_a_word(browser):
    gpus = (
        free_gpu(0),
        busy_gpu(1),
        unseen_gpu(2),
        claimed_gpu(3),
        lost_gpu(4),
        split_gpu(5),
        free_gpu(6, status='unknown'),
    )
    with PageServer([up('0', 'node01', *gpus)]) as server, opened(browser, server.url) as page:
        host(page, 'node01').locator('tr').first.wait_for(state='attached')
        assert [' '.join(text.split()) for text in page.locator('tbody .status').all_inner_texts()] == [
            '[ ] free',
            '[~] in use',
            '[!] unseen',
            '[c] claimed',
            '[x] unreadable',
            '[-] MIG',
            '[~] in use',
            '[ ] free',
            '[ ] free',
            '[?] unknown',
        ]
        assert cells(row(page, 'node01', '1')) == {
            'index': '1',
            'status': '[~] in use',
            'model': 'A100-SXM4-40GB',
            'utilization': '97 %',
            'memory': '38.2 / 42.9 GB',
            'temperature': '64 °C',
            'clock': '1410 MHz',
            'power': '287 W',
            'users': 'alice',
            'since': '14 hours ago',
            'program': 'train.py',
        }
        claimed = cells(row(page, 'node01', '3'))
        assert (claimed['users'], claimed['program']) == ('alice', 'python sweep.py --seed 7')
        assert row(page, 'node01', '4').locator('.program').inner_text().startswith('lost: fallen off the bus')
        assert row(page, 'node01', '5:0').locator('.model').inner_text() == 'MIG 3g.20gb'
        assert row(page, 'node01', '5:0').locator('.users').inner_text() == 'dara'
        assert row(page, 'node01', '5').locator('.users').inner_text() == ''


def test_what_is_unknown_is_not_zero(browser):
    untold = free_gpu(
        0,
        status='in_use',
        type=None,
        utilization_percent=None,
        memory_total_bytes=None,
        memory_used_bytes=None,
        temperature_celsius=None,
        sm_clock_hertz=None,
        power_watts=None,
        processes=None,
    )
    with PageServer([up('0', 'node01', untold)]) as server, opened(browser, server.url) as page:
        line = row(page, 'node01', '0')
        line.wait_for()
        shown = cells(line)
        assert (shown.pop('index'), shown.pop('status')) == ('0', '[~] in use')
        assert set(shown.values()) == {'N/A'}
        assert line.get_by_role('meter').count() == 0
        # N/A is what a screen reader says as well, and of a line that was not drawn nothing
        assert line.locator('[aria-label]').count() == 1
        assert line.locator('.spark').get_attribute('aria-hidden') == 'true'
        assert line.locator('.spark').get_attribute('role') is None
        server.put(up('0', 'node01', busy_gpu(0)))
        meter = line.get_by_role('meter', name='memory in use')
        expect(meter).to_have_attribute('aria-valuetext', '38.2 / 42.9 GB')
        server.put(up('0', 'node01', untold))
        expect(line.get_by_role('meter')).to_have_count(0)
        assert line.locator('.meter[aria-label]').count() == 0
        assert summary(page)['memory in use'] == 'N/A'
        assert summary(page)['mean utilization'] == 'N/A'


def test_the_fleet_stands_at_the_top_and_in_the_title(browser):
    hosts = [
        up('0', 'node01', free_gpu(0), busy_gpu(1), unseen_gpu(2)),
        up('1', 'node02', free_gpu(0), claimed_gpu(1)),
        up('2', 'node03', busy_gpu(0)).failed('it does not answer'),
    ]
    with PageServer(hosts) as server, opened(browser, server.url) as page:
        expect(page).to_have_title('2 free · GPU fleet')
        assert summary(page) == {
            '[ ] free': '2',
            '[~] in use': '2',
            '[!] unseen': '1',
            '[?] unknown': '1',
            'GPUs': '6',
            'hosts up': '2 of 3',
            'memory in use': '77.8 / 214.7 GB',
            'mean utilization': '22 %',
        }
        expect(page.locator('#spoken')).to_have_text('2 of 6 GPUs free, 2 of 3 hosts up')
        assert page.locator('[aria-live]').count() == 1


def test_a_host_that_dies_stays_with_its_error_and_comes_back(browser):
    alive = up('1', 'node02', busy_gpu(0))
    with PageServer([up('0', 'node01', free_gpu(0)), alive]) as server, opened(browser, server.url) as page:
        row(page, 'node02', '0').wait_for()
        server.put(alive.failed('it does not answer: connection refused')._replace(last_seen=NOW - 312))
        note = host(page, 'node02').locator('.note')
        note.wait_for()
        assert note.locator('bdi').inner_text() == 'it does not answer: connection refused'
        assert note.locator('span').inner_text() == 'last seen 07:54:48 (5 minutes ago)'
        assert note.text_content().startswith('it does not answer: connection refused last seen 07:54:48')
        assert note.locator('time').get_attribute('datetime') == '2027-01-15T07:54:48.000Z'
        assert host(page, 'node02').locator('.state').inner_text().split()[-1] == 'down'
        assert row(page, 'node02', '0').locator('.utilization').inner_text().split() == ['97', '%']
        assert summary(page)['hosts up'] == '1 of 2'
        server.put(alive._replace(report=report(busy_gpu(0, utilization_percent=12.0), hostname='node02')))
        note.wait_for(state='detached')
        assert cells(row(page, 'node02', '0'))['utilization'] == '12 %'
        assert summary(page)['hosts up'] == '2 of 2'


def test_hosts_that_are_stale_or_never_answered_say_so(browser):
    hosts = [
        up('0', 'node01', busy_gpu(0))._replace(state='stale', error='its GPUs have not been read for 48 s'),
        HostState('1', 'node02', state='down', error='its name is not known'),
        HostState('2', 'node03'),
        up('3', 'node04', free_gpu(0), claims_problem='the claims cannot be read'),
        up('4', 'node05'),
    ]
    with PageServer(hosts) as server, opened(browser, server.url) as page:
        expect(page.locator('.host .state')).to_have_count(5)  # one card may be drawn in a later picture than another
        states = [text.split(maxsplit=1)[1] for text in page.locator('.host .state').all_inner_texts()]
        assert states == ['stale', 'down', 'not asked yet', 'up', 'up']
        assert page.locator('.note bdi').all_inner_texts() == [
            'its GPUs have not been read for 48 s',
            'its name is not known',
            'the claims cannot be read',
        ]
        assert host(page, 'node02').locator('.note').text_content() == 'its name is not known never seen'
        assert page.locator('.host-facts .free').all_inner_texts() == [
            '1 GPU, state not known',
            '',
            '',
            '1 of 1 free',
            'no GPUs',
        ]


def test_hosts_come_and_go_while_the_page_is_open(browser):
    with PageServer([up('0', 'node01', free_gpu(0))]) as server, opened(browser, server.url) as page:
        row(page, 'node01', '0').wait_for()
        server.put(up('1', 'node02', busy_gpu(0)))
        row(page, 'node02', '0').wait_for()
        server.remove('0')
        host(page, 'node01').wait_for(state='detached')
        assert shown_hosts(page) == ['node02']


def test_a_lost_connection_is_told_and_found_again(browser):
    excused = ('Failed to load resource',)
    node = up('0', 'node01', free_gpu(0))
    with PageServer([node]) as first, opened(browser, first.url, excused=excused) as page:
        page.locator("body[data-connection='live']").wait_for()
        port = first.port
        first.stop()
        page.locator("body[data-connection='lost']").wait_for()
        expect(page).to_have_title('GPU fleet')  # a number there would be of before
        notice = page.locator('#connection').inner_text()
        assert re.fullmatch(
            r'No connection since 08:00:00 \((just now|\d+ seconds ago)\)\. The figures are that old\. Trying again\.',
            notice,
        )
        with PageServer([node._replace(report=report(busy_gpu(0)))], port=port):
            page.locator("body[data-connection='live']").wait_for()
            row(page, 'node01', '0').locator('.word', has_text='in use').wait_for()


def test_the_last_half_hour_is_fetched_for_the_hosts_in_view_and_drawn_as_one_path(browser):
    hosts = [up(str(number), f'node{number:03}', *map(busy_gpu, range(8))) for number in range(60)]
    with PageServer(hosts) as server, opened(browser, f'{server.url}/#compact=0') as page:
        row(page, 'node000', '0').locator('.spark[aria-label]').wait_for()
        spark = row(page, 'node000', '0').locator('.spark')
        assert re.match('M0 [0-9.]+L2', spark.locator('path').get_attribute('d'))
        assert spark.locator('*').count() == 1
        label = spark.get_attribute('aria-label')
        assert re.fullmatch(r'utilization of the last half hour: mean \d+ %, highest \d+ %', label)
        expect(page.locator('.spark:not([aria-label])')).to_have_count(0)
        assert '59' not in server.source.asked
        page.evaluate('scrollTo(0, document.documentElement.scrollHeight)')
        row(page, 'node059', '0').locator('.spark[aria-label]').wait_for()


def test_users_and_programs_of_several_processes_stand_once_each(browser):
    several = (
        process(1),
        process(2, user='bob', program=None, command='./solve mesh.vtk'),
        process(3, user=None, program=None, command=None),
    )
    with PageServer([up('0', 'node01', busy_gpu(0, processes=several))]) as server, opened(browser, server.url) as page:
        line = row(page, 'node01', '0')
        line.wait_for()
        assert (line.locator('.users').inner_text(), line.locator('.program').inner_text()) == (
            'alice, bob, ?',
            'train.py, ./solve mesh.vtk',
        )


def test_nothing_is_counted_before_a_host_has_told_anything(browser):
    silent = HostState('0', 'node01', state='down', error='it does not answer')
    with PageServer([silent]) as server, opened(browser, server.url) as page:
        expect(page.locator('#spoken')).to_have_text('GPUs not known, 0 of 1 host up')
        expect(page).to_have_title('GPU fleet')
        figures = summary(page)
        assert [figures[name] for name in ('[ ] free', '[~] in use', '[!] unseen', 'GPUs')] == ['N/A'] * 4
        assert '[?] unknown' not in figures
        assert page.locator('output').inner_text() == ''
        server.put(silent, up('1', 'node02', free_gpu(0)))
        expect(page).to_have_title('1 free · GPU fleet')
        assert summary(page)['GPUs'] == '1'


def test_the_name_of_a_host_tells_where_it_is_asked(browser):
    hosts = [up('0', 'node01', free_gpu(0))._replace(url='http://10.0.0.5:1080'), up('1', 'node02', free_gpu(0))]
    with PageServer(hosts) as server, opened(browser, server.url) as page:
        row(page, 'node02', '0').wait_for()
        assert host(page, 'node01').locator('h3 bdi').get_attribute('title') == 'node01 · http://10.0.0.5:1080'
        assert host(page, 'node02').locator('h3 bdi').get_attribute('title') == 'node02'
        assert page.locator('.host a').count() == 0
