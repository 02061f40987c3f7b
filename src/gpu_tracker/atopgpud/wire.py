"""atop's protocol, versions 1 and 2: requests, and the answers to them. Pure.

A request is two bytes: what is wanted, and the version. An answer is a head of four bytes, the version and the length,
and a text of that length.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.atopgpud.records import UNKNOWN, by_process

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpu_tracker.atopgpud.counters import ProcessCounters
    from gpu_tracker.atopgpud.records import Record, Section
    from gpu_tracker.gpus.model import Gpu

REQUEST_LENGTH = 2
TYPES = ord('T')
STATISTICS = ord('S')

LONGEST = 8192
"""Bytes of text that a client accepts; with one more it never asks again."""
MOST_GPUS = 32
"""GPUs that a client accepts."""

_TYPED = 2
"""The version from which on a process has a type, and its percentages are cumulative."""
_COMPUTE = 1
_ACCOUNTING_OR_GRAPHICS = 2
_LONGEST_NAME = 96
_LONGEST_BUS_ID = 32


class Statistics(NamedTuple):
    """The text of an answer with figures."""

    text: str
    left_out: int
    """Processes for which there was no room."""


def framed(version: int, text: str) -> bytes:
    """Return the answer with its head."""
    return struct.pack('>I', version << 24 | len(text)) + text.encode('ascii')


def types(version: int, gpus: Sequence[Gpu]) -> str:
    """Return the text that lists the GPUs."""
    entries = [
        f'@{_word(gpu.pci_bus_id, _LONGEST_BUS_ID)} {_word(gpu.name, _LONGEST_NAME)} {_task_support(version, gpu)}'
        for gpu in gpus
    ]
    return f'{len(entries)}{"".join(entries)}'


def statistics(version: int, sections: Sequence[Section]) -> Statistics:
    """Return the text with the figures of all GPUs, in the order of :func:`types`.

    Where it would be longer than a client accepts, the processes with the least memory are left out, each of them with
    all its records.
    """
    heads = [_gpu(section) for section in sections]
    tails: list[list[str]] = [[] for _ in sections]
    processes = by_process(sections, drawing=version >= _TYPED)
    room = LONGEST - sum(map(len, heads))
    left_out = 0
    for number, records in enumerate(processes):
        texts = _process(version, records)
        room -= sum(map(len, texts))
        if room < 0:
            left_out = len(processes) - number
            break
        for record, text in zip(records, texts, strict=True):
            tails[record.section].append(text)
    return Statistics(''.join(head + ''.join(tail) for head, tail in zip(heads, tails, strict=True)), left_out)


def _word(text: str | None, longest: int) -> str:
    """Return text without what would end a field: a client that finds a blank in a name drops all GPUs."""
    word = ''.join(c if '!' <= c <= '~' and c not in '@#' else '_' for c in text or '')
    return word[-longest:] or 'unknown'


def _task_support(version: int, gpu: Gpu) -> int:
    second = gpu.lists_graphics if version >= _TYPED else gpu.keeps_accounts
    return _COMPUTE * gpu.lists_compute + _ACCOUNTING_OR_GRAPHICS * second


def _gpu(section: Section) -> str:
    gpu = section.gpu
    figures = (
        _known(gpu.busy_now),
        _known(gpu.memory_busy_now),
        gpu.memory_size if gpu.is_readable else 0,
        gpu.memory if gpu.is_readable else 0,
        gpu.samples,
        UNKNOWN if gpu.busy_now is None else max(0, gpu.busy_total - section.offsets[0]),
        UNKNOWN if gpu.memory_busy_now is None else max(0, gpu.memory_busy_total - section.offsets[1]),
        gpu.memory_total,
    )
    return f'@{_numbers(*figures)}'


def _known(percent: int | None) -> int:
    return UNKNOWN if percent is None else percent


def _process(version: int, records: Sequence[Record]) -> list[str]:
    """Return the texts of one process' records; its percentages are known in all of them or in none."""
    percentages = [_percentages(version, record) for record in records]
    if any(None in pair for pair in percentages):
        percentages = [(None, None)] * len(records)
    return [_record(version, record, *pair) for record, pair in zip(records, percentages, strict=True)]


def _percentages(version: int, record: Record) -> tuple[int | None, int | None]:
    process = record.process
    if version >= _TYPED:
        return process.busy_total, process.memory_busy_total
    return (process.busy, process.memory_busy) if record.is_busy_known else (None, None)


def _record(version: int, record: Record, busy: int | None, memory_busy: int | None) -> str:
    process = record.process
    percentages = _numbers(_known(busy), _known(memory_busy))
    memory = _numbers(process.memory, process.memory_total, process.samples)
    if version >= _TYPED:
        return f'#{record.state} {process.pid} {_type(process)} {percentages} {memory}'
    return f'#{record.state} {process.pid} {percentages} {_numbers(process.milliseconds)} {memory}'


def _type(process: ProcessCounters) -> str:
    """Return ``C`` for compute, ``G`` for graphics, ``U`` for a process that does both."""
    if process.computes and process.draws:
        return 'U'
    return 'G' if process.draws else 'C'


def _numbers(*figures: int) -> str:
    return ' '.join(map(str, figures))
