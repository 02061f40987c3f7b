"""Jobs that run, as an agent with ``--jobs`` reports them: to a dashboard, to Prometheus and to OpenTelemetry."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from support.cli_program import started
from support.fleet.agent_program import AgentProgram, agent
from support.fleet.dashboard_program import Dashboard
from support.fleet.page_browser import expect, opened
from support.fleet.prometheus_server import DOCUMENTED, prometheus, with_prometheus
from support.gpus.gpu_machine import GB, Machine
from support.running_ranks import reported_ram
from support.simulated_nvml import Gpu
from support.tracked_program import environment
from support.waiting import TIMEOUT, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.machine(gpus=[Gpu(total=80 * GB, used=GB, util=3, temperature=31)])]

KEPT = 50_000_000
WAITS = f'import sys; kept = bytearray({KEPT}); sys.stdin.read()'
HERE = os.uname().nodename


@contextlib.contextmanager
def rank(folder: Path, number: int, job: str = '4711', size: int = 2) -> Iterator[Any]:
    """Run a rank of a job, which ends when its standard input does; give its process."""
    identity = {
        'GPU_TRACKER_JOB': job,
        'GPU_TRACKER_RANK': f'{number}',
        'GPU_TRACKER_SIZE': f'{size}',
        'GPU_TRACKER_NODE': 'n1',
    }
    words = (f'--job={folder}', '--st=0.1', '--', sys.executable, '-c', WAITS)
    with started(*words, env=environment(identity), stdin=-1) as process:
        eventually(lambda: reported_ram(folder, number) > KEPT)
        yield process
        process.communicate()


def jobs(served: AgentProgram) -> list[dict]:
    """Return the jobs that an agent reports, when there are some."""
    return eventually(lambda: served.host()['jobs'])


def wait_until_gone(served: AgentProgram) -> None:
    """Wait until an agent reports no jobs any more."""
    eventually(lambda: served.host()['jobs'] == [])


def of_jobs(samples: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in samples.items() if name.startswith('gpu_tracker_job')}


def test_a_running_job_and_its_end(machine: Machine, tmp_path: Path) -> None:
    folder = tmp_path / 'jobs' / 'resnet'
    folder.mkdir(parents=True)
    with rank(folder, 0) as first, rank(folder, 1), agent(machine, f'--jobs={tmp_path / "jobs"}') as served:
        (job,) = jobs(served)
        known = {name: job[name] for name in ('job', 'folder', 'step', 'launcher', 'ranks', 'ranks_expected')}
        assert known == {
            'job': '4711',
            'folder': 'resnet',
            'step': None,
            'launcher': 'gpu-tracker',
            'ranks': 2,
            'ranks_expected': 2,
        }
        assert 100_000_000 < job['memory_max_bytes'] < 400_000_000
        assert 0 < job['cpu_seconds'] < TIMEOUT
        assert served.host()['jobs_problem'] is None
        found = of_jobs(served.metrics())
        assert found['gpu_tracker_jobs_up'] == 1
        labels = f'{{folder="resnet",host="{HERE}",job="4711",node="n1",pid="",rank="%d",step=""}}'
        for number in range(2):
            assert found[f'gpu_tracker_job_rank_memory_max_bytes{labels % number}'] > KEPT
            assert found[f'gpu_tracker_job_rank_cpu_seconds_total{labels % number}'] > 0
        assert eventually(lambda: [told['ranks'] for told in served.get('/api/v1/fleet').json['hosts'][0]['jobs']]) == [
            2
        ]
        assert 'bytearray' not in served.get('/api/v1/host').text  # which is in the command
        first.communicate()
        assert first.returncode == 0
        assert eventually(lambda: [told['ranks'] for told in served.host()['jobs']] == [1])


def test_a_rank_that_was_killed_with_its_tracker_is_gone(machine: Machine, tmp_path: Path) -> None:
    folder = tmp_path / 'job'
    with agent(machine, f'--jobs={folder}') as served:
        assert eventually(lambda: served.host()['jobs_problem']) == (
            'the folder of the jobs cannot be read: No such file or directory'
        )
        assert served.metrics()['gpu_tracker_jobs_up'] == 0
        with rank(folder, 0) as process:
            jobs(served)
            process.send_signal(signal.SIGKILL)
            process.wait()
            wait_until_gone(served)
            assert served.host()['jobs_problem'] is None
            assert of_jobs(served.metrics()) == {'gpu_tracker_jobs_up': 1}


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
        (DOCUMENTED.parent / 'prometheus.rst').read_text(),
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


def test_figures_are_pushed_to_opentelemetry(machine: Machine, tmp_path: Path) -> None:
    from support.fleet.otlp_collector import OtlpCollector  # noqa: PLC0415 - it skips where the extra is missing

    folder = tmp_path / 'job'
    with OtlpCollector() as collector, rank(folder, 0):
        variables = {'OTEL_METRIC_EXPORT_INTERVAL': '200', 'OTEL_EXPORTER_OTLP_ENDPOINT': collector.url}
        with agent(machine, f'--jobs={folder}', '--otlp=env', env=variables) as served:
            push = eventually(
                lambda: next(
                    (
                        each
                        for each in collector.pushes
                        if {'process.cpu.time', 'hw.temperature'} <= each.metrics.keys()
                    ),
                    None,
                )
            )
            assert (push.path, push.resource['host.name']) == ('/v1/metrics', HERE)
            ((attributes, value),) = push.metrics['process.cpu.time'].points
            assert (attributes['gpu_tracker.job.id'], attributes['gpu_tracker.job.rank']) == ('4711', 0)
            assert value > 0
            assert [value for _, value in push.metrics['hw.gpu.memory.usage'].points] == [GB]
            assert [value for _, value in push.metrics['hw.temperature'].points] == [31]
            served.process.terminate()
            assert served.process.wait(TIMEOUT) == 0
            assert served.process.stderr.read() == ''


def test_a_wrong_folder(machine: Machine) -> None:
    assert machine.told('agent', '--jobs=') == (
        125,
        '',
        "gpu-tracker: --jobs must be the path of a folder, not ''\n",
    )
