"""The rules of Chrome's trace event format, as Perfetto reads it.

From "Trace Event Format" (Google, 2016) and https://perfetto.dev/docs: complete events of one thread lie in each other
or apart, asynchronous ones are pairs by category and id, counters are numbers.
"""

from __future__ import annotations

import json
import math
from typing import Any


def _refuse(constant: str) -> None:
    raise AssertionError(f'{constant} is no JSON')


def checked(content: bytes) -> list[dict[str, Any]]:
    """Return the events of a trace after it was checked."""
    trace = json.loads(content, parse_constant=_refuse)
    events: list[dict[str, Any]] = trace['traceEvents']
    check = {'M': _metadata, 'C': _counter, 'X': _complete, 'b': _asynchronous, 'e': _asynchronous, 'i': _instant}
    for event in events:
        assert isinstance(event['name'], str), event
        assert type(event['pid']) is int, event
        assert type(event['tid']) is int, event
        check[event['ph']](event)
    _check_nesting([event for event in events if event['ph'] == 'X'])
    _check_pairs([event for event in events if event['ph'] in {'b', 'e'}])
    _check_counters([event for event in events if event['ph'] == 'C'])
    return events


def _time(event: dict[str, Any], name: str = 'ts') -> None:
    assert isinstance(event[name], (int, float)), event
    assert math.isfinite(event[name]), event


def _metadata(event: dict[str, Any]) -> None:
    key = {'process_name': 'name', 'thread_name': 'name', 'process_sort_index': 'sort_index'}[event['name']]
    assert isinstance(event['args'][key], int if key == 'sort_index' else str), event


def _counter(event: dict[str, Any]) -> None:
    _time(event)
    assert event['args'], event
    assert all(type(value) in {int, float} and math.isfinite(value) for value in event['args'].values()), event


def _complete(event: dict[str, Any]) -> None:
    _time(event)
    _time(event, 'dur')
    assert event['dur'] >= 0, event


def _asynchronous(event: dict[str, Any]) -> None:
    _time(event)
    assert isinstance(event['id'], str), event
    assert isinstance(event['cat'], str), event


def _instant(event: dict[str, Any]) -> None:
    _time(event)
    assert event['s'] in {'g', 'p', 't'}, event


def _check_nesting(events: list[dict[str, Any]]) -> None:
    threads: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in events:
        threads.setdefault((event['pid'], event['tid']), []).append((event['ts'], event['ts'] + event['dur']))
    for spans in threads.values():
        around: list[tuple[int, int]] = []
        for start, stop in sorted(spans, key=lambda span: (span[0], -span[1])):
            while around and around[-1][1] <= start:
                around.pop()
            assert not around or stop <= around[-1][1], f'{start} to {stop} overlaps {around[-1]}'
            around.append((start, stop))


def _check_pairs(events: list[dict[str, Any]]) -> None:
    begun: dict[tuple[str, str], dict[str, Any]] = {}
    ended: set[tuple[str, str]] = set()
    for event in events:
        key = (event['cat'], event['id'])
        if event['ph'] == 'b':
            assert key not in begun, f'two begins of {key}'
            begun[key] = event
        else:
            assert key not in ended, f'two ends of {key}'
            assert event['name'] == begun[key]['name']
            assert event['ts'] >= begun[key]['ts']
            ended.add(key)
    assert ended == set(begun)


def _check_counters(events: list[dict[str, Any]]) -> None:
    last: dict[tuple[int, str], float] = {}
    for event in events:
        key = (event['pid'], event['name'])
        assert event['ts'] > last.get(key, -math.inf), f'two values of {key} at {event["ts"]}'
        last[key] = event['ts']
