"""The hosts that are asked, and how: plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.errors import GpuTrackerError

if TYPE_CHECKING:
    from collections.abc import Iterable

SELF = 'self'
"""Stands for this machine, which is looked at without HTTP."""

INTERVAL = 5.0
DEADLINE = 1.5
INTERVALS = (0.5, 60.0)
DEADLINES = (0.1, 60.0)
"""Seconds, from and to. What is known of a host is not told to be old before it is asked again: that must be soon."""


class ClusterError(GpuTrackerError):
    """A file cannot be used; the text names the file, the place in it, what stands there and what is accepted."""


@dataclass(frozen=True, slots=True)
class Token:
    """A secret that an agent wants to see; it is never part of a text by accident."""

    text: str = field(repr=False)


class TlsFiles(NamedTuple):
    """Paths of PEM files; None: what the system trusts, and no client certificate."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    """None: it stands in the file of the certificate."""


class ConfiguredHost(NamedTuple):
    """A host that is asked."""

    url: str | None
    """Scheme, host and port, as in ``http://node02:1080``; None: this machine."""
    name: str | None = None
    """None: as it calls itself."""
    group: str | None = None
    token: Token | None = None
    tls: TlsFiles = TlsFiles()

    @property
    def place(self) -> str:
        """Host and port of its URL."""
        return SELF if self.url is None else self.url.partition('://')[2]

    @property
    def label(self) -> str:
        """What the host is called as long as it has not told its name."""
        return self.name or self.place


class Cluster(NamedTuple):
    """All hosts, in order."""

    hosts: tuple[ConfiguredHost, ...]
    interval: float = INTERVAL
    """Seconds between two rounds."""
    deadline: float = DEADLINE
    """Seconds in which all of a round have to answer."""


ONLY_THIS_MACHINE = Cluster((ConfiguredHost(None),))


def accepted_seconds(limits: tuple[float, float]) -> str:
    """Return in words which numbers of seconds are accepted."""
    return f'a number of seconds from {limits[0]:g} to {limits[1]:g}'


def check_distinct(path: str, hosts: Iterable[ConfiguredHost]) -> None:
    """Refuse what is there twice.

    :raises ClusterError: Two hosts have the same URL or the same name.
    """
    urls: set[str] = set()
    names: set[str] = set()
    for host in hosts:
        url = host.url or SELF
        if url in urls:
            raise ClusterError(f'{path}: {url!r} stands there twice; each host is given once')
        urls.add(url)
        if host.name is not None and host.name in names:
            raise ClusterError(f'{path}: two hosts have the name {host.name!r}; each needs one of its own')
        names.add(host.name or '')
