"""Records of strangers: whatever lies in a job's folder is read or named, and what is read can be merged and shown."""

from __future__ import annotations

import copy
import json
import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tracker.jobs import job_text, merging
from gpu_tracker.jobs.loading import load_job, read_folders
from gpu_tracker.jobs.merging import merge
from gpu_tracker.jobs.records import read_folder, read_record
from gpu_tracker.result.usage import JobIdentity
from gpu_tracker.views.job_page import job_html, job_page
from support.job_folders import GIB, START, record, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpu_tracker.jobs.job_report import JobReport
    from gpu_tracker.jobs.records import RankRecord

NOW = START + 1000
FULL = record(
    0,
    size=2,
    gpus=[{'uuid': 'GPU-a', 'name': 'A100', 'capacity': 40 * GIB, 'combined': GIB, 'utilization': 50.0}],
    energy={'seconds': 100.0, 'gpus': [['GPU-a', 700.0, False]], 'packages': 900.0},
    tracker_pid=99,
    pid_namespace=4026531836,
    command=['python', 'train.py'],
    folder='/home/user',
    cores=8,
    interval=1.0,
    units=['megabytes', 'megabytes', 'seconds', None],
    sections=['io', 'energy'],
    recording='rank-0.db',
)
FULL['totals']['io'] = {'combined': {'bytes': [10, 20], 'rates': [1.0, 2.0], 'faults': [1, 2], 'switches': [3, 4]}}
"""A record with all that a rank can write."""


def shown(report: JobReport) -> None:
    """Show a report in every way that there is; JSON without numbers that JSON does not have."""
    as_json = json.dumps(report.to_json(), allow_nan=False)
    for text in (job_text.as_text(report), job_text.as_summary(report), job_page(report), job_html(report), as_json):
        assert text.encode(errors='surrogateescape')


def merged(*records: RankRecord) -> JobReport:
    return merge(records, now=NOW)


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path to each value inside a record; of lists only to the first one."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def changed(path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    content = copy.deepcopy(FULL)
    target: Any = content
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return content


WRONG = [
    None, True, 0, -1, 2**63, 10**22, 10**400, 0.5, -1e308, 5e-324, float('nan'), float('-inf'), '', '-1', 'x' * 10_000,
    '\ud800', '\x1b[2J\n\0', '<script>alert(1)</script>{rank}', '0-9999999', '9' * 4000, [], [None], [[]], ['x'],
    [1, 2, 3, 4], [10**400], [float('nan')] * 3, {}, {'': None}, {'combined': 'x'}, [{'uuid': 1}],
    [{'uuid': 'u', 'combined': None, 'utilization': 10**400}], {'gpus': [['u', float('nan')]]},
]  # fmt: skip


