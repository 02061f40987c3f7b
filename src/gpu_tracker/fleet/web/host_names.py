"""By which names a server may be asked for: the defence against DNS rebinding.

A page of somebody else's can have its own name resolve to this machine, and would then read, in the browser of one who
may, what only that browser can reach. It cannot do so with an address, nor with a name of this machine's.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LOCAL_NAMES = frozenset({'localhost', 'localhost.localdomain', 'ip6-localhost'})

_HOST = re.compile(r'(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]*)?')


class HostNames:
    """Tells which Host headers name this server.

    :param names: In any case, with or without the dot at the end.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(_plain(name) for name in names if name)

    def contain(self, host: bytes) -> bool:
        """Tell whether a Host header, with or without a port, holds one of the names or any IP address."""
        found = _HOST.fullmatch(host.decode('latin-1'))
        if not found:
            return False
        if found['address'] is not None:
            return _is_address(found['address'], ipaddress.IPv6Address)
        return _plain(found['name']) in self._names or _is_address(found['name'], ipaddress.IPv4Address)


def own_names(patience: float = 2.0) -> frozenset[str]:
    """Return what this machine calls itself.

    :param patience: How many seconds its whole name may take to be found out; a name server that is down takes longer.
    """
    name = socket.gethostname()
    found = [name]

    def look() -> None:
        try:
            found.append(socket.getfqdn(name))
        except UnicodeError:
            pass  # a name that no name server could know either

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(patience)
    return LOCAL_NAMES | frozenset(found)


def _is_address(text: str, kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def _plain(name: str) -> str:
    return name.removesuffix('.').lower()
