"""Which GPUs a monitor keeps for itself, where others have some: who has which names is told by a fake."""

from __future__ import annotations

import logging

import pytest

from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.idle.config.idle_settings import GpuId
from gpu_tracker.idle.gpu_claims import GpuClaims, Taken
from gpu_tracker.idle.state import Observation, WatchedGpu
from gpu_tracker.system.sockets import Peer

ZERO, ONE = GpuId(0), GpuId(1)
BOTH = {ZERO: 'char 195:0', ONE: 'char 195:1'}
SEEN = Observation((WatchedGpu(ZERO), WatchedGpu(ONE)))
BOB, ROOT = Peer(17, 4711), Peer(18, 0)


class Names:
    """Names of which others have some."""

    def __init__(self, **others: Peer | None) -> None:
        self.others = {f'char 195:{number[1:]}': holder for number, holder in others.items()}
        self.held: set[str] = set()

    def claim(self, identities):
        self.held |= set(identities) - set(self.others)
        return tuple(Taken(identity, self.others[identity]) for identity in identities if identity in self.others)

    def release(self, identities):
        self.held -= set(identities)

    def close(self):
        self.held.clear()


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.INFO)
    return lambda: [record.getMessage() for record in caplog.records]


def claims(names, *, is_root=False, name_of={4711: 'bob', 0: 'root'}.__getitem__):
    return GpuClaims(logging.getLogger('of a test'), names, is_root=is_root, name_of=name_of)


def test_a_gpu_that_another_monitor_watches_keeps_this_one_from_starting():
    text = (
        r'^GPU 1 is already watched by another idle monitor \(pid 17, bob\)\. '
        r'List the GPUs to watch in a \[gpu-NAME\] section of the configuration\.$'
    )
    with pytest.raises(GpuTrackerError, match=text):
        claims(Names(_1=BOB)).make(BOTH)


@pytest.mark.parametrize('holder', [BOB, None])
def test_nobody_else_keeps_root_from_starting_and_it_says_so_once(said, holder):
    roots = claims(Names(_1=holder), is_root=True)
    roots.make(BOTH)
    assert roots.without_taken(SEEN, BOTH) == SEEN
    who = 'another idle monitor (pid 17, bob)' if holder else 'another idle monitor'
    assert said() == [f'GPU 1 is already watched by {who} too, to whom root does not give way']


def test_another_of_roots_keeps_it_from_starting():
    with pytest.raises(GpuTrackerError, match=r'^GPU 1 is already watched by another idle monitor'):
        claims(Names(_1=ROOT), is_root=True).make(BOTH)


def test_a_gpu_that_is_taken_later_is_left_alone_and_told_of_each_time(said):
    names = Names()
    mine = claims(names)
    mine.make({ZERO: BOTH[ZERO]})
    names.others = {BOTH[ONE]: BOB}
    for _ in range(2):
        assert mine.without_taken(SEEN, BOTH) == Observation((WatchedGpu(ZERO),))
    names.others = {}
    assert mine.without_taken(SEEN, BOTH) == SEEN
    names.others = {BOTH[ONE]: BOB}
    mine.without_taken(SEEN, BOTH)
    assert said() == 2 * ['GPU 1 is already watched by another idle monitor (pid 17, bob), and left alone']


def test_whose_monitor_it_is_is_asked_for_only_to_be_told():
    asked = []
    roots = claims(Names(_1=BOB), is_root=True, name_of=lambda user_id: asked.append(user_id) or 'bob')
    for _ in range(3):
        roots.without_taken(SEEN, BOTH)
    assert asked == [4711]


def test_a_gpu_that_is_not_needed_any_more_is_given_back_and_one_that_is_absent_is_not():
    names = Names()
    mine = claims(names)
    mine.make(BOTH)
    mine.without_taken(Observation((WatchedGpu(ZERO),)), {ZERO: BOTH[ZERO]})
    mine.keep(lambda _: True)
    assert names.held == {'char 195:0', 'char 195:1'}
    mine.keep(lambda gpu: gpu == ONE)
    assert names.held == {'char 195:1'}
    mine.without_taken(SEEN, BOTH)
    assert names.held == {'char 195:0', 'char 195:1'}
    mine.close()
    assert names.held == set()
