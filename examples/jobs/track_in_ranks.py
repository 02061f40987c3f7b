"""A program that tracks itself in each of its ranks, for launchers that start Python themselves, as Lightning does.

Lightning runs the script again for each further rank. The first rank learns that it is one when the others are started,
so in a program with Lightning the tracker begins behind that: in the method setup of a callback.
"""

from __future__ import annotations

import gpu_tracker as gput


def train() -> int:
    """Stand for the training."""
    return sum(number * number for number in range(1_000_000))


with gput.Tracker(job_folder='results'):
    train()
