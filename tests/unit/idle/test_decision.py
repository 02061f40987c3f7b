from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_tracker.idle import decision
from gpu_tracker.idle.config.idle_settings import GpuId, Program
from gpu_tracker.idle.decision import Start, Stop, decide, stop_all
from gpu_tracker.idle.state import ActiveUser, GpuUser, Observation, State, WatchedGpu, with_end
from gpu_tracker.idle.waiting import waiting

ALICE = ActiveUser('alice', 'pts/3', 2.0)
BOB = ActiveUser('bob', 'tty1', 0.0)
FOREIGN = (GpuUser(17, 'python', 'alice'),)


def gpu(text: str) -> GpuId:
    return GpuId(*map(int, text.split(':')))


def program(name: str, gpus: str = 'ALL', **options) -> Program:
    own = None if gpus == 'ALL' else tuple(map(gpu, gpus.split(',')))
    return Program(name, own, (name,), '/', **options)


def observed(gpus: str = '0,1', busy: str = '', active: tuple[ActiveUser, ...] = ()) -> Observation:
    """Return an observation of GPUs of which a foreign process uses some."""
    names = [name for name in gpus.split(',') if name]
    return Observation(
        tuple(WatchedGpu(gpu(name), users=FOREIGN * (name in busy.split(','))) for name in names), active
    )


class Story:
    """A monitor's memory, given one observation after the other."""

    def __init__(self, *programs: Program) -> None:
        self.programs = programs
        self.state = State()
        self.last = Observation()

    def poll(self, now: float, observation: Observation | None = None) -> list[str]:
        """Return what is done, one line for each action."""
        self.last = observed() if observation is None else observation
        self.state, actions = decide(self.programs, self.state, self.last, now)
        return [
            f'start {action.program.name} on {",".join(str(seen.gpu) for seen in action.gpus)}: {action.reason}'
            if isinstance(action, Start)
            else f'stop {action.name}: {action.reason}'
            for action in actions
        ]

    def end(self, name: str, now: float) -> None:
        self.state = with_end(self.state, name, now)

    def waiting(self, name: str, now: float) -> str | None:
        (program,) = (program for program in self.programs if program.name == name)
        return waiting(program, self.programs, self.state, self.last, now)


def test_a_program_is_started_at_the_first_look_at_its_idle_gpu():
    trainer = program('trainer', '1')
    seen = (WatchedGpu(GpuId(0)), WatchedGpu(GpuId(1), 'GPU-1b'))
    state, actions = decide([trainer], State(), Observation(seen), 7.0)
    assert actions == (Start(trainer, (seen[1],), 'GPU 1 idle'),)
    assert (state.runs['trainer'].gpus, state.runs['trainer'].started) == ((GpuId(1),), 7.0)


def test_each_idle_gpu_gets_its_own_program():
    story = Story(program('zero', '0'), program('one', '1'))
    assert story.poll(0, observed(busy='1')) == ['start zero on 0: GPU 0 idle']
    assert story.poll(10) == ['start one on 1: GPU 1 idle']


def test_one_section_with_two_gpus_is_one_program_on_both_in_its_own_order():
    story = Story(program('pair', '1,0'))
    assert story.poll(0, observed(busy='0')) == []
    assert story.poll(10) == ['start pair on 1,0: GPUs 1 and 0 idle']
    assert story.poll(20, observed(busy='0')) == ['stop pair: GPU 0 used by python (pid 17, alice)']


def test_a_running_program_is_not_started_again():
    story = Story(program('zero', '0'))
    story.poll(0)
    assert [story.poll(now) for now in (0, 10, 20)] == [[], [], []]


