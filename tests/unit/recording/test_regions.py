from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_tracker.errors import RecordingError
from gpu_tracker.recording.reading.model import Bounded
from gpu_tracker.recording.reading.recording import load
from support.recordings import (
    DEFAULT_COLUMNS,
    ENERGY_COLUMNS,
    IO_COLUMNS,
    ROOT,
    busy_rows,
    region,
    write_recording,
)

if TYPE_CHECKING:
    from pathlib import Path

    from gpu_tracker.recording.reading.model import Region

MIB = 2**20


def regions_of(path: Path, *rows: dict[str, object], **others: Any) -> tuple[Region, ...]:
    path.unlink(missing_ok=True)
    with load(write_recording(path, regions=rows, **({'rows': busy_rows()} | others))) as recording:
        return recording.regions


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / 'run.db'


def test_a_region_has_all_that_was_written_of_it(file: Path) -> None:
    (found,) = regions_of(
        file,
        region(
            7, 'load', 0.5, 2.5, thread=11, task='Task-1', thread_cpu=1.25, error='ValueError', attributes={'batch': 3},
            peaks=(10 * MIB, 20 * MIB),
        ),
    )  # fmt: skip
    assert (found.id, found.parent_id, found.name, found.attributes) == (7, None, 'load', {'batch': 3})
    assert (found.process_id, found.thread_id, found.task) == (ROOT, 11, 'Task-1')
    assert (found.start, found.stop, found.seen_until, found.has_ended) == (0.5, 2.5, 2.5, True)
    assert (found.error, found.calls, found.errors, found.is_folded) == ('ValueError', 1, 1, False)
    assert (found.wall_time, found.shortest, found.longest, found.squares) == (2.0, 2.0, 2.0, 4.0)
    assert found.thread_cpu == 1.25
    assert found.cpu == Bounded(2.0, 1.0, 3.0)
    assert found.ram == Bounded(20 * MIB, 20 * MIB, 20 * MIB)
    assert found.combined_ram == 12 * MIB
    assert found.gpu_ram == 100 * MIB
    assert (found.gpu_utilization, found.gpu_coverage, found.gpu_samples) == (50.0, 1.0, 3)
    assert found.io is None
    assert found.energy is None


def test_regions_come_in_the_order_of_their_start(file: Path) -> None:
    found = regions_of(file, region(1, 'b', 2.0, 3.0), region(2, 'a', 1.0, 4.0), region(3, 'c', 2.0, 3.0))
    assert [one.id for one in found] == [2, 1, 3]


def test_reads_and_energy_are_from_counters(file: Path) -> None:
    rows = [
        (
            float(t),
            {
                'combined_io_read': t * 1024 * 100,
                'combined_io_written': 0,
                'combined_minor_page_faults': t * 10,
                'gpu_energy': t * 200.0,
            },
        )
        for t in range(5)
    ]
    (found,) = regions_of(file, region(1, 'a', 1.0, 2.5), rows=rows, columns=(*IO_COLUMNS, *ENERGY_COLUMNS))
    assert found.io == {
        'read': Bounded(153_600.0, 102_400.0, 204_800.0),
        'written': Bounded(0.0, 0.0, 0.0),
        'minor_page_faults': Bounded(15.0, 10.0, 20.0),
    }
    assert found.energy == 300.0
    assert found.cpu is None


def test_between_two_samples_only_the_mean_of_the_gpu_is_known(file: Path) -> None:
    (found,) = regions_of(file, region(1, 'a', 1.25, 1.5))
    assert (found.gpu_utilization, found.gpu_coverage, found.gpu_samples) == (50.0, 1.0, 1)
    assert (found.gpu_ram, found.combined_ram) == (None, None)
    assert found.ram is None
    assert found.cpu == Bounded(0.25, 0.0, 1.0)


def test_after_the_last_sample_nothing_is_known(file: Path) -> None:
    (found,) = regions_of(file, region(1, 'a', 11.0, 12.0))
    assert (found.gpu_utilization, found.gpu_coverage, found.gpu_samples) == (None, 0.0, 0)
    assert found.cpu == Bounded(None, 0.0, None)


def test_without_samples_regions_are_there(file: Path) -> None:
    (found,) = regions_of(file, region(1, 'a', 0.0, 1.0), rows=())
    assert (found.wall_time, found.cpu, found.gpu_utilization) == (1.0, Bounded(None, 0.0, None), None)


def test_ram_below_an_old_mark_is_between_the_samples_and_the_mark(file: Path) -> None:
    (found,) = regions_of(file, region(1, 'a', 1.5, 4.5, peaks=(100 * MIB, 100 * MIB)))
    assert found.ram == Bounded(None, 14 * MIB, 100 * MIB)


def test_samples_of_the_main_process_say_nothing_of_another(file: Path) -> None:
    (found,) = regions_of(file, region(1, 'a', 1.5, 4.5, pid=77, peaks=(100 * MIB, 100 * MIB)))
    assert found.ram == Bounded(None, None, 100 * MIB)


