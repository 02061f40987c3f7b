from __future__ import annotations

import pytest

from gpu_tracker.errors import ClaimsLockedError, GpuError, GpusUnavailableError
from gpu_tracker.gpus.constraints import ANY, Limits
from gpu_tracker.gpus.pick import PAUSE, Picker, Terms, Waiting, purpose
from gpu_tracker.gpus.request import Request
from support.gpus.brief_gpus import GB, SEEN, UNSEEN, claim, gpu, lost, used

BUSY = used(0, 9, SEEN)
FREE = gpu(0)
BY_MEMORY = Limits(max_used_percent=20)
TERMS = Terms(7, None, 'job')


class Machine:
    """Shows one list of GPUs after the other, the last one again and again; what is an exception is raised."""

    def __init__(self, *views) -> None:
        self._views = list(views)
        self.looks = 0

    def read(self, *, with_load, with_sensors):
        self.looks += 1
        self.asked_for_load = with_load
        view = self._views.pop(0) if len(self._views) > 1 else self._views[0]
        if isinstance(view, BaseException):
            raise view
        return view


class Claims:
    """A claim folder in memory.

    :param claims: What is claimed at first.
    :param then: What is claimed at each reading after that, the last one again and again.
    """

    def __init__(self, *claims, then=()) -> None:
        self._readings = [list(claims), *then]
        self.held: list[Held] = []
        self.lock_timeouts: list[float | None] = []
        self.while_locked = lambda: None
        self.made: list[tuple[list[str], int | None, float | None, str | None]] = []

    def claims(self):
        return self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]

    def claim(self, choose, *, process_id, seconds, command, survives_exec, lock_timeout):
        self.lock_timeouts.append(lock_timeout)
        self.survives_exec = survives_exec
        self.while_locked()
        uuids = choose(self.claims())
        if not uuids:
            return None
        self.made.append((uuids, process_id, seconds, command))
        self.held.append(Held())
        return self.held[-1]


class Held:
    """A claim that can be given back."""

    is_released = False

    def release(self) -> None:
        self.is_released = True


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.told: list[str] = []

    def waiting(self, seconds: float | None = None) -> Waiting:
        return Waiting(seconds, lambda error: self.told.append(str(error)))

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def picker(machine, claims, clock=None) -> Picker:
    clock = clock or Clock()
    return Picker(machine, claims, lambda: clock.now, clock.sleep)


def pick(request, machine, claims, terms=None, waiting=None, clock=None):
    return picker(machine, claims, clock).pick(request, terms, waiting)


def test_only_what_the_request_needs_is_asked() -> None:
    machine = Machine([FREE])
    for request, needs in (
        (Request(), True),
        (Request(BY_MEMORY), False),
        (Request(BY_MEMORY, order='free'), False),
        (Request(BY_MEMORY, order='power'), True),
        (Request(BY_MEMORY._replace(min_free=1)), False),
        (Request(BY_MEMORY._replace(max_temperature=50)), True),
        (Request(ANY._replace(max_utilization=50)), True),
    ):
        pick(request, machine, Claims())
        assert machine.asked_for_load is needs


def test_without_terms_nothing_is_claimed() -> None:
    claims = Claims()
    picking = picker(Machine([FREE, gpu(1)]), claims)
    assert [gpu.label for gpu in picking.pick(Request()).chosen] == ['GPU 0', 'GPU 1']
    assert picking.held is None
    assert claims.made == []


def test_what_others_have_claimed_is_not_chosen() -> None:
    picked = pick(Request(), Machine([FREE, gpu(1)]), Claims(claim('GPU-0')))
    assert [gpu.label for gpu in picked.chosen] == ['GPU 1']


@pytest.mark.parametrize('terms', [None, TERMS])
def test_what_was_claimed_before_the_look_or_is_after_it_is_not_chosen(terms: Terms | None) -> None:
    claims = Claims(claim('GPU-0'), then=[[claim('GPU-1')]])
    picked = pick(Request(), Machine([FREE, gpu(1), gpu(2)]), claims, terms)
    assert [gpu.label for gpu in picked.chosen] == ['GPU 2']


