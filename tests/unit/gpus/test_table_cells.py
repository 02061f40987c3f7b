"""What stands in the cells of the table, in every case that its whole picture does not show."""

from __future__ import annotations

import pytest

from gpu_tracker.gpus import constraints
from gpu_tracker.gpus.model import GpuProcess
from gpu_tracker.gpus.table import claim_lines
from gpu_tracker.gpus.table_cells import MARKS, rows
from support.gpus.example_gpus import CLAIMED, FREE, IN_USE, LOST, MINUTE, NOW, SPLIT, claim, user_name, uuid
from support.gpus.gpu_readings import changed, reading

STRANGE = 'a\x1b[2Jb\u202egpj\u2066c\nd\udc80e'
"""Clears the screen, turns text around, starts a line, and is no text at all."""


def row(gpu):
    return rows([gpu], NOW)[0]


def process(pid, user='alice', program='train.py', age=MINUTE):
    return GpuProcess(pid, 1, user, NOW - age, f'python {program}', program)


def process_cells(*processes):
    cells = row(FREE._replace(processes=processes)).cells
    return [cells.get(name, '') for name in ('users', 'since', 'pids', 'command')]


def claims(*gpus):
    return claim_lines(gpus, NOW, user_name)


def test_every_status_has_a_mark_of_its_own():
    statuses = {
        constraints.FREE,
        constraints.IN_USE,
        constraints.IN_USE_UNSEEN,
        constraints.CLAIMED,
        constraints.UNKNOWN,
        constraints.SPLIT,
        constraints.UNREADABLE,
    }
    assert set(MARKS) == statuses
    assert len(set(MARKS.values())) == len(statuses)


def test_a_free_gpu_that_an_idle_program_uses_has_a_mark_too():
    yielding = IN_USE._replace(processes=(IN_USE.processes[0]._replace(is_idle_program=True),))
    assert [row(yielding).status, row(yielding).cells['mark']] == ['free', '[i]']


def test_mig_devices_stand_below_their_gpu():
    assert [found.cells['index'] for found in rows([FREE, SPLIT], NOW)] == ['0', '7', '7:0', '7:1', '7:2']


def test_what_the_driver_does_not_tell_is_not_0():
    gpu = reading(3, uuid(3))
    cells = {name: text for name, text in row(gpu).cells.items() if name not in {'index', 'mark'}}
    assert set(cells.values()) == {'N/A'}
    assert set(cells) == {
        'type',
        'utilization',
        'memory',
        'temperature',
        'clock',
        'power',
        'users',
        'since',
        'pids',
        'command',
    }


def test_what_is_in_use_by_nobody_on_the_list_has_an_unseen_user():
    cells = row(FREE._replace(memory_used=FREE.memory_total)).cells
    assert (cells['mark'], cells['users'], 'pids' in cells) == ('[!]', '?', False)


def test_memory_in_use_of_an_unknown_total():
    gpu = changed(FREE, memory_total=None)
    assert row(gpu).cells['memory'] == '0.5/N/A'


def test_a_user_and_a_program_with_two_processes_stand_there_once():
    assert process_cells(process(1), process(2)) == ['alice', 'a minute ago', '1,2', 'train.py']


def test_a_process_in_two_instances_stands_there_once():
    assert process_cells(process(1), process(1)) == ['alice', 'a minute ago', '1', 'train.py']


def test_the_age_is_that_of_the_oldest_process_that_is_seen():
    seen = process(1), process(2, 'bob', 'serve.py', 2 * MINUTE)
    assert process_cells(GpuProcess(9), *seen) == ['?,alice,bob', '2 minutes ago', '9,1,2', 'train.py, serve.py']


def test_processes_that_cannot_be_seen():
    assert process_cells(GpuProcess(8), GpuProcess(9)) == ['?', 'N/A', '8,9', 'N/A']


def test_no_processes_are_not_unknown_processes():
    assert process_cells() == ['', '', '', '']


@pytest.mark.parametrize(
    ('name', 'shown'),
    [
        ('NVIDIA A100-SXM4-40GB MIG 1g.5gb', 'MIG 1g.5gb'),
        ('NVIDIA A100-SXM4-40GBX MIG 1g.5gb', 'A100-SXM4-40GBX MIG 1g.5gb'),
        (None, 'N/A'),
    ],
)
def test_the_type_of_a_mig_device_is_its_part_of_the_name(name, shown):
    part = SPLIT.mig_devices[1]
    assert row(changed(part, name=name)).cells['type'] == shown


def test_a_split_gpu_shows_the_processes_that_belong_to_none_of_its_mig_devices():
    gpu = SPLIT._replace(processes=(*SPLIT.processes, process(12), process(12)))
    split, used, free, _ = rows([gpu], NOW)
    assert [found.cells.get('pids', '') for found in (split, used, free)] == ['12', '7007', '']


def test_a_split_gpu_whose_mig_devices_list_no_processes_shows_all_of_them():
    silent = tuple(part._replace(processes=None) for part in SPLIT.mig_devices)
    split, used, _, _ = rows([SPLIT._replace(mig_devices=silent)], NOW)
    assert (split.cells['pids'], used.cells['pids']) == ('7007', 'N/A')


def test_a_gpu_that_cannot_be_read_tells_why_in_place_of_its_figures():
    assert row(LOST) == (
        'unreadable',
        {'index': '5', 'mark': '[x]'},
        'lost: fallen off the bus or otherwise out of reach (NVML code 15)',
    )


def test_nothing_that_strangers_write_commands_the_terminal():
    clean = 'a?[2Jb?gpj?c?d?e'
    gpu = changed(FREE, name=STRANGE, processes=(process(1, STRANGE, STRANGE),), claim=claim(command=STRANGE))
    assert [row(gpu).cells[name] for name in ('type', 'users', 'command')] == [clean] * 3
    assert row(gpu._replace(problem=STRANGE)).note == clean
    assert claim_lines([gpu], NOW, lambda _: STRANGE) == [f'GPU 0: claimed by {clean} (pid 4300, {clean})']


@pytest.mark.parametrize(
    ('differences', 'words'),
    [
        ({}, 'GPU 4: claimed by alice (pid 4300, python sweep.py --seed 7)'),
        ({'command': None}, 'GPU 4: claimed by alice (pid 4300)'),
        (
            {'process_id': None, 'expires': NOW + 90},
            'GPU 4: claimed by alice (python sweep.py --seed 7) for another 90 s',
        ),
        (
            {'user_id': 1001, 'command': None, 'expires': NOW + 7100},
            'GPU 4: claimed by bob (pid 4300) for another 119 min',
        ),
    ],
)
def test_a_claim_in_words(differences, words):
    assert claims(CLAIMED._replace(claim=claim(uuid(4), **differences))) == [words]


def test_a_claim_on_several_gpus_is_one_line():
    both = claim(uuid(1), uuid(4), uuid(71, 'MIG'), command=None)
    parts = (SPLIT.mig_devices[0], SPLIT.mig_devices[1]._replace(claim=both))
    gpus = (IN_USE._replace(claim=both), CLAIMED._replace(claim=both), SPLIT._replace(mig_devices=parts))
    assert claims(*gpus) == ['GPU 1, GPU 4, GPU 7 MIG 1: claimed by alice (pid 4300)']
