"""What the kernel tells beside events: seldom, at once, and with texts."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from gpu_tracker.cuda_probe.engine.layout import NOTICE

if TYPE_CHECKING:
    from collections.abc import Iterator


class NoticeKind(IntEnum):
    """What is told."""

    FIRST_CALL = 1
    """A program run has called CUDA for the first time."""
    EXEC = 2
    """A followed process has become another program, with a new number; the address is its number before."""
    LIBRARIES = 3
    """A followed process loads or unloads libraries."""
    KERNEL_NAME = 4
    """A kernel's handle was asked for, the address: by its name, the text, or by its host function, the value."""
    VARIABLE = 5
    """An environment variable of CUDA's was set or removed; the address is 1 where it was to stay if it was set."""
    END = 6
    """A program run that has called CUDA has ended."""
    FORK = 7
    """A followed process has forked: its number and pid are the child's, the address is the parent's number."""


class Notice(NamedTuple):
    """One notice."""

    time: int
    """Nanoseconds of the monotonic clock."""
    address: int
    value: int
    process: int
    pid: int
    kind: int
    name: str
    """Of a variable, or in all other cases the kernel's of the thread."""
    text: str | None
    """None: the variable was removed."""


def read_notices(records: bytes) -> Iterator[Notice]:
    """Yield the notices in ``records``, as a ring gives them."""
    for time, address, value, process, pid, kind, has_text, name, text in NOTICE.iter_unpack(records):
        yield Notice(time, address, value, process, pid, kind, _text(name), _text(text) if has_text else None)


def _text(raw: bytes) -> str:
    return raw.partition(b'\0')[0].decode('utf-8', 'surrogateescape')
