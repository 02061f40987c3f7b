"""Track each rank from within the program, for launchers that start Python themselves, such as Lightning.

Lightning starts the script again for each further rank. In a program with Lightning, start the tracker in the method
``setup`` of a callback: before that, the first rank does not have its variables.
"""

from __future__ import annotations

import gpu_tracker as gput


def train() -> int:
    """Stand for the training."""
    return sum(number * number for number in range(1_000_000))


with gput.Tracker(job_folder='results'):
    train()
