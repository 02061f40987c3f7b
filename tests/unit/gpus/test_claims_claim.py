from __future__ import annotations

import pytest

from gpu_tracker.gpus.claim import Claim, describe, remaining

CLAIM = Claim(
    uuids=('GPU-1',),
    user_id=0,
    process_id=2,
    made=100.0,
    expires=None,
    command='sleep 100',
)


@pytest.mark.parametrize(
    ('claim', 'text'),
    [
        (CLAIM, 'claimed by root (pid 2, sleep 100)'),
        (CLAIM._replace(in_another_container=True), 'claimed by root (pid 2 in another container, sleep 100)'),
        (CLAIM._replace(in_another_container=True, command=None), 'claimed by root (pid 2 in another container)'),
        (CLAIM._replace(process_id=None, expires=258.0), 'claimed by root (sleep 100) for another 58 s'),
        (CLAIM._replace(process_id=None, command=None, expires=258.0), 'claimed by root for another 58 s'),
        (CLAIM._replace(command='a\x1b[2J'), 'claimed by root (pid 2, a?[2J)'),
    ],
)
def test_a_claim_in_words(claim: Claim, text: str) -> None:
    assert describe(claim, 200.0, {0: 'root'}.__getitem__) == text


@pytest.mark.parametrize(
    ('seconds', 'text'),
    [(-1, '0 s'), (0.2, '1 s'), (120, '120 s'), (121, '3 min'), (7200, '120 min'), (7201, '3 h')],
)
def test_a_time_to_wait(seconds: float, text: str) -> None:
    assert remaining(seconds) == text
