"""The DRM clients of processes, each once, however many descriptors and processes share it.

What it costs, a process and reading: one stat(2) of ``/proc/PID/fd``, whose size is the number of open descriptors
since Linux 6.2, and one small file for each client. The descriptors are listed again where that number has changed, and
from time to time; one that took the place of another is found then.
"""

from __future__ import annotations

import os

from gpu_tracker.gpus.drm.fdinfo import parse
from gpu_tracker.gpus.process_ids import in_initial_pid_namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpu_tracker.gpus.drm.fdinfo import Client, Key

PROC = '/proc'
"""Where proc(5) of this machine is."""
LISTED_AGAIN = 10.0
"""Seconds after which descriptors are listed again although their number is the same."""
_LISTED_AGAIN_UNCOUNTED = 1.0
"""The same where the kernel does not count them."""
_SPREAD = 64
_MOST_BYTES = 16_384
_NO_MEMORY = b'0 '
"""How ``/proc/PID/statm`` begins of a process that has no address space any more, or never had one."""
KFD = '/dev/kfd'
"""The device file that a process has open which computes with ROCm."""
_ROCM_DRIVER = 'amdgpu'
_DRM = '/dev/dri/'
"""How the path of a device file of DRM begins."""


class Holding:
    """A client, and the process that it is counted for.

    :ivar pid: The process ID. Of several that have the client open, the one that had it before, else the lowest.
    :ivar client: What it has used, as of now.
    :ivar path: The file of fdinfo that says so.
    :ivar text: What it said.
    :ivar has_kfd: Whether the process computes with ROCm, whose work is in no engine's time.
    """

    __slots__ = ('client', 'has_kfd', 'path', 'pid', 'text')

    def __init__(self, pid: int, client: Client, path: str, text: bytes) -> None:
        self.pid = pid
        self.client = client
        self.path = path
        self.text = text
        self.has_kfd = False


class _Listing:
    """What a process has open."""

    __slots__ = ('due', 'holdings', 'is_readable', 'path', 'signature')

    def __init__(self, path: str, signature: tuple[int, ...], due: float) -> None:
        self.path = path
        self.signature = signature
        self.due = due
        self.holdings: dict[Key, Holding] = {}
        self.is_readable = True


