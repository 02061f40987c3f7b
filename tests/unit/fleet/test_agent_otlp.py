"""What an OpenTelemetry collector gets of an agent."""

from __future__ import annotations

import logging
import re
from importlib import import_module
from pathlib import Path

import pytest

from gpu_tracker.cli.agent import otlp_endpoint
from gpu_tracker.errors import GpuTrackerError, ParameterError
from gpu_tracker.fleet.agent.otlp_names import GPU_FIGURES, RANK_FIGURES, SCHEMA, Known, devices
from gpu_tracker.gpus.model import GpuHealth
from support.fleet import job_records
from support.fleet.otlp_collector import OtlpCollector
from support.fleet.page_hosts import busy_gpu, report, split_gpu
from support.waiting import eventually

FIGURES = {figure.name: figure for figure in (*GPU_FIGURES, *RANK_FIGURES)}
HEALTH = GpuHealth(
    xid_errors=((48, 1), (63, 2)),
    ecc_volatile_corrected=5,
    ecc_volatile_uncorrected=1,
    energy_joules=1234.5,
    pcie_sent_bytes=10_000,
    pcie_received_bytes=20_000,
)
RANK = job_records.RANK._replace(job='4711', cpu_cores=None)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    """Take away what a developer has set for OpenTelemetry, and leave its logger as it was."""
    import os  # noqa: PLC0415

    for name in list(os.environ):
        if name.startswith('OTEL_'):
            monkeypatch.delenv(name)
    logger = logging.getLogger('opentelemetry')
    before = logger.handlers, logger.propagate
    yield
    logger.handlers, logger.propagate = before


@pytest.fixture
def collector():
    with OtlpCollector() as running:
        yield running


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Pushing:
    """What pushes to a collector when the test says so."""

    def __init__(self, url: str, **limits: int) -> None:
        from gpu_tracker.fleet.agent.otlp import OtlpPush  # noqa: PLC0415 - not where the extra is missing

        self.known = Known((), ())
        self.failure: Exception | None = None
        self.told: list[str] = []
        self.clock = Clock()
        self.push = OtlpPush(
            self._known,
            f'{url}/v1/metrics',
            host='n1.example.org',
            version='6.0.0',
            interval=0.001,
            complain=self.told.append,
            clock=self.clock,
            **limits,
        )

    def _known(self) -> Known:
        if self.failure is not None:
            raise self.failure
        return self.known


def pushed(collector: OtlpCollector, *gpus, ranks=()):
    """Return what comes of these GPUs and ranks."""
    pushing = Pushing(collector.url)
    pushing.known = Known(tuple(devices(report(*gpus))), ranks)
    pushing.push.push()
    assert pushing.told == []
    return collector.pushes[-1]


def test_who_sends_it(collector) -> None:
    push = pushed(collector, busy_gpu(0))
    assert (push.path, push.headers['content-type']) == ('/v1/metrics', 'application/x-protobuf')
    own = {name: text for name, text in push.resource.items() if not name.startswith('telemetry.sdk.')}
    assert own == {
        'service.name': 'gpu-tracker-agent',
        'service.version': '6.0.0',
        'service.instance.id': 'n1.example.org',
        'host.name': 'n1.example.org',
    }
    assert push.resource['telemetry.sdk.name'] == 'opentelemetry'
    assert (push.scope, push.schema) == (('gpu-tracker', '6.0.0'), 'https://opentelemetry.io/schemas/1.44.0')


def test_the_environment_may_name_the_service(collector, monkeypatch) -> None:
    monkeypatch.setenv('OTEL_SERVICE_NAME', 'ours')
    monkeypatch.setenv('OTEL_RESOURCE_ATTRIBUTES', 'deployment.environment.name=test,service.instance.id=a')
    monkeypatch.setenv('OTEL_EXPORTER_OTLP_HEADERS', 'authorization=Bearer%20secret')
    monkeypatch.setenv('OTEL_EXPORTER_OTLP_COMPRESSION', 'gzip')
    push = pushed(collector, busy_gpu(0))
    assert push.resource['service.name'] == 'ours'
    assert (push.resource['deployment.environment.name'], push.resource['service.instance.id']) == ('test', 'a')
    assert (push.headers['authorization'], push.headers['content-encoding']) == ('Bearer secret', 'gzip')


