"""atop's protocol: literal answers."""

from __future__ import annotations

import pytest

from gpu_tracker.atopgpud import wire
from gpu_tracker.atopgpud.counters import GpuCounters, ProcessCounters
from gpu_tracker.atopgpud.records import Section, offsets_after
from support.atop.atop_client import parsed_statistics, parsed_types
from support.gpus.gpu_readings import known

H200 = known(0, 'GPU-1', '00000000:17:00.0', 'NVIDIA H200', lists_compute=True, keeps_accounts=True)
GT_710 = known(1, 'GPU-2', '00000000:65:00.0', 'NVIDIA GeForce GT 710', lists_compute=True)


def test_the_head_is_version_and_length():
    assert wire.framed(1, 'abc') == b'\x01\x00\x00\x03abc'
    assert wire.framed(2, 'x' * 8192) == b'\x02\x00\x20\x00' + b'x' * 8192


def test_types_in_version_1():
    text = '2@00000000:17:00.0 NVIDIA_H200 3@00000000:65:00.0 NVIDIA_GeForce_GT_710 1'
    assert wire.types(1, [H200, GT_710]) == text


@pytest.mark.parametrize(
    ('version', 'compute', 'graphics', 'accounts', 'support'),
    [
        (1, False, False, False, 0),
        (1, True, True, False, 1),
        (1, True, False, True, 3),
        (2, True, False, True, 1),
        (2, False, True, True, 2),
        (2, True, True, False, 3),
    ],
)
def test_what_is_told_of_processes(version, compute, graphics, accounts, support):
    gpu = H200._replace(lists_compute=compute, lists_graphics=graphics, keeps_accounts=accounts)
    assert wire.types(version, [gpu]) == f'1@00000000:17:00.0 NVIDIA_H200 {support}'


def test_names_are_one_word():
    names = ['A B\tC', 'a@b#c', 'Gr\u00f6\u00dfe', '', None]
    gpus = [H200._replace(name=name) for name in names]
    assert [gpu.name for gpu in parsed_types(wire.types(1, gpus))] == ['A_B_C', 'a_b_c', 'Gr__e', 'unknown', 'unknown']


def test_a_gpu_that_could_not_be_opened_has_its_place():
    assert wire.types(1, [H200, known(1)]) == '2@00000000:17:00.0 NVIDIA_H200 3@unknown unknown 0'


PROCESS = ProcessCounters(22054, 1.0, True, False, 70, 35, 0, 3145728, 3, 210, 105, 9437184)
GPU = GpuCounters(True, 75, 40, 83886080, 4194304, 3, 225, 120, 12582912, {22054: PROCESS}, are_listed=True)
OTHER = GpuCounters(True, None, None, 25165824, 0, 3, 0, 0, 0, {}, are_listed=True)


def test_statistics_in_version_1():
    text = '@75 40 83886080 4194304 3 225 120 12582912#A 22054 70 35 0 3145728 9437184 3@-1 -1 25165824 0 3 -1 -1 0'
    assert wire.statistics(1, [Section(GPU), Section(OTHER)]) == (text, 0)


def test_statistics_in_version_2():
    text = '@75 40 83886080 4194304 3 225 120 12582912#A 22054 C 210 105 3145728 9437184 3@-1 -1 25165824 0 3 -1 -1 0'
    assert wire.statistics(2, [Section(GPU), Section(OTHER)]) == (text, 0)


def test_a_process_that_has_ended_stands_in_the_section_of_its_gpu():
    ended = PROCESS._replace(milliseconds=1234)
    sections = [Section(OTHER), Section(GPU._replace(processes={}), ended=[ended])]
    assert wire.statistics(1, sections).text == (
        '@-1 -1 25165824 0 3 -1 -1 0@75 40 83886080 4194304 3 225 120 12582912#E 22054 70 35 1234 3145728 9437184 3'
    )
    assert wire.statistics(2, sections).text.endswith('#E 22054 C 210 105 3145728 9437184 3')


