from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpu_tracker.recording.writing.region_lines import Begin, End, Fold, parse
from gpu_tracker.regions import text


def fields(line: object) -> dict[str, object]:
    return line._asdict()


def test_begin():
    assert fields(parse(b'B\t7\t-\t42\t43\tTask-1\t1000\t20\t3000\tlo\\tad\t{"batch":3}\n')) == {
        'id': 7,
        'parent': None,
        'process_id': 42,
        'thread_id': 43,
        'task': 'Task-1',
        't': 1000,
        'thread_cpu': 20,
        'peak': 3000,
        'name': 'lo\tad',
        'attributes': '{"batch":3}',
    }


def test_end():
    assert fields(parse(b'E\t7\t2000\t-\t-\tValueError')) == {
        'id': 7,
        't': 2000,
        'thread_cpu': None,
        'peak': None,
        'error': 'ValueError',
    }


def test_fold():
    assert fields(parse(b'S\t7\t6\t42\t-\tstep\t10\t90\t3\t30\t5\t15\t1.5e-16\t-\t1\n')) == {
        'id': 7,
        'parent': 6,
        'process_id': 42,
        'thread_id': None,
        'name': 'step',
        'first': 10,
        'last': 90,
        'calls': 3,
        'total': 30,
        'shortest': 5,
        'longest': 15,
        'squares': 1.5e-16,
        'thread_cpu': None,
        'errors': 1,
    }


@pytest.mark.parametrize(
    'line',
    [
        b'',
        b'\n',
        b'B',
        b'X\t1',
        b'E\t7\t2000\t-\t-',
        b'E\t7\t2000\t-\t-\t-\t-',
        b'E\t-7\t2000\t-\t-\t-',
        b'E\t+7\t2000\t-\t-\t-',
        b'E\t7_0\t2000\t-\t-\t-',
        b'E\t9223372036854775808\t2000\t-\t-\t-',
        b'E\t' + b'1' * 3000 + b'\t2000\t-\t-\t-',
        'E\t\u0667\t2000\t-\t-\t-'.encode(),  # a digit of another script
        b'B\t7\t-\t42\t43\t-\t1000\t-\t-\tname\t[]\n',
        b'B\t7\t-\t-\t43\t-\t1000\t-\t-\tname\t-\n',
        b'S\t7\t6\t42\t-\tstep\t10\t90\t3\t30\t5\t15\tnan\t-\t1\n',
        b'S\t7\t6\t42\t-\tstep\t10\t90\t3\t30\t5\t15\tinf\t-\t1\n',
        b'S\t7\t6\t42\t-\tstep\t10\t90\t3\t30\t5\t15\t1_0\t-\t1\n',
        b'S\t7\t6\t42\t-\tstep\t90\t10\t3\t30\t5\t15\t1\t-\t1\n',
        b'S\t7\t6\t42\t-\tstep\t10\t90\t0\t30\t5\t15\t1\t-\t0\n',
        b'S\t7\t6\t42\t-\tstep\t10\t90\t3\t30\t5\t15\t1\t-\t4\n',
        b'S\t7\t6\t42\t-\tstep\t10\t90\t3\t30\t15\t5\t1\t-\t1\n',
        b'B\t7\t-\t42\t43\t-\t1000\t-\t-\t' + b'n' * 20_000 + b'\t-\n',
    ],
)
def test_what_no_region_writes_is_nothing(line):
    assert parse(line) is None


@given(st.binary(max_size=200))
@example(b'B\t\t\t\t\t\t\t\t\t\t')
def test_any_bytes_are_read_or_nothing(line):
    assert parse(line) is None or isinstance(parse(line), Begin | End | Fold)


@given(
    st.lists(st.sampled_from([b'-', b'1', b'99999999999999999999', b'x', b'\\', b'{}', b'\xff', b'1.5']), max_size=15)
)
def test_any_fields_are_read_or_nothing(given_fields):
    for kind in (b'B', b'E', b'S'):
        found = parse(b'\t'.join([kind, *given_fields]))
        assert found is None or isinstance(found, Begin | End | Fold)


@given(st.text(max_size=300))
def test_every_name_comes_back(name):
    line = f'B\t7\t-\t42\t43\t-\t1000\t-\t-\t{text.field(name, text.LONGEST_NAME)}\t-\n'.encode('utf-8', 'replace')
    assert line.count(b'\n') == 1
    expected = name.encode('utf-8', 'replace').decode() or '-'
    assert parse(line).name == expected


@pytest.mark.parametrize('character', ['😀', '\\', '"', '\x00'])
def test_the_longest_line_is_read(character):
    long = character * 1500
    name, attributes = text.field(long, text.LONGEST_NAME), text.attributes_field({'a': long, 'b': long})
    line = f'B\t7\t-\t42\t43\t{text.field(long)}\t1000\t-\t-\t{name}\t{attributes}\n'.encode()
    assert parse(line).name == character * 999 + '…'
