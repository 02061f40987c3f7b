"""Which stop belongs to which start."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.errors import SubTrackingError
from gpu_tracker.sub_tracker import block_file
from gpu_tracker.sub_tracker.block_file import BlockCalls, Call, Row


def paired(rows: list[Row]) -> dict[str, BlockCalls]:
    return block_file.paired('s.csv', rows)


def spans(block: BlockCalls) -> list[tuple[float, float]]:
    return [(call.start, call.stop) for call in block.calls]


def test_a_stop_belongs_to_the_start_with_the_same_call_id():
    rows = [
        Row(1, 'b', 0, 10.0, 7),
        Row(1, 'b', 0, 11.0, 8),
        Row(1, 'b', 1, 12.0, 7),
        Row(1, 'b', 1, 15.0, 8),
    ]

    assert spans(paired(rows)['b']) == [(10.0, 12.0), (11.0, 15.0)]


def test_without_ids_a_stop_belongs_to_the_latest_start():
    rows = [Row(1, 'b', position, time, None) for position, time in ((0, 1.0), (0, 2.0), (1, 3.0), (1, 7.0))]

    assert spans(paired(rows)['b']) == [(1.0, 7.0), (2.0, 3.0)]


def test_processes_and_blocks_have_nothing_to_do_with_each_other():
    rows = [
        Row(1, 'a', 0, 1.0, None),
        Row(2, 'a', 0, 1.5, None),
        Row(1, 'b', 0, 1.6, None),
        Row(1, 'a', 1, 2.0, None),
        Row(1, 'b', 1, 2.1, None),
        Row(2, 'a', 1, 3.0, None),
    ]

    blocks = paired(rows)

    assert spans(blocks['a']) == [(1.0, 2.0), (1.5, 3.0)]
    assert spans(blocks['b']) == [(1.6, 2.1)]


def test_a_start_without_a_stop_is_counted():
    blocks = paired([Row(1, 'b', 0, 1.0, None), Row(1, 'c', 0, 1.0, 3), Row(1, 'c', 0, 2.0, 4), Row(1, 'c', 1, 2.5, 3)])

    assert (spans(blocks['b']), blocks['b'].n_unfinished) == ([], 1)
    assert (spans(blocks['c']), blocks['c'].n_unfinished) == ([(1.0, 2.5)], 1)


@pytest.mark.parametrize(
    'rows',
    [
        [Row(1, 'b', 1, 0.5, None)],
        [Row(1, 'b', 1, 0.5, None), Row(1, 'b', 0, 1.0, None), Row(1, 'b', 1, 2.0, None)],
        [Row(1, 'b', 0, 0.1, None), Row(1, 'b', 1, 0.2, None), Row(1, 'b', 1, 0.5, None)],
        [Row(2, 'b', 0, 0.1, None), Row(1, 'b', 1, 0.5, None)],
        [Row(1, 'c', 0, 0.1, None), Row(1, 'b', 1, 0.5, None)],
        [Row(1, 'b', 0, 0.1, 3), Row(1, 'b', 1, 0.5, 4)],
        [Row(1, 'b', 0, 0.6, 3), Row(1, 'b', 1, 0.5, 3)],
    ],
)
def test_a_stop_without_a_start_before_it_is_refused(rows: list[Row]):
    with pytest.raises(SubTrackingError) as caught:
        paired(rows)

    assert str(caught.value) == "s.csv is damaged: process 1 ends the code block 'b' at 0.5, but never started it"


def test_rows_may_stand_in_any_order():
    rows = [Row(1, 'b', 1, 2.0, None), Row(1, 'b', 1, 4.0, None), Row(1, 'b', 0, 1.0, None), Row(1, 'b', 0, 3.0, None)]

    assert spans(paired(rows)['b']) == [(1.0, 2.0), (3.0, 4.0)]


@given(st.lists(st.booleans(), max_size=60), st.randoms())
def test_calls_inside_each_other_are_paired_as_they_were_made(choices, random):
    """A random walk of calls that begin and end, as recursion makes them."""
    rows, opened, expected = [], [], []
    for time, begins in enumerate(choices):
        if begins or not opened:
            opened.append(time)
            rows.append(Row(1, 'b', 0, float(time), None))
        else:
            expected.append((float(opened.pop()), float(time)))
            rows.append(Row(1, 'b', 1, float(time), None))
    random.shuffle(rows)

    block = paired(rows).get('b', BlockCalls())

    assert spans(block) == sorted(expected)
    assert block.n_unfinished == len(opened)


def test_times_of_no_call_are_unknown():
    assert BlockCalls().compute_time() == {'min': None, 'max': None, 'mean': None, 'std': None, 'total': 0.0}


def test_times_of_calls():
    block = BlockCalls([Call.single(0.0, 1.0), Call.single(5.0, 8.0)])

    assert block.compute_time() == {'min': 1.0, 'max': 3.0, 'mean': 2.0, 'std': 1.0, 'total': 4.0}


def test_equal_calls_have_no_deviation_although_the_difference_of_their_squares_is_below_zero():
    block = BlockCalls([Call(0.0, 0.3, 3, 3 * 0.1, 0.1, 0.1, 3 * (0.1 * 0.1))])

    assert block.compute_time()['std'] == 0.0


def test_sums_of_calls_have_the_statistics_of_all_of_them():
    lasted = [0.1, 0.2, 0.4, 0.8]
    folded = Call(0.0, 9.0, 3, sum(lasted[:3]), 0.1, 0.4, math.fsum(each * each for each in lasted[:3]))
    single = BlockCalls([Call.single(0.0, each) for each in lasted]).compute_time()

    assert BlockCalls([folded, Call.single(0.0, 0.8)]).compute_time() == pytest.approx(single)
