"""The running jobs on the page, in a real browser."""

from __future__ import annotations

import json

import pytest

from gpu_tracker.fleet.hosts.report import parse_report
from gpu_tracker.fleet.hosts.running_jobs import RunningJob
from support.fleet.page_browser import DESKTOP, PHONE, expect, host, opened, row, shown_hosts
from support.fleet.page_hosts import HOUR, MINUTE, NOW, busy_gpu, free_gpu, up
from support.fleet.page_server import PageServer

GB = 1_000_000_000
ATTACKS = (
    '<img src=x onerror="alert(1);window.attacked=1">',
    '"><script>alert(1);window.attacked=1</script>',
    'abc\u202etxt.exe\u2066\u200b\x1b[31m\x07\u0000',
    'x' * 10_000,
    '__proto__',
    '\ud800',
    '',
)


def job(**differences: object) -> RunningJob:
    """Return what one of two hosts runs of a job of 16 ranks."""
    usual = {
        'job': '4711',
        'folder': 'resnet-50',
        'step': '0',
        'launcher': 'slurm',
        'ranks': 8,
        'ranks_expected': 16,
        'started': NOW - 2 * HOUR,
        'updated': NOW - 4,
        'cpu_seconds': 90_000.0,
        'cpu_cores': 7.53,
        'memory_max_bytes': 61 * GB,
        'gpu_memory_max_bytes': 301 * GB,
    }
    return RunningJob(**(usual | differences))


def jobs_of(page) -> list[list[str]]:
    """Return what stands in the lines, cell by cell."""
    lines = page.locator('#jobs tbody tr').all()
    return [[' '.join(cell.inner_text().split()) for cell in line.locator('th, td').all()] for line in lines]


def until(page, number: int) -> list[list[str]]:
    """Return the lines when there are as many."""
    expect(page.locator('#jobs tbody tr')).to_have_count(number)
    return jobs_of(page)


def test_a_job_of_two_hosts_is_one_line(browser):
    second = job(ranks=6, started=NOW - 2 * HOUR + 3, cpu_cores=5.0, memory_max_bytes=40 * GB)
    hosts = [up('0', 'node01', busy_gpu(0), jobs=(job(),)), up('1', 'node02', busy_gpu(0), jobs=(second,))]
    with PageServer(hosts) as server, opened(browser, server.url) as page:
        assert until(page, 1) == [['4711', '0', '14 of 16', '2', '2 hours ago', '12.5 cores', '101.0 GB', '602.0 GB']]
        assert page.locator('#jobs .count').inner_text() == '1 running'
        assert page.locator('#jobs .j-name').last.get_attribute('title') == '4711 · resnet-50 · slurm'
        assert page.locator('#jobs tbody .j-hosts').get_attribute('title') == 'node01, node02'
        assert page.locator('#jobs tbody .j-cpu').get_attribute('title') == 'CPU time 50.0 h'
        assert page.get_by_role('columnheader').filter(has_text='RAM, max.').count() == 1


def test_figures_come_and_jobs_go_while_the_page_is_open(browser):
    begun = job(cpu_seconds=None, cpu_cores=None, memory_max_bytes=None, gpu_memory_max_bytes=None, started=NOW - 1)
    with PageServer([up('0', 'node01', busy_gpu(0), jobs=(begun,))]) as server, opened(browser, server.url) as page:
        assert until(page, 1) == [['4711', '0', '8 of 16', '1', 'just now', 'N/A', 'N/A', 'N/A']]
        server.put(up('0', 'node01', busy_gpu(0), jobs=(job(), job(job='4712_3', step=None, started=NOW - MINUTE))))
        assert [line[0] for line in until(page, 2)] == ['4712_3', '4711']
        expect(page.locator('#jobs tbody tr').nth(1)).to_contain_text('7.5 cores')
        assert page.locator('#jobs .count').inner_text() == '2 running'
        server.put(up('0', 'node01', busy_gpu(0), jobs=()))
        expect(page.locator('#jobs')).to_be_hidden()


def test_ranks_that_have_just_begun_do_not_hide_the_figures_of_the_others(browser):
    begun = job(cpu_seconds=None, cpu_cores=None, memory_max_bytes=None, gpu_memory_max_bytes=None)
    hosts = [up('0', 'node01', jobs=(job(),)), up('1', 'node02', jobs=(begun,))]
    with PageServer(hosts) as server, opened(browser, server.url) as page:
        assert until(page, 1)[0][2:] == ['16 of 16', '2', '2 hours ago', '7.5 cores', '61.0 GB', '301.0 GB']
        server.put(up('1', 'node02', jobs=(job(gpu_memory_max_bytes=None),)))
        # part of a sum would be taken for the whole
        expect(page.locator('#jobs tbody .j-gpu-memory')).to_have_text('N/A')
        expect(page.locator('#jobs tbody .j-memory')).to_have_text('122.0 GB')