@pytest.mark.parametrize(('computes', 'draws', 'letter'), [(True, False, 'C'), (False, True, 'G'), (True, True, 'U')])
def test_types_of_processes(computes, draws, letter):
    process = PROCESS._replace(computes=computes, draws=draws)
    text = wire.statistics(2, [Section(GPU._replace(processes={1: process}))]).text
    assert text.endswith(f'#A 22054 {letter} 210 105 3145728 9437184 3')


def test_version_1_has_no_processes_that_only_draw():
    drawing = PROCESS._replace(pid=1, computes=False, draws=True)
    both = PROCESS._replace(pid=2, draws=True)
    gpu = GPU._replace(processes={1: drawing, 2: both})
    text = wire.statistics(1, [Section(gpu, ended=[drawing._replace(pid=3)])]).text
    assert text == '@75 40 83886080 4194304 3 225 120 12582912#A 2 70 35 0 3145728 9437184 3'
    assert wire.statistics(2, [Section(gpu)]).text.count('#A ') == 2


def test_a_gpu_that_cannot_be_read_is_unknown_and_keeps_what_only_grows():
    text = wire.statistics(1, [Section(GPU._replace(is_readable=False))]).text
    assert text == '@-1 -1 0 0 3 -1 -1 12582912'


def test_a_gpu_that_was_never_read():
    assert wire.statistics(1, [Section(GpuCounters())]).text == '@-1 -1 0 0 0 -1 -1 0'


LIVING = PROCESS._replace(samples=5, busy_total=100, memory_busy_total=50, memory_total=1000)


@pytest.mark.parametrize(
    'elsewhere',
    [
        OTHER._replace(left={22054: LIVING._replace(busy=0, memory_busy=0, memory=0)}),
        OTHER._replace(processes={22054: LIVING}, are_listed=False),
        OTHER._replace(processes={22054: LIVING}, is_readable=False),
    ],
    ids=['left', 'not listed', 'not readable'],
)
def test_the_sums_of_a_process_do_not_fall_where_one_of_its_gpus_does_not_show_it(elsewhere):
    sections = [Section(elsewhere), Section(GPU)]
    assert wire.statistics(2, sections).text.endswith('#A 22054 C 310 155 3145728 9438184 8')
    is_unknown = not elsewhere.left
    busy = '-1 -1' if is_unknown else '70 35'
    assert wire.statistics(1, sections).text.endswith(f'#A 22054 {busy} 0 3145728 9438184 8')
    another = elsewhere._replace(
        left={pid: process._replace(started=2.0) for pid, process in elsewhere.left.items()},
        processes={pid: process._replace(started=2.0) for pid, process in elsewhere.processes.items()},
    )
    assert wire.statistics(2, [Section(another), Section(GPU)]).text.endswith('#A 22054 C 210 105 3145728 9437184 3')


def test_another_process_of_the_same_id_on_a_gpu_that_cannot_be_read_is_another():
    elsewhere = OTHER._replace(processes={22054: LIVING._replace(started=2.0)}, is_readable=False)
    assert wire.statistics(1, [Section(elsewhere), Section(GPU)]).text.endswith('#A 22054 70 35 0 3145728 9437184 3')


def test_a_process_that_had_left_a_gpu_before_it_ended_is_not_told_as_ended_there():
    left = LIVING._replace(busy=0, memory_busy=0, memory=0, has_left=True)
    assert wire.statistics(1, [Section(OTHER, ended=[left])]).text == '@-1 -1 25165824 0 3 -1 -1 0'
    sections = [Section(OTHER, ended=[left]), Section(OTHER, ended=[PROCESS])]
    assert wire.statistics(1, sections).text == (
        '@-1 -1 25165824 0 3 -1 -1 0@-1 -1 25165824 0 3 -1 -1 0#E 22054 70 35 0 3145728 9438184 8'
    )


