"""What the documentation gives to Prometheus and Grafana, read by Prometheus itself."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
import time

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gpu_tracker.fleet.agent.job_metrics import JobCollector
from gpu_tracker.fleet.agent.job_ranks import JobsSeen
from gpu_tracker.fleet.agent.metrics import HostCollector
from gpu_tracker.fleet.hosts.nvgpu import KINDS
from gpu_tracker.fleet.hosts.totals import totals_of
from gpu_tracker.fleet.prometheus import queries
from gpu_tracker.gpus.model import GpuHealth
from support.fleet.job_records import BEGUN, RANK, UNKNOWN
from support.fleet.prometheus_server import DOCUMENTED, backfill, prometheus, promtool, with_prometheus
from support.fleet.reporting_host import ReportingHost
from support.gpus.example_gpus import GPUS

DASHBOARD = json.loads((DOCUMENTED / 'grafana-dashboard.json').read_text())
CONFIGURATIONS = sorted(path.name for path in DOCUMENTED.glob('prometheus*.yml'))
ALERTS = re.findall(r'alert: (\w+)', (DOCUMENTED / 'alerting-rules.yml').read_text())
EXPRESSIONS = [(panel['title'], target['expr']) for panel in DASHBOARD['panels'] for target in panel.get('targets', [])]
COUNTS = ['GPUs free', 'GPUs in use', 'GPUs in use, unseen', 'GPUs unknown']
_METRIC = re.compile(r'\bgpu_tracker_\w+')


def exposition():
    """Return what an agent tells that exports everything."""
    health = GpuHealth(((79, 1),), 1, 2, 3, 4, 5, 6, True, False, ('power_cap',), 7.5, 8, 9, 10, 11)
    host = ReportingHost(time.time(), [GPUS[0]._replace(health=health), *GPUS[1:]])
    registry = CollectorRegistry()
    registry.register(HostCollector(host, '6.0.0', export_processes=True, export_users=True))
    return generate_latest(registry).decode()


@with_prometheus
@pytest.mark.parametrize('name', CONFIGURATIONS)
def test_prometheus_accepts_the_configuration(tmp_path, name):
    folder = shutil.copytree(DOCUMENTED, tmp_path / 'prometheus')
    for secret in ('agents-ca.pem', 'agents-token', 'dashboard-ca.pem', 'dashboard-password'):
        (folder / secret).write_text('whatever users have')
    checked = promtool('check', 'config', name, folder=folder)
    assert checked.returncode == 0, checked.stdout
    assert f'SUCCESS: {name} is valid prometheus config file syntax' in checked.stdout
    assert '2 rule files found' in checked.stdout


@with_prometheus
def test_prometheus_accepts_the_receiver_of_opentelemetrys_collector(tmp_path):
    text = (DOCUMENTED / 'opentelemetry-collector.yml').read_text()
    receiver = re.search(r'receivers:\n  prometheus:\n    config:\n(.*?)\n\n', text, re.DOTALL)[1]
    (tmp_path / 'receiver.yml').write_text(textwrap.dedent(receiver))
    checked = promtool('check', 'config', 'receiver.yml', folder=tmp_path)
    assert checked.returncode == 0, checked.stdout


def job_exposition():
    """Return what an agent reports about the ranks of jobs."""
    registry = CollectorRegistry()
    registry.register(JobCollector(lambda: JobsSeen((RANK, BEGUN, UNKNOWN), None), 'n1.example.org'))
    return generate_latest(registry).decode()


@with_prometheus
@pytest.mark.parametrize('metrics', [exposition, job_exposition])
def test_promtool_accepts_all_metrics(tmp_path, metrics):
    path = tmp_path / 'metrics'
    path.write_text(metrics())
    with path.open() as text:
        checked = promtool('check', 'metrics', stdin=text)
    assert (checked.returncode, checked.stdout) == (0, '')


@with_prometheus
def test_the_rules_say_what_they_should():
    tested = promtool('test', 'rules', 'rules-tests.yml')
    assert tested.returncode == 0, tested.stdout


@pytest.mark.parametrize('alert', ALERTS)
def test_each_alert_is_tested_and_explained(alert):
    assert f'alertname: {alert}\n        exp_alerts:\n          - ' in (DOCUMENTED / 'rules-tests.yml').read_text()
    assert f'``{alert}``' in (DOCUMENTED.parent / 'metrics.rst').read_text()


def test_all_metrics_that_are_asked_for_are_those_of_the_agent():
    told = {line.partition('{')[0].partition(' ')[0] for line in exposition().splitlines() if line[0] != '#'}
    texts = [path.read_text() for path in DOCUMENTED.iterdir() if not path.is_dir()]
    asked = {name for text in texts for name in _METRIC.findall(re.sub(r'\w+:gpu_tracker_\w+:\w+', '', text))}
    code = {queries.INFO, queries.DRIVER_UP, *queries.FIGURES}
    for query in (queries.PROCESSES_BY_PID, queries.PROCESSES_BY_USER, queries.NOW.gpus, queries.NOW.statuses):
        code.update(_METRIC.findall(query))
    assert len(asked) > 8
    assert asked | code <= told
    documented = set(_METRIC.findall((DOCUMENTED.parent / 'metrics.rst').read_text()))
    assert told <= documented | {'gpu_tracker_gpu_user_memory_bytes'}


def test_the_dashboard_can_be_imported_anywhere():
    assert DASHBOARD['schemaVersion'] >= 39
    assert 'id' not in DASHBOARD  # Grafana gives one
    assert len({panel['id'] for panel in DASHBOARD['panels']}) == len(DASHBOARD['panels'])
    sources = re.findall(r'"uid": "([^"]*)"', json.dumps(DASHBOARD))
    assert set(sources) == {'gpu-tracker-fleet', '${datasource}'}
    variables = [variable['name'] for variable in DASHBOARD['templating']['list']]
    assert variables == ['datasource', 'job', 'group', 'host']
    assert set(re.findall(r'"\$(\w+)"', json.dumps(EXPRESSIONS).replace('\\"', '"'))) == {'job', 'group', 'host'}


@with_prometheus
def test_grafana_and_the_rules_count_gpus_as_the_dashboard_does(tmp_path):
    host = ReportingHost(time.time())
    totals = totals_of([host.state()])
    counted = [totals.free, totals.in_use, totals.unseen, totals.unknown]
    assert sum(counted) == totals.gpus == 8
    panels = [re.sub(r'\$\w+', '.*', dict(EXPRESSIONS)[title]) for title in COUNTS]
    rule = re.search(r'record: job_kind:.*\n +expr: (.*)', (DOCUMENTED / 'recording-rules.yml').read_text())[1]
    backfill(tmp_path, exposition(), labels={'job': 'gpu-tracker', 'instance': 'a:1'}, moments=[time.time() - 1])
    with prometheus(tmp_path, '{}') as server:
        assert [float(server.query(panel)[0]['value'][1]) for panel in panels] == counted
        by_kind = {sample['metric']['kind']: float(sample['value'][1]) for sample in server.query(rule)}
    assert [by_kind[kind] for kind in KINDS] == counted


@with_prometheus
def test_each_panel_of_the_dashboard_shows_something(tmp_path):
    labels = {'job': 'gpu-tracker', 'instance': 'node01:1080', 'group': 'vision'}
    backfill(tmp_path, exposition(), labels=labels, moments=[time.time() - 1])
    with prometheus(tmp_path, '{}') as server:
        for variable, value in (('job', 'gpu-tracker'), ('group', '(vision|speech)'), ('host', '.*')):
            for title, expression in EXPRESSIONS:
                wanted = expression.replace('$job', 'gpu-tracker').replace(f'${variable}', value)
                wanted = re.sub(r'\$\w+', '.*', wanted)
                assert server.query(wanted), f'{title}: {wanted}'
        elsewhere = [(title, re.sub(r'\$\w+', 'elsewhere', expression)) for title, expression in EXPRESSIONS]
        assert [title for title, expression in elsewhere if server.query(expression)] == []
