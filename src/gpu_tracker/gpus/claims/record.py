"""What stands in the file of a claim.

Every user of the machine can write such files, so nothing in them is taken on trust: what does not look like a claim is
none, and nothing that stands in one can make its reader fail.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_tracker.gpus.claim import Claim
from gpu_tracker.system.terminal_text import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_tracker.gpus.claims.liveness import Circumstances

MOST_BYTES = 16384
LONGEST_TIME = 1e10
"""Seconds, some 300 years. Ten times as much is still a year that calendars can tell."""
_MOST_UUIDS = 256
_LONGEST_TEXT = 128
_LONGEST_COMMAND = 200
_LARGEST_PID = 2**31 - 1
_LARGEST_NUMBER = 2**64
_SMALLEST_SHIFT = 300.0
"""Seconds between two starts of a machine at least; by less, the clock may have been set."""


class Record(NamedTuple):
    """A claim as it is written; the names of the fields are the keys in the file."""

    uuids: tuple[str, ...]
    uid: int
    """For people who read the file. The claim belongs to the file's owner, who may have another ID in a container."""
    pid: int | None
    process_start: float | None
    pid_namespace: int | None
    boot_id: str
    host: str
    """Machines may share a folder, as that of a user: one does not tidy up what another has written."""
    machine: str
    """As in :class:`Circumstances`: machines may have the same name."""
    made: float
    """Seconds since 1970."""
    expires_at: float | None
    """On the clock of :attr:`Circumstances.clock`, which setting the time does not move."""
    command: str | None
    """What the GPUs are for, usually the beginning of a command line; all users can read it."""
    started: float
    """When the machine was started, in seconds since 1970 by the clock of that time."""


def encode(record: Record) -> bytes:
    """Return what to write.

    :raises ValueError: if it could not be read again, such as one with no or too many UUIDs.
    """
    data = json.dumps(record._asdict(), indent=1).encode('ascii') + b'\n'
    if decode(data) != record:
        raise ValueError(f'invalid claim: {record!r}')
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
    if not all((values[key] is None and key in _OPTIONAL) or check(values[key]) for key, check in _CHECKS.items()):
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


def is_void(record: Record, circumstances: Circumstances, *, is_held: bool) -> bool:
    """Return whether a claim holds no more: its machine was started anew, its time is up or its process has ended.

    :param is_held: Whether somebody holds the lock on its file. That counts where its process cannot be looked up by
        its number: in another PID namespace, or where another boot ID was written, as containers may have their own.
        No lock outlasts a restart. A process that can be looked up may have closed the file.
    """
    if _is_expired(record, circumstances):
        return True
    if record.pid is None:
        return _is_of_earlier_run(record, circumstances)
    if is_held and (is_elsewhere(record, circumstances) or _has_other_boot_id(record, circumstances)):
        return False
    if _is_of_earlier_run(record, circumstances):
        return True
    return is_elsewhere(record, circumstances) or not circumstances.lives(record.pid, record.process_start)


def is_over(record: Record, circumstances: Circumstances) -> bool:
    """Return whether a claim that nobody holds the lock of holds no more whatever its process does."""
    return _is_expired(record, circumstances) or _is_of_earlier_run(record, circumstances)


def _is_expired(record: Record, circumstances: Circumstances) -> bool:
    return record.expires_at is not None and record.expires_at <= circumstances.clock


def _has_other_boot_id(record: Record, circumstances: Circumstances) -> bool:
    return circumstances.boot_id not in (None, record.boot_id)


def _is_of_earlier_run(record: Record, circumstances: Circumstances) -> bool:
    """Return whether the machine was started anew since a claim was made.

    Then it has another boot ID, and was started at another time. One of them alone tells nothing: containers may have
    their own boot ID, and the clock is set now and then.
    """
    has_other_start = abs(circumstances.started - record.started) > _SMALLEST_SHIFT
    return has_other_start and _has_other_boot_id(record, circumstances)


def is_elsewhere(record: Record, circumstances: Circumstances) -> bool:
    """Return whether the process of a claim is numbered in another PID namespace, such as that of a container."""
    return record.pid is not None and record.pid_namespace != circumstances.pid_namespace


def is_of_this_machine(record: Record, circumstances: Circumstances) -> bool:
    """Return whether a claim was made on this machine, in this run of it or an earlier one.

    Neither the name nor the machine ID would do alone: names repeat from network to network, IDs where a disk was
    copied.
    """
    return circumstances.boot_id == record.boot_id or (circumstances.host, circumstances.machine) == (
        record.host,
        record.machine,
    )


def claim_of(record: Record, owner: int, circumstances: Circumstances) -> Claim:
    """Return a claim for those who deal with claims.

    :param owner: Whose file it is.
    """
    return Claim(
        uuids=record.uuids,
        user_id=owner,
        process_id=record.pid,
        made=record.made,
        expires=None if record.expires_at is None else circumstances.time + (record.expires_at - circumstances.clock),
        command=record.command,
        in_another_container=is_elsewhere(record, circumstances),
    )


def _is_text(value: object, longest: int) -> bool:
    return isinstance(value, str) and len(value) <= longest and value.isascii() and value.isprintable()


def _is_uuid(value: object) -> bool:
    return isinstance(value, str) and _is_text(value, _LONGEST_TEXT) and value != '' and not set(value) & set(' ,')


def _is_number(value: object, least: int, largest: float) -> bool:
    return type(value) is int and least <= value <= largest  # not isinstance: True is an int, too


def _is_time(value: object) -> bool:
    return isinstance(value, float) and isfinite(value) and 0 <= value <= 10 * LONGEST_TIME


_OPTIONAL = frozenset({'pid', 'process_start', 'pid_namespace', 'expires_at', 'command'})
_CHECKS: dict[str, Callable[[object], bool]] = {
    'uuids': lambda value: isinstance(value, list) and 0 < len(value) <= _MOST_UUIDS and all(map(_is_uuid, value)),
    'uid': lambda value: _is_number(value, 0, _LARGEST_NUMBER),
    'pid': lambda value: _is_number(value, 1, _LARGEST_PID),
    'process_start': lambda value: isinstance(value, float) and 0 <= value <= _LARGEST_NUMBER,
    'pid_namespace': lambda value: _is_number(value, 0, _LARGEST_NUMBER),
    'boot_id': lambda value: _is_text(value, _LONGEST_TEXT) and value != '',
    'host': lambda value: _is_text(value, 255),
    'machine': lambda value: _is_text(value, _LONGEST_TEXT),
    'made': _is_time,
    'expires_at': _is_time,
    'command': lambda value: isinstance(value, str),
    'started': _is_time,
}
