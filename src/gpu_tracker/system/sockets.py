"""The sockets on which clients come, and the one by which systemd hears how a service is, sd_notify(3)."""

from __future__ import annotations

import errno
import ipaddress
import os
import queue
import socket
import struct
import sys
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_tracker.errors import GpuTrackerError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BACKLOG = 1024
"""Clients that may come at the same moment."""

_CREDENTIALS = struct.Struct('iII')
"""struct ucred of unix(7): the IDs of process, user and group."""

_OF_THIS_MACHINE = 'a host name or an IP address of this machine'


class AddressTakenError(GpuTrackerError):
    """Another program listens there already, or this user may not."""


class Address(NamedTuple):
    """Where to listen for TCP connections."""

    family: int
    host: str
    port: int
    place: tuple[str | int | bytes, ...]
    """As the socket module has it for the family."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return ipaddress.ip_address(self.host.partition('%')[0]).is_loopback  # behind a % is the interface


def addresses(host: str, port: int, look_up: Callable[..., list[Any]] = socket.getaddrinfo) -> list[Address]:
    """Return where to listen for a host by name or address; Ctrl-C ends the wait for a name server that is down.

    :param look_up: Does what :func:`socket.getaddrinfo` does.
    :raises ParameterError: It is none of this machine's.
    """
    try:
        found = _in_thread(lambda: look_up(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE))
    except (OSError, UnicodeError):
        raise ParameterError('--host', host, _OF_THIS_MACHINE) from None
    unique = dict.fromkeys(Address(family, str(place[0]), port, place) for family, _, _, _, place in found)
    # Not each has to be there: a name may stand for ::1 on a machine that has no IPv6.
    usable = [address for address in unique if _is_of_this_machine(address)]
    if not usable:
        raise ParameterError('--host', host, _OF_THIS_MACHINE)
    return usable


def _in_thread(work: Callable[[], list[Any]]) -> list[Any]:
    """Return what ``work`` does in a thread that keeps nobody from ending: a look-up itself hears no signal."""
    done: queue.SimpleQueue[list[Any] | Exception] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put(work())
        except Exception as error:  # noqa: BLE001 - raised anew where it is waited for
            done.put(error)

    threading.Thread(target=run, daemon=True).start()
    result = done.get()
    if isinstance(result, Exception):
        raise result
    return result


def _is_of_this_machine(address: Address) -> bool:
    """Try the address with any port."""
    try:
        with _tcp(address) as trial:
            trial.bind((address.place[0], 0, *address.place[2:]))
    except OSError:
        return False
    return True


def _tcp(address: Address) -> socket.socket:
    # With its protocol named, since asyncio asks for that before it sends small answers at once (TCP_NODELAY).
    new = socket.socket(address.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    new.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # after a restart the port is free at once
    new.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # what is accepted inherits it
    if address.family == socket.AF_INET6:
        new.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return new


def tcp_socket(address: Address) -> socket.socket:
    """Return a listening socket.

    :raises AddressTakenError: Another program has the port.
    """
    return _listening(_tcp(address), address.place, f'port {address.port} of {address.host}')


def unix_socket(name: str) -> socket.socket:
    """Return a listening socket with a name of the kernel's own, which is no file: unix(7). Linux only.

    :raises AddressTakenError: Another program has the name.
    """
    if sys.platform != 'linux':
        raise NotImplementedError
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    return _listening(listener, b'\0' + os.fsencode(name), f'the socket @{name}')


def _listening(listener: socket.socket, place: tuple[str | int | bytes, ...] | bytes, label: str) -> socket.socket:
    try:
        listener.bind(place)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise AddressTakenError(f'{label} is in use by another program ("ss -lp" shows which program)') from None
        raise AddressTakenError(f'cannot listen on {label}: {error.strerror}') from None
    return listener


class Peer(NamedTuple):
    """The process at the other end: of a connection that was asked for, the one that listens."""

    pid: int | None
    """None where it is not to be seen from here, as the process of another container."""
    user_id: int
    """Whose it is."""

    def in_words(self, name_of: Callable[[int], str]) -> str:
        """Return it as it stands in a message: ``pid 17, alice``.

        :param name_of: Returns the name of the user with an ID.
        """
        user = name_of(self.user_id)
        return user if self.pid is None else f'pid {self.pid}, {user}'


def peer_of(connected: socket.socket) -> Peer:
    """Return who is at the other end of a connected Unix socket. Linux only.

    :raises OSError: The system does not report.
    """
    if sys.platform != 'linux':
        raise NotImplementedError
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user_id, _ = _CREDENTIALS.unpack(credentials)
    return Peer(pid or None, user_id)


def tell_systemd(state: str, environment: Mapping[str, str] = os.environ) -> None:
    r"""Send a state to the service manager that started this process, if one did and wants to know.

    :param state: Assignments in lines: ``READY=1``, ``RELOADING=1\nMONOTONIC_USEC=...``, ``STOPPING=1``,
        ``STATUS=...``. A service of type ``notify`` that ends before it was ready has failed, with exit code 0 as well.
    :param environment: Where ``NOTIFY_SOCKET`` is looked up: a path, or ``@`` and an abstract name.
    """
    address = environment.get('NOTIFY_SOCKET', '')
    if not address.startswith(('/', '@')) or sys.platform == 'win32':
        return
    if address.startswith('@'):
        address = '\0' + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.settimeout(0)
            channel.sendto(state.encode(), address)
    except OSError:
        pass  # serving clients matters more than telling of it, and who does not read would not read a complaint either
