"""Memory of several kinds for programs that are started by tests."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event, Semaphore

__all__ = ['HUGE_PAGE', 'drop', 'huge_pages', 'private', 'read', 'shared', 'write', 'write_shared_memory']

HUGE_PAGE = 1 << 21
_MAP_HUGETLB = 0x40000


def private(size: int, *, huge: bool = False) -> mmap.mmap:
    """Map anonymous memory of this process, in which nothing is written yet.

    :param huge: Ask for transparent huge pages.
    """
    block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if huge:
        block.madvise(mmap.MADV_HUGEPAGE)
    return block


def shared(kind: str, size: int, path: str) -> mmap.mmap:
    """Map memory that children share: ``anonymous``, of a ``memfd``, or of a ``file`` with this path."""
    if kind == 'anonymous':
        return mmap.mmap(-1, size)
    handle = os.memfd_create('block') if kind == 'memfd' else os.open(path, os.O_RDWR | os.O_CREAT)
    os.truncate(handle, size)
    block = mmap.mmap(handle, size)
    os.close(handle)
    return block


def huge_pages(size: int, *, sharing: bool = False) -> mmap.mmap:
    """Map memory in the huge pages that the administrator has set aside (``MAP_HUGETLB``)."""
    return mmap.mmap(
        -1, size, flags=(mmap.MAP_SHARED if sharing else mmap.MAP_PRIVATE) | mmap.MAP_ANONYMOUS | _MAP_HUGETLB
    )


def write(block: mmap.mmap, first: int = 0, size: int | None = None) -> None:
    """Write to each page, or to those of ``size`` bytes from ``first`` on."""
    last = len(block) if size is None else first + size
    block[first : last : mmap.PAGESIZE] = bytes(len(range(first, last, mmap.PAGESIZE)))


def read(block: mmap.mmap, first: int = 0, size: int | None = None) -> None:
    """Read each page, or those of ``size`` bytes from ``first`` on."""
    last = len(block) if size is None else first + size
    bytes(block[first : last : mmap.PAGESIZE])


def drop(block: mmap.mmap, first: int = 0, size: int | None = None) -> None:
    """Give pages back, and keep their addresses."""
    block.madvise(mmap.MADV_DONTNEED, first, len(block) - first if size is None else size)


def write_shared_memory(name: str, first: int, size: int, ready: Semaphore, go: Event) -> None:
    """Write to a part of ``multiprocessing.shared_memory``, say so, and wait."""
    from multiprocessing.shared_memory import SharedMemory  # noqa: PLC0415 - few programs need it

    memory = SharedMemory(name)
    memory.buf[first : first + size : mmap.PAGESIZE] = bytes(len(range(0, size, mmap.PAGESIZE)))
    ready.release()
    go.wait()
    memory.close()
