"""Messages of the kernel's taskstats and process connector, as their headers in linux/ lay them out."""

from __future__ import annotations

import errno
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.processes import exit_records, fork_notices
from gpu_tracker.processes.netlink import attribute, attributes

if TYPE_CHECKING:
    from gpu_tracker.processes.exit_records import Layout

PLAIN, PADDED = LAYOUTS = exit_records._LAYOUTS
STATISTICS = 560
"""Bytes of struct taskstats in version 16."""


def message(pid: int = 77, *, version: int = 16, padded: bool = False, own_pid: int | None = None) -> bytes:
    """Return the message of a thread that has ended."""
    statistics = bytearray(STATISTICS)
    fields = {
        0: ('H', version),
        8: ('B', 0x20 | 0x01),
        24: ('Q', 3_000_000),  # cpu_delay_total
        72: ('Q', 1_500_000),  # cpu_run_virtual_total
        128: ('I', pid if own_pid is None else own_pid),
        132: ('I', 5),  # ac_ppid
        144: ('Q', 9_000),  # ac_etime
        168: ('Q', 40),  # ac_minflt
        176: ('Q', 2),  # ac_majflt
        200: ('Q', 1_024),  # hiwater_rss
        216: ('Q', 10_240),  # read_char
        224: ('Q', 20_480),  # write_char
        248: ('Q', 4_096),  # read_bytes
        256: ('Q', 8_192),  # write_bytes
        264: ('Q', 1_024),  # cancelled_write_bytes
        272: ('Q', 3),  # nvcsw
        368: ('I', 76),  # ac_tgid
        376: ('Q', 11_000),  # ac_tgetime
    }
    for place, (kind, value) in fields.items():
        struct.pack_into(f'={kind}', statistics, place, value)
    statistics[80:84] = b'true'
    padding = attribute(6, b'') if padded else b''
    of_thread = attribute(4, attribute(1, struct.pack('=I', pid)) + padding + attribute(3, bytes(statistics)))
    body = struct.pack('=BBH', 2, 1, 0) + of_thread
    return struct.pack('=IHHII', 16 + len(body), 31, 0, 0, 0) + body


@pytest.mark.parametrize(('layout', 'padded'), [(PLAIN, False), (PADDED, True)])
def test_the_fields_of_a_record_are_read(layout: Layout, padded: bool) -> None:
    record = message(padded=padded)
    assert exit_records.process_of(record, layout) == 76
    assert layout.process(record) == (76,)
    assert layout.fields(record) == (
        len(record), 0x21, 3_000_000, 1_500_000, b'true' + bytes(12), 5, 9_000, 40, 2, 1_024, 3, 76, 11_000,
    )  # fmt: skip
    assert layout.amounts(record) == (10_240, 20_480, 4_096, 8_192, 1_024)


@pytest.mark.parametrize('layout', LAYOUTS)
@pytest.mark.parametrize(
    'told',
    [
        message(version=11),  # does not say of which process the thread is
        message(own_pid=78),  # fields lie elsewhere
        message()[:300],
        b'',
    ],
)
def test_a_record_of_another_layout_is_none(told: bytes, layout: Layout) -> None:
    assert exit_records.process_of(told, layout) is None


def test_a_record_is_not_taken_for_one_of_the_other_layout() -> None:
    assert exit_records.process_of(message(), PADDED) is None
    assert exit_records.process_of(message(padded=True), PLAIN) is None


@given(st.binary(max_size=700) | st.integers(0, 600).map(lambda size: message()[:size] + b'\xff' * 40))
def test_nothing_that_a_message_may_have_raises_anything_else_than_oserror(told: bytes) -> None:
    for layout in LAYOUTS:
        exit_records.process_of(told, layout)
    fork_notices.parsed([told])
    list(attributes(told, 0, len(told)))
    try:
        exit_records.family_of(told)
    except OSError:
        pass


def test_the_number_of_the_family_is_found_behind_others() -> None:
    answer = struct.pack('=IHHII', 0, 16, 0, 0, 0) + struct.pack('=BBH', 1, 2, 0)
    assert exit_records.family_of(answer + attribute(2, b'TASKSTATS\0') + attribute(1, struct.pack('=H', 31))) == 31


def test_an_error_of_the_kernel_is_raised_and_0_is_none() -> None:
    def answer(number: int) -> bytes:
        return struct.pack('=IHHII', 36, 2, 0, 0, 0) + struct.pack('=i', number) + bytes(16)

    exit_records.raise_error_in(answer(0))
    with pytest.raises(PermissionError):
        exit_records.raise_error_in(answer(-errno.EPERM))


@pytest.mark.parametrize(
    ('ran', 'lived', 'waited', 'sleeps', 'nanoseconds'),
    [
        (0, 1_000, 200_000, 0, 800_000),  # no tick has come: it has run but for what it has waited
        (500_000, 3_000, 0, 2, 500_000),  # it has slept: since its last switch it may have run, or not
        (900_000, 100, 0, 0, 900_000),  # clocks are not exactly the same
        (50_000_000, 90_000, 0, 0, 50_000_000),
    ],
)
def test_cpu_time_of_a_thread(ran: int, lived: int, waited: int, sleeps: int, nanoseconds: int) -> None:
    assert exit_records.nanoseconds_of(ran, lived, waited, sleeps) == nanoseconds


def notice(when: int, parent: int, thread: int, child: int) -> bytes:
    return bytes(36) + struct.pack('=IIQIIII', 1, 0, when, parent, parent, thread, child)


def test_notices_of_forks_are_read() -> None:
    told = [notice(70, 5, 6, 6), notice(80, 6, 9, 9), notice(90, 6, 9, 9)[:50]]
    assert fork_notices.parsed(told) == [(70, 5, 6), (80, 6, 9)]
