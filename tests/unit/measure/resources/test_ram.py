"""RAM as a resource: what it reports of what its reader has found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_tracker.resources import FIRST, LAST, MIDDLE
from gpu_tracker.resources.ram import Ram
from gpu_tracker.resources.ram.exact import NOTHING, UNKNOWN
from gpu_tracker.resources.ram.portable import PortableRamReader
from support.simulated_memory import MB, Tree

ROOT, CHILD = 10, 11
STAT = b'10 (program) %s 1 10 10 0 -1 0 '

if TYPE_CHECKING:
    from gpu_tracker.totals import Sizes


class Reader:
    """Has found what a test says."""

    def __init__(self) -> None:
        self.maxima = ((5, 3, 2), (4, None, None), (7, 5, 2))
        self.used = 6
        self.reasons: set[str] = set()
        self.most_private = 0
        self.calls: list[str] = []

    def read(self, now: float, kind: str) -> None:
        self.calls.append(f'{kind} at {now:g}')

    def current(self) -> tuple[Sizes, Sizes, Sizes]:
        return (2, 1, 1), NOTHING, (2, None, None)

    def watch(self, process: object) -> None:
        self.calls.append('watch')


class Machine:
    """Uses a little less at each reading."""

    ram_capacity = 100
    cores = 2

    def __init__(self) -> None:
        self.used = 90

    def ram(self) -> int:
        self.used -= 10
        return self.used


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def tree() -> Tree:
    found = Tree()
    found.start(ROOT, 100)
    found.refresh()
    found.root.raw = STAT % b'S'
    return found


@pytest.fixture
def ram(reader: Reader, tree: Tree) -> Ram:
    return Ram(reader, Machine(), tree)


def test_the_first_reading_is_made_before_the_first_sample(ram: Ram, reader: Reader, tree: Tree) -> None:
    ram.begin(1.0)
    ram.sample(2.0, FIRST)
    ram.watch(tree.root)
    ram.sample(3.0, MIDDLE)
    ram.sample(4.0, LAST)
    assert reader.calls == ['first at 1', 'watch', 'middle at 3', 'last at 4']


def test_a_row_has_what_there_is_now(ram: Ram) -> None:
    ram.sample(1.0, FIRST)
    assert ram.row() == [2, 1, 1, 0, 0, 0, 2, None, None, 80]
    assert len(ram.columns) == len(ram.row())


def test_the_evidence(ram: Ram) -> None:
    assert ram.totals()['system'] is None
    ram.sample(1.0, FIRST)
    ram.sample(2.0, MIDDLE)
    assert ram.totals() == {
        'main': (5, 3, 2),
        'descendants': (4, None, None),
        'combined': (7, 5, 2),
        'ceilings': (0, 0, 0),
        'most_of_main': None,
        'faults_of_orphans': 0,
        'huge_pages': 0,
        'most_private': 0,
        'reasons': (),
        'system': 80,
        'capacity': 100,
    }
    assert ram.used_so_far() == 6


@pytest.mark.parametrize(('state', 'reasons'), [(b'R', ('unreadable', 'vanished')), (b'Z', ('unreadable',))])
def test_a_process_that_was_never_seen_as_a_zombie_may_have_had_more(
    ram: Ram, reader: Reader, tree: Tree, state: bytes, reasons: tuple[str, ...]
) -> None:
    reader.reasons.add('unreadable')
    tree.root.raw = STAT % state
    assert ram.totals()['reasons'] == ('unreadable',)
    tree.root_gone = True
    assert ram.totals()['reasons'] == reasons


def test_a_warning_says_once_that_a_process_may_not_be_read(ram: Ram, reader: Reader) -> None:
    assert ram.take_messages() == []
    reader.reasons |= {'copy', 'unreadable'}
    assert ram.take_messages() == [
        (
            'warning',
            (
                'The memory of some processes may not be read: they belong to another user, or are protected. '
                'RAM of groups with such a process is a lower bound.'
            ),
        )
    ]
    assert ram.take_messages() == []


def test_on_other_systems_sizes_add_up_and_their_parts_are_unknown(tree: Tree) -> None:
    tree.fork(ROOT, CHILD)
    tree.refresh()
    reader = PortableRamReader(tree)
    assert reader.maxima == (UNKNOWN, UNKNOWN, UNKNOWN)
    reader.read(0.0, FIRST)
    assert reader.maxima == ((100 * MB, None, None), (100 * MB, None, None), (200 * MB, None, None))
    tree.free(ROOT, 50)
    tree.get(CHILD, 20)
    tree.refresh()
    reader.read(1.0, MIDDLE)
    assert reader.current() == ((50 * MB, None, None), (120 * MB, None, None), (170 * MB, None, None))
    assert reader.maxima == ((100 * MB, None, None), (120 * MB, None, None), (200 * MB, None, None))
    assert reader.used == 120 * MB
    assert reader.reasons == set()


def test_on_other_systems_a_root_that_has_ended_is_unknown(tree: Tree) -> None:
    reader = PortableRamReader(tree)
    tree.end(ROOT)
    tree.refresh()
    assert reader.current() == (UNKNOWN, NOTHING, UNKNOWN)
