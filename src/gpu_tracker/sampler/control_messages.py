"""The single bytes that a tracker sends to its sampler."""

from __future__ import annotations

STOP_MESSAGE = b'S'
"""Make the last sample."""
LAUNCH_MESSAGE = b'L'
"""The command that was held back is about to run."""
