"""Jobs that run, as an agent with ``--jobs`` reports them: to the page of a dashboard and to Prometheus."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from support.fleet.agent_jobs import jobs, rank
from support.fleet.agent_program import agent
from support.fleet.dashboard_program import Dashboard
from support.fleet.page_browser import expect, opened
from support.fleet.prometheus_server import DOCUMENTED, prometheus, with_prometheus
from support.gpus.gpu_machine import GB, Machine
from support.simulated_nvml import Gpu
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.machine(gpus=[Gpu(total=80 * GB, used=GB, util=3, temperature=31)])]


def test_a_job_of_two_hosts_on_the_page_of_a_dashboard_beside_an_agent_without_jobs(
    machine: Machine, tmp_path: Path, browser: Any
) -> None:
    # Two agents on one machine, each with the folder of one of the ranks, stand in for two hosts.
    with contextlib.ExitStack() as stack:
        agents = []
        for number in range(2):
            folder = tmp_path / f'host{number}' / 'resnet'
            folder.mkdir(parents=True)
            stack.enter_context(rank(folder, number, job='4712_3'))
            agents.append(stack.enter_context(agent(machine, f'--jobs={folder.parent}')))
        agents.append(stack.enter_context(agent(machine)))
        for served in agents[:2]:
            jobs(served)
        hosts = ', '.join(f"{{name = 'host{place}', url = '{each.url}'}}" for place, each in enumerate(agents))
        config = tmp_path / 'fleet.toml'
        config.write_text(f'interval_seconds = 0.5\ndeadline_seconds = 5\nhosts = [{hosts}]\n')
        shown = stack.enter_context(Dashboard(f'--config={config}'))
        first, second, third = shown.until(['up', 'up', 'up'])
        assert [job['job'] for job in (*first['jobs'], *second['jobs'])] == ['4712_3'] * 2
        assert 'jobs' not in third
        with opened(browser, f'http://127.0.0.1:{shown.port}/') as page:
            line = page.locator('#jobs tbody tr')
            expect(line).to_have_count(1)
            expect(line.locator('.j-ranks')).to_have_text('2 of 2')
            expect(line.locator('.j-hosts')).to_have_text('2')
            expect(line.locator('.j-memory')).to_have_text(re.compile(r'0\.[12] GB'))
        with opened(browser, agents[0].url) as page:
            line = page.locator('#jobs tbody tr')
            expect(line.locator('.j-ranks')).to_have_text('1 of 2')
            with rank(folder.parents[1] / 'host0' / 'second', 0, job='4713', size=1):
                expect(line).to_have_count(2)  # live, without anybody reloading the page
                expect(line.first).to_contain_text('4713')
            expect(line).to_have_count(1)


QUERIES = [
    line.strip()
    for block in re.findall(
        r'^\.\. code-block:: promql\n\n((?: {3}.*\n)+)',
        (DOCUMENTED.parent / 'metrics.rst').read_text(),
        re.MULTILINE,
    )
    for line in block.splitlines()
    if line.strip() and not line.strip().startswith('#')
]


@with_prometheus
def test_the_documented_configuration_and_its_questions(machine: Machine, tmp_path: Path) -> None:
    folder = tmp_path / 'job'
    with rank(folder, 0), rank(folder, 1), agent(machine, f'--jobs={folder}') as served:
        jobs(served)
        documented = (DOCUMENTED / 'prometheus.yml').read_text()
        configuration = (
            documented.replace("'node01:1080', 'node02:1080'", f"'{urlsplit(served.url).netloc}'")
            .replace('scrape_interval: 15s', 'scrape_interval: 200ms\n  scrape_timeout: 200ms')
            .replace('rule_files:\n  - recording-rules.yml\n  - alerting-rules.yml\n', '')
        )
        assert documented.count('node02:1080') == documented.count('rule_files') == 1
        with prometheus(tmp_path / 'prometheus', configuration) as server:
            # A scrape that takes too long ends the series until the next one.
            running = 'sort(gpu_tracker_job_rank_running_seconds{job="gpu-tracker"})'
            first, second = eventually(lambda: server.query(running))
            assert {each['metric']['rank'] for each in (first, second)} == {'0', '1'}
            assert (first['metric']['exported_job'], first['metric']['group']) == ('4711', 'vision')
            assert 'folder' not in first['metric']
            assert len(QUERIES) == 5
            answers = eventually(lambda: found if all(found := [server.query(query) for query in QUERIES]) else None)
    ranks, hosts, cores, most, idle = answers
    assert (ranks[0]['metric'], ranks[0]['value'][1]) == ({'exported_job': '4711'}, '2')
    assert (hosts[0]['metric'], hosts[0]['value'][1]) == ({'exported_job': '4711'}, '1')
    assert cores[0]['metric'] == {'exported_job': '4711'}
    assert len(most) == 1
    assert len(idle) == 2
