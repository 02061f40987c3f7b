"""The records in a job's folder, read: strangers may have written them, and their ranks may still be running."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpu_tracker.errors import RecordingError
from gpu_tracker.job import checked
from gpu_tracker.processes.stat import TICKS_PER_SECOND
from gpu_tracker.recording.schema import ABANDONED
from gpu_tracker.recording.writing.rank_files import (
    FORMAT,
    LONGEST_INTERVAL,
    PARTIAL,
    RECORDING,
    REPORT,
    START,
    UNMEASURED,
    VERSION,
)
from gpu_tracker.resources.building import WRONG_TOTALS, build
from gpu_tracker.result.usage import JobIdentity
from gpu_tracker.system.kernel import boot_id, pid_namespace
from gpu_tracker.units import Units

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpu_tracker.result.usage import ResourceUsage

ENDED = 'ended'
FAILED = 'failed'
KILLED = 'killed'
LOST = 'lost'
RUNNING = 'running'
STATES = (ENDED, FAILED, KILLED, LOST, RUNNING, UNMEASURED)
"""What can be said of a rank: it has ended well, with another exit code than 0, or by a signal; its end was not seen;
it runs; it ran, but nothing could be measured."""

_BASE_UNITS = Units('bytes', 'bytes', 'seconds', None)
_LAST_SECOND = 1e12
"""Since 1970: in some ten thousand years."""
_MOST_CPUS = 1 << 13
_LONGEST_LIST = 1 << 12
"""CPUs of a range, and characters of a list of ranges: more than any machine has."""
_LARGEST = 16 << 20
"""Bytes of a record: with the sections that take most it has some thousand."""
_LARGEST_FIGURE = 1e21
"""Of any unit: sums of millions of ranks are numbers still."""
_PLACE_OF_START = 18
"""The place of a process' start behind its state in ``/proc/PID/stat``, proc(5)."""
_MISSED_REPORTS = 3
_GRACE = 60.0
"""How many reports may be missing, and seconds in addition, before a rank counts as lost: clocks of nodes differ."""


@dataclass(frozen=True, slots=True)
class RankRecord:
    """What one rank has written. Unknown is None.

    :ivar name: What the names of its files begin with.
    :ivar job: Its place in the job; without a launcher the name of its node alone.
    :ivar host: The name of its machine.
    :ivar machine: What tells the machine's kernel from all others.
    :ivar pid: The tracked process.
    :ivar tracker_pid: The process that writes the end.
    :ivar pid_namespace: The namespace of that ID.
    :ivar command: The words of the command.
    :ivar started: When it began, in seconds since 1970.
    :ivar updated: When the record was written.
    :ivar ended: How the tracking has ended, see :meth:`.RankFiles.write`; None: it goes on, or nobody has seen its end.
    :ivar exit_code: That of the command, -n where signal n has ended it.
    :ivar cpus: How many CPUs it may use, by their numbers.
    :ivar asked_cores: The cores that the job was given of the node.
    :ivar asked_ram: The same in bytes of RAM.
    :ivar asked_gpus: The same in GPUs.
    :ivar write_interval: Seconds between two of its reports.
    :ivar totals: What it has used, in base units.
    :ivar recording: The path of its recording, where there is one.
    """

    name: str
    job: JobIdentity
    host: str | None
    machine: str | None
    pid: int | None
    tracker_pid: int | None
    pid_namespace: int | None
    command: tuple[str, ...] | None
    started: float
    updated: float
    ended: str | None
    exit_code: int | None
    cpus: frozenset[int]
    asked_cores: int | None
    asked_ram: int | None
    asked_gpus: int | None
    write_interval: float
    totals: Mapping[str, Any] | None
    recording: str | None

    def figure(self, *path: str | int) -> Any:  # noqa: ANN401 - a number or None
        """Return the number at a place of the totals; None where there is none."""
        return figure_or_none(self._at(path))

    def usage(self) -> ResourceUsage | None:
        """Return the result of the rank so far, in base units; None if its totals are missing or wrong."""
        totals: Any = self.totals
        try:
            return None if totals is None else build(totals, _BASE_UNITS)
        except WRONG_TOTALS:
            return None

    def text(self, *path: str | int) -> str | None:
        """Return the text at a place of the totals; None where there is none."""
        value = self._at(path)
        return _text(value) if isinstance(value, str) else None

    def _at(self, path: tuple[str | int, ...]) -> Any:  # noqa: ANN401 - anything that JSON has
        value: Any = self.totals
        for key in path:
            if isinstance(value, dict) and isinstance(key, str):
                value = value.get(key)
            elif isinstance(value, list) and isinstance(key, int) and key < len(value):
                value = value[key]
            else:
                return None
        return value

    def part(self, name: str) -> Mapping[str, Any]:
        """Return a part of the totals; an empty one where there is none."""
        part = None if self.totals is None else self.totals.get(name)
        return part if isinstance(part, dict) else {}

    def state(self, now: float, is_alive: Callable[[RankRecord], bool | None]) -> str:
        """Return one of :data:`STATES`.

        :param now: Seconds since 1970.
        :param is_alive: Returns whether the process that writes the end is there; None where that cannot be seen.
        """
        if self.ended is None:
            alive = is_alive(self)
            if alive is None:
                alive = now - self.updated <= _MISSED_REPORTS * self.write_interval + _GRACE
            return RUNNING if alive else LOST
        if self.ended in {ABANDONED, UNMEASURED}:
            return LOST if self.ended == ABANDONED else UNMEASURED
        if not self.exit_code:
            return ENDED
        return FAILED if self.exit_code > 0 else KILLED


