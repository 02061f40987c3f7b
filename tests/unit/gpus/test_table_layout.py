"""Which columns are shown, and how wide."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.gpus.model import GpuProcess
from gpu_tracker.gpus.table import table_lines
from gpu_tracker.gpus.table_cells import COLUMNS, LEFT_OUT_FIRST
from gpu_tracker.system.terminal_text import GAP, Column, layout, width_of
from support.gpus.example_gpus import FREE, LOST, NOW, claim
from support.gpus.gpu_readings import reading, used_by

A, B, C, D = Column('a', 'a'), Column('b', 'b', least=4), Column('c', 'c', least=6), Column('d', 'd')
CONTENTS = {'a': 3, 'b': 10, 'c': 20, 'd': 5}

NAMES = [column.name for column in COLUMNS]

widths = st.integers(min_value=1, max_value=250)
contents = st.fixed_dictionaries({name: st.integers(min_value=0, max_value=60) for name in NAMES})
texts = st.text(max_size=40)
figures = st.none() | st.integers(min_value=0, max_value=2**50)

processes = st.builds(
    GpuProcess,
    st.integers(min_value=1, max_value=2**22),
    user=st.none() | texts,
    started=st.none() | st.floats(min_value=0, max_value=2 * NOW),
    program=st.none() | texts,
)
readings = st.builds(
    reading,
    st.integers(min_value=0, max_value=300),
    st.just('GPU-1'),
    st.none() | texts,
    problem=st.none() | texts,
    memory_total=st.none() | st.integers(min_value=1, max_value=2**50),
    memory_used=figures,
    temperature=figures,
    sm_clock=figures,
)
gpus = st.builds(
    used_by,
    readings,
    st.none() | st.lists(processes, max_size=5).map(tuple),
    st.none() | texts.map(lambda t: claim(command=t)),
)


def shown(width, **wider):
    found = layout((A, B, C, D), CONTENTS | wider, width, ('d', 'b'))
    return {column.name: room for column, room in found}


def total(places):
    return sum(room for _, room in places) + GAP * (len(places) - 1)


def test_what_fits_stays_as_it_is():
    assert shown(44) == shown(None) == shown(1000) == {'a': 3, 'b': 10, 'c': 20, 'd': 5}


def test_columns_that_may_become_narrower_do():
    assert shown(43) == {'a': 3, 'b': 10, 'c': 19, 'd': 5}
    assert shown(34) == {'a': 3, 'b': 10, 'c': 10, 'd': 5}
    assert shown(30) == {'a': 3, 'b': 8, 'c': 8, 'd': 5}
    assert shown(25) == {'a': 3, 'b': 5, 'c': 6, 'd': 5}
    assert shown(24) == {'a': 3, 'b': 4, 'c': 6, 'd': 5}


def test_a_long_list_leaves_room_for_the_others():
    assert shown(44, c=500) == {'a': 3, 'b': 10, 'c': 20, 'd': 5}


def test_then_columns_are_left_out_and_what_is_left_has_their_room():
    assert shown(23) == {'a': 3, 'b': 8, 'c': 8}
    assert shown(17) == {'a': 3, 'b': 4, 'c': 6}
    assert shown(16) == {'a': 3, 'c': 11}
    assert shown(11) == {'a': 3, 'c': 6}


def test_what_stays_does_not_become_narrower_than_it_may():
    assert shown(10) == shown(1) == {'a': 3, 'c': 6}


def test_the_columns_that_stay():
    assert [name for name in NAMES if name not in LEFT_OUT_FIRST] == ['index', 'mark', 'memory']


@given(contents, widths)
def test_columns_keep_their_order_and_fit_where_that_is_possible(contents, width):
    places = layout(COLUMNS, contents, width, LEFT_OUT_FIRST)
    names = [column.name for column, _ in places]
    assert names == [name for name in NAMES if name in names]
    assert names == [name for name in NAMES if name not in LEFT_OUT_FIRST[: len(NAMES) - len(names)]]
    assert total(places) <= width or names == ['index', 'mark', 'memory']
    for column, room in places:
        assert min(contents[column.name], column.least or contents[column.name]) <= room <= contents[column.name]


@given(contents, widths)
def test_no_room_is_left_while_a_column_lacks_some(contents, width):
    places = layout(COLUMNS, contents, width, LEFT_OUT_FIRST)
    assert total(places) >= width or all(room == contents[column.name] for column, room in places)


@given(st.lists(gpus, max_size=6), widths)
def test_no_line_is_wider_than_the_terminal(gpus, width):
    for line in table_lines(gpus, width=width, now=NOW, user_name=str):
        text = ''.join(span.text for span in line)
        assert width_of(text) <= width
        assert text.isprintable()
        assert text == text.rstrip()


@given(st.lists(gpus, max_size=6))
def test_all_lines_of_a_table_are_there(gpus):
    lines = table_lines(gpus, width=None, now=NOW, user_name=str)
    claims = {gpu.claim for gpu in gpus if gpu.claim is not None}
    assert len(lines) == 1 + len(gpus) + len(claims)


def test_wide_characters_take_two_columns():
    long = FREE._replace(processes=(GpuProcess(1, None, '訓練' * 10, NOW, program='訓練計画.py'),))
    _, line = table_lines([long], width=80, now=NOW, user_name=str)
    text = ''.join(span.text for span in line)
    assert text == '0    [~]  A100-SXM4-40GB    0%   0.5/42.9  31°C  訓練訓練訓…   1     訓練計画.py'


def test_a_problem_may_be_as_long_as_it_is_where_the_width_is_not_limited():
    long = LOST._replace(problem='x' * 500)
    assert table_lines([long], width=None, now=NOW, user_name=str)[1][-1].text == 'x' * 500
