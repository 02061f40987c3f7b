"""A client of atopgpud: asks as atop does, in both versions of its protocol, and is stricter about the answers."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, NamedTuple, Self

from support.waiting import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

LONGEST = 8192
MOST_GPUS = 32
UNKNOWN = -1

_TYPE = re.compile(r'([!-?A-~]+) ([!-?A-~]+) (0|[1-9]\d*)')
_COUNT = re.compile(r'[1-9]\d*')
_NUMBER = re.compile(r'0|[1-9]\d*')


class GpuType(NamedTuple):
    """A GPU, as the answer to ``T`` tells of it."""

    bus_id: str
    name: str
    task_support: int


class ProcessFigures(NamedTuple):
    """A process on one GPU, in version 1."""

    state: str
    pid: int
    busy: int
    memory_busy: int
    milliseconds: int
    memory: int
    memory_total: int
    samples: int


class TypedFigures(NamedTuple):
    """A process on one GPU, in version 2."""

    state: str
    pid: int
    type: str
    busy_total: int
    memory_busy_total: int
    memory: int
    memory_total: int
    samples: int


class GpuFigures(NamedTuple):
    """A GPU, as the answer to ``S`` tells of it."""

    busy: int
    memory_busy: int
    memory_size: int
    memory: int
    samples: int
    busy_total: int
    memory_busy_total: int
    memory_total: int
    processes: tuple[ProcessFigures | TypedFigures, ...] = ()


class GpuInterval(NamedTuple):
    """What atop takes for a GPU's figures of the time between two answers."""

    samples: int
    busy_total: int
    memory_busy_total: int
    memory_total: int


class Answer(NamedTuple):
    """An answer as it comes."""

    version: int
    text: str


class AtopClient:
    """A connection to a daemon; it is closed at the end of the block, or of the daemon.

    :param connection: A socket that is connected to the daemon.
    :param version: The version in which it asks.
    """

    def __init__(self, connection: socket.socket, version: int) -> None:
        self._connection = connection
        self._connection.settimeout(TIMEOUT)
        self._version = version
        self._gpus: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def types(self) -> tuple[GpuType, ...]:
        """Ask for the GPUs."""
        gpus = parsed_types(self._text('T'))
        self._gpus = len(gpus)
        return gpus

    def statistics(self) -> tuple[GpuFigures, ...]:
        """Ask for the figures of all GPUs."""
        if self._gpus is None:
            self.types()
        gpus = parsed_statistics(self._text('S'), self._version)
        assert len(gpus) == self._gpus, f'{len(gpus)} sections for {self._gpus} GPUs'
        return gpus

    def send(self, request: bytes) -> None:
        """Send bytes, whatever they are."""
        self._connection.sendall(request)

    def answer(self) -> Answer:
        """Return the answer to what was sent."""
        head = int.from_bytes(self._exactly(4), 'big')
        version, length = head >> 24, head & 0xFFFFFF
        assert length <= LONGEST, f'atop accepts no {length} bytes'
        return Answer(version, self._exactly(length).decode('ascii'))

    def ask(self, command: str, version: int) -> Answer:
        """Ask in any version, and return the answer in the version that it comes in."""
        self.send(command.encode('ascii') + bytes([version]))
        return self.answer()

    def is_closed(self) -> bool:
        """Wait until the daemon sends something; return whether it is that the connection has ended."""
        try:
            return self._connection.recv(1) == b''
        except ConnectionResetError:
            return True

    def finish(self) -> None:
        """Send no more; answers can still come."""
        self._connection.shutdown(socket.SHUT_WR)

    def _text(self, command: str) -> str:
        version, text = self.ask(command, self._version)
        assert version == self._version
        return text

    def _exactly(self, length: int) -> bytes:
        data = b''
        while len(data) < length:
            more = self._connection.recv(length - len(data))
            assert more, f'the connection ended after {len(data)} bytes of {length}'
            data += more
        return data


def connected(connection: socket.socket, address: object, version: int) -> AtopClient:
    """Connect a socket, and return a client on it.

    :param address: What ``socket.connect`` takes; for an abstract socket that is its name behind a NUL character.
    """
    connection.settimeout(TIMEOUT)
    connection.connect(address)
    return AtopClient(connection, version)


def parsed_types(text: str) -> tuple[GpuType, ...]:
    """Return what an answer to ``T`` tells, which has to be as atop wants it."""
    count, *entries = text.split('@')
    assert _COUNT.fullmatch(count), text
    assert 1 <= int(count) <= MOST_GPUS
    assert len(entries) == int(count), f'{count} GPUs in {text}'
    matches = [_TYPE.fullmatch(entry) for entry in entries]
    assert all(matches), text
    return tuple(GpuType(match[1], match[2], int(match[3])) for match in matches if match)