def figure_or_none(value: Any) -> Any:  # noqa: ANN401 - a number or None
    """Return what can be a figure, a number that is not negative; None for anything else."""
    return value if type(value) in {int, float} and 0 <= value <= _LARGEST_FIGURE else None


class Alive:
    """Says of ranks on this machine whether the process that writes their end is there."""

    def __init__(self) -> None:
        self._machine = boot_id()
        self._namespace = pid_namespace()

    def __call__(self, record: RankRecord) -> bool | None:
        """Return it; None of a process that cannot be seen from here."""
        is_near = self._machine is not None and self._machine == record.machine
        if not is_near or self._namespace is None or self._namespace != record.pid_namespace or not record.tracker_pid:
            return None
        started, is_zombie = _process(record.tracker_pid)
        if started is None:
            return False
        if started > record.started + _GRACE:
            return None  # another process has got the number since, or the date was set
        return not is_zombie


def _process(pid: int) -> tuple[float | None, bool]:
    """Return when a process was started, in seconds since 1970, None where there is none; and whether it has ended."""
    if sys.platform != 'linux':
        return None, True
    try:
        with open(f'/proc/{pid}/stat', 'rb') as file:
            state, *values = file.read().rpartition(b')')[2].split()
    except (OSError, ValueError):
        return None, True
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(values[_PLACE_OF_START]) / TICKS_PER_SECOND
    return time.time() - age, state in {b'Z', b'X'}


def read_folder(folder: str) -> tuple[list[RankRecord], list[str]]:
    """Return the records of all ranks in a job's folder, and what is wrong with some.

    :raises RecordingError: where the folder cannot be read.
    """
    try:
        with os.scandir(folder) as entries:
            names = {entry.name for entry in entries}
    except OSError as error:
        raise RecordingError(f'cannot read {folder}: {error.strerror or error}') from error
    stems = {name[: -len(START)] for name in names if name.endswith(START)}
    stems |= {name[: -len(REPORT)] for name in names if name.endswith(REPORT) and not name.endswith(START)}
    records, problems = [], []
    for stem in sorted(stems):
        endings = [ending for ending in (REPORT, START) if stem + ending in names]
        for ending in endings:  # the report has all that the start record has
            try:
                records.append(_read_file(folder, stem, stem + ending, names))
                break
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else error
                problems.append(f'{stem}{ending} is left out: {reason}')
    return records, problems


