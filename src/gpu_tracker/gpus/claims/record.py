"""A claim: GPUs reserved for a process, for a time, or for both; the text of its file, and its words for people."""

from __future__ import annotations

import json
import math
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_tracker.printable import printable
from gpu_tracker.users import user_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.gpus.claims.holder import Moment


class Claim(NamedTuple):
    """A claim on GPUs or MIG devices; void when its process has ended, its time is up or the machine was restarted."""

    uuids: tuple[str, ...]
    user_id: int
    """The owner of the file that the claim stands in."""
    process_id: int | None
    """None: no process holds it, only its time ends it."""
    process_start: float | None
    """When the process started, in the kernel's own count: with the ID it tells a process from a later one."""
    pid_namespace: int | None
    """What numbers the process: its ID means nothing elsewhere. None: the system has no such namespaces."""
    boot_id: str
    made: float
    """Seconds since 1970."""
    expires: float | None
    """Seconds since 1970 as the clock now stands; None: when its process ends."""
    command: str | None
    """What the GPUs were claimed for."""
    in_another_container: bool = False
    """The ID of its process is one of another container's, or of the machine's where this process is in a container:
    it means nothing here."""


MOST_BYTES = 16384
LONGEST_TIME = 1e10
"""Seconds, some 300 years. Ten times as much is still a year that calendars can tell."""
_MOST_UUIDS = 256
_LONGEST_UUID = 128
_LONGEST_COMMAND = 200
_LARGEST_PID = 2**31 - 1
_LARGEST_NUMBER = 2**64


class Record(NamedTuple):
    """A claim as it is written; the names of the fields are the keys in the file."""

    uuids: tuple[str, ...]
    uid: int
    """For people who look into the file. Whose claim it is, its owner tells: in another user namespace, or where a file
    server makes root a nobody, the same user has another number."""
    pid: int | None
    process_start: float | None
    pid_namespace: int | None
    boot_id: str
    host: str
    """Machines may share a folder, as that of a user: one does not tidy up what another has written."""
    machine: str
    """As in :class:`Moment`: machines may have the same name."""
    made: float
    """Seconds since 1970."""
    expires_at: float | None
    """On the clock of :attr:`Moment.clock`, which setting the time does not move."""
    command: str | None
    """What the GPUs are for, usually a command line; its beginning, as all users can read it, even those from whom
    ``hidepid`` of proc(5) hides the command lines of others."""


def encode(record: Record) -> bytes:
    """Return what to write.

    :raises ValueError: if it could not be read again, such as one with no or too many UUIDs.
    """
    data = json.dumps(record._asdict(), indent=1).encode('ascii') + b'\n'
    if decode(data) != record:
        raise ValueError(f'no claim can be made of {record!r}')
    return data


def decode(data: bytes) -> Record | None:
    """Return the claim that stands in a file, None where none does."""
    if len(data) > MOST_BYTES:
        return None
    try:
        fields = json.loads(data.decode('ascii'))
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    values: dict[str, Any] = {key: fields.get(key) for key in Record._fields}
    if not all(is_valid(values[key]) for key, is_valid in _CHECKS.items()):
        return None
    if values['pid'] is None and values['expires_at'] is None:
        return None  # nothing would ever end it
    values['uuids'] = tuple(values['uuids'])
    values['command'] = bounded(values['command'])
    return Record(**values)


def bounded(command: str | None) -> str | None:
    """Return a command that can be shown on a terminal: not too long, and without characters that do something."""
    if command is None:
        return None
    if len(command) > _LONGEST_COMMAND:
        command = command[: _LONGEST_COMMAND - 1] + '…'
    return printable(command)


def is_void(record: Record, moment: Moment, *, is_held: bool) -> bool:
    """Tell whether a claim holds no more: its machine was started anew, its time is up or its process has ended.

    :param is_held: Whether somebody holds the lock on its file. That counts for a process of another PID namespace
        alone, which cannot be looked up by its number: one that can may have closed the file.
    """
    if is_over(record, moment):
        return True
    if record.pid is None:
        return False
    if is_elsewhere(record, moment):
        return not is_held
    return not moment.lives(record.pid, record.process_start)


def is_over(record: Record, moment: Moment) -> bool:
    """Tell whether a claim holds no more whatever its process does."""
    if moment.boot_id not in (None, record.boot_id):
        return True
    return record.expires_at is not None and record.expires_at <= moment.clock


