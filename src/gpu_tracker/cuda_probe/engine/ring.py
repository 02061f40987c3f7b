"""A BPF ring buffer, read where the kernel writes it: no call into the kernel for each record, or even for each look.

The layout is that of kernel/bpf/ringbuf.c, which libbpf reads in the same way: a page with the reader's position, a
page with the writer's, and the data, mapped twice in a row so that no record is ever cut. Each record has a header of
eight bytes, its length with a bit that says that it is still being written.

libbpf calls back for each record, which costs ten times as much in Python.
"""

from __future__ import annotations

import mmap
import struct

_HEADER = 8
_BUSY = 1 << 31
_POSITION = struct.Struct('<Q')


class Ring:
    """A ring all records of which have the same size.

    :param handle: The map's descriptor.
    :param size: Bytes of its data: a power of two.
    :param record_size: Bytes of each record without its header.
    """

    def __init__(self, handle: int, size: int, record_size: int) -> None:
        page = mmap.PAGESIZE
        self._step = _HEADER + (record_size + 7) // 8 * 8
        self._length = record_size
        self._mask = size - 1
        self._reader = mmap.mmap(handle, page, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=0)
        self._writer = mmap.mmap(handle, page + 2 * size, mmap.MAP_SHARED, mmap.PROT_READ, offset=page)
        self._data = memoryview(self._writer)[page:]

    def take(self) -> bytes:
        """Return all records that are complete, each with its header, and give their room back.

        The kernel completes a record after it has moved the writer's position. No processor reads ahead as far as the
        interpreter's way from the one to the other, so their order here is that of the code, without a barrier.
        """
        (begin,) = _POSITION.unpack_from(self._reader)
        (end,) = _POSITION.unpack_from(self._writer)
        if begin == end:
            return b''
        start = begin & self._mask
        records = self._data[start : start + (end - begin)]
        headers = records.cast('I')[:: self._step // 4].tolist()
        if max(headers) > self._length:
            headers = headers[: next((number for number, header in enumerate(headers) if header & _BUSY), len(headers))]
        taken = bytes(records[: len(headers) * self._step])
        _POSITION.pack_into(self._reader, 0, begin + len(taken))
        return taken

    def close(self) -> None:
        """Let go of the memory."""
        self._data.release()
        self._writer.close()
        self._reader.close()