def _read_file(folder: str, stem: str, name: str, names: set[str]) -> RankRecord:
    path = os.path.join(folder, name)
    with open(path, 'rb', opener=_open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError('it is not a regular file')
        text = file.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise ValueError('it is too large')
    recording = next((other for other in (stem + RECORDING, f'.{stem}{PARTIAL}') if other in names), None)
    return read_record(text, stem, None if recording is None else os.path.join(folder, recording))


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for whoever may write into it."""
    return os.open(path, flags | getattr(os, 'O_BINARY', 0) | getattr(os, 'O_NONBLOCK', 0) | getattr(os, 'O_NOCTTY', 0))


def read_record(text: str | bytes, name: str, recording: str | None = None) -> RankRecord:
    """Return the record that a text holds.

    :param name: What the names of its files begin with.
    :param recording: The path of its recording.
    :raises ValueError: where it is none, or one of a newer version.
    """
    try:
        plain = json.loads(text)
    except (RecursionError, UnicodeDecodeError, ValueError) as error:
        raise ValueError('it is not JSON') from error
    if not isinstance(plain, dict) or FORMAT not in plain:
        raise ValueError('it is not the result of a rank')
    if plain[FORMAT] != VERSION:
        raise ValueError(f'its format version is {plain[FORMAT]!r}, but this gpu-tracker reads version {VERSION}')
    asked = plain.get('asked')
    fields = _Fields(plain)
    of_node = _Fields(asked if isinstance(asked, dict) else {})
    host = fields.text('host')
    identity = plain.get('job')
    job = JobIdentity(launcher='', node=host) if identity is None else JobIdentity(**_clean(checked(identity)))
    totals = plain.get('totals')
    started, updated = fields.number('started_unix'), fields.number('updated_unix')
    if started is None or updated is None or not (totals is None or isinstance(totals, dict)):
        raise ValueError('its times or totals are missing')
    return RankRecord(
        name=name,
        job=job,
        host=host,
        machine=fields.text('machine'),
        pid=fields.whole('pid'),
        tracker_pid=fields.whole('tracker_pid'),
        pid_namespace=fields.whole('pid_namespace'),
        command=_words(plain.get('command')),
        started=started,
        updated=max(started, updated),
        ended=fields.text('ended'),
        exit_code=fields.whole('exit_code'),
        cpus=_cpus(fields.text('cpus')),
        asked_cores=of_node.whole('cores_of_node'),
        asked_ram=of_node.whole('ram_of_node'),
        asked_gpus=of_node.whole('gpus_of_node'),
        write_interval=min(fields.number('write_interval') or 0.0, LONGEST_INTERVAL),
        totals=totals,
        recording=recording,
    )


class _Fields:
    """Values of a JSON object with the types that they have to have; others are unknown."""

    def __init__(self, plain: Mapping[str, Any]) -> None:
        self._plain = plain

    def text(self, key: str) -> str | None:
        value = self._plain.get(key)
        return _text(value) if isinstance(value, str) else None

    def whole(self, key: str) -> int | None:
        value = self._plain.get(key)
        return value if type(value) is int and abs(value) < 1 << 62 else None

    def number(self, key: str) -> float | None:
        value = self._plain.get(key)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < _LAST_SECOND:
            return None
        return float(value)


def _words(value: object) -> tuple[str, ...] | None:
    return (
        tuple(map(_text, value)) if isinstance(value, list) and all(isinstance(word, str) for word in value) else None
    )


def _clean(identity: Mapping[str, Any]) -> dict[str, Any]:
    return {field: _text(value) if isinstance(value, str) else value for field, value in identity.items()}


def _text(text: str) -> str:
    """Return a text that every encoding has: JSON can hold halves of characters."""
    return text.encode(errors='replace').decode()


def _cpus(text: str | None) -> frozenset[int]:
    """Return the numbers in a list of ranges such as ``0-3,8``."""
    found: set[int] = set()
    for part in (text or '')[:_LONGEST_LIST].split(','):
        first, _, last = part.partition('-')
        last = last or first
        if not (first.isdecimal() and last.isdecimal()) or int(last) - int(first) > _MOST_CPUS:
            return frozenset()
        found.update(range(int(first), int(last) + 1))
    return frozenset(found)
