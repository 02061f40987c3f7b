"""Which processes that end belong to a tree, and what they add to what it has used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.processes.ended import EndedProcesses
from gpu_tracker.processes.exit_records import FORKED, LAST_OF_PROCESS
from gpu_tracker.processes.exit_sums import AMOUNTS, NOTHING
from gpu_tracker.resources.cpu.counters import CpuCounters, CpuReading
from gpu_tracker.resources.cpu.recorded_time import RecordedTime
from support.simulated_processes import INIT, ROOT, Machine, SimulatedTree

if TYPE_CHECKING:
    from gpu_tracker.processes.exit_records import Amounts, Fields
    from gpu_tracker.processes.fork_notices import Fork
    from gpu_tracker.processes.process import Process

ATOM = 1e-6
ROUNDING = 0.02


class FieldsAsTheyAre:
    """Reads records that are the fields themselves, with the bytes of :data:`Amounts` behind them."""

    single_length = 500

    def fields(self, record: Any) -> Fields:
        return record[:13]

    def process(self, record: Any) -> tuple[int]:
        return (record[11],)

    def amounts(self, record: Any) -> Amounts:
        return record[13:]


class Kernel:
    """Stands in for records and notices: what a test has added is there once."""

    def __init__(self) -> None:
        self.has_lost = False
        self.is_confirmed = True
        self.is_broken = False
        self.is_closed = False
        self.now = 0.0
        self.forks: list[Fork] = []
        self.ends: list[Any] = []
        self.begun: dict[int, float] = {}
        self.layout: Any = FieldsAsTheyAre()
        self.records, self.notices = Ends(self), Forks(self)

    def close(self) -> None:
        self.is_closed = True

    def fork(self, parent: int, pid: int) -> None:
        """Notice a fork."""
        self.begun[pid] = self.now
        self.forks.append((round(self.now * 1e9), parent, pid))

    def end(
        self,
        pid: int,
        parent: int,
        seconds: float = 0.0,
        *,
        bits: int = LAST_OF_PROCESS,
        peak: int = 0,
        amounts: int = 0,
        name: bytes = b'program',
        length: int = FieldsAsTheyAre.single_length,
        begun: float | None = None,
    ) -> None:
        """Record the end of a thread with one page fault."""
        ran, name = round(seconds * 1e9), name.ljust(16, b'\0')
        begun = self.begun.get(pid, 0.0) if begun is None else begun
        age = round((self.now - begun) * 1e6)
        self.ends.append((length, bits, 0, ran, name, parent, 0, 1, 0, peak, 1, pid, age, *(amounts,) * 5))


class Ends:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.close = kernel.close

    @property
    def has_lost(self) -> bool:
        return self.kernel.has_lost

    @property
    def layout(self) -> Any:
        return self.kernel.layout if self.kernel.is_confirmed else None

    def take(self) -> list[Any] | None:
        kernel = self.kernel
        if kernel.is_broken:
            raise OSError
        if not kernel.is_confirmed:
            return None
        ends, kernel.ends = kernel.ends, []
        return ends


class Forks(Ends):
    def take(self) -> list[Any] | None:
        forks, self.kernel.forks = self.kernel.forks, []
        return forks


class Setting:
    def __init__(self, *, is_launched: bool = False, is_confirmed: bool = True, has_begun: bool = True) -> None:
        self.machine = Machine()
        self.tree = SimulatedTree(self.machine)
        self.kernel = Kernel()
        self.kernel.is_confirmed = is_confirmed
        self.there: set[int] = set()
        """Those that have ended and nobody has waited for."""
        self.ended = EndedProcesses(
            self.tree,
            self.kernel.records,
            self.kernel.notices,
            is_launched=is_launched,
            counts_amounts=True,
            monotonic=lambda: self.kernel.now,
            exists=self.there.__contains__,
        )
        if has_begun:
            self.begin()

    def begin(self) -> None:
        self.refresh()
        self.ended.begin()
        self.refresh()
        self.start = self.ended.sums.descendants_seconds()
        self.later()

    def refresh(self) -> None:
        """Take what there is, and let the samples go on by a second."""
        self.ended.take(self.kernel.now)
        self.tree.refresh()
        self.kernel.now = max(self.kernel.now, self.tree.begun)

    def later(self, seconds: float = 0.5) -> None:
        self.kernel.now += seconds

    @property
    def seconds(self) -> float:
        self.refresh()
        return self.ended.sums.descendants_seconds() - self.start

    def record(self) -> dict[str, object]:
        return self.ended.record()


def test_a_child_that_nobody_has_seen_and_the_root_ignores_counts() -> None:
    setting = Setting()
    setting.kernel.fork(ROOT, 10)
    setting.kernel.end(10, ROOT, 0.5)
    assert setting.seconds == pytest.approx(0.5)
    assert setting.record()['exit_records'] == 1


def test_one_that_the_root_has_waited_for_counts_as_its_own_counters_say() -> None:
    setting = Setting()
    setting.machine.fork(ROOT)
    setting.machine.burn(3, 0.5)
    setting.machine.end(3)
    setting.machine.reap(ROOT)
    setting.kernel.fork(ROOT, 3)
    setting.kernel.end(3, ROOT, 0.51)
    assert setting.seconds == pytest.approx(0.5)


def test_one_that_is_seen_only_after_its_record_has_come_counts_once() -> None:
    setting = Setting()
    setting.machine.fork(ROOT)
    setting.machine.burn(3, 1.0)
    setting.machine.end(3)
    setting.kernel.fork(ROOT, 3)
    setting.kernel.end(3, ROOT, 1.0)
    assert setting.seconds == pytest.approx(1.0)
    setting.machine.reap(ROOT)
    assert setting.seconds == pytest.approx(1.0)


def test_a_daemon_of_which_both_generations_end_unseen_counts() -> None:
    setting = Setting()
    setting.kernel.fork(ROOT, 10)
    setting.kernel.fork(10, 11)
    setting.kernel.end(10, ROOT)
    setting.kernel.end(11, INIT, 0.25)
    assert setting.seconds == pytest.approx(0.25)
    assert setting.record()['exit_records'] == 2


def test_processes_of_others_do_not_count() -> None:
    setting = Setting()
    setting.kernel.fork(900, 901)
    setting.kernel.fork(901, 902)
    setting.kernel.end(901, 900, 3.0)
    setting.kernel.end(902, INIT, 3.0)
    assert setting.seconds == 0
    assert setting.record()['exit_records'] == 0


def test_a_number_that_somebody_else_has_got_since_is_not_taken_for_the_old_process() -> None:
    setting = Setting()
    kernel = setting.kernel
    kernel.fork(ROOT, 10)
    kernel.end(10, ROOT, 0.25)
    setting.later()
    kernel.fork(900, 10)
    kernel.end(10, 900, 3.0)
    assert setting.seconds == pytest.approx(0.25)
    assert setting.record()['exit_records'] == 1
    assert setting.record()['exit_records_lost'] is False


def test_a_number_that_was_somebody_elses_before_is_not_taken_for_that_process() -> None:
    setting = Setting()
    setting.kernel.end(10, 900, 3.0, begun=-60)
    setting.kernel.fork(ROOT, 10)
    assert setting.seconds == 0
    setting.later()
    setting.kernel.end(10, ROOT, 0.25)
    assert setting.seconds == pytest.approx(0.25)


def test_processes_of_the_tree_and_others_with_the_same_number_one_after_the_other() -> None:
    setting = Setting()
    kernel = setting.kernel
    kernel.fork(ROOT, 10)
    kernel.end(10, ROOT, 0.25)
    setting.later()
    kernel.fork(900, 10)
    kernel.fork(10, 12)
    kernel.end(12, 10, 3.0)
    kernel.end(10, 900, 3.0)
    setting.refresh()
    kernel.fork(ROOT, 10)
    kernel.end(10, ROOT, 0.5)
    assert setting.seconds == pytest.approx(0.75)
    assert setting.record()['exit_records'] == 2


def test_a_fork_waits_for_the_end_of_who_has_had_the_number() -> None:
    """The records were received, then that process ended, then the forks were received."""
    setting = Setting()
    kernel = setting.kernel
    kernel.fork(ROOT, 10)
    setting.refresh()
    kernel.end(10, ROOT, 0.25)
    too_late, kernel.ends = kernel.ends, []
    kernel.fork(900, 10)
    assert setting.seconds == 0
    kernel.ends = too_late
    kernel.end(10, 900, 3.0)
    assert setting.seconds == pytest.approx(0.25)
    assert setting.record()['exit_records_lost'] is False


def test_members_that_were_listed_long_after_a_refresh_began_are_those_that_were_forked() -> None:
    """The first two were found between two refreshes, before the notices of their forks were received."""
    setting = Setting()
    setting.later()
    for pid in (3, 4):
        setting.machine.fork(ROOT)
        setting.kernel.fork(ROOT, pid)
    forks, setting.kernel.forks = setting.kernel.forks, []
    setting.refresh()
    setting.tree.begun, setting.tree.listed = setting.kernel.now - 2, setting.kernel.now
    setting.kernel.forks = forks
    setting.kernel.fork(ROOT, 10)
    setting.kernel.end(10, ROOT, 0.25)
    assert setting.seconds == pytest.approx(0.25)
    assert setting.record()['exit_records'] == 1


def test_a_process_whose_number_is_anothers_and_of_which_no_record_came_is_said_to_be_lost() -> None:
    setting = Setting()
    setting.kernel.fork(ROOT, 10)
    setting.later()
    setting.kernel.fork(900, 10)
    setting.refresh()
    assert setting.record()['exit_records_lost'] is False
    setting.refresh()
    assert setting.record()['exit_records_lost'] is True


@pytest.mark.parametrize('is_split', [False, True])
def test_a_thread_whose_record_was_overtaken_by_the_last_one_of_its_process_counts(is_split: bool) -> None:
    setting = Setting()
    kernel = setting.kernel
    kernel.fork(ROOT, 10)
    kernel.end(10, ROOT, 0.5, length=900, amounts=1024)
    if is_split:
        setting.there.add(10)
        assert setting.seconds == pytest.approx(0.5)
    kernel.end(10, ROOT, 0.25, bits=0, amounts=1024)
    assert setting.seconds == pytest.approx(0.75)
    assert setting.ended.sums.amounts(lambda _: NOTHING, has_waited) == (2048,) * 5 + (2, 0)
    assert setting.record()['exit_records'] == 1


def test_a_thread_that_was_overtaken_counts_once_where_its_process_is_still_seen() -> None:
    setting = Setting()
    setting.machine.fork(ROOT)
    setting.machine.burn(3, 1.0)
    setting.machine.end(3)
    setting.there.add(3)
    setting.kernel.fork(ROOT, 3)
    setting.kernel.end(3, ROOT, 0.75, length=900)
    assert setting.seconds == pytest.approx(1.0)
    setting.kernel.end(3, ROOT, 0.25, bits=0)
    assert setting.seconds == pytest.approx(1.0)


def test_the_root_has_the_time_of_a_thread_that_was_overtaken() -> None:
    setting = Setting()
    setting.kernel.end(ROOT, INIT, 4.0, length=900)
    setting.kernel.end(ROOT, INIT, 1.0, bits=0)
    setting.refresh()
    assert setting.ended.root_seconds == pytest.approx(5.0)


def test_records_that_come_before_it_is_known_that_they_arrive_count() -> None:
    setting = Setting(is_confirmed=False)
    setting.kernel.fork(ROOT, 10)
    setting.kernel.end(10, ROOT, 0.5)
    assert setting.seconds == 0
    assert setting.record()['exit_records'] is None
    setting.kernel.is_confirmed = True
    assert setting.seconds == pytest.approx(0.5)
    assert setting.record()['exit_records'] == 1


def test_what_has_ended_before_the_start_does_not_count_though_its_record_comes_later() -> None:
    setting = Setting(is_confirmed=False, has_begun=False)
    setting.kernel.fork(ROOT, 10)
    setting.kernel.end(10, ROOT, 9.0)
    setting.begin()
    setting.kernel.is_confirmed = True
    assert setting.seconds == 0
    assert setting.record()['exit_records'] == 0


def test_threads_count_with_their_process_once_none_is_left() -> None:
    setting = Setting()
    setting.kernel.fork(ROOT, 10)
    setting.kernel.end(10, ROOT, 0.25, bits=0)
    setting.kernel.end(10, ROOT, 0.25, bits=0)
    assert setting.seconds == 0
    setting.kernel.end(10, ROOT, 0.5, amounts=1024, length=900)
    assert setting.seconds == pytest.approx(1.0)
    assert setting.ended.sums.amounts(lambda _: NOTHING, has_waited)[:5] == (1024,) * 5
    assert setting.ended.sums.amounts(lambda _: NOTHING, has_waited)[5:] == (3, 0)


def has_waited(process: Process, faults: int) -> bool:
    """Return what was known when the tree was refreshed."""
    return process.reaped_faults != faults


def test_of_one_that_has_left_its_counters_to_who_has_waited_for_it_nothing_is_missing() -> None:
    setting = Setting()
    setting.machine.fork(ROOT)
    setting.refresh()
    setting.ended.begin()
    root, parent = (setting.tree.members[pid] for pid in (ROOT, 3))
    amounts = {root: (0,) * AMOUNTS, parent: (1000,) * AMOUNTS}
    sums = setting.ended.sums
    assert sums.amounts(amounts.get, has_waited) == (1000,) * AMOUNTS
    for pid in (20, 21):
        sums.end(pid, 3, None, 0.0, 10, (5,) * AMOUNTS)
    parent.reaped_faults = 10  # it has waited for one of the two
    amounts[parent] = (1005,) * AMOUNTS
    assert sums.amounts(amounts.get, has_waited) == (1010,) * AMOUNTS
    amounts = {root: (1005,) * AMOUNTS}  # it has ended since the refresh, and the root has waited for it
    assert sums.amounts(amounts.get, has_waited) == (1005,) * AMOUNTS
    amounts[root] = (1010,) * AMOUNTS  # it has waited for the other one in its last moment
    assert sums.amounts(amounts.get, has_waited) == (1010,) * AMOUNTS


def test_samplers_of_trackers_do_not_count() -> None:
    setting = Setting()
    setting.kernel.fork(ROOT, 10)
    setting.kernel.fork(10, 11)
    setting.kernel.end(10, ROOT, peak=1_700)
    setting.kernel.end(11, INIT, 2.0, name=b'gput-sampler', peak=15_000)
    assert setting.seconds == 0
    assert setting.record()['ended_peak'] == 0  # nor does the shell that has started it


def test_the_largest_mark_of_those_that_have_ended_is_kept() -> None:
    setting = Setting()
    for pid, peak in ((10, 300_000), (11, 400_000), (12, 200_000)):
        setting.kernel.fork(ROOT, pid)
        setting.kernel.end(pid, ROOT, peak=peak)
        setting.refresh()
    assert setting.record()['ended_peak'] == 400_000 * 1024


def test_the_marks_of_those_that_nobody_has_seen_or_waited_for_are_added_up() -> None:
    setting = Setting()
    for pid, parent in ((10, INIT), (11, INIT), (12, ROOT)):
        setting.kernel.fork(ROOT, pid)
        setting.kernel.end(pid, parent, peak=18_000)
    setting.refresh()
    assert setting.record()['ended_unseen_peaks'] == 3 * 18_000 * 1024
    setting.tree.members[ROOT].reaped_faults += 1
    assert setting.record()['ended_unseen_peaks'] == 2 * 18_000 * 1024


def test_what_one_has_had_beyond_its_mark_as_it_was_read_last_has_been_seen_by_nobody() -> None:
    setting = Setting()
    child = 3
    setting.machine.fork(ROOT)
    setting.kernel.fork(ROOT, child)
    setting.refresh()
    setting.tree.members[child].peak = 3_000 * 1024
    setting.kernel.end(child, INIT, peak=18_000)
    setting.refresh()
    assert setting.record()['ended_unseen_peaks'] == 15_000 * 1024


def test_a_copy_of_the_root_may_have_run_in_its_memory() -> None:
    setting = Setting()
    setting.kernel.fork(ROOT, 10)
    setting.kernel.end(10, ROOT, bits=LAST_OF_PROCESS | FORKED, peak=300_000)
    setting.refresh()
    assert (setting.record()['ended_peak'], setting.record()['ended_copies_peak']) == (0, 300_000 * 1024)


def test_the_mark_of_one_that_was_there_at_the_start_may_be_older() -> None:
    setting = Setting()
    setting.machine.fork(ROOT)
    setting.begin()
    setting.kernel.end(3, ROOT, peak=300_000)
    setting.refresh()
    assert setting.record()['ended_peak'] == 0


@pytest.mark.parametrize(('is_launched', 'peak'), [(True, 300_000 * 1024), (False, None)])
def test_the_end_of_the_root_tells_its_time_and_its_mark(is_launched: bool, peak: int | None) -> None:
    setting = Setting(is_launched=is_launched)
    setting.kernel.end(ROOT, INIT, 4.0, peak=300_000)
    setting.refresh()
    assert setting.ended.root_seconds == pytest.approx(4.0)
    assert setting.record()['ended_main_peak'] == peak


def test_what_was_lost_is_said() -> None:
    setting = Setting()
    setting.kernel.has_lost = True
    setting.refresh()
    assert setting.record()['exit_records_lost'] is True


def test_a_socket_that_fails_is_read_no_more() -> None:
    setting = Setting()
    setting.kernel.is_broken = True
    setting.refresh()
    assert setting.kernel.is_closed
    assert setting.record()['exit_records_lost'] is True
    assert setting.ended.due() == float('inf')


def test_where_records_do_not_arrive_nothing_is_said_of_them() -> None:
    setting = Setting(is_confirmed=False)
    for _ in range(5):
        setting.refresh()
    assert setting.kernel.is_closed
    assert setting.record()['exit_records'] is None


STEPS = st.lists(
    st.tuples(
        st.sampled_from(['fork', 'burn', 'end', 'reap', 'ignore', 'burn', 'fork', 'sample']),
        st.integers(0, 1000),
        st.floats(0.001, 3),
    ),
    max_size=60,
)


@given(STEPS)
def test_descendants_have_all_that_they_have_used_whoever_waits_for_them(steps: list[tuple[str, int, float]]) -> None:
    setting = Setting()
    machine, tree, kernel = setting.machine, setting.tree, setting.kernel
    counters, recorded = CpuCounters(tree), RecordedTime(tree, setting.ended)
    recorded.add(CpuReading(0, 0, 1, 0))

    def sample() -> CpuReading:
        setting.refresh()
        reading = counters.read()
        recorded.add(reading)
        return reading

    for action, which, seconds in steps:
        pid = machine.living[which % len(machine.living)]
        if action == 'sample':
            assert sample().descendants <= machine.of_descendants + ATOM
        elif action == 'burn':
            machine.burn(pid, seconds)
        elif action == 'fork':
            machine.fork(pid)
            kernel.fork(pid, max(machine.table))
        elif action == 'end' and pid != ROOT:
            process = machine.table[pid]
            kernel.end(pid, process.parent, process.cpu)
            machine.end(pid)
        elif action != 'end':
            getattr(machine, action)(pid)
    found = sample()
    assert found.descendants <= machine.of_descendants + ATOM
    assert found.descendants >= machine.of_descendants - ROUNDING * len(steps)
