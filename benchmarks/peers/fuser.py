"""fuser, by which monitors of idle GPUs look who has a device open."""

from __future__ import annotations

from benchmarks.environments import Tool


class Fuser(Tool):
    """The fuser of psmisc."""

    name = 'fuser'
    requirement = None
    program = 'fuser'