def test_the_claim_is_on_what_was_chosen_and_is_given_back_once() -> None:
    claims = Claims(claim('GPU-0'))
    picking = picker(Machine([FREE, gpu(1), gpu(2)]), claims)
    picking.pick(Request(at_most=1), TERMS)
    assert picking.held is claims.held[0]
    assert claims.made == [(['GPU-1'], 7, None, 'job')]
    picking.release()
    picking.release()
    assert claims.held[0].is_released
    assert picking.held is None


def test_too_few_are_not_claimed() -> None:
    claims = Claims()
    with pytest.raises(GpusUnavailableError, match='1 GPU is available, not 2'):
        pick(Request(exactly=2), Machine([FREE, lost(1)]), claims, TERMS)
    assert claims.made == []


def test_without_waiting_the_first_look_decides() -> None:
    machine = Machine([BUSY], [FREE])
    with pytest.raises(GpusUnavailableError, match='no GPU is available'):
        pick(Request(), machine, Claims())
    assert machine.looks == 1


def test_waiting_looks_again_until_the_request_is_met_and_tells_once() -> None:
    clock = Clock()
    picked = pick(Request(), Machine([BUSY], [BUSY], [FREE]), Claims(), waiting=clock.waiting(), clock=clock)
    assert [gpu.label for gpu in picked.chosen] == ['GPU 0']
    assert clock.now == 2 * PAUSE
    assert clock.told == ['no GPU is available\n  GPU 0 (Model A): 90.0 % of its memory is in use; at most 20 % may be']


def test_waiting_for_a_claim_to_end() -> None:
    clock = Clock()
    taken = [claim('GPU-0')]
    claims = Claims(*taken, then=[taken, taken, []])
    picking = picker(Machine([FREE]), claims, clock)
    picking.pick(Request(), TERMS, clock.waiting())
    assert picking.held is claims.held[0]
    assert clock.now == 2 * PAUSE
    assert clock.told == ['no GPU is available\n  GPU 0 (Model A): claimed by root (pid 4242, python train.py)']


def test_a_lock_that_is_held_for_long_is_waited_for() -> None:
    clock = Clock()
    claims = Claims()
    failures = [ClaimsLockedError('somebody holds the lock'), None]

    def fail_once() -> None:
        if (error := failures.pop(0)) is not None:
            raise error

    claims.while_locked = fail_once
    pick(Request(), Machine([FREE]), claims, TERMS, clock.waiting(), clock)
    assert clock.told == ['somebody holds the lock']
    failures[:] = [ClaimsLockedError('again')]
    with pytest.raises(ClaimsLockedError, match='again'):
        pick(Request(), Machine([FREE]), claims, TERMS)


def locked() -> None:
    raise ClaimsLockedError('somebody holds the lock')


def test_a_lock_that_is_held_until_the_time_is_up_is_no_failure_of_the_claims() -> None:
    claims, clock = Claims(), Clock()
    claims.while_locked = locked
    with pytest.raises(GpusUnavailableError) as caught:
        pick(Request(), Machine([FREE]), claims, TERMS, clock.waiting(2.5), clock)
    assert str(caught.value) == 'no GPU could be claimed in time\n  somebody holds the lock'
    assert clock.now == 2.5


def test_who_waits_in_vain_learns_what_was_known_before_the_lock_was_held() -> None:
    taken = [claim('GPU-0')]
    claims, clock = Claims(*taken, then=[taken, []]), Clock()
    claims.while_locked = lambda: locked() if clock.now > 0 else None
    with pytest.raises(GpusUnavailableError, match='claimed by root'):
        pick(Request(), Machine([FREE]), claims, TERMS, clock.waiting(2.5), clock)
    assert clock.now == 2.5


@pytest.mark.parametrize('seconds', [None, 2.5])
def test_what_is_known_without_the_lock_is_said_while_others_hold_it(seconds: float | None) -> None:
    claims, clock = Claims(claim('GPU-0')), Clock()
    claims.while_locked = locked
    with pytest.raises(GpusUnavailableError, match='claimed by root'):
        pick(Request(), Machine([FREE]), claims, TERMS, clock.waiting(seconds) if seconds else None, clock)


