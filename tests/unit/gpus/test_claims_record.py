from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker.gpus.claim import Claim
from gpu_tracker.gpus.claims.liveness import Circumstances
from gpu_tracker.gpus.claims.record import (
    MOST_BYTES,
    Record,
    bounded,
    claim_of,
    decode,
    encode,
    is_of_this_machine,
    is_void,
)

RECORD = Record(
    uuids=('GPU-1', 'MIG-GPU-2/1/0'),
    uid=1000,
    pid=77,
    process_start=4321.0,
    pid_namespace=4026531836,
    boot_id='boot-1',
    host='node7',
    machine='a1b2c3d4',
    made=1_700_000_000.0,
    expires_at=None,
    command='python train.py',
    started=1_699_000_000.0,
)
WRITTEN = """\
{
 "uuids": [
  "GPU-1",
  "MIG-GPU-2/1/0"
 ],
 "uid": 1000,
 "pid": 77,
 "process_start": 4321.0,
 "pid_namespace": 4026531836,
 "boot_id": "boot-1",
 "host": "node7",
 "machine": "a1b2c3d4",
 "made": 1700000000.0,
 "expires_at": null,
 "command": "python train.py",
 "started": 1699000000.0
}
"""

graphic = st.characters(codec='ascii', categories=('L', 'N', 'P'), exclude_characters=',')
times = st.floats(0, 1e11)
records = st.builds(
    Record,
    uuids=st.lists(st.text(graphic, min_size=1, max_size=128), min_size=1, max_size=5).map(tuple),
    uid=st.integers(0, 2**32),
    pid=st.integers(1, 2**31 - 1),
    process_start=st.none() | st.floats(0, 1e12),
    pid_namespace=st.none() | st.integers(0, 2**63),
    boot_id=st.text(graphic, min_size=1, max_size=50),
    host=st.text(graphic, max_size=64),
    machine=st.text(graphic, max_size=64),
    made=times,
    expires_at=st.none() | times,
    command=st.none() | st.text().map(bounded),
    started=times,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


def moment(
    *,
    clock: float = 50.0,
    time: float = 1_700_000_100.0,
    boot_id: str | None = 'boot-1',
    host: str = 'node7',
    machine: str = 'a1b2c3d4',
    lives=(),
) -> Circumstances:
    """Return a moment at which the processes with the IDs and starts ``lives`` run."""
    return Circumstances(
        clock,
        time,
        boot_id,
        host,
        machine,
        4026531836,
        start_of=dict(lives).get,
        lives=lambda pid, start: (pid, start) in lives,
    )


def test_what_is_written() -> None:
    assert encode(RECORD).decode() == WRITTEN
    assert decode(WRITTEN.encode()) == RECORD


@given(records)
def test_what_was_written_is_read(record: Record) -> None:
    assert decode(encode(record)) == record


def test_keys_of_later_versions_do_no_harm() -> None:
    assert decode(json.dumps(RECORD._asdict() | {'colour': {'a': [1]}}).encode()) == RECORD


@given(records.map(encode), st.data())
def test_half_a_record_is_none(data: bytes, drawn: st.DataObject) -> None:
    end = drawn.draw(st.integers(0, len(data) - 2))  # its last character is the end of a line
    assert decode(data[:end]) is None


@given(st.binary())
def test_any_bytes_can_be_read(data: bytes) -> None:
    assert decode(data) is None


@given(json_values)
def test_any_json_can_be_read(value: object) -> None:
    assert decode(json.dumps(value).encode()) is None


@given(st.sampled_from(Record._fields), json_values)
def test_a_field_may_hold_anything(field: str, value: object) -> None:
    record = decode(json.dumps(RECORD._asdict() | {field: value}).encode())
    assert record is None or isinstance(claim_of(record, 0, moment()), Claim)


@pytest.mark.parametrize(
    ('field', 'value'),
    [
        ('uuids', []),
        ('uuids', 'GPU-1'),
        ('uuids', ['']),
        ('uuids', ['GPU 1']),
        ('uuids', ['GPU-1,GPU-2']),
        ('uuids', ['GPU-\x1b[2J']),
        ('uuids', ['GPU-é']),
        ('uuids', ['G' * 129]),
        ('uuids', ['G'] * 257),
        ('uuids', [['GPU-1']]),
        ('uuids', [1]),
        ('uid', None),
        ('uid', True),
        ('uid', -1),
        ('uid', 1.0),
        ('pid', 0),
        ('pid', -1),
        ('pid', True),
        ('pid', 77.0),
        ('pid', '77'),
        ('pid', 2**31),
        ('pid', None),  # and no time: nothing would ever end it
        ('process_start', 4321),
        ('process_start', -1.0),
        ('process_start', math.inf),
        ('process_start', math.nan),
        ('pid_namespace', 'pid:[1]'),
        ('boot_id', ''),
        ('boot_id', None),
        ('host', None),
        ('machine', None),
        ('machine', 'a b\n'),
        ('made', None),
        ('made', 1.1e11),
        ('made', -0.5),
        ('expires_at', math.nan),
        ('expires_at', -math.inf),
        ('expires_at', 1e300),
        ('expires_at', True),
        ('command', ['python']),
        ('started', None),
        ('started', -1.0),
        ('started', '2025'),
    ],
)
def test_a_record_with_such_a_field_is_none(field: str, value: object) -> None:
    assert decode(json.dumps(RECORD._asdict() | {field: value}).encode()) is None


@pytest.mark.parametrize(
    'data',
    [
        b'[' * 16_000,
        b'{"uuids":' * 1_600,
        b'{"uid": ' + b'9' * 16_000 + b'}',
        b'{"made": 1e99999}',
        WRITTEN.encode('utf-16'),
        WRITTEN.encode() + b' ' * MOST_BYTES,
        b'',
        b'\0' * 4096,
        b'null',
    ],
)
def test_data_made_to_break_a_reader_is_no_record(data: bytes) -> None:
    assert decode(data) is None


@pytest.mark.parametrize('uuids', [(), ('',), ('GPU 1',), ('G' * 129,), ('G',) * 257, ('G' * 128,) * 256])
def test_what_could_not_be_read_is_not_written(uuids: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r'^invalid claim: '):
        encode(RECORD._replace(uuids=uuids))


@pytest.mark.parametrize(
    ('command', 'shown'),
    [
        (None, None),
        ('python träin.py', 'python träin.py'),
        ('echo \x1b]0;x\x07\n\u202egpj', 'echo ?]0;x???gpj'),
        ('echo \udcff', 'echo ?'),  # a byte of an argument that is no text
        ('x' * 200, 'x' * 200),
        ('x' * 201, 'x' * 199 + '…'),
    ],
)
def test_a_command_as_it_may_be_shown(command: str | None, shown: str | None) -> None:
    assert bounded(command) == shown
    assert bounded(shown) == shown


def test_characters_of_a_stranger_do_nothing_on_a_terminal() -> None:
    record = decode(json.dumps(RECORD._asdict() | {'command': 'a\x1b[2Jb\udcff'}).encode())
    assert record is not None
    assert record.command == 'a?[2Jb?'


def test_a_command_of_a_later_version_is_cut() -> None:
    record = decode(json.dumps(RECORD._asdict() | {'command': 'x' * 5000}).encode())
    assert record is not None
    assert record.command == 'x' * 199 + '…'


def test_a_record_of_ordinary_size_can_be_read_whatever_its_characters() -> None:
    uuids = tuple(f'MIG-00000000-0000-0000-0000-{number:012d}' for number in range(256))
    record = RECORD._replace(uuids=uuids, command='\U0001f40d' * 200)
    assert decode(encode(record)) == record


RUNS = [(77, 4321.0)]
RECORD_TIME = 1_700_000_100.0
TIMED = RECORD._replace(pid=None, process_start=None, pid_namespace=None, expires_at=60.0)


@pytest.mark.parametrize(
    ('record', 'at', 'void'),
    [
        (RECORD, moment(lives=RUNS), False),
        (RECORD, moment(lives=[]), True),
        (RECORD, moment(lives=[(77, 4322.0)]), True),  # another process with its number
        (RECORD, moment(lives=RUNS, boot_id='boot-2'), True),
        (RECORD, moment(lives=RUNS, boot_id=None), False),
        (RECORD, moment(lives=RUNS, time=RECORD_TIME + 1e6), False),  # the clock was set
        (RECORD._replace(expires_at=50.5), moment(lives=RUNS), False),
        (RECORD._replace(expires_at=50.0), moment(lives=RUNS), True),
        (RECORD._replace(expires_at=60.0), moment(lives=[]), True),
        (TIMED, moment(), False),
        (TIMED, moment(clock=60.0), True),
        (TIMED, moment(boot_id='boot-2'), True),
        (TIMED, moment(time=RECORD_TIME + 1e6), False),
    ],
)
@pytest.mark.parametrize('is_held', [False, True])
def test_when_a_claim_is_void(record: Record, at: Circumstances, void: bool, is_held: bool) -> None:
    assert is_void(record, at, is_held=is_held and at.boot_id != 'boot-2') is void  # no lock outlasts a restart


SAME_RUN = {'boot_id': 'of-container', 'time': RECORD.started + 50.0}
"""A container with a boot ID of its own, where the clock tells that the machine was not started anew."""


@pytest.mark.parametrize(
    ('record', 'at', 'is_held', 'void'),
    [
        (RECORD, moment(**SAME_RUN, lives=RUNS), False, False),
        (RECORD, moment(**SAME_RUN, lives=[]), False, True),
        (RECORD, moment(**SAME_RUN, lives=[]), True, False),
        (RECORD, moment(boot_id='boot-2', lives=[]), True, False),  # whatever the clock says
        (RECORD._replace(expires_at=50.0), moment(**SAME_RUN, lives=RUNS), True, True),
        (TIMED, moment(**SAME_RUN), False, False),
        (TIMED, moment(boot_id='of-container', time=RECORD.started + 350.0), False, False),
        (TIMED, moment(boot_id='of-container', time=RECORD.started + 351.0), False, True),
        (TIMED, moment(boot_id='of-container', time=RECORD.started - 251.0), False, True),
        (TIMED, moment(**SAME_RUN, clock=60.0), False, True),
    ],
)
def test_when_a_claim_is_void_where_containers_have_their_own_boot_id(
    record: Record, at: Circumstances, is_held: bool, void: bool
) -> None:
    assert is_void(record, at, is_held=is_held) is void


ELSEWHERE = RECORD._replace(pid_namespace=1)


@pytest.mark.parametrize(
    ('record', 'at', 'is_held', 'void'),
    [
        (ELSEWHERE, moment(lives=[]), True, False),
        (ELSEWHERE, moment(lives=RUNS), False, True),  # the process with its number here is another
        (ELSEWHERE._replace(pid_namespace=None), moment(lives=[]), True, False),
        (ELSEWHERE._replace(pid_namespace=None), moment(lives=RUNS), False, True),
        (ELSEWHERE, moment(boot_id='boot-2'), False, True),
        (ELSEWHERE, moment(boot_id='boot-2'), True, False),  # no lock outlasts a restart
        (ELSEWHERE, moment(**SAME_RUN), True, False),
        (ELSEWHERE._replace(expires_at=50.5), moment(), True, False),
        (ELSEWHERE._replace(expires_at=50.5), moment(), False, True),
        (ELSEWHERE._replace(expires_at=50.0), moment(), True, True),
    ],
)
def test_when_a_claim_of_another_container_is_void(
    record: Record, at: Circumstances, is_held: bool, void: bool
) -> None:
    assert is_void(record, at, is_held=is_held) is void


@pytest.mark.parametrize(
    ('at', 'here'),
    [
        (moment(), True),
        (moment(boot_id='boot-2'), True),  # an earlier run of the same machine
        (moment(host='container', machine=''), True),  # the same run of the same machine
        (moment(boot_id='boot-2', machine='ffffffff'), False),  # another machine of the same name
        (moment(boot_id='boot-2', machine=''), False),
        (moment(boot_id='boot-2', host='node8'), False),
        (moment(boot_id=None, host='node8'), False),
    ],
)
def test_which_claims_were_made_on_this_machine(at: Circumstances, here: bool) -> None:
    assert is_of_this_machine(RECORD, at) is here


def test_the_end_of_a_claim_is_told_by_the_clock_on_the_wall() -> None:
    claim = claim_of(TIMED, 1001, moment(clock=50.0, time=1_700_000_100.0))
    assert claim == Claim(
        uuids=('GPU-1', 'MIG-GPU-2/1/0'),
        user_id=1001,
        process_id=None,
        made=1_700_000_000.0,
        expires=1_700_000_110.0,
        command='python train.py',
    )
    assert claim_of(RECORD, 1001, moment()).expires is None


@pytest.mark.parametrize(
    ('record', 'elsewhere'),
    [
        (RECORD, False),
        (RECORD._replace(pid_namespace=1), True),
        (RECORD._replace(pid_namespace=None), True),
        (TIMED, False),
        (TIMED._replace(pid_namespace=1), False),
    ],
)
def test_whose_process_numbers_a_claim_has(record: Record, elsewhere: bool) -> None:
    assert claim_of(record, 1001, moment()).in_another_container is elsewhere
