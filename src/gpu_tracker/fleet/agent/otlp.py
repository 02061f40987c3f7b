"""Pushes the figures of an agent to an OpenTelemetry collector, with OpenTelemetry's own SDK.

Only this module imports it. What the SDK can be told by its environment variables it takes from them, such as headers
with a secret (``OTEL_EXPORTER_OTLP_HEADERS``) and certificates (``OTEL_EXPORTER_OTLP_CERTIFICATE``).
"""

from __future__ import annotations

import logging
import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import MeterProvider, ObservableCounter, ObservableGauge, ObservableUpDownCounter
from opentelemetry.sdk.metrics.export import AggregationTemporality, MetricExportResult, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource

from gpu_tracker.background import REPORT_INTERVAL, Poll
from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.fleet.agent.otlp_names import (
    COUNTER,
    GAUGE,
    GPU_FIGURES,
    RANK_FIGURES,
    SCHEMA,
    Known,
    points_of_gpus,
    points_of_ranks,
    resource_attributes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from opentelemetry.metrics import CallbackOptions, Meter
    from opentelemetry.sdk.metrics.export import MetricsData

    from gpu_tracker.fleet.agent.job_ranks import JobRank
    from gpu_tracker.fleet.agent.otlp_names import Device, OtlpFigure, Point

LEAST_INTERVAL = 10.0
"""Seconds between two pushes where ``OTEL_METRIC_EXPORT_INTERVAL`` does not say otherwise."""
_INTERVAL_VARIABLE = 'OTEL_METRIC_EXPORT_INTERVAL'
_SHORTEST = 0.1
_MOST_SERIES = 20_000
"""Of one metric: the limit of the SDK is 2,000, and its counts are for all series that ever were."""
_RENEWED_AFTER = 8_000
"""Ranks after which the SDK begins anew, since it keeps an entry for each that ever was."""
_LONGEST_COLLECTION = 60_000
"""Milliseconds for figures that are in memory already: the 10 s of the SDK are for callbacks that ask somebody, and
thousands of ranks take longer on a busy machine."""
_LONGEST_REASON = 300


def interval_of(environment: Mapping[str, str], reading: float) -> float:
    """Return the seconds between two pushes.

    :param reading: Seconds between two readings of the GPUs.
    :raises GpuTrackerError: What the environment says is no such number.
    """
    given = environment.get(_INTERVAL_VARIABLE)
    if not given:
        return max(LEAST_INTERVAL, reading)
    try:
        seconds = float(given) / 1000
    except ValueError:
        seconds = math.nan
    if not _SHORTEST <= seconds < math.inf:
        raise GpuTrackerError(f'{_INTERVAL_VARIABLE} must be a number of milliseconds from 100 on, not {given!r}')
    return seconds


class OtlpPush:
    """Pushes what is known, again and again, in a thread of its own: a collector may take its time.

    :param known: Returns what is to be sent; it is called in that thread.
    :param endpoint: The URL that takes metrics.
    :param host: The name of this machine.
    :param version: Of gpu-tracker.
    :param interval: Seconds between two pushes.
    :param complain: Takes lines for people.
    :param clock: Monotonic seconds.
    :param most_series: The SDK's limit of the series of one metric.
    :param renewed_after: Number of ranks after which the SDK begins anew.
    :raises GpuTrackerError: What the environment says for the SDK cannot be used.
    """

    def __init__(
        self,
        known: Callable[[], Known],
        endpoint: str,
        *,
        host: str,
        version: str,
        interval: float,
        complain: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        most_series: int = _MOST_SERIES,
        renewed_after: int = _RENEWED_AFTER,
    ) -> None:
        self._known = known
        self._endpoint = endpoint
        self._version = version
        self._interval = interval
        self._clock = clock
        self._most_series = most_series
        self._renewed_after = renewed_after
        self._outcome = _Outcome(complain, clock)
        # Those of the environment win, OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
        own = Resource(resource_attributes(host, version), SCHEMA)
        self._resource = Resource.create({}).merge(own).merge(OTELResourceDetector().detect())
        self._now = Known((), ())
        self._ranks: set[tuple[object, ...]] = set()
        _listen_to_sdk(self._outcome)
        self._provider, self._reader = self._opened()
        self._poll = Poll(self._push, 'otlp', clock=clock)

    def start(self) -> None:
        """Begin to push."""
        self._poll.start()

    def stop(self) -> None:
        """Push no more; what is under way ends by itself."""
        self._poll.stop()

    def push(self) -> None:
        """Push once; what goes wrong is reported."""
        self._now = self._known()
        self._ranks.update(
            (rank.folder, rank.job, rank.step, rank.rank, rank.node, rank.pid) for rank in self._now.ranks
        )
        self._reader.collect(timeout_millis=_LONGEST_COLLECTION)
        if len(self._ranks) > self._renewed_after:
            self._provider.shutdown()
            self._ranks.clear()
            self._provider, self._reader = self._opened()

    def _push(self) -> float:
        begun = self._clock()
        try:
            self.push()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next push is due
            self._outcome.failed(f'{type(error).__name__}: {error}')
        return max(_SHORTEST, self._interval - (self._clock() - begun))

    def _opened(self) -> tuple[MeterProvider, PeriodicExportingMetricReader]:
        try:
            exporter = _Exporter(self._endpoint, self._outcome)
        except (ImportError, RuntimeError, ValueError) as error:
            raise GpuTrackerError(f'--otlp: {error}') from error
        # Without a thread of its own: that would take minutes to end where the collector does not answer.
        reader = PeriodicExportingMetricReader(exporter, export_interval_millis=math.inf, **_limits(self._most_series))
        provider = MeterProvider([reader], self._resource, shutdown_on_exit=False)
        meter = provider.get_meter('gpu-tracker', self._version, SCHEMA)
        for gpu_figure in GPU_FIGURES:
            _observe(meter, gpu_figure, partial(self._of_gpus, gpu_figure))
        for rank_figure in RANK_FIGURES:
            _observe(meter, rank_figure, partial(self._of_ranks, rank_figure))
        return provider, reader

    def _of_gpus(self, figure: OtlpFigure[Device]) -> Iterable[Point]:
        return points_of_gpus(figure, self._now.devices)

    def _of_ranks(self, figure: OtlpFigure[JobRank]) -> Iterable[Point]:
        return points_of_ranks(figure, self._now.ranks)


def _observe(meter: Meter, figure: OtlpFigure[Any], points: Callable[[], Iterable[Point]]) -> None:
    def observed(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(point.value, point.attributes) for point in points()]

    create = {GAUGE: meter.create_observable_gauge, COUNTER: meter.create_observable_counter}.get(
        figure.kind, meter.create_observable_up_down_counter
    )
    create(figure.name, [observed], unit=figure.unit, description=figure.text)


def _limits(most_series: int) -> dict[str, Any]:
    """Return the parameter that lets a metric have more series, where the SDK has a limit."""
    from opentelemetry.sdk.metrics import export  # noqa: PLC0415 - older versions do not have the name

    if not hasattr(export, 'CardinalityLimits'):
        return {}
    kinds = (ObservableCounter, ObservableGauge, ObservableUpDownCounter)
    return {'cardinality_limits': dict.fromkeys(kinds, most_series)}


class _Exporter(OTLPMetricExporter):
    """The SDK's exporter, whose successes are noted."""

    def __init__(self, endpoint: str, outcome: _Outcome) -> None:
        # Counters began long before the agent: the differences that some collectors prefer would begin with all of it.
        super().__init__(endpoint, preferred_temporality={ObservableCounter: AggregationTemporality.CUMULATIVE})
        self._outcome = outcome

    def export(
        self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **kwargs: object
    ) -> MetricExportResult:
        """Send the metrics."""
        result = super().export(metrics_data, timeout_millis, **kwargs)
        if result is MetricExportResult.SUCCESS:
            self._outcome.succeeded()
        else:
            self._outcome.failed(None)
        return result


class _Outcome:
    """Reports when pushes begin to fail and when they go on again, once a minute at most."""

    def __init__(self, complain: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._complain = complain
        self._clock = clock
        self._is_reported_bad = False
        self._next = clock()
        self.reason = 'unknown'
        """What the SDK has said last."""

    def succeeded(self) -> None:
        """Take note that figures were taken."""
        self.reason = 'unknown'
        self._note(None)

    def failed(self, reason: str | None) -> None:
        """Take note that they were not."""
        self._note(reason or self.reason)

    def _note(self, reason: str | None) -> None:
        if (reason is not None) == self._is_reported_bad or self._clock() < self._next:
            return
        self._is_reported_bad = reason is not None
        self._next = self._clock() + REPORT_INTERVAL
        if reason is None:
            self._complain('agent: --otlp: figures are taken again')
        else:
            self._complain(f'agent: --otlp: figures are not taken: {reason[:_LONGEST_REASON]}')


class _SdkLog(logging.Handler):
    """Keeps why the SDK has failed.

    Its messages would be on standard error in a form of their own, every few seconds.
    """

    def __init__(self, outcome: _Outcome) -> None:
        super().__init__(logging.WARNING)
        self._outcome = outcome

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message; that a push has failed is reported by who has pushed."""
        text = ' '.join(record.getMessage().split())
        # The last one of a series says only that there were too many tries.
        if 'max retries' not in text or self._outcome.reason == 'unknown':
            self._outcome.reason = text


def _listen_to_sdk(outcome: _Outcome) -> None:
    logger = logging.getLogger('opentelemetry')
    logger.handlers = [_SdkLog(outcome)]
    logger.propagate = False