def test_waiting_ends_in_time() -> None:
    clock = Clock()
    machine = Machine([BUSY])
    with pytest.raises(GpusUnavailableError, match='no GPU is available'):
        pick(Request(), machine, Claims(), waiting=clock.waiting(2.5), clock=clock)
    assert clock.now == 2.5
    assert machine.looks == 4  # at 0, 1 and 2 seconds, and a last time at the end


def test_what_waiting_cannot_bring_is_told_at_once() -> None:
    clock = Clock()
    with pytest.raises(GpusUnavailableError, match='no GPU is available\n  GPU 0'):
        pick(Request(exactly=2), Machine([BUSY, lost(1)]), Claims(), waiting=clock.waiting(), clock=clock)
    assert clock.now == 0
    assert clock.told == []


def test_what_becomes_impossible_while_waiting_ends_it() -> None:
    clock = Clock()
    with pytest.raises(GpusUnavailableError, match='lost'):
        pick(Request(), Machine([BUSY], [lost(0)]), Claims(), waiting=clock.waiting(), clock=clock)
    assert clock.now == PAUSE


def test_gpus_that_were_looked_at_long_before_the_claim_are_looked_at_again() -> None:
    clock = Clock()
    claims = Claims()
    claims.while_locked = lambda: clock.sleep(1.5)
    machine = Machine([FREE, gpu(1)])
    picking = picker(machine, claims, clock)
    picking.pick(Request(at_most=1), TERMS)
    assert (machine.looks, picking.held) == (2, claims.held[0])
    assert not picking.held.is_released


def test_a_claim_on_what_was_taken_meanwhile_is_given_back() -> None:
    clock = Clock()
    claims = Claims()
    waits = [1.5, 0.5]
    claims.while_locked = lambda: clock.sleep(waits.pop(0))
    machine = Machine([FREE, gpu(1)], [BUSY, gpu(1)], [BUSY, gpu(1)])
    picking = picker(machine, claims, clock)
    picking.pick(Request(at_most=1), TERMS)
    assert [uuids for uuids, *_ in claims.made] == [['GPU-0'], ['GPU-1']]
    assert [held.is_released for held in claims.held] == [True, False]
    assert picking.held is claims.held[1]


@pytest.mark.parametrize('failure', [GpuError('it does not work', 'broken'), KeyboardInterrupt()])
def test_nothing_stays_claimed_where_the_second_look_fails(failure: BaseException) -> None:
    clock = Clock()
    claims = Claims()
    claims.while_locked = lambda: clock.sleep(1.5)
    picking = picker(Machine([FREE], failure), claims, clock)
    with pytest.raises(type(failure)):
        picking.pick(Request(), TERMS)
    assert claims.held[0].is_released
    assert picking.held is None


def test_the_lock_is_not_waited_for_beyond_the_time_to_wait() -> None:
    clock = Clock()
    claims = Claims(claim('GPU-0'))
    with pytest.raises(GpusUnavailableError):
        pick(Request(), Machine([FREE]), claims, TERMS, clock.waiting(11.5), clock)
    assert claims.lock_timeouts[:3] == [10.0, 10.0, 9.5]
    assert claims.lock_timeouts[-1] == 0
    pick(Request(), Machine([FREE]), claims := Claims(), TERMS, clock.waiting(), clock)
    assert claims.lock_timeouts == [None]


def test_a_claim_for_a_command_survives_exec() -> None:
    claims = Claims()
    pick(Request(), Machine([FREE]), claims, TERMS)
    assert not claims.survives_exec
    pick(Request(), Machine([FREE]), claims, TERMS._replace(survives_exec=True))
    assert claims.survives_exec


def test_gpus_that_cuda_may_not_count() -> None:
    machine = Machine([lost(0), gpu(1), lost(2), gpu(3), lost(4)])
    assert pick(Request(), machine, Claims()).uncounted == 'GPU 0, GPU 2'
    assert pick(Request(at_most=1), machine, Claims()).uncounted == 'GPU 0'
    assert pick(Request(), Machine([gpu(0), lost(1)]), Claims()).uncounted == ''


def test_purposes_are_quoted() -> None:
    assert purpose(['python', 'my train.py']) == "python 'my train.py'"
    assert purpose([]) is None


IDLE_PROGRAM = SEEN._replace(pid=300, memory=9 * GB, is_idle_program=True)