def parsed_statistics(text: str, version: int) -> tuple[GpuFigures, ...]:
    """Return what an answer to ``S`` tells, which has to be as atop wants it."""
    before, *sections = text.split('@')
    assert not before, f'nothing stands in front of the first GPU: {text}'
    gpus = tuple(_section(section, version) for section in sections)
    _check_percentages([process for gpu in gpus for process in gpu.processes])
    for gpu in gpus:
        records = [process.pid for process in gpu.processes if process.state == 'A']
        assert len(records) == len(set(records)), f'a process has one record in a section: {text}'
    return gpus


def interval(before: GpuFigures, now: GpuFigures) -> GpuInterval:
    """Return what atop prints for the time between two answers: it subtracts what it was told, also an unknown figure.

    Only where the present figure is unknown is the difference so.
    """
    return GpuInterval(
        now.samples - before.samples,
        UNKNOWN if now.busy_total == UNKNOWN else now.busy_total - before.busy_total,
        UNKNOWN if now.memory_busy_total == UNKNOWN else now.memory_busy_total - before.memory_busy_total,
        now.memory_total - before.memory_total,
    )


def processes_of(gpus: Iterable[GpuFigures], pid: int) -> list[ProcessFigures | TypedFigures | None]:
    """Return the record that a process has in each GPU's section, None where it has none; no more than one each."""

    def records() -> Iterator[ProcessFigures | TypedFigures | None]:
        for gpu in gpus:
            found = [process for process in gpu.processes if process.pid == pid]
            assert len(found) <= 1, found
            yield found[0] if found else None

    return list(records())


def _section(text: str, version: int) -> GpuFigures:
    own, *records = text.split('#')
    busy, memory_busy, *memory, busy_total, memory_busy_total, memory_total = _fields(own)
    size, used, samples = map(_number, memory)
    gpu = GpuFigures(
        _number_or_unknown(busy),
        _number_or_unknown(memory_busy),
        size,
        used,
        samples,
        _number_or_unknown(busy_total),
        _number_or_unknown(memory_busy_total),
        _number(memory_total),
        tuple((_process if version == 1 else _typed_process)(_fields(record)) for record in records),
    )
    assert (gpu.busy == UNKNOWN) == (gpu.busy_total == UNKNOWN), text
    assert (gpu.memory_busy == UNKNOWN) == (gpu.memory_busy_total == UNKNOWN), text
    assert max(gpu.busy, gpu.memory_busy) <= 100, text
    return gpu


def _process(fields: Sequence[str]) -> ProcessFigures:
    state, pid, busy, memory_busy, *others = fields
    assert state in {'A', 'E'}, fields
    return ProcessFigures(
        state, _number(pid), _number_or_unknown(busy), _number_or_unknown(memory_busy), *map(_number, others)
    )


def _typed_process(fields: Sequence[str]) -> TypedFigures:
    state, pid, kind, busy, memory_busy, *others = fields
    assert state in {'A', 'E'}, fields
    assert kind in {'C', 'G', 'U'}, fields
    return TypedFigures(
        state, _number(pid), kind, _number_or_unknown(busy), _number_or_unknown(memory_busy), *map(_number, others)
    )


def _check_percentages(processes: Iterable[ProcessFigures | TypedFigures]) -> None:
    """Atop adds up a process' percentages of all GPUs: all are known, or none is."""
    are_known: dict[int, set[bool]] = {}
    for process in processes:
        percentages = process[2:4] if isinstance(process, ProcessFigures) else process[3:5]
        are_known.setdefault(process.pid, set()).update(percentage != UNKNOWN for percentage in percentages)
    mixed = [pid for pid, kinds in are_known.items() if len(kinds) > 1]
    assert not mixed, f'some percentages of these processes are known and some are not: {mixed}'


def _fields(text: str) -> list[str]:
    """Return the eight fields that a GPU and a process have: a client that finds another number gives up."""
    fields = text.split(' ')
    assert len(fields) == 8, f'{len(fields)} fields: {text!r}'
    return fields


def _number(text: str) -> int:
    assert _NUMBER.fullmatch(text), f'not a number as atop wants it: {text!r}'
    return int(text)


def _number_or_unknown(text: str) -> int:
    return UNKNOWN if text == '-1' else _number(text)