@pytest.mark.parametrize('path', [path for path in places(FULL) if path], ids=lambda path: '.'.join(map(str, path)))
def test_no_value_at_any_place_of_a_record_breaks_the_report(path: tuple[str | int, ...]) -> None:
    right = read_record(json.dumps(record(1, size=2)), 'rank-1')
    read: list[RankRecord] = []
    for value in WRONG:
        try:
            found = read_record(json.dumps(changed(path, value)), 'wrong')
        except ValueError:
            continue
        if found in read:  # most wrong values are read as unknown
            continue
        report = merged(right, found)
        assert json.dumps(report.to_json(), allow_nan=False)
        assert job_text.as_text(report)
        read.append(found)
    shown(merged(right, *(replace(found, name=f'wrong-{number}') for number, found in enumerate(read))))


ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -(10**400), 2**62])
    | st.floats()
    | st.text(st.characters(codec=None), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(ANY_JSON)
def test_any_json_is_a_record_or_refused(plain: object) -> None:
    try:
        found = read_record(json.dumps(plain), 'rank-0')
    except ValueError:
        return
    shown(merged(found))


@settings(max_examples=50)
@given(st.lists(st.dictionaries(st.sampled_from(sorted(FULL)), ANY_JSON, max_size=5), min_size=1, max_size=3))
def test_any_values_of_any_keys_are_a_record_or_refused(changes: list[dict[str, Any]]) -> None:
    read = []
    for number, change in enumerate(changes):
        try:
            read.append(read_record(json.dumps(FULL | change), f'rank-{number}'))
        except ValueError:
            continue
    shown(merged(*read))


@given(st.binary(max_size=60), st.integers(0, 400))
def test_any_bytes_are_a_record_or_refused(data: bytes, cut: int) -> None:
    text = json.dumps(record(0)).encode()
    for content in (data, text[:cut], text[:cut] + data + text[cut + len(data) :]):
        try:
            shown(merged(read_record(content, 'rank-0')))
        except ValueError:
            continue


@pytest.mark.parametrize(
    ('text', 'reason'),
    [
        (b'\xff\xfe', 'it is not JSON'),
        ('{"a": 1}{', 'it is not JSON'),
        ('[' * 500_000, 'it is not JSON'),
        ('{"a":' * 500_000, 'it is not JSON'),
        ('9' * 5000, 'it is not JSON'),
        ('null', 'it is not the result of a rank'),
        ('["gpu_tracker_job_record"]', 'it is not the result of a rank'),
        ('"gpu_tracker_job_record"', 'it is not the result of a rank'),
        ('{"gpu_tracker_job_record": 2, "started_unix": 1}', (
            'its format version is 2, but this '
            'gpu-tracker reads version 1'
        )),
        ('{"gpu_tracker_job_record": "1"}', "its format version is '1', but this gpu-tracker reads version 1"),
        ('{"gpu_tracker_job_record": null}', 'its format version is None, but this gpu-tracker reads version 1'),
        ('{"gpu_tracker_job_record": 1, "started_unix": -1, "updated_unix": 1}', 'its times or totals are missing'),
        ('{"gpu_tracker_job_record": 1, "started_unix": 1, "updated_unix": 1e12}', 'its times or totals are missing'),
        ('{"gpu_tracker_job_record": 1, "started_unix": NaN, "updated_unix": 1}', 'its times or totals are missing'),
        (
            '{"gpu_tracker_job_record": 1, "started_unix": 1, "updated_unix": 1, "totals": []}',
            'its times or totals are missing',
        ),
        ('{"gpu_tracker_job_record": 1, "job": 1}', 'the identity of a rank must be a JSON object'),
        ((
            '{"gpu_tracker_job_record": 1, "job": {"launcher": "x", "rank": '
            '1.0}}'
        ), 'rank in the identity of a rank cannot be 1.0'),
    ],
)  # fmt: skip
def test_what_is_refused_says_why(text: str | bytes, reason: str) -> None:
    with pytest.raises(ValueError, match='it') as refused:
        read_record(text, 'rank-0')
    assert str(refused.value) == reason


def test_values_of_wrong_types_are_unknown() -> None:
    least = {'gpu_tracker_job_record': 1, 'started_unix': 20, 'updated_unix': 10}
    wrong = {
        'host': 1, 'machine': [], 'pid': '1', 'tracker_pid': 1.0, 'pid_namespace': True, 'command': ['a', 1],
        'ended': 0, 'exit_code': '0', 'cpus': '0-3,x', 'asked': [1], 'write_interval': -1, 'totals': None,
    }  # fmt: skip
    for content in (least, least | wrong):
        found = read_record(json.dumps(content), 'n')
        assert (found.job, found.host, found.machine) == (JobIdentity(launcher=''), None, None)
        assert (found.pid, found.tracker_pid, found.pid_namespace, found.command) == (None, None, None, None)
        assert (found.ended, found.exit_code, found.cpus, found.totals) == (None, None, frozenset(), None)
        assert (found.asked_cores, found.asked_ram, found.asked_gpus, found.write_interval) == (None, None, None, 0.0)
        assert (found.started, found.updated) == (20.0, 20.0), 'nothing was written before it began'


@pytest.mark.parametrize(
    ('text', 'cpus'),
    [
        ('0-3,8', {0, 1, 2, 3, 8}), ('5', {5}), ('0,0-1', {0, 1}), ('3-1', set()), ('', set()), ('-', set()),
        ('-1', set()), ('1-', {1}), ('0-3,', set()), ('0x3', set()), ('0-9999999', set()), ('1.5', set()),
    ],
)  # fmt: skip
def test_lists_of_cpus(text: str, cpus: set[int]) -> None:
    assert read_record(json.dumps(FULL | {'cpus': text}), 'n').cpus == cpus


def test_figures_that_are_none_are_unknown_and_add_up_to_nothing() -> None:
    content = record(0, cpu=float('nan'), ram=-5)
    content['totals']['gpu'] |= {'combined': '7', 'mean_sum': True}
    report = merged(read_record(json.dumps(content), 'rank-0'), read_record(json.dumps(record(1)), 'rank-1'))
    first = report.ranks[0]
    assert (first.cpu_seconds, first.max_ram.value, first.max_ram.lower, first.max_ram.upper) == (None,) * 4
    assert (first.max_gpu_ram, first.gpu_utilization) == (None, None)
    assert report.cpu_seconds == 50.0
    assert report.nodes[0].max_ram.value is None
    assert report.nodes[0].max_ram.lower == GIB


def test_one_record_cannot_make_a_report_of_millions_of_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    report = merged(read_record(json.dumps(record(0, size=9_999_999)), 'rank-0'))
    assert (report.ranks_expected, report.never_started, report.ranks_started) == (None, (), 1)
    monkeypatch.setattr(merging, '_MOST_SIZE', 1000)
    steps = [record(0, size=600, job={'step': step}) for step in ('0', '1')]
    several = merged(*(read_record(json.dumps(one), f'rank-{place}') for place, one in enumerate(steps)))
    assert (several.ranks_expected, len(several.never_started)) == (None, 599)


def test_texts_of_a_record_are_shown_as_texts() -> None:
    hostile = '<img src=x onerror=alert(1)>\x1b]0;title\x07\u202e'
    content = record(0, job={'job': hostile, 'step': hostile, 'node': hostile, 'launcher': hostile, 'rank': None})
    report = merged(read_record(json.dumps(content), 'rank-0'), read_record(json.dumps(record(1)), 'rank-1'))
    for page in (job_page(report), job_html(report)):
        assert '<img' not in page
        assert '<script' not in page
        assert '&lt;img src=x onerror=alert(1)&gt;' in page
    for text in (job_text.as_text(report), job_text.as_summary(report)):
        assert '\x1b' not in text
        assert '\x07' not in text
        assert '\u202e' not in text


def test_what_is_no_regular_file_is_left_out_and_costs_no_descriptor(tmp_path: Path) -> None:
    write(tmp_path, 'rank-0', record(0, size=1))
    (tmp_path / 'zero.json').symlink_to('/dev/zero')
    (tmp_path / 'dangling.json').symlink_to('nowhere')
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / 'socket.json'))
        for number in range(100):
            (tmp_path / f'folder-{number}.json').mkdir()
        before = len(os.listdir('/proc/self/fd'))
        records, problems = read_folder(str(tmp_path))
    assert len(os.listdir('/proc/self/fd')) <= before
    assert [one.name for one in records] == ['rank-0']
    assert len(problems) == 103
    assert problems[0] == 'dangling.json is left out: No such file or directory'
    assert problems[1] == 'folder-0.json is left out: Is a directory'
    assert problems[-2:] == [
        'socket.json is left out: No such device or address',
        'zero.json is left out: it is not a regular file',
    ]