def test_a_claim_waits_until_the_idle_program_has_left() -> None:
    clock, told = Clock(), []
    unread = used(0, 9)._replace(processes=None)
    occupied = used(0, 9, IDLE_PROGRAM)
    machine = Machine([unread], [occupied], [occupied], [occupied], [FREE])
    picker = Picker(machine, Claims(), lambda: clock.now, clock.sleep, told.append)
    assert [one.uuid for one in picker.pick(Request(BY_MEMORY), TERMS).chosen] == ['GPU-0']
    assert told == ['waiting until the idle program on GPU 0 has left']
    assert clock.now == 2 * PAUSE


def test_an_idle_program_that_ends_soon_after_the_claim_is_waited_for_also_where_that_took_long() -> None:
    clock, claims = Clock(), Claims()
    claims.while_locked = lambda: clock.sleep(1.5)
    has_ended = used(0, 9, UNSEEN)  # the driver still lists it
    picking = picker(Machine([used(0, 9, IDLE_PROGRAM)], [has_ended], [has_ended], [FREE]), claims, clock)
    assert [one.uuid for one in picking.pick(Request(), TERMS).chosen] == ['GPU-0']
    assert picking.held is claims.held[0]
    assert not picking.held.is_released


def test_a_gpu_that_was_taken_meanwhile_is_given_back_also_where_an_idle_program_is_on_another() -> None:
    clock, claims = Clock(), Claims()
    claims.while_locked = lambda: clock.sleep(1.5)
    machine = Machine([gpu(0), used(1, 9, IDLE_PROGRAM), used(2, 9, SEEN)], [used(0, 9, UNSEEN), gpu(1), gpu(2)])
    picked = pick(Request(exactly=2), machine, claims, TERMS, clock.waiting(), clock)
    assert [one.uuid for one in picked.chosen] == ['GPU-1', 'GPU-2']
    assert [uuids for uuids, *_ in claims.made] == [['GPU-0', 'GPU-1'], ['GPU-1', 'GPU-2']]
    assert [held.is_released for held in claims.held] == [True, False]
    assert clock.now == 3.0


def test_an_idle_program_that_ends_is_waited_for_also_where_others_of_the_gpus_are_looked_at_again() -> None:
    clock, claims = Clock(), Claims()
    claims.while_locked = lambda: clock.sleep(1.5)
    has_ended = [gpu(0), used(1, 9, UNSEEN)]  # the driver still lists it
    machine = Machine([gpu(0), used(1, 9, IDLE_PROGRAM)], has_ended, has_ended, [gpu(0), gpu(1)])
    picked = pick(Request(exactly=2), machine, claims, TERMS, None, clock)
    assert [one.uuid for one in picked.chosen] == ['GPU-0', 'GPU-1']
    assert [held.is_released for held in claims.held] == [False]
    assert (machine.looks, clock.now) == (4, 2.5)


def test_an_idle_program_that_does_not_leave_is_no_free_gpu() -> None:
    clock, claims = Clock(), Claims()
    picker = Picker(Machine([used(0, 9, IDLE_PROGRAM)]), claims, lambda: clock.now, clock.sleep)
    with pytest.raises(GpusUnavailableError) as error:
        picker.pick(Request(), TERMS)
    assert error.value.reasons == ('GPU 0 (Model A): an idle program was on it and has not left',)
    assert claims.held[0].is_released
    assert len(claims.held) == 1
    assert clock.now == 30.0


def test_an_idle_program_has_no_longer_than_its_user_waits() -> None:
    clock, claims = Clock(), Claims()
    with pytest.raises(GpusUnavailableError, match=r'GPU 0 .*an idle program was on it and has not left'):
        pick(Request(), Machine([used(0, 9, IDLE_PROGRAM)]), claims, TERMS, clock.waiting(5.5), clock)
    assert clock.now == 5.5
    assert claims.held[0].is_released


