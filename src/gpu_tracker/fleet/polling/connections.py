"""How many connections to hosts there may be: each takes a descriptor, and so do those who look at the page."""

from __future__ import annotations

import resource

_FOR_OTHERS = 512 + 64
"""Descriptors for as many clients as are served at a time, and for files."""
_LEAST_SHARE = 4
"""A quarter of all descriptors is for hosts, however few these are."""


def most_connections(descriptors: int | None = None) -> int:
    """Return how many connections to hosts may be open at a time, at least one.

    :param descriptors: How many this process may have; None: as the system says.
    """
    if descriptors is None:
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if descriptors == resource.RLIM_INFINITY:
            return 2**16
    return max(descriptors - _FOR_OTHERS, descriptors // _LEAST_SHARE, 1)


def too_few_for(hosts: int, most: int) -> str | None:
    """Return what to tell people where hosts have to take turns; None where each can have its connection.

    :param most: Connections at a time.
    """
    if hosts <= most:
        return None
    return (
        f'{hosts} hosts are asked over {most} connections at a time, since this process may open few files: a higher'
        ' limit (ulimit -n, LimitNOFILE= of systemd) makes room'
    )
