"""The past of one host's GPUs, from the answers of Prometheus."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.fleet.hosts import untrusted
from gpu_tracker.fleet.hosts.source import Past, Series
from gpu_tracker.fleet.prometheus.gpus import key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpu_tracker.fleet.prometheus.answers import Track

_LEAST_STEP = 10
_MOST_STEPS = 360
_LONGEST = 366 * 86400.0


class Span(NamedTuple):
    """The moments of which values are wanted, in seconds since 1970 by Prometheus's clock."""

    start: float
    end: float
    step: float
    steps: int


def span_of(seconds: float, now: float) -> Span:
    """Return the last ``seconds`` in steps of 10 s, or of so many times that as leave few enough of them.

    The last is the step that goes on. All begin at whole steps, so that who looks again sees the same values.
    """
    seconds = min(max(seconds, _LEAST_STEP), _LONGEST)
    step = _LEAST_STEP * math.ceil(seconds / _LEAST_STEP / _MOST_STEPS)
    count = math.ceil(seconds / step)
    end = math.ceil(now / step) * step
    return Span(end - (count - 1) * step, end, step, count)


def past_of(span: Span, utilization: Iterable[Track], memory: Iterable[Track]) -> Past:
    """Return the values by GPU; None where there is none."""
    busy, used = _by_key(span, utilization), _by_key(span, memory)
    unknown: list[float | None] = [None] * span.steps
    return Past(
        step=span.step,
        end=span.end,
        gpus={key: Series(busy.get(key, unknown), used.get(key, unknown)) for key in {**busy, **used}},
    )


def _by_key(span: Span, tracks: Iterable[Track]) -> dict[str, Sequence[float | None]]:
    found: dict[str, Sequence[float | None]] = {}
    for track in tracks:
        values: list[float | None] = [None] * span.steps
        for moment, value in track.points:
            step = round((moment - span.start) / span.step)
            if 0 <= step < span.steps:
                percent = untrusted.number(value)
                values[step] = None if percent is None else min(100.0, round(percent, 1))
        found[key_of(track.labels.get('uuid', ''), track.labels.get('index', ''))] = values
    return found