def test_a_report_stands_for_its_start_record_and_the_other_way_round(tmp_path: Path) -> None:
    write(tmp_path, 'only-start', record(0, size=4), has_report=False)
    (tmp_path / 'only-report.json').write_text(json.dumps(record(1, size=4)))
    write(tmp_path, 'broken-start', record(2, size=4))
    (tmp_path / 'broken-start.start.json').write_text('')
    write(tmp_path, 'newer-report', record(3, size=4))
    (tmp_path / 'newer-report.json').write_text(json.dumps(record(3, size=4) | {'gpu_tracker_job_record': 2}))
    (tmp_path / 'nothing.start.json').write_text('')
    (tmp_path / 'nothing.json').write_text('')
    for name in ('.json', '.start.json', 'x.json.tmp', 'y.JSON', '.gpu-tracker-1-0.tmp', 'z.start.jso'):
        (tmp_path / name).write_text('')
    records, problems = read_folder(str(tmp_path))
    assert [(one.name, one.job.rank, one.totals is None) for one in records] == [
        ('broken-start', 2, False),
        ('newer-report', 3, True),
        ('only-report', 1, False),
        ('only-start', 0, True),
    ]
    assert problems == [
        '.json is left out: it is not JSON',
        '.start.json is left out: it is not JSON',
        'newer-report.json is left out: its format version is 2, but this gpu-tracker reads version 1',
        'nothing.json is left out: it is not JSON',
        'nothing.start.json is left out: it is not JSON',
    ]
    report = merge(records, now=NOW, problems=problems)
    assert (report.ranks_started, report.never_started, report.is_lower_bound) == (4, (), True)
    assert {state: count for state, count in report.states.items() if count} == {'ended': 2, 'lost': 2}
    assert report.problems[:2] == (
        'Nobody has seen the end of rank 0, rank 3: figures are up to the last report.',
        'Nothing is known of what rank 0, rank 3 used: it is in no figure.',
    )


