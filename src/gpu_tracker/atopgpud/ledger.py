"""The counters of all GPUs, and the answers made from them. Used by one thread only."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.atopgpud import wire
from gpu_tracker.atopgpud.counters import GpuCounters, ProcessCounters, count, opened_anew
from gpu_tracker.atopgpud.records import Section, offsets_after

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpu_tracker.gpus.model import Gpu, GpuReading

REMEMBERED_ENDS = 1024
"""Ends of processes that are kept for clients that ask rarely; an answer has room for a few hundred."""

_MOST_ANSWERS = 64
"""Answers that are kept for clients that are to get the same."""


class ListedGpu(NamedTuple):
    """A GPU that clients get figures of."""

    key: str
    """Identifies it for as long as the daemon runs."""
    identity: Gpu


class Visitor:
    """The state of one client: what it has got so far."""

    def __init__(self, gpus: tuple[str, ...], ends: int) -> None:
        self.gpus = gpus
        """The keys of the GPUs that it knows, in the order in which it knows them."""
        self.ends = ends
        """How many ends of processes there had been at its last answer."""
        self.offsets: tuple[tuple[int, int], ...] = ((0, 0),) * len(gpus)


class _End(NamedTuple):
    gpu: str
    process: ProcessCounters


class _Answer(NamedTuple):
    data: bytes
    offsets: tuple[tuple[int, int], ...]


class Ledger:
    """The counters of all GPUs, and the ends of processes.

    :param max_age: Seconds after which a reading is too old to be sent as the current one.
    """

    def __init__(self, max_age: float) -> None:
        self._max_age = max_age
        self._gpus: tuple[ListedGpu, ...] = ()
        self._counters: dict[str, GpuCounters] = {}
        self._read_at: dict[str, float] = {}
        self._ends: deque[_End] = deque(maxlen=REMEMBERED_ENDS)
        self._ended = 0
        self._answers: dict[object, _Answer] = {}
        self._left_out: int | None = None

    @property
    def gpus(self) -> tuple[ListedGpu, ...]:
        """The GPUs that clients get from now on."""
        return self._gpus

    def show(self, gpus: Sequence[ListedGpu], now: float) -> None:
        """List these GPUs to clients that come from now on; those that have a list of others are answered as before."""
        self._gpus = tuple(gpus)
        for gpu in gpus:
            self._read_at.setdefault(gpu.key, now)
        self._answers.clear()

    def opened_anew(self) -> None:
        """Take note that all GPUs have been opened anew."""
        self._counters = {key: opened_anew(gpu) for key, gpu in self._counters.items()}

    def take(self, key: str, activity: GpuReading, starts: Mapping[int, float | None], now: float) -> None:
        """Count a reading of one GPU, made at ``now`` seconds of monotonic time; see :func:`counters.count`."""
        counted = count(self._counters.get(key, GpuCounters()), activity, starts)
        self._counters[key] = counted.gpu
        self._read_at[key] = now
        self._ends.extend(_End(key, process) for process in counted.ended)
        self._ended += len(counted.ended)
        self._answers.clear()

    def age(self, now: float) -> list[str]:
        """Take GPUs whose last reading is too old for ones that cannot be read, and return their keys."""
        silent = [key for key, when in self._read_at.items() if now - when > self._max_age]
        for key in silent:
            self._counters[key] = self._counters.get(key, GpuCounters())._replace(is_readable=False)
            del self._read_at[key]
        if silent:
            self._answers.clear()
        return silent

    def take_left_out(self) -> int | None:
        """Return the most processes for which an answer had no room; None: none was made since this was last asked."""
        left_out, self._left_out = self._left_out, None
        return left_out

    def welcome(self) -> Visitor:
        """Return a client that comes now: it gets the ends of processes from now on."""
        return Visitor(tuple(gpu.key for gpu in self._gpus), self._ended)

    def types(self, version: int, visitor: Visitor) -> bytes:
        """Return the answer that lists the GPUs to a client."""
        keys = tuple(gpu.key for gpu in self._gpus)
        if keys != visitor.gpus:
            visitor.gpus = keys
            visitor.offsets = ((0, 0),) * len(keys)
        return wire.framed(version, wire.types(version, [gpu.identity for gpu in self._gpus]))

    def statistics(self, version: int, visitor: Visitor) -> bytes:
        """Return the answer with the figures of the GPUs that a client knows."""
        key = (version, visitor.gpus, visitor.ends, visitor.offsets)
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            answer = self._answers[key] = self._answer(version, visitor)
        visitor.ends = self._ended
        visitor.offsets = answer.offsets
        return answer.data

    def _answer(self, version: int, visitor: Visitor) -> _Answer:
        ended: dict[str, dict[object, ProcessCounters]] = {}
        missed = min(self._ended - visitor.ends, len(self._ends))
        for gpu, process in islice(self._ends, len(self._ends) - missed, None):
            ended.setdefault(gpu, {})[process.pid, process.started] = process  # the last, where it has come and gone
        sections = [
            Section(self._counters.get(gpu, GpuCounters()), offsets, tuple(ended.get(gpu, {}).values()))
            for gpu, offsets in zip(visitor.gpus, visitor.offsets, strict=True)
        ]
        sent = wire.statistics(version, sections)
        self._left_out = max(self._left_out or 0, sent.left_out)
        return _Answer(wire.framed(version, sent.text), tuple(offsets_after(section) for section in sections))
