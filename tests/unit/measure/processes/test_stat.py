from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.processes import stat
from gpu_tracker.processes.process import Process
from support.simulated_proc import PAGE, TICKS, stat_line

RECORDED = (
    b'1234 (Web Content) S 1200 1190 1180 34816 1234 4194560 5001 70 12 3 250 50 30 7 20 0 9 0 8812 2703290368 61234 '
    b'18446744073709551615 94100000000 94100000001 140720000000000 0 0 0 0 4096 1 0 0 0 17 1 0 0 0 0 0 94100000002 '
    b'94100000003 94100000004 140720000000100 140720000000200 140720000000201 0\n'
)


def test_a_recorded_line() -> None:
    process = Process(1234)
    stat.update(process, RECORDED)
    assert (process.name, process.parent, process.group, process.session) == (b'Web Content', 1200, 1190, 1180)
    assert (process.faults, process.reaped_faults) == (5013, 73)
    assert stat.all_faults(RECORDED) == ((5001, 12), (70, 3))
    assert process.own_cpu == 300 / TICKS
    assert process.reaped_cpu == 37 / TICKS
    assert process.threads == 9
    assert process.start == stat.start(RECORDED) == 8812.0
    assert (stat.parent(RECORDED), stat.state(RECORDED)) == (1200, b'S')
    assert process.stack == b'140720000000000'
    assert not process.ended
    assert stat.image(RECORDED) == (b'140720000000000', b'94100000004', b'140720000000100')
    assert stat.has_reaped(RECORDED)


@given(st.text(st.characters(codec='ascii', exclude_characters='\0'), max_size=15))
def test_a_name_may_contain_anything(name: str) -> None:
    process = Process(7)
    line = stat_line(7, 3, name=name, threads=5).encode()
    stat.update(process, line)
    assert process.name == name.encode()
    assert (process.parent, process.threads) == (3, 5)
    assert not stat.has_reaped(line)


@pytest.mark.parametrize(
    ('state', 'threads', 'ended', 'counted'),
    [('R', 4, False, 4), ('Z', 1, True, 0), ('X', 1, True, 0), ('Z', 3, False, 3)],
)
def test_a_zombie_has_no_threads_but_one_whose_first_thread_alone_has_ended_does(
    state: str, threads: int, ended: bool, counted: int
) -> None:
    process = Process(7)
    stat.update(process, stat_line(7, 3, state=state, threads=threads).encode())
    assert (process.ended, process.threads) == (ended, counted)


@pytest.mark.parametrize(('threads', 'arguments_end', 'expected'), [(1, 0, True), (2, 0, False), (1, 5, False)])
def test_in_exec_and_at_the_end_there_are_no_arguments(threads: int, arguments_end: int, expected: bool) -> None:
    line = stat_line(7, 3, threads=threads, arguments_end=arguments_end).encode()
    assert stat.has_no_arguments(line) is expected
    assert not stat.has_no_arguments(RECORDED)


@pytest.mark.parametrize('hidden', ['0', '140720000009999'])
def test_an_exec_keeps_the_stack_until_the_new_one_is_known(hidden: str) -> None:
    process = Process(1234)
    stat.update(process, RECORDED)
    stat.update(process, RECORDED.replace(b'140720000000000', hidden.encode()))
    assert process.stack == (b'140720000000000' if hidden == '0' else hidden.encode())


def test_resident_bytes_and_those_of_files() -> None:
    assert stat.resident(b'5000 300 120 1 0 900 0\n') == (300 * PAGE, 120 * PAGE)
    assert stat.resident(b'0 0 0 0 0 0 0\n') == (0, 0)


@pytest.mark.parametrize(
    ('state', 'flags', 'is_ending'),
    [('S', 0x400000, False), ('R', 0x400004, True), ('Z', 0x40000C, True), ('X', 0, True)],
)
def test_a_process_is_ending_before_it_has_ended(state, flags, is_ending):
    line = f'7 (a) b) {state} 3 7 7 0 -1 {flags} 0 0 0 0 1 1 0 0 20 0 1 0 100 0 0'
    assert stat.is_ending(line.encode()) is is_ending
