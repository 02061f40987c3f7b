"""How many connections to hosts there may be."""

from __future__ import annotations

import pytest

from gpu_tracker.fleet.polling.http_client import most_connections, too_few_for


@pytest.mark.parametrize(('descriptors', 'most'), [(65536, 64960), (1024, 448), (640, 160), (200, 50), (3, 1)])
def test_there_is_room_for_those_who_look_at_the_page(descriptors: int, most: int) -> None:
    assert most_connections(descriptors) == most


def test_there_is_a_number_on_this_machine() -> None:
    assert most_connections() >= 1


def test_too_few_are_told() -> None:
    assert too_few_for(50, 50) is None
    assert too_few_for(51, 50) == (
        '51 hosts are asked over 50 connections at a time, since this process may open few files: a higher limit'
        ' (ulimit -n, LimitNOFILE= of systemd) makes room'
    )
