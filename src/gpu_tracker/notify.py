"""Tells systemd how a service is, sd_notify(3)."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def tell_systemd(state: str, environment: Mapping[str, str] = os.environ) -> None:
    r"""Send a state to the service manager that started this process, if one did and wants to know.

    :param state: Assignments in lines: ``READY=1``, ``RELOADING=1\nMONOTONIC_USEC=...``, ``STOPPING=1``,
        ``STATUS=...``. A service of type ``notify`` that ends before it was ready has failed, with exit code 0 as well.
    :param environment: Where ``NOTIFY_SOCKET`` is looked up: a path, or ``@`` and an abstract name.
    """
    address = environment.get('NOTIFY_SOCKET', '')
    if not address.startswith(('/', '@')):
        return
    if address.startswith('@'):
        address = '\0' + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.settimeout(0)
            channel.sendto(state.encode(), address)
    except OSError:
        pass  # serving clients matters more than telling of it, and who does not read would not read a complaint either