@pytest.mark.parametrize(
    ('later', 'reason'),
    [
        (observed(busy='0'), 'GPU 0 used by python (pid 17, alice)'),
        (Observation((WatchedGpu(GpuId(0), load='has 1 GB in use'),)), 'GPU 0 has 1 GB in use'),
        (Observation((WatchedGpu(GpuId(0), problem='is lost'),)), 'GPU 0 is lost'),
        (observed('1'), 'GPU 0 is not there, or not watched'),
        (observed('0:0,0:1'), 'GPU 0 is divided into MIG devices'),
        (observed(active=(ALICE,)), 'alice at pts/3 is active'),
        (observed(active=(ALICE, BOB)), 'alice at pts/3 and bob at tty1 are active'),
    ],
)
def test_a_program_is_stopped_in_the_look_that_shows_why(later, reason):
    story = Story(program('zero', '0'))
    story.poll(0)
    assert story.poll(10, later) == [f'stop zero: {reason}']
    assert story.poll(20, later) == []
    assert story.waiting('zero', 20) == f'being stopped: {reason}'
    story.end('zero', 21)
    assert story.poll(30, later) == []
    assert story.waiting('zero', 30) == reason


def test_what_happens_on_another_gpu_stops_nobody():
    story = Story(program('zero', '0'))
    story.poll(0)
    assert story.poll(10, observed(busy='1')) == []
    assert story.poll(20, observed('0')) == []


def test_a_program_that_is_being_stopped_keeps_its_gpu():
    story = Story(program('first', '0'), program('second', '0'))
    story.poll(0)
    story.poll(10, observed(busy='0'))
    assert story.poll(11) == []
    assert story.waiting('second', 11) == 'GPU 0 still taken by first'
    story.end('first', 12)
    assert story.poll(12) == ['start first on 0: GPU 0 idle for 1 s']


def test_mig_devices_are_gpus_of_their_own():
    story = Story(program('one', '5:0'), program('other', '5:1'), program('whole', '5'))
    divided = '5:0,5:1'
    assert story.poll(0, observed(divided, busy='5:0')) == ['start other on 5:1: GPU 5:1 idle']
    assert story.waiting('whole', 0) == 'GPU 5 is divided into MIG devices'
    assert story.poll(10, observed(divided)) == ['start one on 5:0: GPU 5:0 idle']


def test_a_gpu_that_is_divided_while_a_program_leaves_it_is_not_free_yet():
    story = Story(program('whole', '5'), program('part', '5:1'))
    story.poll(0, observed('5'))
    assert story.poll(10, observed('5:0,5:1')) == ['stop whole: GPU 5 is divided into MIG devices']
    assert story.waiting('part', 10) == 'GPU 5:1 still taken by whole'
    story.end('whole', 11)
    assert story.poll(11, observed('5:0,5:1')) == ['start part on 5:1: GPU 5:1 idle for 1 s']


def test_without_gpus_nothing_is_started_and_one_that_appears_later_is_used():
    story = Story(program('everywhere'))
    assert story.poll(0, Observation()) == []
    assert story.waiting('everywhere', 0) == 'no watched GPU is there'
    assert story.poll(10, observed('0')) == ['start everywhere on 0: all GPUs idle']


@pytest.mark.parametrize('gpus', ['0', 'ALL'])
def test_a_start_waits_until_the_gpus_have_been_idle_for_the_time_asked_for(gpus):
    story = Story(program('patient', gpus, idle_before_start=20))
    assert story.poll(0, observed('0')) == []
    assert story.poll(19.9, observed('0')) == []
    assert story.waiting('patient', 19.9) == 'GPU 0 idle for 19 of 20 s'
    which = 'all GPUs' if gpus == 'ALL' else 'GPU 0'
    assert story.poll(20, observed('0')) == [f'start patient on 0: {which} idle for 20 s']


@pytest.mark.parametrize(
    'interruption',
    [
        observed('0', busy='0'),
        observed('0', active=(ALICE,)),
        observed(''),
        Observation((WatchedGpu(GpuId(0), problem='is lost'),)),
    ],
)
def test_an_interruption_begins_the_idle_time_anew(interruption):
    story = Story(program('patient', '0', idle_before_start=20))
    story.poll(0, observed('0'))
    story.poll(19, interruption)
    assert story.poll(30, observed('0')) == []
    assert story.poll(49, observed('0')) == []
    assert story.poll(50, observed('0')) == ['start patient on 0: GPU 0 idle for 20 s']


