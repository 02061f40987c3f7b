"""What hosts are called, so that no two of them look alike."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

Key = TypeVar('Key')


class Known(NamedTuple):
    """What is known of a host that is to be called something."""

    name: str | None
    """What somebody has called it, else as it calls itself; None: neither is known."""
    place: str
    """Host and port where its agent is."""


def names(hosts: Mapping[Key, Known]) -> dict[Key, str]:
    """Return what to call each host: its name, with its place behind where others have that name too.

    A host whose name is not known goes by its place.
    """
    counts = Counter(host.name for host in hosts.values())
    return {key: _called(host, is_shared=counts[host.name] > 1) for key, host in hosts.items()}


def _called(host: Known, *, is_shared: bool) -> str:
    if host.name is None:
        return host.place
    return f'{host.name} ({host.place})' if is_shared else host.name
