from __future__ import annotations

import pytest

from gpu_tracker.idle.running.held_program import not_ready_in_words


@pytest.mark.parametrize(
    ('user', 'log', 'words'),
    [
        (None, '/srv/log', 'it could not open its log /srv/log within 15 s'),
        ('alice', None, 'it could not become the user alice within 15 s'),
        ('alice', '/srv/log', 'it could not become the user alice and open its log /srv/log within 15 s'),
        (None, None, 'it could not be made ready within 15 s'),
    ],
)
def test_one_that_is_not_ready_in_time_is_told_with_all_that_may_have_taken_so_long(
    user: str | None, log: str | None, words: str
) -> None:
    assert not_ready_in_words(15.0, user, log) == words
