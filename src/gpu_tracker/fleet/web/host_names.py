"""By which names a server may be asked for: the defence against DNS rebinding.

A page of somebody else's can have its own name resolve to this machine, and would then read, in the browser of one who
may, what only that browser can reach. It cannot do so with an address, nor with a name of this machine's.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LOCAL_NAMES = frozenset({'localhost', 'localhost.localdomain', 'ip6-localhost'})

_HOST = re.compile(r'(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]*)?')


class HostNames:
    """Tells which Host headers name this server.

    :param names: In any case, with or without the dot at the end.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {_plain(name) for name in names if name}
        self.on_unknown: Callable[[], None] = _nothing
        """Called where a name is none of these."""

    def add(self, name: str) -> None:
        """Answer to another name as well."""
        self._names.add(_plain(name))

    def contain(self, host: bytes) -> bool:
        """Tell whether a Host header, with or without a port, holds one of the names or any IP address."""
        found = _HOST.fullmatch(host.decode('latin-1'))
        if not found:
            return False
        if found['address'] is not None:
            return _is_address(found['address'], ipaddress.IPv6Address)
        if _plain(found['name']) in self._names or _is_address(found['name'], ipaddress.IPv4Address):
            return True
        self.on_unknown()
        return False


def _is_address(text: str, kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def _nothing() -> None:
    pass


def _plain(name: str) -> str:
    return name.removesuffix('.').lower()