def is_elsewhere(record: Record, moment: Moment) -> bool:
    """Tell whether the process of a claim is numbered in another PID namespace, such as that of a container."""
    return record.pid is not None and record.pid_namespace != moment.pid_namespace


def is_of_this_machine(record: Record, moment: Moment) -> bool:
    """Tell whether a claim was made on this machine, in this run of it or an earlier one.

    Neither the name nor the machine ID would do alone: names repeat from network to network, IDs where a disk was
    copied.
    """
    return moment.boot_id == record.boot_id or (moment.host, moment.machine) == (record.host, record.machine)


def claim_of(record: Record, owner: int, moment: Moment) -> Claim:
    """Return a claim for those who deal with claims.

    :param owner: Whose file it is.
    """
    return Claim(
        uuids=record.uuids,
        user_id=owner,
        process_id=record.pid,
        process_start=record.process_start,
        pid_namespace=record.pid_namespace,
        boot_id=record.boot_id,
        made=record.made,
        expires=None if record.expires_at is None else moment.time + (record.expires_at - moment.clock),
        command=record.command,
        in_another_container=is_elsewhere(record, moment),
    )


def _is_text(value: object, longest: int) -> bool:
    return isinstance(value, str) and 0 < len(value) <= longest and value.isascii() and value.isprintable()


def _is_uuid(value: object) -> bool:
    return isinstance(value, str) and _is_text(value, _LONGEST_UUID) and not set(value) & set(' ,')


def _is_list_of_uuids(value: object) -> bool:
    return isinstance(value, list) and 0 < len(value) <= _MOST_UUIDS and all(map(_is_uuid, value))


def _is_number(value: object, least: int, largest: float) -> bool:
    return type(value) is int and least <= value <= largest  # not isinstance: True is an int, too


def _is_real(value: object, largest: float) -> bool:
    return isinstance(value, float) and isfinite(value) and 0 <= value <= largest


_CHECKS: dict[str, Callable[[object], bool]] = {
    'uuids': _is_list_of_uuids,
    'uid': lambda value: _is_number(value, 0, _LARGEST_NUMBER),
    'pid': lambda value: value is None or _is_number(value, 1, _LARGEST_PID),
    'process_start': lambda value: value is None or _is_real(value, _LARGEST_NUMBER),
    'pid_namespace': lambda value: value is None or _is_number(value, 0, _LARGEST_NUMBER),
    'boot_id': lambda value: _is_text(value, _LONGEST_UUID),
    'host': lambda value: value == '' or _is_text(value, 255),
    'machine': lambda value: value == '' or _is_text(value, _LONGEST_UUID),
    'made': lambda value: _is_real(value, 10 * LONGEST_TIME),
    'expires_at': lambda value: value is None or _is_real(value, 10 * LONGEST_TIME),
    'command': lambda value: value is None or isinstance(value, str),
}


_MINUTE = 60
_HOUR = 60 * _MINUTE


def describe(claim: Claim, now: float, name_of: Callable[[int], str] = user_name) -> str:
    """Return who has claimed, for what and how long: ``claimed by ann (pid 4242, python train.py) for another 58 s``.

    :param now: Seconds since 1970.
    :param name_of: Tells the name of the user with an ID.
    """
    return f'claimed by {printable(name_of(claim.user_id))}{_purpose(claim)}{_time(claim, now)}'


def remaining(seconds: float) -> str:
    """Return a time to wait, rounded up: ``58 s``, ``12 min``, ``5 h``."""
    for length, unit in ((1, 's'), (_MINUTE, 'min')):
        if seconds <= 2 * _MINUTE * length:
            return f'{max(0, math.ceil(seconds / length))} {unit}'
    return f'{math.ceil(seconds / _HOUR)} h'


def _purpose(claim: Claim) -> str:
    known = []
    if claim.process_id is not None:
        known.append(f'pid {claim.process_id}' + (' in another container' if claim.in_another_container else ''))
    if claim.command is not None:
        known.append(printable(claim.command))
    return f' ({", ".join(known)})' if known else ''


def _time(claim: Claim, now: float) -> str:
    return '' if claim.expires is None else f' for another {remaining(claim.expires - now)}'
