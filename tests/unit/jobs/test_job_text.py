"""RAM in the text of a job."""

from __future__ import annotations

import pytest

from gpu_tracker.jobs.job_text import bounded, of_rank
from gpu_tracker.recording.reading.model import Bounded


@pytest.mark.parametrize(
    ('ram', 'of_node', 'of_one_rank'),
    [
        (Bounded(5e6, 5e6, 5e6), '5 MB', '5 MB'),
        (Bounded(5e6, 5e6, None), '≥ 5 MB', '≥ 5 MB'),
        (Bounded(5e6, 4e6, 9e6), '5 MB seen, at most 9 MB', '5 MB'),
        (Bounded(None, 4e6, None), 'at least 4 MB', 'at least 4 MB'),
        (Bounded(None, None, None), 'N/A', 'N/A'),
    ],
)
def test_ram_that_may_be_too_low_is_marked(ram: Bounded, of_node: str, of_one_rank: str) -> None:
    assert (bounded(ram), of_rank(ram)) == (of_node, of_one_rank)
