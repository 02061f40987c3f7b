"""The past of a host's GPUs from the answers of Prometheus."""

from __future__ import annotations

import pytest

from gpu_tracker.fleet.hosts.history import FleetMoment, Past, Series
from gpu_tracker.fleet.prometheus.gpus import Span, fleet_moments, past_of, span_of
from gpu_tracker.fleet.prometheus.queries import Track

NOW = 1_800_000_007.0


@pytest.mark.parametrize(
    ('seconds', 'span'),
    [
        (1800, Span(1_799_998_220, 1_800_000_010, 10, 180)),
        (3600, Span(1_799_996_420, 1_800_000_010, 10, 360)),
        (3601, Span(1_799_996_420, 1_800_000_020, 20, 181)),
        (86_400, Span(1_799_914_080, 1_800_000_240, 240, 360)),
        (1, Span(1_800_000_010, 1_800_000_010, 10, 1)),
        (25, Span(1_799_999_990, 1_800_000_010, 10, 3)),
    ],
)
def test_a_span_has_whole_steps_and_not_too_many(seconds, span):
    assert span_of(seconds, NOW) == span


def test_a_span_has_an_end_however_long_it_is_wished():
    assert span_of(1e300, NOW).steps <= 360


def test_values_stand_where_they_belong_and_all_have_one_length():
    span = Span(1000, 1030, 10, 4)
    utilization = [
        Track({'uuid': 'GPU-0', 'index': '0'}, [(1000, 12.34), (1010, None), (1030, 100.00001)]),
        Track({'index': '1'}, [(1020, 5.0), (990, 7.0), (1040, 8.0), (1e300, 9.0)]),
    ]
    memory = [Track({'uuid': 'GPU-2', 'index': '2'}, [(1000, -1.0), (1010, 50.0)])]
    unknown = [None, None, None, None]
    assert past_of(span, utilization, memory) == Past(
        step=10,
        end=1030,
        gpus={
            'GPU-0': Series([12.3, None, None, 100.0], unknown),
            'index:1': Series([None, None, 5.0, None], unknown),
            'GPU-2': Series(unknown, [None, 50.0, None, None]),
        },
    )


def test_the_past_of_a_fleet_is_one_series_each_and_unknown_where_there_is_no_value():
    span = Span(1000, 1020, 10, 3)
    busy = [Track({}, [(1000, 12.34), (1020, None)])]
    assert fleet_moments(span, busy, [Track({}, [(1010, 101.0)])]) == [
        FleetMoment(1000, 12.3, None),
        FleetMoment(1010, None, 100.0),
        FleetMoment(1020, None, None),
    ]
    assert {moment[1:] for moment in fleet_moments(span, [], [])} == {(None, None)}
