from __future__ import annotations

import copy
import gc
import json
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.resources import Resource
from gpu_tracker.sampler.publisher import Publisher
from gpu_tracker.sampler.store import Store, create_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GROUP = [1_000_000, 500_000, 500_000]
UNKNOWN = [None, None, None]
TOTALS = {
    'ram': {
        'main': GROUP,
        'descendants': UNKNOWN,
        'combined': GROUP,
        'system': 9_000_000,
        'capacity': 10_000_000,
        'ceilings': [1_000_000, 0, 1_000_000],
        'most_private': 0,
        'most_of_main': 1_000_000,
        'reasons': [],
    },
    'cpu': {
        **{key: [1.0, 0.5] for key in ('main', 'descendants', 'combined', 'system')},
        'threads': [1, 0, 1],
        'cores': 2,
        'before': 0.0,
        'unreceived': 0.0,
        **dict.fromkeys(('has_reaped', 'has_orphans', 'is_ignored'), False),
        'counts_reaped': True,
    },
    'gpu': {
        'count': 0, 'expected': 0, 'capacity': 0, 'system': 0, 'main': 0, 'descendants': 0, 'combined': 0,
        'max_sum': 0.0, 'mean_sum': 0.0,
    },
}  # fmt: skip
LINEAGE = {
    'has_descendants': False,
    'faults_of_waited_for': 0,
    'older_has_ended': False,
    'may_miss_orphans': False,
}
RECORD = {'is_limited': False, 'held': False, 'tracked_seconds': None}


class Sampled(Resource):
    """Has used what a test says."""

    def __init__(self, name: str) -> None:
        self.name = name

    def totals(self) -> dict[str, object]:
        return copy.deepcopy(TOTALS[self.name])


@pytest.fixture
def store() -> Iterator[Store]:
    store, _ = create_store()
    yield store
    store.close()


def publisher(
    store: Store,
    path: Path,
    *,
    settles: bool = False,
    report_format: str = 'json',
    held: bool = False,
    has_descendants: bool = False,
) -> Publisher:
    return Publisher(
        {
            'report': (str(path), (report_format, (), ('program',)), report_format == 'csv'),
            'units': ('megabytes', 'megabytes', 'seconds', None),
            'overhead': None,
            'interval': 1.0,
            'settles': settles,
            'job': None,
        },
        store=store,
        resources={name: Sampled(name) for name in TOTALS},
        record=lambda: {
            'record': RECORD | {'held': held},
            'lineage': LINEAGE | {'has_descendants': has_descendants},
        },
    )


def test_the_report_so_far_is_written_once_a_second(store: Store, tmp_path: Path) -> None:
    path = tmp_path / 'report'
    told = publisher(store, path)
    told.publish(1.0, seconds=2.0, samples=3, last=False, abandoned=False)
    assert json.loads(path.read_text())['max_ram']['main']['total_rss'] == 1.0
    path.unlink()
    told.publish(1.9, seconds=2.0, samples=3, last=False, abandoned=False)
    assert not path.exists()
    told.publish(2.0, seconds=2.0, samples=3, last=False, abandoned=False)
    assert path.exists()


@pytest.mark.parametrize(('has_descendants', 'total'), [(False, 0.0), (True, None)])
def test_the_report_is_settled_and_the_store_has_what_was_read(
    store: Store, tmp_path: Path, total: float, *, has_descendants: bool
) -> None:
    path = tmp_path / 'report'
    told = publisher(store, path, has_descendants=has_descendants)
    told.publish(1.0, seconds=2.0, samples=3, last=False, abandoned=False)
    assert json.loads(path.read_text())['max_ram']['descendants']['total_rss'] == total
    evidence = store.read()
    assert evidence['ram'] == TOTALS['ram']
    assert evidence['lineage'] == LINEAGE | {'has_descendants': has_descendants}


def test_a_tracker_that_settles_writes_the_last_report_itself_unless_it_has_gone(store: Store, tmp_path: Path) -> None:
    path = tmp_path / 'report'
    told = publisher(store, path, settles=True)
    told.publish(1.0, seconds=2.0, samples=3, last=True, abandoned=False)
    assert not path.exists()
    assert store.read()['samples'] == 3
    told.publish(1.1, seconds=2.0, samples=3, last=True, abandoned=True)
    assert path.exists()


def test_a_table_gets_the_line_of_a_run_whose_tracker_has_gone_and_no_other(store: Store, tmp_path: Path) -> None:
    path = tmp_path / 'runs.csv'
    for settles in (False, True):
        told = publisher(store, path, settles=settles, report_format='csv')
        told.publish(1.0, seconds=2.0, samples=3, last=False, abandoned=False)
        told.publish(3.0, seconds=2.0, samples=3, last=True, abandoned=False)
        assert not path.exists()
    told.publish(4.0, seconds=2.0, samples=3, last=True, abandoned=True)
    header, line = path.read_text().splitlines()
    assert header.startswith('command,exit_code,max_ram.unit,')
    assert line.startswith('program,,megabytes,')


def test_a_command_that_was_never_started_leaves_the_file_alone(store: Store, tmp_path: Path) -> None:
    path = tmp_path / 'report'
    publisher(store, path, held=True).publish(1.0, seconds=2.0, samples=3, last=True, abandoned=True)
    assert not path.exists()


def test_writing_leaves_nothing_to_be_collected(store: Store, tmp_path: Path) -> None:
    told = publisher(store, tmp_path / 'report')
    told.publish(1.0, seconds=2.0, samples=3, last=False, abandoned=False)
    gc.collect()
    gc.disable()
    try:
        told.publish(3.0, seconds=2.0, samples=3, last=False, abandoned=False)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_what_a_report_shows_is_in_the_store_already(tmp_path: Path) -> None:
    """The sampler may be killed between the two, and the tracker then writes what is in the store."""
    path = tmp_path / 'report'

    class Observed:
        def __init__(self) -> None:
            self.writes: list[bool] = []

        def write(self, totals: dict[str, object]) -> None:
            self.writes.append(path.exists())

    store = Observed()
    publisher(store, path).publish(1.0, seconds=2.0, samples=3, last=False, abandoned=False)
    assert store.writes == [False]
    assert path.exists()


def test_a_report_that_cannot_be_written_is_told_of_at_once(store: Store, tmp_path: Path) -> None:
    path = tmp_path / 'missing' / 'report'
    publisher(store, path).publish(1.0, seconds=2.0, samples=3, last=True, abandoned=False)
    assert store.read()['messages'] == [
        ('warning', f'The resource usage could not be written to {path}: No such file or directory.')
    ]