def test_a_gpu(collector) -> None:
    gpu = busy_gpu(0, key='GPU-0', health=HEALTH)
    metrics = pushed(collector, gpu).metrics
    one = {'hw.id': 'GPU-0', 'hw.name': 'GPU 0', 'hw.type': 'gpu', 'hw.model': 'NVIDIA A100-SXM4-40GB'}
    assert {name: (metric.unit, metric.kind, metric.points) for name, metric in metrics.items()} == {
        'hw.gpu.utilization': ('1', 'gauge', [({**one, 'hw.gpu.task': 'general'}, 0.97)]),
        'hw.gpu.memory.limit': ('By', 'updowncounter', [(one, 42_949_672_960)]),
        'hw.gpu.memory.usage': ('By', 'updowncounter', [(one, 38_211_551_232)]),
        'hw.gpu.memory.utilization': ('1', 'gauge', [(one, 38_211_551_232 / 42_949_672_960)]),
        'hw.gpu.io': (
            'By',
            'counter',
            [
                ({**one, 'network.io.direction': 'transmit', 'gpu_tracker.gpu.link': 'pcie'}, 10_000),
                ({**one, 'network.io.direction': 'receive', 'gpu_tracker.gpu.link': 'pcie'}, 20_000),
            ],
        ),
        'hw.errors': (
            '{error}',
            'counter',
            [({**one, 'error.type': 'corrected'}, 5), ({**one, 'error.type': 'uncorrected'}, 1)],
        ),
        'hw.power': ('W', 'gauge', [(one, 287.4)]),
        'hw.energy': ('J', 'counter', [(one, 1234.5)]),
        'hw.temperature': (
            'Cel',
            'gauge',
            [
                (
                    {
                        'hw.id': 'GPU-0/temperature',
                        'hw.name': 'GPU 0 temperature',
                        'hw.parent': 'GPU-0',
                        'hw.sensor_location': 'GPU 0',
                    },
                    64.0,
                )
            ],
        ),
        'gpu_tracker.gpu.power.limit': ('W', 'gauge', [(one, 400.0)]),
        'gpu_tracker.gpu.sm_clock': ('Hz', 'gauge', [(one, 1_410_000_000)]),
        'gpu_tracker.gpu.xid_errors': (
            '{error}',
            'counter',
            [({**one, 'gpu_tracker.gpu.xid': 48}, 1), ({**one, 'gpu_tracker.gpu.xid': 63}, 2)],
        ),
    }


def test_mig_devices_have_their_gpu_as_parent(collector) -> None:
    points = pushed(collector, split_gpu(7)).metrics['hw.gpu.memory.usage'].points
    named = [(attributes['hw.name'], attributes.get('hw.parent'), value) for attributes, value in points]
    assert named == [
        ('GPU 7', None, 9_300_000_000),
        ('GPU 7:0', 'GPU-7', 9_200_000_000),
        ('GPU 7:1', 'GPU-7', 13_107_200),
        ('GPU 7:2', 'GPU-7', 13_107_200),
    ]


def test_a_rank(collector) -> None:
    metrics = pushed(collector, ranks=(RANK,)).metrics
    one = {
        'process.pid': 4242,
        'gpu_tracker.job.id': '4711',
        'gpu_tracker.job.folder': 'resnet',
        'gpu_tracker.job.step': '0',
        'gpu_tracker.job.rank': 3,
        'gpu_tracker.job.node': 'n1',
    }
    assert {name: (metric.unit, metric.kind, metric.points) for name, metric in metrics.items()} == {
        'process.cpu.time': ('s', 'counter', [(one, 350.5)]),
        'process.disk.io': (
            'By',
            'counter',
            [({**one, 'disk.io.direction': 'read'}, 5_000_000), ({**one, 'disk.io.direction': 'write'}, 6_000_000)],
        ),
        'process.uptime': ('s', 'gauge', [(one, 100.0)]),
        'gpu_tracker.job.rank.memory.max': ('By', 'gauge', [(one, 8_000_000_000)]),
        'gpu_tracker.job.rank.gpu.memory.max': ('By', 'gauge', [(one, 30_000_000_000)]),
        'gpu_tracker.job.rank.gpu.utilization': ('1', 'gauge', [(one, 0.875)]),
    }


def test_what_is_unknown_is_not_sent(collector) -> None:
    unknown = RANK._replace(
        folder=None, job=None, step=None, rank=None, node=None, cpu_seconds=None, memory_max=None, read=None
    )
    metrics = pushed(collector, ranks=(unknown,)).metrics
    assert 'process.cpu.time' not in metrics
    assert 'gpu_tracker.job.rank.memory.max' not in metrics
    assert metrics['process.disk.io'].points == [({'process.pid': 4242, 'disk.io.direction': 'write'}, 6_000_000)]


