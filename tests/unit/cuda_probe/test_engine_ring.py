"""The ring of the kernel, read from memory that is laid out as the kernel does."""

from __future__ import annotations

import mmap
import struct

import pytest

from gpu_tracker.cuda_probe.engine.kernel_layout import Ring

SIZE = 4096
RECORD = 24
STEP = 32
"""Of a record with its header."""
BUSY = 1 << 31
DISCARDED = 1 << 30


class Kernel:
    """Writes records as the kernel does."""

    def __init__(self, begin: int = 0) -> None:
        self.reader = bytearray(mmap.PAGESIZE)
        self.rest = bytearray(mmap.PAGESIZE + SIZE)
        struct.pack_into('<Q', self.reader, 0, begin)
        struct.pack_into('<Q', self.rest, 0, begin)
        self.ring = Ring(memoryview(self.reader), memoryview(self.rest), RECORD)

    def write(self, *records: bytes, flags: int = 0) -> None:
        for record in records:
            (end,) = struct.unpack_from('<Q', self.rest)
            self._put(end, struct.pack('<II', len(record) | flags, 0) + record)
            struct.pack_into('<Q', self.rest, 0, end + STEP)

    def complete(self, position: int, flags: int = 0) -> None:
        self._put(position, struct.pack('<I', RECORD | flags))

    def taken(self) -> list[bytes]:
        """Return the records that the ring gives, without their headers."""
        given = self.ring.take()
        assert len(given) % STEP == 0
        return [given[at + 8 : at + STEP] for at in range(0, len(given), STEP)]

    @property
    def position(self) -> int:
        """Up to where the kernel may write anew."""
        return struct.unpack_from('<Q', self.reader)[0]

    def _put(self, position: int, contents: bytes) -> None:
        for number, byte in enumerate(contents):
            self.rest[mmap.PAGESIZE + (position + number) % SIZE] = byte


def record(number: int) -> bytes:
    return struct.pack('<QQQ', number, number * 2, number * 3)


def test_an_empty_ring_gives_nothing() -> None:
    kernel = Kernel()
    assert kernel.ring.take() == b''
    assert kernel.position == 0


def test_records_come_once_in_their_order_with_their_headers() -> None:
    kernel = Kernel()
    kernel.write(record(1), record(2))
    given = kernel.ring.take()
    assert given == b'\x18\0\0\0\0\0\0\0' + record(1) + b'\x18\0\0\0\0\0\0\0' + record(2)
    assert kernel.position == 64
    assert kernel.ring.take() == b''
    kernel.write(record(3))
    assert kernel.taken() == [record(3)]


def test_records_across_the_end_of_the_memory_are_whole() -> None:
    kernel = Kernel(begin=5 * SIZE + SIZE - STEP - 8)  # the second one begins 8 bytes before the end
    kernel.write(record(1), record(2), record(3))
    assert kernel.taken() == [record(1), record(2), record(3)]
    assert kernel.position == 6 * SIZE + 2 * STEP - 8


def test_a_full_ring_is_taken_whole() -> None:
    kernel = Kernel(begin=3 * STEP)
    records = [record(number) for number in range(SIZE // STEP)]
    kernel.write(*records)
    assert kernel.taken() == records


def test_what_comes_after_a_record_that_is_being_written_waits_for_it() -> None:
    kernel = Kernel()
    kernel.write(record(1))
    kernel.write(record(2), flags=BUSY)
    kernel.write(record(3))
    assert kernel.taken() == [record(1)]
    assert kernel.position == STEP
    assert kernel.taken() == []
    assert kernel.position == STEP
    kernel.complete(STEP)
    assert kernel.taken() == [record(2), record(3)]


def test_records_that_were_given_up_are_left_out() -> None:
    kernel = Kernel()
    kernel.write(record(1), flags=DISCARDED)
    kernel.write(record(2))
    kernel.write(record(3), flags=DISCARDED)
    kernel.write(record(4), flags=BUSY)
    assert kernel.taken() == [record(2)]
    assert kernel.position == 3 * STEP
    kernel.complete(3 * STEP, DISCARDED)
    assert kernel.taken() == []
    assert kernel.position == 4 * STEP


def test_positions_of_a_ring_that_has_run_for_years_are_read_whole() -> None:
    kernel = Kernel(begin=2**63 - STEP)
    kernel.write(record(1), record(2))
    assert kernel.taken() == [record(1), record(2)]
    assert kernel.position == 2**63 + STEP


@pytest.mark.parametrize('length', [17, 24])
def test_a_record_takes_a_whole_number_of_eight_bytes(length: int) -> None:
    kernel = Kernel()
    kernel.ring = Ring(memoryview(kernel.reader), memoryview(kernel.rest), length)
    kernel.write(bytes(length))
    kernel.write(bytes(length))
    assert len(kernel.ring.take()) == 2 * STEP


def test_a_closed_ring_lets_go_of_the_memory() -> None:
    kernel = Kernel()
    kernel.write(record(1))
    kernel.ring.take()
    kernel.ring.close()
    with pytest.raises(ValueError, match='released memoryview'):
        kernel.ring.take()
