"""What Prometheus answers to queries, read without trust in it or in what it has scraped.

The format: https://prometheus.io/docs/prometheus/latest/querying/api/. An entry that is not as it should be is left
out; a value that is no finite number is unknown, which is None.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.errors import GpuTrackerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_LONGEST_REASON = 300


class PrometheusError(GpuTrackerError):
    """Prometheus could not be asked, or its answer cannot be used."""


class Sample(NamedTuple):
    """One value now."""

    labels: Mapping[str, str]
    value: float | None
    time: float
    """Seconds since 1970 by Prometheus's clock, for which the query was evaluated."""

    def label(self, name: str) -> str:
        """Return a label; one that is missing is the same as an empty one."""
        return self.labels.get(name, '')


class Track(NamedTuple):
    """Values over time."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float | None]]
    """Seconds since 1970, and the value then."""


def parse_samples(body: bytes) -> list[Sample]:
    """Return the values of an instant query.

    :raises PrometheusError: The query has failed, or the body is something else.
    """
    samples = []
    for labels, entry in _entries(body, 'vector'):
        point = _point(entry.get('value'))
        if point is not None:
            samples.append(Sample(labels, point[1], point[0]))
    return samples


def parse_tracks(body: bytes) -> list[Track]:
    """Return the values of a query over a range of time.

    :raises PrometheusError: The query has failed, or the body is something else.
    """
    tracks = []
    for labels, entry in _entries(body, 'matrix'):
        values = entry.get('values')
        if isinstance(values, list):
            tracks.append(Track(labels, [point for value in values if (point := _point(value)) is not None]))
    return tracks


def reason_of(body: bytes) -> str | None:
    """Return what the answer to a query that failed says about it; None where it says nothing."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):  # not JSON or not UTF-8, numbers of thousands of digits, absurd nesting
        return None
    reason = answer.get('error') if isinstance(answer, dict) else None
    if not isinstance(reason, str):
        return None
    return reason if len(reason) <= _LONGEST_REASON else f'{reason[: _LONGEST_REASON - 1]}…'


def _entries(body: bytes, kind: str) -> Iterator[tuple[Mapping[str, str], Mapping[str, object]]]:
    """Yield each series with its labels."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):  # as above
        raise PrometheusError('its answer is not JSON') from None
    data = answer.get('data') if isinstance(answer, dict) else None
    if not isinstance(data, dict) or answer.get('status') != 'success':
        raise PrometheusError('its answer is none to a query')
    entries = data.get('result')
    if data.get('resultType') != kind or not isinstance(entries, list):
        raise PrometheusError(f'its answer is no {kind}')
    for entry in entries:
        labels = entry.get('metric') if isinstance(entry, dict) else None
        if isinstance(labels, dict) and all(isinstance(value, str) for value in labels.values()):
            yield labels, entry


def _point(value: object) -> tuple[float, float | None] | None:
    """Return a moment and the value then, which Prometheus writes as a text: ``[1700000000.1, "NaN"]``."""
    if not (isinstance(value, list) and len(value) == 2):  # noqa: PLR2004 - a pair
        return None
    try:
        moment, number = float(value[0]), float(value[1])
    except (TypeError, ValueError, OverflowError):
        return None
    if not math.isfinite(moment):
        return None
    return moment, number if math.isfinite(number) else None
