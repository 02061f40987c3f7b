"""Room for connections: each takes a descriptor."""

from __future__ import annotations

import resource

ENOUGH = 65536
"""More are of no use, and some containers allow a thousand millions, which old libraries walk through one by one."""


def allow_many_files() -> None:
    """Raise how many files this process may have open, as far as it may: the usual 1,024 are few for a server."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