def test_a_rank_that_has_ended_is_sent_no_more(collector) -> None:
    pushing = Pushing(collector.url)
    for ranks in ((RANK, RANK._replace(rank=4)), (RANK._replace(cpu_seconds=360.0),), ()):
        pushing.known = Known((), ranks)
        pushing.push.push()
    points = [push.metrics['process.cpu.time'].points for push in collector.pushes]
    assert [[value for _, value in each] for each in points] == [[350.5, 350.5], [360.0]]  # nothing is not sent at all


def test_more_ranks_than_the_sdk_keeps_series_for(collector) -> None:
    ranks = tuple(RANK._replace(rank=number) for number in range(1001))
    points = pushed(collector, ranks=ranks).metrics['process.disk.io'].points
    assert len(points) == 2002  # the limit of the SDK is 2,000
    assert not any('otel.metric.overflow' in attributes for attributes, _ in points)


def test_ranks_that_come_and_go_for_years_do_not_use_the_series_up(collector) -> None:
    pushing = Pushing(collector.url, most_series=50, renewed_after=20)
    for job in range(6):
        ranks = tuple(RANK._replace(job=f'{job}', rank=number) for number in range(5))
        pushing.known = Known((), ranks)
        pushing.push.push()
        points = collector.pushes[-1].metrics['process.disk.io'].points
        assert len(points) == 10
        assert {attributes.get('gpu_tracker.job.id') for attributes, _ in points} == {f'{job}'}
    assert pushing.told == []


def test_a_collector_that_refuses_is_reported_once_and_so_is_that_it_takes_figures_again(collector) -> None:
    pushing = Pushing(collector.url)
    pushing.known = Known((), (RANK,))
    collector.status = 400
    for _ in range(3):
        pushing.push.push()
    assert pushing.told == [
        'agent: --otlp: figures are not taken: Failed to export metrics batch code: 400, reason: Bad Request'
    ]
    collector.status = 200
    pushing.push.push()
    assert len(pushing.told) == 1  # a minute is between two lines
    pushing.clock.now = 61
    pushing.push.push()
    assert pushing.told[1:] == ['agent: --otlp: figures are taken again']
    assert len(collector.pushes) == 2


def test_a_thread_pushes_again_and_again(collector) -> None:
    pushing = Pushing(collector.url)
    pushing.known = Known((), (RANK,))
    pushing.push.start()
    eventually(lambda: len(collector.pushes) > 2)
    pushing.push.stop()


def test_what_cannot_be_read_is_reported_and_the_next_push_is_due(collector) -> None:
    pushing = Pushing(collector.url)
    pushing.known, pushing.failure = Known((), (RANK,)), ValueError('out of luck')
    pushing.push.start()
    eventually(lambda: pushing.told)
    assert pushing.told == ['agent: --otlp: figures are not taken: ValueError: out of luck']
    pushing.failure = None
    eventually(lambda: collector.pushes)
    pushing.push.stop()


def names_of_conventions() -> dict[str, tuple[str, str]]:
    """Return unit and instrument of each metric in the conventions that the SDK comes with."""
    found = {}
    for module in ('hw_metrics', 'process_metrics'):
        conventions = import_module(f'opentelemetry.semconv._incubating.metrics.{module}')
        text = Path(conventions.__file__).read_text()
        for name, instrument, unit in re.findall(
            r': Final = "([^"]+)"\n"""\n.*?\nInstrument: (\w+)\nUnit: (\S+)\n', text
        ):
            found[name] = (unit, instrument)
    return found


def test_names_units_and_instruments_are_those_of_the_conventions() -> None:
    pytest.importorskip('opentelemetry.semconv._incubating.metrics.hw_metrics', reason='needs newer conventions')
    known = names_of_conventions()
    assert len(known) > 40
    own = {name for name in FIGURES if name.startswith('gpu_tracker.')}
    assert {name: (figure.unit, figure.kind) for name, figure in FIGURES.items() if name not in own} == {
        name: known[name] for name in FIGURES if name not in own
    }
    schemas = import_module('opentelemetry.semconv.schemas').Schemas
    assert SCHEMA in {schema.value for schema in schemas}


def test_each_name_is_documented_with_its_unit() -> None:
    page = (Path(__file__).parents[3] / 'docs' / 'prometheus.rst').read_text()
    documented = dict(re.findall(r'^   \* - ``([a-z_.]+)``\n     - ``([^`]+)``$', page, re.MULTILINE))
    assert documented == {name: figure.unit for name, figure in FIGURES.items()}


