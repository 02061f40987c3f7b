"""What Prometheus answers need not be as it should be."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tracker.fleet.prometheus.queries import (
    MOST_SERIES,
    PrometheusError,
    Sample,
    Track,
    parse_samples,
    parse_tracks,
    reason_of,
)

RECORDED = (
    b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{"index":"0","instance":"node01:1080",'
    b'"job":"gpu-tracker"},"value":[1795315200.123,"0.29"]},{"metric":{"index":"1","instance":"node01:1080",'
    b'"job":"gpu-tracker"},"value":[1795315200.123,"NaN"]}]}}'
)
"""As Prometheus 2.42 writes it."""

RECORDED_RANGE = (
    b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"index":"0","uuid":"GPU-0"},"values":['
    b'[1795315200,"29"],[1795315210,"31.5"],[1795315230,"+Inf"]]}]}}'
)

REFUSED = (
    b'{"status":"error","errorType":"bad_data","error":"1:5: parse error: unexpected end of input in aggregation"}'
)


def vector(*entries):
    return json.dumps({'status': 'success', 'data': {'resultType': 'vector', 'result': list(entries)}}).encode()


def test_the_values_of_a_query_are_read():
    assert parse_samples(RECORDED) == [
        Sample({'index': '0', 'instance': 'node01:1080', 'job': 'gpu-tracker'}, 0.29, 1795315200.123),
        Sample({'index': '1', 'instance': 'node01:1080', 'job': 'gpu-tracker'}, None, 1795315200.123),
    ]


def test_an_answer_of_too_many_series_is_refused():
    entry = {'metric': {}, 'value': [1, '2']}
    assert len(parse_samples(vector(*[entry] * MOST_SERIES))) == 40_000
    with pytest.raises(PrometheusError, match=r'^the answer has more than 40000 series$'):
        parse_samples(vector(*[entry] * (MOST_SERIES + 1)))


def test_the_values_of_a_query_over_time_are_read():
    assert parse_tracks(RECORDED_RANGE) == [
        Track({'index': '0', 'uuid': 'GPU-0'}, [(1795315200, 29.0), (1795315210, 31.5), (1795315230, None)])
    ]


@pytest.mark.parametrize('text', ['NaN', '+Inf', '-Inf', 'nan', 'Infinity', '1e999'])
def test_a_value_that_is_no_finite_number_is_unknown(text):
    (sample,) = parse_samples(vector({'metric': {}, 'value': [1, text]}))
    assert sample.value is None


@pytest.mark.parametrize(
    'entry',
    [
        {'metric': {}},
        {'metric': {}, 'value': None},
        {'metric': {}, 'value': '12'},
        {'metric': {}, 'value': []},
        {'metric': {}, 'value': [1]},
        {'metric': {}, 'value': [1, '2', '3']},
        {'metric': {}, 'value': [1, 'two']},
        {'metric': {}, 'value': [1, None]},
        {'metric': {}, 'value': [None, '1']},
        {'metric': {}, 'value': ['NaN', '1']},
        {'metric': {}, 'value': [10**400, '1']},
        {'metric': {}, 'histogram': [1, {'count': '1'}]},
        {'metric': {'index': 0}, 'value': [1, '2']},
        {'metric': None, 'value': [1, '2']},
        {'value': [1, '2']},
        None,
        'text',
        [],
    ],
)
def test_an_entry_that_is_not_as_it_should_be_is_left_out(entry):
    assert parse_samples(vector(entry, {'metric': {'index': '1'}, 'value': [1, '2']})) == [
        Sample({'index': '1'}, 2.0, 1.0)
    ]


def test_a_label_that_is_missing_is_empty():
    assert Sample({'a': 'b'}, 1.0, 1.0).label('a') == 'b'
    assert Sample({'a': 'b'}, 1.0, 1.0).label('c') == ''


@pytest.mark.parametrize(
    ('body', 'problem'),
    [
        (b'', 'the answer is not JSON'),
        (b'<html>', 'the answer is not JSON'),
        (b'\xff\xfe', 'the answer is not JSON'),
        (b'[' * 100_000, 'the answer is not JSON'),
        (b'[]', 'the answer is not the result of a query'),
        (b'{}', 'the answer is not the result of a query'),
        (b'{"status":"success","data":[]}', 'the answer is not the result of a query'),
        (REFUSED, 'the answer is not the result of a query'),
        (
            b'{"status":"success","data":{"resultType":"vector","result":{}}}',
            'the answer does not have the result type vector',
        ),
        (RECORDED_RANGE, 'the answer does not have the result type vector'),
    ],
)
def test_an_answer_that_is_none_is_refused(body, problem):
    with pytest.raises(PrometheusError) as caught:
        parse_samples(body)
    assert str(caught.value) == problem


def test_values_now_are_none_over_time():
    with pytest.raises(PrometheusError, match=r'^the answer does not have the result type matrix$'):
        parse_tracks(RECORDED)


@pytest.mark.parametrize(
    ('body', 'reason'),
    [
        (REFUSED, '1:5: parse error: unexpected end of input in aggregation'),
        (b'{"error":"' + b'a' * 400 + b'"}', 'a' * 299 + '…'),
        (b'{"error":5}', None),
        (b'[]', None),
        (b'Service Unavailable', None),
    ],
)
def test_the_reason_of_a_failure_is_told(body, reason):
    assert reason_of(body) == reason


@settings(max_examples=40)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(['metric', 'value', 'values', 'data', 'result', 'status']), inner)
        ),
        max_leaves=12,
    )
)
def test_whatever_json_it_is_nothing_but_a_prometheus_error_is_raised(result):
    for kind, parse in (('vector', parse_samples), ('matrix', parse_tracks)):
        parse(json.dumps({'status': 'success', 'data': {'resultType': kind, 'result': [result, result]}}).encode())
        with pytest.raises(PrometheusError):
            parse(json.dumps(result).encode())