def test_samples_of_a_process_say_what_it_had_at_least(file: Path) -> None:
    (found,) = regions_of(
        file,
        region(1, 'a', 1.5, 4.5, pid=77, peaks=(100 * MIB, 100 * MIB)),
        processes=[(1, ROOT, 1, 'main', 0), (2, 77, ROOT, 'worker', 0)],
        process_samples=[(t * 1_000_000, process, 1024 * t * process, 0, 1) for t in range(1, 6) for process in (1, 2)],
    )
    assert found.ram == Bounded(None, 8 * MIB, 100 * MIB)


def test_a_region_that_has_not_ended_has_lower_bounds(file: Path) -> None:
    (found,) = regions_of(file, region(1, 'a', 2.0, None, peaks=(5 * MIB, None)))
    assert (found.stop, found.has_ended, found.wall_time, found.seen_until) == (None, False, None, 10.0)
    assert found.cpu == Bounded(None, 8.0, None)
    assert found.ram == Bounded(None, 20 * MIB, None)


def test_a_region_of_a_process_that_was_killed_goes_up_to_its_last_sign_of_life(file: Path) -> None:
    outer, inner = regions_of(file, region(1, 'a', 2.0, None, pid=77), region(2, 'b', 3.0, 4.0, pid=77, parent=1))
    assert (outer.seen_until, outer.cpu) == (4.0, Bounded(None, 2.0, None))
    assert inner.has_ended


def test_calls_that_were_folded_are_estimated_by_their_share(file: Path) -> None:
    (found,) = regions_of(
        file,
        region(
            1, 'a', 2.0, 6.0, calls=1000, total=1.0, shortest=0.0005, longest=0.01, squares=0.002, errors=3,
            thread_cpu=0.75,
        ),
    )  # fmt: skip
    assert (found.calls, found.errors, found.is_folded, found.wall_time) == (1000, 3, True, 1.0)
    assert (found.shortest, found.longest, found.squares, found.thread_cpu) == (0.0005, 0.01, 0.002, 0.75)
    assert found.cpu == Bounded(1.0, 0.0, 4.0)
    assert found.ram is None


@pytest.mark.parametrize(
    ('parents', 'expected'),
    [
        ({1: None, 2: 1, 3: 2}, {1: None, 2: 1, 3: 2}),
        ({1: 1}, {1: None}),
        ({1: 2, 2: 1}, {1: 2, 2: None}),
        ({1: 2, 2: 3, 3: 2}, {1: 2, 2: 3, 3: None}),
        ({1: 99}, {1: None}),
    ],
)
def test_parents_that_lead_in_a_circle_or_nowhere_are_cut(
    file: Path, parents: dict[int, int | None], expected: dict[int, int | None]
) -> None:
    rows = [region(number, 'a', number / 10, 9.0, parent=parent) for number, parent in parents.items()]
    assert {one.id: one.parent_id for one in regions_of(file, *rows)} == expected


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parents=st.lists(st.one_of(st.none(), st.integers(1, 12)), min_size=1, max_size=12))
def test_every_region_leads_to_one_without_a_parent(file: Path, parents: list[int | None]) -> None:
    rows = [region(number, 'a', number / 10, 9.0, parent=parent) for number, parent in enumerate(parents, 1)]
    found = {one.id: one.parent_id for one in regions_of(file, *rows)}
    for number in found:
        current: int | None = number
        for _ in range(len(found) + 1):
            current = None if current is None else found[current]
        assert current is None


def test_attributes_that_json_has_no_number_for_are_kept(file: Path) -> None:
    (found,) = regions_of(file, region(1, 'a', 0.0, 1.0, attributes=json.dumps({'loss': float('inf')})))
    assert found.attributes == {'loss': float('inf')}


@pytest.mark.parametrize('attributes', ['[1]', '{', 'null'])
def test_attributes_that_are_no_object_are_refused(file: Path, attributes: str) -> None:
    with pytest.raises(
        RecordingError, match=r'run.db is not a gpu-tracker recording: the attributes of a region are not a JSON'
    ):
        regions_of(file, region(1, 'a', 0.0, 1.0, attributes=attributes))


def test_regions_of_threads_share_out_no_more_than_was_used(file: Path) -> None:
    found = regions_of(file, *(region(number, 'a', number - 0.75, number + 0.25) for number in range(1, 10)))
    assert sum(one.cpu.value for one in found) == pytest.approx(9.0)
    assert sum(one.cpu.lower for one in found) <= 9.0


def test_unknown_columns_make_unknown_figures(file: Path) -> None:
    rows = [(float(t), {}) for t in range(5)]
    (found,) = regions_of(file, region(1, 'a', 1.0, 3.0), rows=rows, columns=DEFAULT_COLUMNS)
    assert found.cpu == Bounded(None, 0.0, None)
    assert (found.combined_ram, found.gpu_ram, found.gpu_utilization, found.gpu_coverage) == (None, None, None, 0.0)