@pytest.mark.parametrize(('seconds', 'then'), [(None, 120.0), (200.5, 120.0), (None, 30.0)])
def test_other_gpus_are_tried_where_an_idle_program_does_not_leave(seconds: float | None, then: float) -> None:
    clock, claims = Clock(), Claims()
    waiting = clock.waiting(seconds) if then > 30 else None

    class Changing(Machine):
        def read(self, *, with_load, with_sensors):
            return [used(0, 9, IDLE_PROGRAM), used(1, 9, SEEN) if clock.now < 10 else gpu(1)]

    picked = pick(Request(exactly=1), Changing([]), claims, TERMS, waiting, clock)
    assert [one.label for one in picked.chosen] == ['GPU 1']
    assert [held.is_released for held in claims.held] == [True, False]
    assert clock.now == then


def test_all_idle_programs_together_have_one_time_where_nobody_waits() -> None:
    clock, claims = Clock(), Claims()
    with pytest.raises(GpusUnavailableError) as error:
        pick(
            Request(exactly=1),
            Machine([used(0, 9, IDLE_PROGRAM), used(1, 9, IDLE_PROGRAM)]),
            claims,
            TERMS,
            None,
            clock,
        )
    assert error.value.reasons == (
        'GPU 0 (Model A): an idle program was on it and has not left',
        'GPU 1 (Model A): an idle program was on it and has not left',
    )
    assert clock.now == 30.0


def test_somebody_else_who_has_come_is_named_and_not_the_idle_program() -> None:
    clock, claims = Clock(), Claims()
    idle = [used(0, 9, IDLE_PROGRAM)]
    machine = Machine(idle, idle, idle, [used(0, 9, SEEN)])
    with pytest.raises(GpusUnavailableError) as error:
        pick(Request(), machine, claims, TERMS, None, clock)
    assert error.value.reasons == ('GPU 0 (Model A): 90.0 % of its memory is in use; at most 20 % may be',)
    assert claims.held[0].is_released
    assert clock.now < 5


def test_a_gpu_that_somebody_takes_beside_one_with_an_idle_program_ends_the_wait() -> None:
    clock, claims = Clock(), Claims()
    idle = used(1, 9, IDLE_PROGRAM)
    machine = Machine([gpu(0), idle], [gpu(0), idle], [used(0, 1, UNSEEN), idle])
    with pytest.raises(GpusUnavailableError) as error:
        pick(Request(exactly=2), machine, claims, TERMS, None, clock)
    assert error.value.summary == '1 GPU is available, not 2'
    assert error.value.reasons == ('GPU 0 (Model A): a process computes on it',)
    assert [held.is_released for held in claims.held] == [True]
    assert clock.now == 1.0


def test_an_idle_program_that_a_claim_has_come_too_late_for_is_waited_for() -> None:
    clock, claims = Clock(), Claims()
    idle = [used(0, 9, IDLE_PROGRAM), used(1, 9, IDLE_PROGRAM)]
    machine = Machine([gpu(0), idle[1]], idle, [gpu(0), idle[1]], [gpu(0), gpu(1)])
    picked = pick(Request(exactly=2), machine, claims, TERMS, None, clock)
    assert [one.uuid for one in picked.chosen] == ['GPU-0', 'GPU-1']
    assert [held.is_released for held in claims.held] == [False]


def test_a_gpu_is_tried_again_once_its_idle_program_has_left_after_all() -> None:
    clock, claims = Clock(), Claims()

    class Changing(Machine):
        def read(self, *, with_load, with_sensors):
            return [used(0, 9, IDLE_PROGRAM) if clock.now < 150 else gpu(0)]

    pick(Request(), Changing([]), claims, TERMS, clock.waiting(), clock)
    assert (clock.now, len(claims.held)) == (150.0, 2)


def test_two_picks_of_one_picker_wait_as_long_as_one() -> None:
    clock = Clock()
    picking = picker(Machine([BUSY], [BUSY], [FREE], [BUSY]), Claims(), clock)
    picking.pick(Request(), None, clock.waiting(5.5))
    assert clock.now == 2.0
    with pytest.raises(GpusUnavailableError):
        picking.pick(Request(), TERMS, clock.waiting(5.5))
    assert clock.now == 5.5


def test_a_gpu_without_an_idle_program_comes_first() -> None:
    machine = Machine([used(0, 9, IDLE_PROGRAM), gpu(1)])
    assert [one.number for one in Picker(machine, Claims()).pick(Request()).chosen] == [1, 0]
