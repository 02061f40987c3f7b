"""What the recording of a run adds to its short report."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpu_tracker.cli import tracking
from gpu_tracker.cli.options import Values, parse
from gpu_tracker.cli.request import Request, read_request
from gpu_tracker.cli.short_report import print_failure, read_recorded
from gpu_tracker.cli.track import TEXT
from gpu_tracker.recording.reading.recording import load
from gpu_tracker.result.usage import GPUMemory, GPUPercentages, GPUUse
from gpu_tracker.views.short_report import Part
from support.pictured_run import training
from support.recordings import region, write_recording

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def gpu(uuid: str) -> GPUUse:
    share, memory = GPUPercentages(50.0, 50.0), GPUMemory(4.0, 4.0, 0.0, 4.0)
    return GPUUse(1, 'nvidia', uuid, None, 'gigabytes', 40.0, memory, share, share, others_used_it=False)


def request_of(*arguments: str) -> Request:
    values = parse(TEXT, arguments)
    assert isinstance(values, Values)
    return read_request(values)


def test_a_recording_that_cannot_be_read_adds_nothing(tmp_path: Path) -> None:
    broken = tmp_path / 'run.db'
    broken.write_text('no database')
    assert tracking.read_in_time(str(broken), lambda recording: recording) is None
    assert tracking.read_in_time(None, lambda recording: recording) is None
    assert tracking.read_in_time(training(tmp_path / 'good.db'), lambda recording: recording.meta.exit_code) == 0


def test_a_quiet_report_has_failures_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with load(training(tmp_path / 'run.db')) as recording:
        usage = recording.summary(time_unit='minutes')
    print_failure(usage, request_of('-q', 'true'), 0)
    print_failure(usage, request_of('-q', '--tu=min', 'true'), -9)
    assert capfd.readouterr() == ('', 'true   ended by SIGKILL after 0.167 minutes\n')


def test_the_curve_of_a_gpu_that_the_run_has_used(tmp_path: Path) -> None:
    with load(training(tmp_path / 'run.db')) as recording:
        found = read_recorded(recording, replace(recording.summary(), gpus=(gpu('GPU-0'),)))
    assert list(found.busy) == ['1']
    curve = found.busy['1']
    assert len(curve) == 12
    assert (round(curve[0]), round(curve[-1])) == (20, 111)


def test_a_region_around_all_others_is_no_part(tmp_path: Path) -> None:
    regions = [
        region(1, 'run', 0.0, 10.0),
        region(2, 'load', 1.0, 3.0, parent=1),
        region(3, 'train', 3.0, 8.0, parent=1),
        region(4, 'load', 8.0, 9.0, parent=1),
    ]
    rows = [(float(second), {}) for second in range(11)]
    with load(write_recording(tmp_path / 'run.db', rows=rows, regions=regions)) as recording:
        assert read_recorded(recording, recording.summary()).parts == [Part('train', 5.0), Part('load', 3.0)]


def test_the_innermost_regions_are_the_parts(tmp_path: Path) -> None:
    regions = [
        region(1, 'training', 0.0, 8.0),
        region(2, 'epoch', 0.0, 4.0, parent=1),
        region(3, 'load', 0.0, 1.0, parent=2),
        region(4, 'step', 1.0, 4.0, parent=2),
        region(5, 'validate', 4.0, 7.0, parent=1),
        region(6, 'load', 4.0, 5.0, parent=5),
    ]
    rows = [(float(second), {}) for second in range(11)]
    with load(write_recording(tmp_path / 'run.db', rows=rows, regions=regions)) as recording:
        parts = read_recorded(recording, recording.summary()).parts
    assert parts == [Part('step', 3.0), Part('load', 2.0), Part('validate', 2.0)]


def test_parts_at_the_same_time_count_once(tmp_path: Path) -> None:
    regions = [region(1, 'load', 0.0, 4.0), region(2, 'load', 2.0, 6.0), region(3, 'train', 6.0, 7.0)]
    rows = [(float(second), {}) for second in range(11)]
    with load(write_recording(tmp_path / 'run.db', rows=rows, regions=regions)) as recording:
        assert read_recorded(recording, recording.summary()).parts == [Part('load', 6.0), Part('train', 1.0)]
