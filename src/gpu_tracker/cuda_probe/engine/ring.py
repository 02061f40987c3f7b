"""A BPF ring buffer, read from shared memory: no call into the kernel for each record, or even for each read.

The layout is that of kernel/bpf/ringbuf.c, which libbpf reads in the same way: a page with the reader's position, a
page with the writer's, and the data, mapped twice in a row so that no record is ever cut. Each record has a header of
eight bytes, its length with bits that say that it is still being written, or was given up.

libbpf calls back for each record, which costs ten times as much in Python.
"""

from __future__ import annotations

import mmap

_HEADER = 8
_BUSY = 1 << 31
_DISCARDED = 1 << 30


class Ring:
    """A ring all records of which have the same size.

    :param reader: The page with the reader's position, which is written.
    :param rest: The page with the writer's position, and the data twice; its size is a power of two.
    :param record_size: Bytes of each record without its header.
    """

    def __init__(self, reader: memoryview, rest: memoryview, record_size: int) -> None:
        self._taken = reader[:8].cast('Q')
        self._written = rest[:8].cast('Q')
        self._data = rest[mmap.PAGESIZE :]
        self._mask = len(self._data) // 2 - 1
        self._length = record_size
        self._step = _HEADER + (record_size + 7) // 8 * 8

    @classmethod
    def mapped(cls, handle: int, size: int, record_size: int) -> Ring:
        """Return the ring of a map.

        :param handle: The map's descriptor.
        :param size: Bytes of its data.
        :raises OSError: It cannot be mapped.
        """
        page = mmap.PAGESIZE
        reader = mmap.mmap(handle, page, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=0)
        rest = mmap.mmap(handle, page + 2 * size, mmap.MAP_SHARED, mmap.PROT_READ, offset=page)
        return cls(memoryview(reader), memoryview(rest), record_size)

    def take(self) -> bytes:
        """Return all records that are complete, each with its header, and give their room back.

        The kernel completes a record after it has moved the writer's position. No processor reads ahead as far as the
        interpreter's way from the one to the other, so their order here is that of the code, without a barrier.
        """
        begin, end = self._taken[0], self._written[0]
        if begin == end:
            return b''
        start = begin & self._mask
        records = self._data[start : start + (end - begin)]
        headers = records.cast('I')[:: self._step // 4].tolist()
        if max(headers) <= self._length:
            taken = bytes(records)
        else:
            complete = next((number for number, header in enumerate(headers) if header & _BUSY), len(headers))
            taken = b''.join(
                records[number * self._step : (number + 1) * self._step]
                for number, header in enumerate(headers[:complete])
                if not header & _DISCARDED
            )
            end = begin + complete * self._step
        self._taken[0] = end
        return taken

    def close(self) -> None:
        """Let go of the memory."""
        for view in (self._data, self._written, self._taken):
            view.release()
