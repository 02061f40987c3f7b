"""Records of both rings, unpacked as the kernel lays them out."""

from __future__ import annotations

import struct

from gpu_tracker.cuda_probe.engine.kernel_layout import EVENT, Notice, NoticeKind, read_notices
from gpu_tracker.cuda_probe.kernel_data import Event, EventKind

HEADER = b'\x18\x01\0\0\x02\0\0\0'
VARIABLE = NoticeKind.VARIABLE


def record(kind: int, name: bytes = b'', text: bytes | None = None, address: int = 0, value: int = 0) -> bytes:
    """Return a notice of run 7, process 4242, at 1000 ns."""
    fields = struct.pack('<QQQIIII', 1000, address, value, 7, 4242, kind, text is not None)
    return HEADER + fields + name.ljust(32, b'\0') + (text or b'').ljust(1024, b'\0')


def read(*records: bytes) -> list[Notice]:
    return list(read_notices(b''.join(records)))


def test_an_event_is_what_the_kernel_wrote() -> None:
    written = HEADER + struct.pack(
        '<QQQQQIiHHI', 2**64 - 1, 2**63 | 4242, 0x5600_0000, 512, 2**40, 1_000_001, -1, EventKind.PROCESS_END, 0, 4243
    )
    (fields,) = EVENT.iter_unpack(written)
    assert Event(*fields) == Event(
        time=2**64 - 1,
        stream=2**63 | 4242,
        address=0x5600_0000,
        value=512,
        in_use=2**40,
        process=1_000_001,
        device=-1,
        kind=EventKind.PROCESS_END,
        flags=0,
        thread=4243,
    )


def test_a_first_call_has_no_text() -> None:
    assert read(record(NoticeKind.FIRST_CALL)) == [Notice(1000, 0, 0, 7, 4242, NoticeKind.FIRST_CALL, '', None)]


def test_a_variable_that_was_set_has_its_name_and_its_value() -> None:
    (notice,) = read(record(VARIABLE, b'CUDA_VISIBLE_DEVICES', b'1,0', address=1))
    assert notice == Notice(1000, 1, 0, 7, 4242, VARIABLE, 'CUDA_VISIBLE_DEVICES', '1,0')


def test_an_empty_value_is_not_a_removed_variable() -> None:
    empty, removed = read(record(VARIABLE, b'CUDA_DEVICE_ORDER', b''), record(VARIABLE, b'CUDA_DEVICE_ORDER'))
    assert (empty.text, removed.text) == ('', None)


def test_what_putenv_was_given_stands_in_the_text_alone() -> None:
    (notice,) = read(record(VARIABLE, text=b'CUDA_VISIBLE_DEVICES=0'))
    assert (notice.name, notice.text) == ('', 'CUDA_VISIBLE_DEVICES=0')


def test_texts_end_at_their_first_zero_or_with_their_room() -> None:
    dirty, full = read(record(5, b'NAME\0rest', b'a\0b'), record(5, b'n' * 32, b't' * 1024))
    assert (dirty.name, dirty.text) == ('NAME', 'a')
    assert (full.name, full.text) == ('n' * 32, 't' * 1024)


def test_bytes_that_are_no_text_are_kept() -> None:
    (notice,) = read(record(NoticeKind.KERNEL_NAME, text=b'kernel_\xff\xc3\xa9', address=0x5500, value=0x5600))
    assert notice.text == 'kernel_\udcffé'
    assert (notice.address, notice.value) == (0x5500, 0x5600)


def test_kinds_that_are_not_known_are_numbers() -> None:
    assert [notice.kind for notice in read(record(99), record(0))] == [99, 0]


def test_nothing_told_is_nothing_read() -> None:
    assert read() == []