def test_names_of_files_that_no_encoding_has_are_named(tmp_path: Path) -> None:
    write(tmp_path, 'rank-0', record(0, size=1))
    with open(os.fsencode(tmp_path) + b'/\xff\n\x1b[2J.json', 'w', encoding='ascii') as file:
        file.write('{')
    report = load_job(tmp_path)
    shown(report)
    assert report.problems == ('\udcff\n\x1b[2J.json is left out: it is not JSON',)
    assert '\x1b' not in str(report)


def test_a_recording_that_is_none_takes_nothing_from_the_report(tmp_path: Path) -> None:
    for number, node in enumerate(('n1', 'n1', 'n1', 'n2')):
        write(tmp_path, f'rank-{number}', record(number, size=4, node=node))
    (tmp_path / 'rank-0.db').write_text('no database')
    os.mkfifo(tmp_path / 'rank-1.db')
    (tmp_path / 'rank-2.db').mkdir()
    (tmp_path / '.rank-3.partial.db').write_bytes(b'SQLite format 3\0' + bytes(1000))
    report = load_job(tmp_path)
    shown(report)
    assert (report.cpu_seconds, report.states['ended'], report.regions) == (200.0, 4, ())
    assert (report.nodes[0].max_ram.value, report.nodes[0].max_ram.lower) == (None, GIB)
    assert report.nodes[1].max_ram.value == GIB
    found = [problem.replace(f'{tmp_path}/', '') for problem in report.problems]
    assert found[:3] == [
        'rank-0.db is not a gpu-tracker recording',
        'rank-1.db is not a regular file, so it cannot be a recording',
        'rank-2.db is not a regular file, so it cannot be a recording',
    ]
    assert found[3].startswith('.rank-3.partial.db ')


def test_a_folder_counts_once_however_often_it_is_named(tmp_path: Path) -> None:
    for task in (1, 2):
        write(tmp_path / f'task-{task}', 'rank-0', record(0, size=1, job={'array_task': task}))
    (tmp_path / 'link').symlink_to('task-1')
    names = [str(tmp_path / name) for name in ('task-2', 'task-1', 'task-2/', 'link', 'task-1/../task-2/.')]
    records, problems = read_folders(names)
    assert (sorted(one.job.array_task or 0 for one in records), problems) == ([1, 2], [])
    assert load_job(names).cpu_seconds == 100.0
