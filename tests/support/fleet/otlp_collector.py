"""An OpenTelemetry collector that keeps what it is sent: a real HTTP server, which decodes protobuf."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import pytest

if TYPE_CHECKING:
    from types import TracebackType

pytest.importorskip('opentelemetry.proto', reason='needs the extra otel')
pytest.importorskip('opentelemetry.sdk', reason='needs the extra otel')
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

CUMULATIVE = 2
"""AGGREGATION_TEMPORALITY_CUMULATIVE in metrics.proto."""


class Metric(NamedTuple):
    """A metric as it was sent."""

    unit: str
    kind: str
    """``gauge``, ``counter`` or ``updowncounter``."""
    points: list[tuple[dict[str, Any], float]]
    """Attributes, and the value."""
    description: str


class Push(NamedTuple):
    """What was sent at once."""

    path: str
    headers: dict[str, str]
    resource: dict[str, Any]
    scope: tuple[str, str]
    schema: str
    metrics: dict[str, Metric]


class OtlpCollector:
    """Takes metrics at any free port of loopback until it is left."""

    def __init__(self) -> None:
        self.pushes: list[Push] = []
        self.status = 200
        """What it answers."""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers['content-length']))
                if self.headers.get('content-encoding') == 'gzip':
                    body = gzip.decompress(body)
                if collector.status == 200:
                    collector.pushes.append(_push(self.path, dict(self.headers), body))
                answer = ExportMetricsServiceResponse().SerializeToString()
                self.send_response(collector.status)
                self.send_header('content-type', 'application/x-protobuf')
                self.send_header('content-length', str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.url = f'http://127.0.0.1:{self._server.server_port}'

    def __enter__(self) -> Self:
        """Serve."""
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()


def _push(path: str, headers: dict[str, str], body: bytes) -> Push:
    (resource,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    (scope,) = resource.scope_metrics
    names = [metric.name for metric in scope.metrics]
    assert len(set(names)) == len(names)
    return Push(
        path,
        {name.lower(): text for name, text in headers.items()},
        _attributes(resource.resource.attributes),
        (scope.scope.name, scope.scope.version),
        scope.schema_url,
        {metric.name: _metric(metric) for metric in scope.metrics},
    )


def _metric(metric: Any) -> Metric:
    kind = metric.WhichOneof('data')
    data = getattr(metric, kind)
    if kind == 'sum':
        assert data.aggregation_temporality == CUMULATIVE
        kind = 'counter' if data.is_monotonic else 'updowncounter'
    points = [(_attributes(point.attributes), getattr(point, point.WhichOneof('value'))) for point in data.data_points]
    return Metric(metric.unit, kind, points, metric.description)


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof('value')) for pair in pairs}