@pytest.mark.parametrize(
    ('given', 'environment', 'endpoint'),
    [
        ('http://collector:4318', {}, 'http://collector:4318/v1/metrics'),
        ('https://collector.example.org/', {}, 'https://collector.example.org/v1/metrics'),
        ('http://prometheus:9090/api/v1/otlp/v1/metrics', {}, 'http://prometheus:9090/api/v1/otlp/v1/metrics'),
        ('http://[::1]:4318', {'OTEL_EXPORTER_OTLP_ENDPOINT': 'http://else'}, 'http://[::1]:4318/v1/metrics'),
        (
            'env',
            {'OTEL_EXPORTER_OTLP_ENDPOINT': 'http://collector:4318/otlp/'},
            'http://collector:4318/otlp/v1/metrics',
        ),
        (
            'env',
            {'OTEL_EXPORTER_OTLP_ENDPOINT': 'http://a', 'OTEL_EXPORTER_OTLP_METRICS_ENDPOINT': 'http://b/metrics'},
            'http://b/metrics',
        ),
        (
            'env',
            {'OTEL_EXPORTER_OTLP_ENDPOINT': 'http://a', 'OTEL_EXPORTER_OTLP_PROTOCOL': 'http/protobuf'},
            'http://a/v1/metrics',
        ),
    ],
)
def test_the_endpoint(given: str, environment: dict[str, str], endpoint: str) -> None:
    assert otlp_endpoint(given, environment) == endpoint


A_URL = "a URL that begins with http:// or https://, such as http://localhost:4318, or 'env'"


@pytest.mark.parametrize(
    ('given', 'environment', 'told'),
    [
        ('', {}, f"--otlp must be {A_URL}, not ''"),
        ('collector:4318', {}, f"--otlp must be {A_URL}, not 'collector:4318'"),
        ('grpc://collector:4317', {}, f"--otlp must be {A_URL}, not 'grpc://collector:4317'"),
        ('http://:4318', {}, f"--otlp must be {A_URL}, not 'http://:4318'"),
        ('http://a:port', {}, f"--otlp must be {A_URL}, not 'http://a:port'"),
        ('http://alice:secret@a:port', {}, f"--otlp must be {A_URL}, not '...@a:port'"),
        ('http://a?b', {}, f"--otlp must be {A_URL}, not 'http://a?b'"),
        ('env', {}, "--otlp must be a URL where OTEL_EXPORTER_OTLP_ENDPOINT is not set, not 'env'"),
        (
            'env',
            {'OTEL_EXPORTER_OTLP_ENDPOINT': 'a:4317'},
            f"OTEL_EXPORTER_OTLP_ENDPOINT must be {A_URL}, not 'a:4317'",
        ),
        (
            'env',
            {'OTEL_EXPORTER_OTLP_ENDPOINT': 'http://a:4317', 'OTEL_EXPORTER_OTLP_PROTOCOL': 'grpc'},
            "OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf, which is what --otlp speaks, not 'grpc'",
        ),
    ],
)
def test_an_endpoint_that_is_none(given: str, environment: dict[str, str], told: str) -> None:
    with pytest.raises(ParameterError, match=f'^{re.escape(told)}$'):
        otlp_endpoint(given, environment)


def test_the_interval() -> None:
    from gpu_tracker.fleet.agent.otlp import interval_of  # noqa: PLC0415 - not where the extra is missing

    assert interval_of({}, 2.0) == 10.0
    assert interval_of({}, 60.0) == 60.0
    assert interval_of({'OTEL_METRIC_EXPORT_INTERVAL': '500'}, 60.0) == 0.5
    for given in ('often', '99', 'inf', 'nan', '-1'):
        told = f'OTEL_METRIC_EXPORT_INTERVAL must be a number of milliseconds from 100 on, not {given!r}'
        with pytest.raises(GpuTrackerError, match=f'^{re.escape(told)}$'):
            interval_of({'OTEL_METRIC_EXPORT_INTERVAL': given}, 2.0)


def test_what_the_environment_says_wrongly_for_the_sdk_is_an_error(collector, monkeypatch) -> None:
    monkeypatch.setenv('OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER', 'nobody')
    with pytest.raises(GpuTrackerError, match=r"^--otlp: Requested component 'nobody' not found"):
        Pushing(collector.url)