def test_all_gpus_of_a_program_have_to_be_idle_long_enough():
    story = Story(program('pair', '0,1', idle_before_start=20))
    story.poll(0, observed(busy='1'))
    story.poll(10)
    assert story.poll(29) == []
    assert story.waiting('pair', 29) == 'GPU 1 idle for 19 of 20 s'
    assert story.poll(30) == ['start pair on 0,1: GPUs 0 and 1 idle for 20 s']


def test_the_reason_of_a_start_has_times_that_are_easy_to_read():
    story = Story(program('zero', '0'), program('one', '1'))
    story.poll(0, observed(active=(ALICE,)))
    story.poll(1)
    story.end('zero', 2)
    assert story.poll(421) == ['start zero on 0: GPU 0 idle for 7 min']
    story.end('one', 422)
    assert story.poll(10801) == ['start one on 1: GPU 1 idle for 3 h']


def test_a_program_for_all_runs_where_all_gpus_are_idle_and_the_others_elsewhere():
    story = Story(program('zero', '0'), program('everywhere'), program('one', '1'))
    assert story.poll(0, observed(busy='1')) == ['start zero on 0: GPU 0 idle']
    assert story.waiting('everywhere', 0) == 'GPU 1 used by python (pid 17, alice)'
    assert story.poll(10) == ['stop zero: makes room for everywhere']
    assert story.waiting('everywhere', 10) == 'GPU 0 still taken by zero'
    assert story.waiting('one', 10) == 'all GPUs are kept for everywhere'
    story.end('zero', 11)
    assert story.poll(11) == ['start everywhere on 0,1: all GPUs idle for 1 s']
    assert story.waiting('zero', 11) == 'GPU 0 taken by everywhere'
    assert story.poll(20, observed(busy='0')) == ['stop everywhere: GPU 0 used by python (pid 17, alice)']
    story.end('everywhere', 21)
    assert story.poll(21, observed(busy='0')) == ['start one on 1: GPU 1 idle for 11 s']


def test_nobody_makes_room_before_all_gpus_have_been_idle_for_long_enough():
    story = Story(program('zero', '0'), program('everywhere', idle_before_start=60))
    story.poll(0, observed(busy='1'))
    assert story.poll(10) == []
    assert story.poll(69) == []
    assert story.poll(70) == ['stop zero: makes room for everywhere']


def test_a_program_for_all_that_failed_makes_nobody_leave():
    story = Story(program('zero', '0'), program('everywhere'))
    assert story.poll(0) == ['start everywhere on 0,1: all GPUs idle']
    story.end('everywhere', 1)
    assert story.poll(1) == ['start zero on 0: GPU 0 idle for 1 s']
    assert story.waiting('everywhere', 1.5) == 'rests after 1 failure'
    assert story.poll(100) == []
    assert story.waiting('everywhere', 100) == 'GPU 0 taken by zero'
    story.end('zero', 101)
    assert story.poll(101) == ['start everywhere on 0,1: all GPUs idle for 1 min']


def test_a_program_for_all_gets_the_gpus_back_after_a_long_run():
    story = Story(program('zero', '0'), program('everywhere', restart_backoff=20))
    story.poll(0)
    story.end('everywhere', 300)
    assert story.poll(300) == []
    assert story.waiting('everywhere', 301) == 'rests after 1 failure'
    assert story.waiting('zero', 301) == 'all GPUs are kept for everywhere'
    assert story.poll(310, observed(busy='1')) == ['start zero on 0: GPU 0 idle for 5 min']
    assert story.poll(319) == []
    assert story.poll(320) == ['stop zero: makes room for everywhere']


def test_a_program_for_all_that_failed_goes_first_where_all_gpus_are_free():
    story = Story(program('zero', '0'), program('everywhere'))
    story.poll(0)
    story.end('everywhere', 1)
    assert story.poll(10, observed(active=(ALICE,))) == []
    assert story.poll(20) == ['start everywhere on 0,1: all GPUs idle']