class Clients:
    """Finds the clients of processes and reads them again and again.

    :param proc: The folder of proc(5).
    :ivar unreadable: The processes that could not be looked at, at the last reading.
    :ivar is_complete: Whether at the last reading, of all processes, none of the machine can have been missing.
    """

    def __init__(self, proc: str = PROC) -> None:
        self._proc = proc
        self._is_dump = os.path.realpath(proc) != PROC
        self._is_machine = self._is_dump or in_initial_pid_namespace()
        self._listings: dict[int, _Listing] = {}
        self._owners: dict[Key, int] = {}
        self._owned: list[Holding] | None = None
        """Each client once; None: processes or their descriptors have changed."""
        self.unreadable: frozenset[int] = frozenset()
        self.is_complete = False

    def read(self, pids: Iterable[int] | None, now: float) -> list[Holding]:
        """Return all clients of the processes; the same list as before where they are the same.

        :param pids: None: all processes of the machine.
        :param now: Monotonic seconds.
        """
        wanted = self._all_pids() if pids is None else pids
        seen: dict[int, _Listing] = {}
        for pid in wanted:
            listing = self._listing(pid, now)
            if listing is not None:
                seen[pid] = listing
        if self._listings.keys() != seen.keys():
            self._owned = None
        self._listings = seen
        found = self._holdings(now)
        self.unreadable = frozenset(pid for pid, listing in self._listings.items() if not listing.is_readable)
        self.is_complete = pids is None and not self.unreadable and self._is_machine and self._hides_nobody(wanted)
        return found

    def _hides_nobody(self, pids: Iterable[int]) -> bool:
        """Return whether proc(5) is mounted without ``hidepid``: process 1, which is root's, is on each machine."""
        return self._is_dump or 1 in pids

    def _all_pids(self) -> list[int]:
        try:
            return sorted(int(name) for name in os.listdir(self._proc) if name.isdecimal())
        except OSError:
            return []

    def _listing(self, pid: int, now: float) -> _Listing | None:
        """Return what a process has open, listed anew where that may have changed; None where it is gone."""
        known = self._listings.get(pid)
        path = f'{self._proc}/{pid}/fd' if known is None else known.path
        signature: tuple[int, ...] = ()
        size = 0
        try:
            status = os.stat(path)
        except PermissionError:  # another user's, and proc(5) is mounted with hidepid=noaccess
            pass
        except OSError:  # it has ended
            return None
        else:
            # The owner is root as soon as a process has more rights than its user, as when it becomes sudo.
            signature = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_uid)
            size = status.st_size
        if known is not None and known.signature == signature and now < known.due:
            return known
        listing = _Listing(path, signature, now + listed_again(pid, size))
        self._owned = None
        self._list(pid, listing)
        return listing

    def _list(self, pid: int, listing: _Listing) -> None:
        folder = f'{self._proc}/{pid}'
        try:
            names = os.listdir(f'{folder}/fd')
        except PermissionError:
            listing.is_readable = self._is_ending(folder)
            return
        except OSError:  # it has just ended
            return
        has_kfd = False
        for name in names:
            try:
                target = os.readlink(f'{folder}/fd/{name}')
                if target == KFD:
                    has_kfd = True
                elif target.startswith(_DRM):
                    _add(pid, listing, f'{folder}/fdinfo/{name}')
            except PermissionError:
                listing.is_readable = self._is_ending(folder)
                break
            except OSError:  # closed meanwhile
                continue
        if has_kfd:
            for holding in listing.holdings.values():
                holding.has_kfd = holding.client.driver == _ROCM_DRIVER

    def _is_ending(self, folder: str) -> bool:
        """Return whether a process has given back its memory, or is a part of the kernel: then its files are root's."""
        try:
            with open(f'{folder}/statm', 'rb') as file:
                return file.read().startswith(_NO_MEMORY)
        except PermissionError:
            return False
        except OSError:  # it has ended
            return True

    def _holdings(self, now: float) -> list[Holding]:
        """Return the clients as they are now."""
        if self._owned is None:
            self._owned = self._chosen()
        stale = {holding.pid for holding in self._owned if not _is_read(holding)}
        if not stale:
            return self._owned
        for pid in stale:  # descriptors have become others, at the same number of them
            self._listings[pid].due = now
            listing = self._listing(pid, now)
            if listing is None:
                del self._listings[pid]
            else:
                self._listings[pid] = listing
        self._owned = None  # what cannot be read now is tried again
        return [holding for holding in self._chosen() if _is_read(holding)]

    def _chosen(self) -> list[Holding]:
        """Return each client once: see ``Holding.pid``."""
        before, self._owners = self._owners, {}
        owners = self._owners
        for pid, listing in self._listings.items():
            for key in listing.holdings:
                chosen = owners.get(key)
                had_it = before.get(key)
                if chosen is None or pid == had_it or (chosen != had_it and pid < chosen):
                    owners[key] = pid
        return [self._listings[pid].holdings[key] for key, pid in owners.items()]


def _add(pid: int, listing: _Listing, path: str) -> None:
    """Take in what a file is about.

    :raises OSError: It is closed meanwhile, or not to be read.
    """
    text = _text(path)
    client = parse(text)
    if client is not None:
        listing.holdings.setdefault(client.key, Holding(pid, client, path, text))


def _is_read(holding: Holding) -> bool:
    """Read a client anew; return whether its file still is about it."""
    try:
        text = _text(holding.path)
    except OSError:  # the descriptor is closed, the process is gone, or it is another user's now
        return False
    if text != holding.text:
        client = parse(text)
        if client is None or client.key != holding.client.key:
            return False
        holding.client, holding.text = client, text
    return True


def _text(path: str) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, _MOST_BYTES)
    finally:
        os.close(handle)


def listed_again(pid: int, size: int) -> float:
    """Return the seconds after which the descriptors of a process are listed again although their number is the same.

    Not all processes are listed at the same reading: that would take long.

    :param size: Of ``/proc/PID/fd``: the number of descriptors, or 0 before Linux 6.2.
    """
    return LISTED_AGAIN * (1 - pid % _SPREAD / _SPREAD / 2) if size else _LISTED_AGAIN_UNCOUNTED
