"""Running one program while the GPUs are idle: its guardian process, and the monitor's side of it."""

from __future__ import annotations

#: A word in the command line of every guardian, by which its processes are recognized.
GUARDIAN_MARK = 'gpu-tracker-guardian'