def test_while_one_program_for_all_rests_after_a_long_run_another_has_its_turn():
    story = Story(program('first', restart_backoff=20), program('second'), program('zero', '0'))
    story.poll(0)
    story.end('first', 300)
    assert story.poll(301, observed(busy='1')) == ['start zero on 0: GPU 0 idle for 5 min']
    assert story.poll(310) == ['stop zero: makes room for second']


def test_of_several_programs_for_all_the_first_that_need_not_rest_runs_undisturbed():
    story = Story(program('first'), program('second'))
    assert story.poll(0) == ['start first on 0,1: all GPUs idle']
    story.end('first', 5)
    assert story.poll(5) == ['start second on 0,1: all GPUs idle for 5 s']
    assert story.poll(50) == []
    story.end('second', 400)
    assert story.poll(400) == []
    assert story.waiting('first', 400) == 'all GPUs are kept for second'
    assert story.poll(401) == ['start second on 0,1: all GPUs idle for 6 min']


def test_a_gpu_that_appears_beside_a_program_for_all_is_free_for_others():
    story = Story(program('everywhere'), program('another'), program('one', '1'))
    story.poll(0, observed('0'))
    assert story.poll(10) == ['start one on 1: GPU 1 idle']
    assert story.poll(20) == []
    assert story.poll(30, observed('0,1', busy='1')) == ['stop one: GPU 1 used by python (pid 17, alice)']


def test_a_program_that_ends_by_itself_rests_twice_as_long_each_time():
    story = Story(program('zero', '0', restart_backoff=2))
    now = 0.0
    rests = []
    for _ in range(10):
        story.poll(now)
        story.end('zero', now + 1)
        rests.append(story.state.rests['zero'].not_before - now - 1)
        now += 1000
    assert rests == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


@pytest.mark.parametrize(
    ('lasted', 'failed', 'rests'),
    [(0, False, [2, 2, 2]), (299, False, [2, 2, 2]), (2, True, [2, 4, 8]), (300, True, [2, 2, 2])],
)
def test_only_failures_double_the_rest(lasted, failed, rests):
    story = Story(program('zero', '0', restart_backoff=2))
    found = []
    for now in (0.0, 1000.0, 2000.0):
        story.poll(now)
        story.state = with_end(story.state, 'zero', now + lasted, failed=failed)
        found.append(story.state.rests['zero'].not_before - now - lasted)
    assert found == rests


@pytest.mark.parametrize(
    ('backoff', 'interval', 'after_success', 'after_failures'),
    [(0, 10, 0, [1, 2, 4]), (0.5, 10, 0.5, [0.5, 1, 2]), (60, 10, 10, [60, 120, 240]), (5, 0.25, 0.25, [5, 10, 20])],
)
def test_exit_code_0_never_rests_longer_than_the_interval(backoff, interval, after_success, after_failures):
    story = Story(program('zero', '0', restart_backoff=backoff, interval=interval))
    found = []
    for now, failed in ((0, False), (1000, False), (2000, True), (3000, True), (4000, True), (5000, False)):
        story.poll(now)
        story.state = with_end(story.state, 'zero', now, failed=failed)
        found.append(story.state.rests['zero'].not_before - now)
    assert found == [after_success, after_success, *after_failures, after_success]


def test_a_program_for_all_that_ends_within_2_seconds_makes_nobody_leave():
    story = Story(program('zero', '0'), program('everywhere'))
    story.poll(0)
    story.state = with_end(story.state, 'everywhere', 1.875, failed=False)
    assert story.waiting('everywhere', 2) == 'rests after exit code 0'
    assert story.poll(2) == ['start zero on 0: GPU 0 idle for 2 s']
    assert story.poll(10) == []


