"""What a rank writes into the folder of its job: names, keys, and what is left when it is over."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from gpu_tracker.job import FIELDS
from gpu_tracker.jobs.records import read_folder, read_record
from gpu_tracker.recording.writing import rank_files

if TYPE_CHECKING:
    from pathlib import Path

KEYS = [
    'gpu_tracker_job_record', 'program', 'job', 'host', 'machine', 'pid', 'tracker_pid', 'pid_namespace', 'command',
    'folder', 'started_unix', 'ended', 'exit_code', 'cores', 'cpus', 'asked', 'interval', 'write_interval', 'units',
    'sections', 'recording',
]  # fmt: skip


def place(**known: object) -> dict[str, Any]:
    return dict.fromkeys(FIELDS) | {'launcher': 'slurm'} | known


def about(files: rank_files.RankFiles, identity: dict[str, Any] | None, **changes: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {
        'program': 'gpu-tracker 6.0.0',
        'asked': {'cores_of_node': 4, 'ram_of_node': None, 'gpus_of_node': None},
        'pid': os.getpid(),
        'command': ['python', 'train.py'],
        'interval': 1.0,
        'units': ('megabytes', 'megabytes', 'seconds', None),
        'sections': ('io',),
    }
    return rank_files.about_rank(files, identity=identity, **(settings | changes))


@pytest.mark.parametrize(
    ('identity', 'pattern'),
    [
        (None, r'process-[A-Za-z0-9._-]+-\d+-[0-9a-f]{8}'),
        (place(node='n1'), r'process-n1-\d+-[0-9a-f]{8}'),
        (place(rank=3, node='n1'), r'rank-0003-n1-\d+-[0-9a-f]{8}'),
        (place(rank=123456, node='n1'), r'rank-123456-n1-\d+-[0-9a-f]{8}'),
        (place(rank=0, node='../../x y\n'), r'rank-0000-\.\._\.\._x_y_-\d+-[0-9a-f]{8}'),
        (place(rank=0, node='é' * 300), r'rank-0000-_{64}-\d+-[0-9a-f]{8}'),
    ],
)
def test_names_say_which_rank_it_is(tmp_path: Path, identity: dict[str, Any] | None, pattern: str) -> None:
    folder = tmp_path / 'a' / 'job'
    first, second = (rank_files.new_files(str(folder), identity) for _ in range(2))
    assert folder.is_dir()
    assert list(folder.iterdir()) == []
    for files in (first, second):
        assert re.fullmatch(pattern, files.name)
        assert files.start == f'{folder}/{files.name}.start.json'
        assert files.report == f'{folder}/{files.name}.json'
        assert files.recording == f'{folder}/{files.name}.db'
        assert files.partial == f'{folder}/.{files.name}.partial.db'
    assert first.name != second.name


def test_both_records_have_the_same_keys_and_are_read_back(tmp_path: Path) -> None:
    identity = place(job='4711', rank=3, size=4, node='n1')
    files = rank_files.new_files(str(tmp_path), identity)
    known = about(files, identity)
    assert list(known) == KEYS
    files.begin(known)
    files.write(known, {'seconds': 3.0}, 'stopped', -9)
    start, report = (
        json.loads((tmp_path / name).read_text()) for name in (f'{files.name}.start.json', f'{files.name}.json')
    )
    assert set(start) == set(report) == {*KEYS, 'updated_unix', 'totals'}
    changed = {key for key in start if start[key] != report[key]}
    assert changed - {'updated_unix'} == {'ended', 'exit_code', 'totals'}
    ((found,), problems) = read_folder(str(tmp_path))
    assert (found.job.rank, found.job.size, found.ended, found.exit_code) == (3, 4, 'stopped', -9)
    assert (found.command, found.pid, found.asked_cores) == (('python', 'train.py'), os.getpid(), 4)
    assert (found.write_interval, found.recording, problems) == (10.0, None, [])
    assert found.cpus
    assert found.started <= found.updated


def test_no_figure_and_no_word_keeps_a_record_from_being_json(tmp_path: Path) -> None:
    files = rank_files.new_files(str(tmp_path), None)
    known = about(files, place(job='\udcff'), command=['\udcff\udc80', '\n', '\x00'], interval=float('inf'))
    numbers = [float('nan'), float('inf'), -float('inf'), 1.5, (1, float('nan'))]
    files.write(known, {'cpu': numbers, 'deep': {'er': [float('nan')]}}, None, None)
    text = (tmp_path / f'{files.name}.json').read_text(encoding='ascii')
    plain = json.loads(text, parse_constant=pytest.fail)
    assert plain['totals'] == {'cpu': [None, None, None, 1.5, [1, None]], 'deep': {'er': [None]}}
    assert (plain['command'], plain['interval']) == (['\ufffd\ufffd', '\n', '\x00'], None)
    assert read_record(text, 'x').job.job == '?'


def test_what_is_discarded_leaves_nothing_and_what_others_wrote(tmp_path: Path) -> None:
    files, other = (rank_files.new_files(str(tmp_path), None) for _ in range(2))
    for one in (files, other):
        one.begin(about(one, None))
        one.write(about(one, None), None)
        for path in (one.partial, f'{one.partial}-journal'):
            (tmp_path / path).write_text('')
    files.discard()
    files.discard()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [
            f'{other.name}.start.json',
            f'{other.name}.json',
            f'.{other.name}.partial.db',
            f'.{other.name}.partial.db-journal',
        ]
    )
    other.complete_recording()
    other.complete_recording()
    assert (tmp_path / f'{other.name}.db').exists()


@pytest.mark.parametrize(
    ('size', 'seconds'),
    [(None, 10.0), (0, 10.0), (1, 10.0), (1000, 10.0), (1001, 10.01), (100_000, 1000.0), (10**17, 3600.0)],
)
def test_a_file_system_gets_a_hundred_reports_a_second_at_most(size: int | None, seconds: float) -> None:
    assert rank_files.write_interval(size) == seconds
