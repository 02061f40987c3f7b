from __future__ import annotations

import pytest

from gpu_tracker.fleet.web.capacity import Capacity, Limits, NoCapacityError, Slot, counted_address


class Room:
    """Capacity, whose holders note when they have to go."""

    def __init__(self, **limits):
        self.complaints = []
        self.gone = []
        self.capacity = Capacity(Limits(**limits), self.complaints.append)

    def take(self, name, now, peer='127.0.0.1', **state) -> Slot:
        slot = self.capacity.take(peer, now)
        slot.give_up = lambda: self.gone.append(name)
        for key, value in state.items():
            setattr(slot, key, value)
        return slot


def test_a_place_is_given_back_once():
    room = Room(connections=2)
    first, _ = room.take('first', 1), room.take('second', 2)
    assert len(room.capacity) == 2
    first.leave()
    first.leave()
    assert len(room.capacity) == 1


def test_who_has_waited_longest_goes_where_all_places_are_taken():
    room = Room(connections=2)
    first, second = room.take('first', 1), room.take('second', 2)
    first.waiting_since = 3
    room.take('third', 4)
    assert room.gone == ['second']
    assert len(room.capacity) == 2
    second.leave()
    assert len(room.capacity) == 2
    assert room.complaints == [
        'there are 2 connections: that of a client at 127.0.0.1, which waited longest, was closed'
    ]


def test_those_who_may_read_go_last():
    room = Room(connections=2)
    room.take('reader', 1, may_read=True)
    room.take('stranger', 2)
    room.take('other reader', 3, may_read=True)
    assert room.gone == ['stranger']
    room.take('last', 4)
    assert room.gone == ['stranger', 'reader']


def test_nobody_who_is_being_answered_goes():
    room = Room(connections=1)
    room.take('reader', 1, may_read=True, waiting_since=None)
    with pytest.raises(NoCapacityError, match='there are 1 connections'):
        room.capacity.take('127.0.0.1', 2)
    assert room.gone == []


def test_one_address_has_no_more_than_its_share_and_loopback_has_no_share():
    room = Room(connections=9, connections_of_an_address=2)
    for _ in range(4):
        room.take('local', 1)
    first = room.take('first', 1, peer='192.0.2.7')
    room.take('second', 1, peer='192.0.2.7')
    with pytest.raises(NoCapacityError, match='it has 2 connections'):
        room.capacity.take('192.0.2.7', 2)
    first.leave()
    room.take('third', 3, peer='192.0.2.7')
    assert room.gone == []


@pytest.mark.parametrize(
    ('peer', 'counted'),
    [
        ('127.0.0.1', ''),
        ('127.9.9.9', ''),
        ('::1', ''),
        ('192.0.2.7', '192.0.2.7'),
        ('2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'),
        ('2001:db8:1:2::', '2001:db8:1:2::/64'),
        ('fe80::7%eth0', 'fe80::/64'),
    ],
)
def test_clients_are_counted_by_what_they_can_have_of_one(peer, counted):
    assert counted_address(peer) == counted