def test_a_run_that_works_ends_a_row_of_failures():
    story = Story(program('zero', '0', restart_backoff=2))
    found = []
    for now, failed in ((0.0, True), (1000.0, True), (2000.0, False), (3000.0, True)):
        story.poll(now)
        story.state = with_end(story.state, 'zero', now + 5, failed=failed)
        found.append(story.state.rests['zero'].not_before - now - 5)
    assert found == [2, 4, 2, 2]


def test_a_resting_program_is_started_when_its_rest_is_over():
    story = Story(program('zero', '0', restart_backoff=2))
    for now in (0, 10):
        story.poll(now)
        story.end('zero', now + 1)
    assert story.poll(14.5) == []
    assert story.waiting('zero', 14.5) == 'rests after 2 failures'
    assert story.poll(15) == ['start zero on 0: GPU 0 idle for 15 s']


def test_a_program_that_has_ended_for_weeks_still_rests():
    story = Story(program('zero', '0', restart_backoff=0.1))
    for turn in range(3000):
        story.poll(turn * 400)
        story.end('zero', turn * 400 + 1)
    assert story.waiting('zero', 2999 * 400 + 1) == 'rests after 3000 failures'


def test_a_back_off_that_is_longer_than_the_longest_rest_stays_what_it_is():
    story = Story(program('zero', '0', restart_backoff=1000))
    for now in (0, 2000):
        story.poll(now)
        story.end('zero', now + 1)
        assert story.state.rests['zero'].not_before == now + 1001


def test_a_run_of_300_seconds_begins_a_new_row():
    story = Story(program('zero', '0'))
    for now in (0, 100, 200):
        story.poll(now)
        story.end('zero', now + 1)
    story.poll(1000)
    story.end('zero', 1300)
    assert story.waiting('zero', 1300) == 'rests after 1 failure'
    story.poll(1400)
    story.end('zero', 1401)
    assert story.waiting('zero', 1401) == 'rests after 2 failures'
    story.poll(1500)
    story.end('zero', 1501)
    assert story.waiting('zero', 1501) == 'rests after 3 failures'


def test_an_end_that_was_asked_for_sets_no_rest_and_leaves_the_row_as_it_is():
    story = Story(program('zero', '0'))
    story.poll(0)
    story.end('zero', 1)
    story.poll(10)
    story.poll(20, observed(busy='0'))
    story.end('zero', 20)
    assert story.poll(20) == ['start zero on 0: GPU 0 idle']
    story.end('zero', 21)
    assert story.waiting('zero', 21) == 'rests after 2 failures'


def test_an_end_that_was_asked_for_after_a_long_run_ends_the_row():
    story = Story(program('zero', '0'))
    story.poll(0)
    story.end('zero', 1)
    story.poll(10)
    story.poll(310, observed(busy='0'))
    story.end('zero', 311)
    assert story.state.rests == {}


def test_the_end_of_a_program_that_does_not_run_changes_nothing():
    story = Story(program('zero', '0'))
    story.poll(0, observed(busy='0'))
    before = story.state
    story.end('zero', 1)
    story.end('nobody', 1)
    assert story.state == before


def test_a_new_configuration_stops_what_it_changes_and_leaves_the_rest_alone():
    zero, one, pair = program('zero', '0'), program('one', '1'), program('pair', '2,3')
    four = observed('0,1,2,3')
    story = Story(zero, one, pair)
    story.poll(0, four)
    changed = replace(zero, command=('other',))
    story.programs = (changed, pair)
    assert story.poll(10, four) == ['stop zero: its configuration has changed', 'stop one: no longer configured']
    story.end('one', 11)
    story.end('zero', 11)
    assert story.poll(11, four) == ['start zero on 0: GPU 0 idle for 11 s']
    assert story.state.runs['zero'].program == changed


def test_a_changed_program_need_not_rest():
    broken = program('zero', '0', restart_backoff=300)
    story = Story(broken)
    story.poll(0)
    story.end('zero', 1)
    assert story.poll(2) == []
    story.programs = (replace(broken, folder='/srv'),)
    assert story.waiting('zero', 3) is None
    assert story.poll(3) == ['start zero on 0: GPU 0 idle for 3 s']


