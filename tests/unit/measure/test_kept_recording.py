from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.recording.schema import ABANDONED, STOPPED
from gpu_tracker.recording.writing.recorder import Recorder
from gpu_tracker.resources import RefusedError
from gpu_tracker.sampler.kept_recording import KeptRecording
from support.recorder_runs import TOTALS, UNITS, Clock, Used, meta_of, rows_of

if TYPE_CHECKING:
    from pathlib import Path


class Run:
    """A recording that is kept, and what it is fed with."""

    def __init__(self, folder: Path, largest: int = 1 << 30) -> None:
        self.path = folder / 'a.db'
        self.used, self.clock = Used(), Clock()
        self.recording = KeptRecording(str(self.path), [self.used], self.open_recorder, largest)

    def open_recorder(self) -> Recorder:
        return Recorder(
            str(self.path), meta={}, units=UNITS, resources=[self.used], interval=1.0,
            monotonic=self.clock, wall_clock=self.clock.wall,
        )  # fmt: skip

    def sample(self, after: float) -> None:
        self.clock.now = 1000.0 + after
        self.used.values = {'main_cpu': after}
        self.recording.sampled(self.clock.now)
        if self.recording.is_due(self.clock.now):
            self.recording.published(self.clock.now, TOTALS)
        assert self.recording.take_messages() == []

    def samples(self) -> list[tuple[int, int]]:
        return rows_of(self.path, 'SELECT t, main_cpu FROM samples')


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_it_begins_late_and_has_all_samples(run: Run) -> None:
    run.sample(0.0)
    run.sample(0.125)
    assert not run.path.exists()
    run.sample(0.25)
    run.sample(3.0)
    assert run.samples() == [(0, 0), (125000, 125_000), (250000, 250_000), (3000000, 3_000_000)]
    run.recording.discard()


def test_a_short_run_is_written_at_its_end(run: Run) -> None:
    run.sample(0.0)
    run.sample(0.125)
    assert run.recording.is_recording
    run.recording.finish(STOPPED, TOTALS, 3)
    assert run.samples() == [(0, 0), (125000, 125_000)]
    assert (meta_of(run.path)['ended'], meta_of(run.path)['exit_code']) == (STOPPED, 3)


def test_a_short_run_without_a_tracker_is_written_too(run: Run) -> None:
    run.sample(0.0)
    run.recording.finish(ABANDONED, None, None)
    assert run.samples() == [(0, 0)]
    assert meta_of(run.path)['ended'] == ABANDONED


def test_a_command_that_did_not_start_leaves_no_file(run: Run, tmp_path: Path) -> None:
    run.sample(0.0)
    run.sample(5.0)
    run.recording.discard()
    assert os.listdir(tmp_path) == []


def test_one_that_grows_too_large_is_removed_and_the_run_goes_on(tmp_path: Path) -> None:
    run = Run(tmp_path, largest=1000)
    run.sample(0.0)
    run.sample(5.0)
    assert os.listdir(tmp_path) == []
    assert not run.recording.is_recording
    run.sample(6.0)
    run.recording.finish(STOPPED, TOTALS, 0)
    assert os.listdir(tmp_path) == []


def test_one_that_cannot_be_written_is_removed_without_a_message(run: Run, tmp_path: Path) -> None:
    def refuse() -> Recorder:
        raise RefusedError('recording', 'a file that SQLite can write')

    run.recording = KeptRecording(str(run.path), [run.used], refuse)
    run.sample(0.0)
    run.sample(5.0)
    run.sample(6.0)
    assert os.listdir(tmp_path) == []
    assert not run.recording.is_recording


def test_a_full_disk_is_no_warning(run: Run, tmp_path: Path) -> None:
    run.sample(0.0)
    run.sample(5.0)
    assert run.recording._recorder is not None
    run.recording._recorder._messages.append(('warning', 'The recording cannot be written'))
    assert run.recording.take_messages() == []
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_gone_costs_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path / 'gone')
    run.sample(0.0)
    run.sample(5.0)
    assert not run.recording.is_recording