def test_without_jobs_there_is_no_panel(browser):
    with PageServer([up('0', 'node01', free_gpu(0))]) as server, opened(browser, server.url) as page:
        row(page, 'node01', '0').wait_for()
        expect(page.locator('#jobs')).to_be_hidden()


def test_of_a_host_that_is_down_no_job_is_known_and_of_one_with_a_driver_that_hangs_it_is(browser):
    first, second = up('0', 'node01', busy_gpu(0), jobs=(job(),)), up('1', 'node02', busy_gpu(0), jobs=(job(),))
    with PageServer([first, second]) as server, opened(browser, server.url) as page:
        assert until(page, 1)[0][2:4] == ['16 of 16', '2']
        server.put(first._replace(state='stale', error='its GPUs have not been read for 48 s'))
        server.put(second.failed('it does not answer'))
        expect(page.locator('#jobs tbody .j-ranks')).to_have_text('8 of 16')
        assert page.locator('#jobs tbody .j-hosts').get_attribute('title') == 'node01'


def test_a_job_without_an_id_goes_by_its_folder(browser):
    unnamed = job(job=None, step=None, ranks=1, ranks_expected=None)
    hosts = [up('0', 'node01', jobs=(unnamed, unnamed._replace(folder=None)))]
    with PageServer(hosts) as server, opened(browser, server.url) as page:
        assert [line[:3] for line in until(page, 2)] == [['resnet-50', '', '1'], ['N/A', '', '1']]


def test_the_search_finds_the_hosts_of_a_job(browser):
    hosts = [up('0', 'node01', busy_gpu(0), jobs=(job(),)), up('1', 'node02', busy_gpu(0))]
    with PageServer(hosts) as server, opened(browser, f'{server.url}/#q=4711') as page:
        row(page, 'node01', '0').wait_for()
        assert shown_hosts(page) == ['node01']


def test_why_jobs_cannot_be_read_stands_on_the_card_of_the_host(browser):
    problem = 'the folder of the jobs has not answered for 40 s'
    hosts = [up('0', 'node01', free_gpu(0), jobs=(), jobs_problem=problem)]
    with PageServer(hosts) as server, opened(browser, server.url) as page:
        expect(host(page, 'node01').locator('.note bdi')).to_have_text(problem)


def test_a_phone_has_the_jobs_folded_and_room_for_what_matters_most(browser):
    hosts = [up('0', 'node01', busy_gpu(0), jobs=(job(job='a-rather-long-name-of-a-job-1234567'),))]
    with PageServer(hosts) as server, opened(browser, server.url, viewport=PHONE) as page:
        page.locator('#jobs summary').wait_for()
        assert page.locator('#jobs table').is_visible() is False
        page.locator('#jobs summary').click()
        expect(page.locator('#jobs table')).to_be_visible()
        visible = page.locator('#jobs tbody :is(th, td):visible').all_inner_texts()
        assert [' '.join(text.split()) for text in visible[1:]] == ['8 of 16', '7.5 cores', '61.0 GB', '301.0 GB']
        assert page.evaluate('document.documentElement.scrollWidth') == PHONE['width']


def test_many_jobs_are_limited(browser):
    many = tuple(job(job=f'{number}', started=NOW - number) for number in range(120))
    with PageServer([up('0', 'node01', jobs=many)]) as server, opened(browser, server.url) as page:
        assert until(page, 100)[99][0] == '99'
        assert page.locator('#jobs .count').inner_text() == '120 running'
        assert page.locator('#jobs .more').inner_text() == 'and 20 more that began earlier'


@pytest.mark.parametrize('size', [DESKTOP, PHONE], ids=['desktop', 'phone'])
def test_names_of_strangers_are_text_and_break_no_layout(browser, size):
    entries = [
        {'job': text, 'folder': text, 'step': text, 'launcher': text, 'ranks': 2**29, 'started': 1e300}
        for text in ATTACKS
    ]
    entries += [{'ranks': 'many'}, {'ranks': 0}, {}, None, 7]
    entries.append({'ranks': 1, 'memory_max_bytes': 2**63, 'cpu_cores': 1e308, 'cpu_seconds': 1e308, 'started': -1})
    told = {'hostname': 'node01', 'gpus': [], 'jobs': entries, 'jobs_problem': ATTACKS[0]}
    hosts = [up('0', 'node01')._replace(report=parse_report(json.dumps(told).encode()))]
    with PageServer(hosts) as server, opened(browser, server.url, viewport=size) as page:
        page.locator('#jobs summary').wait_for()
        if size == PHONE:
            page.locator('#jobs summary').click()
        until(page, len(ATTACKS) + 1)
        assert page.locator('#jobs').locator('img, script, [onerror]').count() == 0
        assert page.evaluate('window.attacked') is None
        assert page.evaluate('document.documentElement.scrollWidth') == size['width']
        names = page.locator('#jobs .j-name bdi').all_inner_texts()
        assert 'abc?txt.exe???[31m??' in [' '.join(name.split()) for name in names]
