from __future__ import annotations

import pytest

from brief_gpus import SEEN, claim, gpu, lost, used
from gpu_tracker.errors import GpusUnavailableError
from gpu_tracker.fleet.choice import Request
from gpu_tracker.fleet.pick import PAUSE, Picker, Terms, Waiting, purpose
from gpu_tracker.fleet.wish import ANY

BUSY = used(0, 9, SEEN)
FREE = gpu(0)


class Machine:
    """Shows one list of GPUs after the other, the last one again and again."""

    def __init__(self, *views) -> None:
        self._views = list(views)
        self.looks = 0

    def look(self, *, with_load):
        self.looks += 1
        self.asked_for_load = with_load
        return self._views.pop(0) if len(self._views) > 1 else self._views[0]


class Claims:
    """A claim folder in memory; ``later`` holds claims that others make between two calls."""

    def __init__(self, *claims, later=()) -> None:
        self._claims = list(claims)
        self._later = list(later)
        self.held: list[Held] = []
        self.while_locked = lambda: None
        self.made: list[tuple[list[str], int | None, float | None, str | None]] = []

    def claims(self):
        return self._claims

    def claim(self, choose, *, process_id, seconds, command):
        uuids = choose(self._claims)
        self._claims = self._later.pop(0) if self._later else self._claims
        if not uuids:
            return None
        self.made.append((uuids, process_id, seconds, command))
        self.held.append(Held())
        self.while_locked()
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


def test_only_what_the_request_needs_is_asked() -> None:
    machine = Machine([FREE])
    for request, needs in (
        (Request(), False),
        (Request(order='free'), False),
        (Request(order='power'), True),
        (Request(ANY._replace(min_free=1)), False),
        (Request(ANY._replace(max_utilization=50)), True),
        (Request(ANY._replace(max_temperature=50)), True),
    ):
        pick(request, machine, Claims())
        assert machine.asked_for_load is needs


def pick(request, machine, claims, terms=None, waiting=None, clock=None):
    clock = clock or Clock()
    return Picker(machine, claims, lambda: clock.now, clock.sleep).pick(request, terms, waiting)


TERMS = Terms(7, None, 'job')


def test_without_terms_nothing_is_claimed() -> None:
    claims = Claims()
    picked = pick(Request(), Machine([FREE, gpu(1)]), claims)
    assert [gpu.label for gpu in picked.chosen] == ['GPU 0', 'GPU 1']
    assert picked.claim is None
    assert claims.made == []


def test_what_others_have_claimed_is_not_chosen() -> None:
    picked = pick(Request(), Machine([FREE, gpu(1)]), Claims(claim('GPU-0')))
    assert [gpu.label for gpu in picked.chosen] == ['GPU 1']


def test_the_claim_is_on_what_was_chosen() -> None:
    claims = Claims(claim('GPU-0'))
    picked = pick(Request(at_most=1), Machine([FREE, gpu(1), gpu(2)]), claims, TERMS)
    assert picked.claim is claims.held[0]
    assert claims.made == [(['GPU-1'], 7, None, 'job')]


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
    claims = Claims(claim('GPU-0'), later=[[claim('GPU-0')], []])
    picked = pick(Request(), Machine([FREE]), claims, TERMS, clock.waiting(), clock)
    assert picked.claim is claims.held[0]
    assert clock.now == 2 * PAUSE


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
    picked = pick(Request(at_most=1), machine, claims, TERMS, clock=clock)
    assert (machine.looks, picked.claim) == (2, claims.held[0])
    assert not picked.claim.is_released


def test_a_claim_on_what_was_taken_meanwhile_is_given_back() -> None:
    clock = Clock()
    claims = Claims()
    waits = [1.5, 0.5]
    claims.while_locked = lambda: clock.sleep(waits.pop(0))
    machine = Machine([FREE, gpu(1)], [BUSY, gpu(1)], [BUSY, gpu(1)])
    picked = pick(Request(at_most=1), machine, claims, TERMS, clock=clock)
    assert [uuids for uuids, *_ in claims.made] == [['GPU-0'], ['GPU-1']]
    assert [held.is_released for held in claims.held] == [True, False]
    assert picked.claim is claims.held[1]


def test_purposes_are_quoted_and_cut() -> None:
    assert purpose(['python', 'my train.py']) == "python 'my train.py'"
    assert purpose([]) is None
    assert purpose(['x' * 200]) == 'x' * 200
    assert purpose(['x' * 201]) == 'x' * 199 + '…'
