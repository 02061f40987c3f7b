"""Exact readings of simulated processes, whose pages are known."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.resources.ram.exact import COPY, TOO_LARGE, UNKNOWN, UNREADABLE, ExactReader
from support.simulated_memory import FAULTS, MB, Files, Tree

if TYPE_CHECKING:
    from gpu_tracker.resources.ram.exact import ExactReading
    from gpu_tracker.totals import Sizes

ROOT, CHILD, OTHER, OUTSIDER = 10, 11, 12, -1
GIGABYTE = 1 << 30


def sizes(total: int | None, private: int | None = None, shared: int | None = None) -> Sizes:
    first, second, third = [None if size is None else size * MB for size in (total, private, shared)]
    return first, second, third


class Machine(Tree):
    """A tree, its files and its reader."""

    def __init__(self) -> None:
        super().__init__()
        self.files = Files(self)
        self.reader = ExactReader(self.files, self.files.cpu_time)

    def reading(self, *, is_copy: bool = False) -> ExactReading:
        self.refresh()
        return self.reading_unrefreshed(is_copy=is_copy)

    def reading_unrefreshed(self, *, is_copy: bool = False) -> ExactReading:
        living = [process for process in self.members.values() if not process.ended]
        return self.reader.read(self.root, living, is_copy=is_copy)[0]

    def groups(self) -> tuple[Sizes, ...]:
        return self.reading().groups


@pytest.fixture
def machine() -> Machine:
    """Return one with a root of 110 MB, whose child shares 100 of them and has 20 of its own."""
    found = Machine()
    found.start(ROOT, 100)
    found.fork(ROOT, CHILD)
    found.get(ROOT, 10)
    found.get(CHILD, 20)
    return found


def test_shared_anonymous_memory_counts_once(machine: Machine) -> None:
    assert machine.groups() == (sizes(110, 10, 100), sizes(120, 20, 100), sizes(130, 30, 100))


def test_main_alone() -> None:
    machine = Machine()
    machine.start(ROOT, 60)
    machine.map(ROOT, 7, 0, 40)
    assert machine.groups() == (sizes(100, 100, 0), UNKNOWN, sizes(100, 100, 0))
    assert machine.files.read == [('pages', ROOT)]


def test_a_copy_of_a_copy_that_has_ended_shares_with_the_first(machine: Machine) -> None:
    machine.fork(CHILD, OTHER)
    machine.end(CHILD)
    assert machine.groups() == (sizes(110, 10, 100), sizes(120, 20, 100), sizes(130, 30, 100))


def test_copies_of_pages_are_private(machine: Machine) -> None:
    machine.write(CHILD, 40)
    assert machine.groups() == (sizes(110, 50, 60), sizes(120, 60, 60), sizes(170, 110, 60))


def test_files_count_once_and_separately_from_anonymous_memory(machine: Machine) -> None:
    machine.map(ROOT, 7, 0, 50)
    machine.map(CHILD, 7, 30, 30)
    machine.map(OUTSIDER if machine.start(OUTSIDER) else 0, 7, 0, 5)
    reading = machine.reading()
    assert reading.groups == (sizes(160, 35, 125), sizes(150, 30, 120), sizes(190, 65, 125))
    assert reading.files == 60 * MB


def test_huge_pages_are_private_and_in_no_other_size(machine: Machine) -> None:
    machine.memory[CHILD].huge = 64
    assert machine.groups() == (sizes(110, 10, 100), sizes(184, 84, 100), sizes(194, 94, 100))


def test_a_root_that_has_ended_leaves_its_descendants(machine: Machine) -> None:
    machine.end(ROOT)
    machine.map(CHILD, 7, 0, 30)
    reading = machine.reading()
    assert reading.groups == (UNKNOWN, sizes(150, 150, 0), sizes(150, 150, 0))
    assert reading.reasons == set()


def test_what_each_process_had_is_kept(machine: Machine) -> None:
    machine.map(ROOT, 7, 0, 4)
    root, child = machine.reading().seen.values()
    assert (root.resident, root.private, root.copied) == (114 * MB, 14 * MB, 100 * MB)
    assert (child.resident, child.private, child.copied) == (120 * MB, 20 * MB, 100 * MB)
    assert (root.faults, child.faults) == (114 * FAULTS, 20 * FAULTS)


MEMBERS = (ROOT, CHILD, OTHER, 13)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just('get'), st.sampled_from(MEMBERS), st.integers(0, 9)),
        st.tuples(st.just('map'), st.sampled_from((*MEMBERS, OUTSIDER)), st.integers(7, 8), st.integers(0, 9),
                  st.integers(0, 9)),
        st.tuples(st.just('fork'), st.sampled_from(MEMBERS), st.sampled_from(MEMBERS)),
        st.tuples(st.just('write'), st.sampled_from(MEMBERS), st.integers(0, 9)),
        st.tuples(st.just('free'), st.sampled_from(MEMBERS), st.integers(0, 9)),
        st.tuples(st.just('end'), st.sampled_from(MEMBERS[1:])),
    ),
    max_size=20,
)  # fmt: skip


def run(steps: list[tuple[object, ...]], *, with_outsider: bool) -> Machine:
    machine = Machine()
    machine.start(ROOT, 5)
    if with_outsider:
        machine.start(OUTSIDER)
    for name, pid, *rest in steps:
        is_there = pid in machine.memory and not machine.memory[pid].ended
        if is_there and not (name == 'fork' and rest[0] in machine.memory):
            getattr(machine, name)(pid, *rest)
    return machine


@given(STEPS)
def test_readings_of_any_program_are_the_truth(steps: list[tuple[object, ...]]) -> None:
    machine = run(steps, with_outsider=False)
    main, descendants, combined = machine.groups()
    living = [pid for pid, memory in machine.memory.items() if memory.has]
    others = [pid for pid in living if pid != ROOT]
    for found, pids in ((main, [pid for pid in living if pid == ROOT]), (descendants, others), (combined, living)):
        assert (found[0] or 0) == pytest.approx(machine.bytes_of(pids), abs=4096)
        assert (found[1] or 0) == machine.private_of(pids)
    assert [size is None for size in (main[0], descendants[0], combined[0])] == [
        ROOT not in living, not others, not living,
    ]  # fmt: skip


@given(STEPS)
def test_files_that_outsiders_have_are_never_overestimated(steps: list[tuple[object, ...]]) -> None:
    machine = run(steps, with_outsider=True)
    combined = machine.groups()[2]
    living = [pid for pid, memory in machine.memory.items() if pid > 0 and memory.has]
    assert (combined[0] or 0) <= machine.bytes_of(living)
    assert combined[1] in (None, machine.private_of(living))


def test_mappings_are_read_again_only_if_a_member_or_its_files_have_changed(machine: Machine) -> None:
    def mappings_read() -> list[int]:
        machine.files.read.clear()
        machine.reading()
        return [pid for name, pid in machine.files.read if name == 'extents']

    assert mappings_read() == [ROOT, CHILD]
    machine.get(CHILD, 50)
    assert mappings_read() == []
    machine.map(CHILD, 7, 0, 1)
    assert mappings_read() == [ROOT, CHILD]
    machine.execute(CHILD, 20)
    machine.map(CHILD, 7, 0, 1)  # as much of files as before
    assert mappings_read() == [ROOT, CHILD]
    machine.start(OTHER, 1, parent=ROOT)
    assert mappings_read() == [ROOT, CHILD, OTHER]
    machine.end(OTHER)
    assert mappings_read() == [ROOT, CHILD]


def hand_over(machine: Machine, megabytes: int = 50) -> None:
    machine.free(ROOT, megabytes)
    machine.get(CHILD, megabytes)


def test_a_reading_while_memory_is_handed_over_is_repeated() -> None:
    machine = Machine()
    machine.start(ROOT, 300)
    machine.start(CHILD, 20, parent=ROOT)
    machine.files.when_read = [lambda: hand_over(machine)]
    assert machine.groups() == (sizes(250, 250, 0), sizes(70, 70, 0), sizes(320, 320, 0))
    assert [pid for name, pid in machine.files.read if name == 'pages'] == [ROOT, CHILD] * 2


def test_what_is_handed_over_at_each_reading_is_taken_off() -> None:
    machine = Machine()
    machine.start(ROOT, 300)
    machine.start(CHILD, 20, parent=ROOT)
    nothing = repeat(lambda: None)
    machine.files.when_read = [step for pair in zip([lambda: hand_over(machine)] * 3, nothing) for step in pair]  # noqa: B905
    main, descendants, combined = machine.groups()
    assert machine.files.read.count(('pages', ROOT)) == 3
    assert (main[0], descendants[0]) == (200 * MB, 170 * MB)
    # The last time the root was read with 200 MB and the child with 170, of which 50 were the root's.
    assert combined[0] == 320 * MB


def test_a_page_that_one_has_given_back_and_another_is_read_with_alone_counts_once(machine: Machine) -> None:
    machine.files.when_read = [lambda: machine.free(ROOT, 110)]
    assert machine.groups()[2][0] == 120 * MB


def test_a_reading_during_which_a_process_ends_is_repeated(machine: Machine) -> None:
    machine.start(OTHER, 50, parent=ROOT)
    machine.files.when_read = [lambda: None, lambda: None, lambda: machine.end(OTHER)]
    reading = machine.reading()
    assert reading.groups == (sizes(110, 10, 100), sizes(120, 20, 100), sizes(130, 30, 100))
    assert reading.reasons == set()
    assert machine.files.read.count(('pages', ROOT)) == 2


def test_growth_while_a_reading_is_made_is_not_repeated(machine: Machine) -> None:
    machine.files.when_read = [lambda: machine.get(CHILD, 30)]
    assert machine.groups()[2][0] == 160 * MB
    assert machine.files.read.count(('pages', ROOT)) == 1


def test_a_process_that_may_not_be_read_counts_in_no_sum(machine: Machine) -> None:
    machine.files.forbidden = {CHILD}
    reading = machine.reading()
    assert reading.groups == (sizes(110, 10, 100), sizes(120), sizes(120))
    assert reading.reasons == {UNREADABLE}
    machine.files.forbidden = {ROOT}
    assert machine.groups() == (sizes(110), sizes(120, 20, 100), sizes(120))


def test_a_process_that_is_too_large_counts_with_its_anonymous_memory(machine: Machine) -> None:
    machine.start(OTHER, 5, parent=ROOT)
    machine.refresh()
    machine.members[OTHER].resident = 60 * GIGABYTE
    machine.members[OTHER].files = 10 * MB
    reading = machine.reading_unrefreshed()
    assert ('pages', OTHER) not in machine.files.read
    assert reading.reasons == {TOO_LARGE}
    assert reading.groups[0] == sizes(110, 10, 100)
    assert reading.groups[1:] == ((60 * GIGABYTE + 110 * MB, None, None), (60 * GIGABYTE + 120 * MB, None, None))


@pytest.mark.parametrize('copy', [OTHER, CHILD])
def test_a_copy_that_is_too_large_counts_alone(machine: Machine, copy: int) -> None:
    machine.fork(CHILD, OTHER)
    machine.refresh()
    machine.members[copy].resident = 60 * GIGABYTE
    reading = machine.reading_unrefreshed()
    assert reading.groups[1:] == ((60 * GIGABYTE, None, None), (60 * GIGABYTE, None, None))


def test_a_root_that_is_a_copy_of_an_outsider_is_a_lower_bound() -> None:
    machine = Machine()
    machine.start(OUTSIDER, 100)
    machine.fork(OUTSIDER, ROOT)
    machine.get(ROOT, 10)
    assert machine.reading(is_copy=True).reasons == set()
    machine.fork(ROOT, CHILD)
    machine.get(CHILD, 20)
    reading = machine.reading(is_copy=True)
    assert reading.reasons == {COPY}
    main, descendants, combined = reading.groups
    assert main == sizes(110, 0, 110)
    assert descendants[0] is not None
    assert combined[0] is not None
    assert 130 * MB == descendants[0] <= combined[0] <= 140 * MB


def test_costs_follow_what_readings_have_taken(machine: Machine) -> None:
    machine.files.cost = 0.002
    machine.refresh()
    processes = list(machine.members.values())
    assert 0.0005 < machine.reader.cost(processes) < 0.005
    for _ in range(20):
        machine.map(CHILD, 7, 0, 1)
        machine.free(CHILD, 1, 7)
        machine.reading()
    assert machine.reader.cost(processes) == pytest.approx(2 * 0.002, rel=0.05)
    machine.map(CHILD, 7, 0, 1)
    machine.refresh()
    assert machine.reader.cost(processes) == pytest.approx(4 * 0.002, rel=0.1)


def test_without_mappings_the_proportional_sizes_of_files_count() -> None:
    machine = Machine()
    for pid in (ROOT, CHILD, OUTSIDER):
        machine.start(pid, 40, parent=ROOT)
        machine.map(pid, 7, 0, 60)
    machine.refresh()
    for process in machine.members.values():
        process.resident = 15 * GIGABYTE  # mappings would take 0.35 s
    combined = machine.reading_unrefreshed().groups[2]
    assert {name for name, _ in machine.files.read} == {'pages'}
    assert combined[0] == pytest.approx((2 * 40 + 2 * 20) * MB, abs=4096)
