"""What users read of what is missing or inexact."""

from __future__ import annotations

import errno
import os

import pytest

from gpu_tracker.cuda_probe.cuda_api import Library
from gpu_tracker.cuda_probe.engine.kernel_layout import Overflow
from gpu_tracker.cuda_probe.libraries import CodeFile, FileOnDisk
from gpu_tracker.cuda_probe.notes import Notes


@pytest.fixture
def notes() -> Notes:
    return Notes()


def overflows(**counts: int) -> tuple[int, ...]:
    return tuple(counts.get(place.name, 0) for place in Overflow)


def test_nothing_is_remarked_where_nothing_is_missing(notes: Notes) -> None:
    assert notes.all() == ()
    assert notes.events_lost == 0
    notes.overflows = overflows()
    assert notes.all() == ()


def test_sentences_are_told_once_in_their_order(notes: Notes) -> None:
    for text in ('B.', 'A.', 'B.'):
        notes.add(text)
    assert notes.all() == ('B.', 'A.')


def test_that_there_were_too_many_sentences_is_told_too(notes: Notes) -> None:
    for number in range(50):
        notes.add(f'{number}.')
    notes.add('0.')
    assert len(notes.all()) == 50
    notes.add('50.')
    assert notes.all()[49:] == ('49.', 'There are more notes: only the first 50 are reported.')


def test_what_is_told_of_processes_and_files(notes: Notes) -> None:
    file = CodeFile('/proc/42/root/lib/libcudart.so', '/lib/libcudart.so', FileOnDisk(1, 2), 3, (Library.RUNTIME,))
    notes.ran_before(42)
    notes.attached_late(42, '/lib/libcudart.so', 1_700_000)
    notes.attached_late(42, '/lib/libcudart.so', 600_000)
    notes.not_probed(file, OSError(errno.EACCES, os.strerror(errno.EACCES)))
    notes.not_seen(42)
    notes.not_followed(42)
    notes.not_named()
    notes.not_named()
    ran, late, *others = notes.all()
    assert ran == (
        'Process 42 ran before the probe: what it had done until then is not reported, and memory that it had '
        'allocated counts neither as in use nor as freed. Which GPU a thread uses is known when it chooses one.'
    )
    assert late == (
        '/lib/libcudart.so was attached to 2 ms after process 42 began to load it: what it has called until then is '
        'not reported. To lose nothing, name it before: --library=/lib/libcudart.so.'
    )
    assert others == [
        '/lib/libcudart.so could not be probed: Permission denied.',
        'Which libraries process 42 has loaded cannot be read: that takes its user and its rights, or root.',
        'Process 42 is not followed: more processes run than the limit "followed" allows.',
        'Some kernels are shown as an address: their program ended before its symbols could be read.',
    ]


@pytest.mark.parametrize(
    ('place', 'text'),
    [
        (
            'NOTICE',
            'Loaded libraries, names and variables of programs that the probe missed: 1,234. Too many came at once.',
        ),
        ('FOLLOWED', 'Processes not followed: 1,234. More processes ran at once than the limit "followed" allows.'),
        ('PROCESS', 'Threads ignored: 1,234. More programs called CUDA than the limit "processes" allows.'),
        ('DEVICE', 'Calls ignored: 1,234. Pairs of program and GPU exceeded four times the limit "processes".'),
        ('ALLOCATION', 'Allocations beyond the limit "allocations": 1,234. The probe may have missed their frees.'),
        ('KERNEL', 'Launches without the name of their kernel: 1,234. The limit "kernels" allows no more kernels.'),
        ('STREAM', 'Launches on streams beyond the limit "streams": 1,234. More streams were used than reported.'),
        ('THREAD', 'Calls ignored: 1,234. More threads called CUDA at once than the limit "threads" allows.'),
        ('FAILURE', 'Failed calls not reported: 1,234. The limit "failures" allows no more kinds of failures.'),
        ('PEAK', 'Updates of max memory that the probe missed: 1,234. Max memory may be too low.'),
    ],
)
def test_each_bound_that_was_reached_is_told_with_how_often(notes: Notes, place: str, text: str) -> None:
    notes.overflows = overflows(**{place: 1234})
    assert notes.all() == (text,)


def test_every_place_without_room_has_a_sentence(notes: Notes) -> None:
    notes.overflows = overflows(**{place.name: 1 for place in Overflow})
    assert len(notes.all()) == len(Overflow)


def test_lost_events_are_told_with_all_that_there_were(notes: Notes) -> None:
    notes.overflows = overflows(EVENT=1000)
    notes.events = 234
    assert notes.events_lost == 1000
    (text,) = notes.all()
    assert text == (
        'Events that came too fast to be read: 1,000 of 1,234. Active time, used cores and the time of kernels lack '
        'these events. Counts and bytes are complete.'
    )


def test_graphs_and_forgotten_programs_are_told(notes: Notes) -> None:
    notes.unknown_graph_launches, notes.left_out = 2000, 3000
    assert notes.all() == (
        (
            'Launches of CUDA graphs with unknown kernels: 2,000. The graphs were made before the probe started, or in '
            'a way that the probe does not see. Their kernels are missing in all figures.'
        ),
        'Ended programs not reported: 3,000. The limit "ended" allows no more programs.',
    )


def test_code_that_could_not_be_read_is_told(notes: Notes) -> None:
    notes.not_read('/srv/train', 'not readable: an unknown form of compression')
    (text,) = notes.all()
    assert text == (
        'Of kernels in /srv/train registers, code size and memory may be missing: not readable: an unknown form of '
        'compression.'
    )
