"""The tail of a recording that is being written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.errors import RecordingError
from gpu_tracker.recording import schema
from gpu_tracker.recording.reading.tail import Tail
from support.recordings import being_written, busy_rows, region, write_recording

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a recording of three samples, whose run goes on."""
    path = tmp_path / 'run.db'
    write_recording(
        path,
        rows=busy_rows(3),
        meta={'ended': None, 'exit_code': None},
        gpus=[(1, 'GPU-1', 'A', 1000), (2, 'GPU-2', None, None)],
        gpu_samples=[(0, 1, 10, 5, 5000), (0, 2, None, None, None)],
        processes=[(1, 4242, 1, 'python', 0), (2, 4300, 4242, 'worker', 1_000_000)],
        process_samples=[(0, 1, 100, 10, 1), (2_000_000, 1, 200, 500_000, 2), (2_000_000, 2, None, None, 1)],
        regions=[
            region(7, 'load', 1.0, None, parent=5),
            region(5, 'epoch', 0.5, None, attributes={'n': 3}),
            region(6, 'done', 0.1, 0.2),
        ],
    )
    return path


@pytest.fixture
def tail(path: Path) -> Iterator[Tail]:
    with Tail(path) as tail:
        yield tail


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def samples(tail: Tail) -> list[tuple[float | None, ...]]:
    return [row for batch in tail.samples(['combined_cpu', 'combined_total_rss']) for row in zip(*batch, strict=True)]


def test_each_reading_has_what_was_added_since_the_one_before(path: Path, tail: Tail) -> None:
    assert samples(tail) == [(0.0, 0.0, 10 * 2**20), (1.0, 1.0, 11 * 2**20), (2.0, 2.0, 12 * 2**20)]
    assert samples(tail) == []
    change(path, 'INSERT INTO samples (t, main_cpu, combined_cpu) VALUES (3000000, 2500000, 0)')
    assert samples(tail) == [(3.0, 2.5, None)]
    assert samples(tail) == []


def test_samples_of_gpus_and_processes_are_read_once_too(path: Path, tail: Tail) -> None:
    assert list(tail.process_samples()) == []  # none before there are samples of the run
    samples(tail)
    first = list(tail.gpu_samples())
    assert [(one.t, one.gpu, one.ram, one.combined_ram, one.utilization) for one in first] == [
        (0.0, 1, 10240, 5120, 50.0),
        (0.0, 2, None, None, None),
    ]
    assert [(one.t, one.process, one.rss, one.cpu) for one in tail.process_samples()] == [
        (0.0, 1, 102400, 1e-5),
        (2.0, 1, 204800, 0.5),
        (2.0, 2, None, None),
    ]
    change(
        path,
        'INSERT INTO gpu_samples VALUES (1000000, 1, 20, 20, NULL)',
        'INSERT INTO process_samples VALUES (3000000, 2, 1, 1000000, 1, NULL)',
    )
    assert [(one.t, one.ram) for one in tail.gpu_samples()] == [(1.0, 20480)]
    assert [(one.t, one.process, one.cpu) for one in tail.process_samples()] == [(3.0, 2, 1.0)]


GPU = (1, 'GPU-1', None, None)


def test_the_peaks_of_gpus_are_those_of_the_whole_run(tmp_path: Path) -> None:
    path = tmp_path / 'long.db'
    hours = [(hour * 3_600_000_000, 1, 10 - hour, None, 100 * hour) for hour in range(4)]
    later = [(3 * 3_600_000_000 + 1_000_000, 2, None, 7, None)]
    write_recording(path, rows=busy_rows(4, interval=3600.0), gpus=[GPU], gpu_samples=[*hours, *later])
    with Tail(path) as tail:
        assert tail.gpu_peaks() == {}
        samples(tail)
        assert tail.gpu_peaks() == {1: (10 * 1024, None, 3.0)}
        assert [(one.t, one.gpu) for one in tail.gpu_samples()] == [(10800.0, 1), (10801.0, 2)]
        assert list(tail.gpu_samples()) == []


def test_a_recording_of_an_age_is_read_in_an_instant(tmp_path: Path) -> None:
    path = tmp_path / 'age.db'
    write_recording(path, rows=[(2**62 / 1e6, {})], gpus=[GPU], gpu_samples=[(5, 1, 3, 2, 1)])
    with Tail(path) as tail:
        samples(tail)
        assert tail.gpu_peaks() == {1: (3072, 2048, 0.01)}


def test_of_a_long_run_only_the_last_samples_of_processes_are_read(tmp_path: Path) -> None:
    path = tmp_path / 'long.db'
    rows = [(t * 1_000_000, 1, t, t, 1) for t in range(100)]
    write_recording(path, rows=busy_rows(100), process_samples=rows)
    with Tail(path) as tail:
        samples(tail)
        assert [one.t for one in tail.process_samples()] == [95.0, 96.0, 97.0, 98.0, 99.0]


def test_processes_and_gpus_are_known_by_their_numbers(tail: Tail) -> None:
    found = tail.process(2)
    assert found is not None
    assert (found.pid, found.parent, found.name, found.first_t) == (4300, 4242, 'worker', 1.0)
    assert tail.process(3) is None
    assert [(gpu.id, gpu.uuid, gpu.total_ram) for gpu in tail.gpus()] == [(1, 'GPU-1', 1024000), (2, 'GPU-2', None)]


def test_open_regions_are_those_without_an_end(path: Path, tail: Tail) -> None:
    assert [(one.id, one.parent_id, one.name, one.attributes, one.start) for one in tail.open_regions()] == [
        (5, None, 'epoch', '{"n": 3}', 0.5),
        (7, 5, 'load', None, 1.0),
    ]


def test_a_long_search_for_open_regions_is_followed_by_a_long_pause(path: Path) -> None:
    now = [100.0]

    def clock() -> float:
        now[0] += 0.25  # from the beginning of a search to its end
        return now[0]

    with Tail(path, monotonic=clock) as tail:
        assert len(tail.open_regions()) == 2
        change(path, 'UPDATE regions SET stop = 2000000 WHERE id = 7')
        assert len(tail.open_regions()) == 2
        now[0] += 5.0
        assert [one.name for one in tail.open_regions()] == ['epoch']


def test_the_end_of_the_run_is_seen(path: Path, tail: Tail) -> None:
    assert tail.read_meta().ended is None
    change(path, f"INSERT INTO meta VALUES ('ended', '{schema.STOPPED}'), ('exit_code', 3)")
    meta = tail.read_meta()
    assert (meta.is_complete, meta.exit_code) == (True, 3)


def test_a_recording_is_written_as_long_as_its_sampler_has_it_locked(path: Path, tail: Tail) -> None:
    assert not tail.is_written()
    with being_written(path):
        assert tail.is_written()
        assert samples(tail)
    assert not tail.is_written()
    path.unlink()
    assert not tail.is_written()


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / 'text').write_text('text')
    with pytest.raises(RecordingError, match='is not a gpu-tracker recording'):
        Tail(tmp_path / 'text')