@pytest.mark.parametrize('started_with', [
    {'gpus': (GpuId(0), GpuId(1))}, {'command': ('other',)}, {'folder': '/srv'}, {'log': '/tmp/log'},
    {'environment': (('A', '1'),)}, {'user': 'alice'}, {'use_uuids': True},
])  # fmt: skip
def test_a_change_of_what_a_program_is_started_with_ends_it(started_with):
    zero = program('zero', '0')
    story = Story(zero)
    story.poll(0)
    story.programs = (replace(zero, stop_grace=9, **started_with),)
    assert story.poll(10) == ['stop zero: its configuration has changed']
    assert story.state.runs['zero'].program == zero


def test_another_grace_back_off_or_idle_time_ends_nobody_and_holds_for_the_present_run():
    zero = program('zero', '0')
    story = Story(zero)
    story.poll(0)
    patient = replace(zero, idle_before_start=60, stop_grace=40, restart_backoff=20)
    story.programs = (patient,)
    assert story.poll(10) == []
    assert story.state.runs['zero'].program == patient
    story.end('zero', 11)
    assert story.state.rests['zero'].not_before == 31
    assert story.poll(31) == []
    assert story.waiting('zero', 31) == 'GPU 0 idle for 31 of 60 s'
    assert story.poll(60) == ['start zero on 0: GPU 0 idle for 1 min']


def test_another_back_off_holds_for_the_present_rest_and_leaves_the_row_as_it_is():
    slow = program('zero', '0', restart_backoff=100)
    story = Story(slow)
    for now in (0, 200):
        story.poll(now)
        story.end('zero', now + 1)
    assert story.state.rests['zero'].not_before == 401
    story.programs = (replace(slow, restart_backoff=2),)
    assert story.poll(204) == []
    assert story.state.rests['zero'].not_before == 205
    assert story.waiting('zero', 204) == 'rests after 2 failures'
    assert story.poll(205) == ['start zero on 0: GPU 0 idle for 3 min']


def test_the_moment_of_a_stop_is_remembered():
    story = Story(program('zero', '0'), program('everywhere', idle_before_start=10))
    story.poll(0)
    assert story.state.runs['zero'].stopping_since is None
    story.poll(10)
    story.poll(11)
    assert story.state.runs['zero'].stopping_since == 10


def test_the_rest_of_a_program_that_is_no_longer_configured_is_forgotten():
    broken = program('zero', '0', restart_backoff=300)
    story = Story(broken)
    story.poll(0)
    story.end('zero', 1)
    story.programs = ()
    story.poll(2)
    story.programs = (broken,)
    assert story.poll(3) == ['start zero on 0: GPU 0 idle for 3 s']


def test_when_the_monitor_ends_everything_is_stopped_and_nothing_started():
    story = Story(program('zero', '0'), program('one', '1'), program('other', '1'))
    story.poll(0)
    story.poll(10, observed(busy='1'))
    story.state, stops = stop_all(story.state, 'SIGTERM', 10.5)
    assert stops == (Stop('zero', 'the monitor ends: SIGTERM'),)
    assert [story.state.runs[name].stopping_since for name in ('zero', 'one')] == [10.5, 10]
    assert story.poll(11) == []
    story.end('zero', 12)
    story.end('one', 12)
    assert story.poll(20) == []
    assert story.waiting('zero', 20) == 'the monitor ends: SIGTERM'
    assert story.state.runs == {}
    assert stop_all(story.state, 'SIGTERM', 20)[1] == ()


def test_a_running_program_waits_for_nothing():
    story = Story(program('zero', '0'), program('same', '0'))
    story.poll(0)
    assert story.waiting('zero', 0) is None
    assert story.waiting('same', 0) == 'GPU 0 taken by zero'


def test_the_rules_in_the_documentation_are_those_of_the_code():
    documented = Path(__file__).parents[3] / 'docs' / '_idle_rules.rst.txt'
    assert documented.read_text() in inspect.getdoc(decision)