def test_processes_that_are_not_listed_just_now_are_not_told():
    assert '#' not in wire.statistics(1, [Section(GPU._replace(are_listed=False))]).text


def test_all_records_of_a_process_are_unknown_or_none():
    half_known = PROCESS._replace(memory_busy=None)
    sections = [Section(GPU), Section(OTHER._replace(processes={22054: half_known}))]
    assert wire.statistics(1, sections).text.count('#A 22054 -1 -1 0 3145728') == 2
    assert wire.statistics(2, sections).text.count('#A 22054 C 210 105 3145728') == 2
    never_known = PROCESS._replace(busy_total=None)
    sections = [Section(GPU), Section(OTHER._replace(processes={}), ended=[never_known])]
    assert wire.statistics(2, sections).text.count(' 22054 C -1 -1 3145728') == 2


def test_the_processes_with_the_least_memory_are_left_out_with_all_their_records():
    small = {pid: PROCESS._replace(pid=pid, memory=100000 + pid) for pid in range(10000, 10300)}
    on_both = PROCESS._replace(pid=9, memory=60000)  # more than any other, on both GPUs together
    gpus = [GPU._replace(processes=small | {9: on_both}), GPU._replace(processes={9: on_both})]
    text, left_out = wire.statistics(1, [Section(gpu) for gpu in gpus])
    first, second = parsed_statistics(text, 1)
    assert len(text) <= 8192
    assert len(text) > 8192 - 50
    assert len(first.processes) + left_out == 301
    assert [process.pid for process in second.processes] == [9]
    kept = {process.pid for process in first.processes} - {9}
    assert kept == set(range(10300 - len(kept), 10300))


def test_an_answer_may_be_as_long_as_a_client_accepts():
    head = len(wire.statistics(1, [Section(GPU._replace(processes={}))]).text)
    long_record = len('#A 10000 70 35 0 3145728 9437184 3')
    count_of_records = (8192 - head) // long_record
    processes = {pid: PROCESS._replace(pid=pid) for pid in range(10000, 10000 + count_of_records)}
    rest = 8192 - head - count_of_records * long_record
    assert rest == 24
    processes[10000] = PROCESS._replace(pid=10000, milliseconds=10**12)  # fills half of the rest to the byte
    processes[10001] = PROCESS._replace(pid=10001, milliseconds=10**12)
    assert len(wire.statistics(1, [Section(GPU._replace(processes=processes))]).text) == 8192


def test_after_unknown_a_gpu_that_has_done_nothing_since_is_not_unknown_again():
    lost = Section(GPU._replace(is_readable=False, processes={}))
    back = Section(GPU._replace(processes={}), offsets_after(lost))
    (told,) = parsed_statistics(wire.statistics(1, [back]).text, 1)
    assert (told.busy_total, told.memory_busy_total) == (0, 0)


def differences(first, second):
    return second.busy_total - first.busy_total, second.memory_busy_total - first.memory_busy_total


def test_after_unknown_a_client_gets_the_difference_since_it_was_last_known():
    offsets = (0, 0)
    told = []
    lost = GPU._replace(is_readable=False)
    back = GPU._replace(samples=4, busy_total=225 + 50, memory_busy_total=120)
    later = GPU._replace(samples=5, busy_total=225 + 50 + 60, memory_busy_total=120 + 30)
    for gpu in (GPU, lost, lost, back, later):
        section = Section(gpu._replace(processes={}), offsets)
        told.append(parsed_statistics(wire.statistics(1, [section]).text, 1)[0])
        offsets = offsets_after(section)
    assert [(gpu.busy_total, gpu.memory_busy_total) for gpu in told] == [
        (225, 120),
        (-1, -1),
        (-1, -1),
        (49, 0),
        (109, 30),
    ]
    assert differences(told[2], told[3]) == (50, 1)  # 0 cannot be told: it would be -1 again
    assert differences(told[3], told[4]) == (60, 30)
