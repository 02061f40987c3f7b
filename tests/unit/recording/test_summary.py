from __future__ import annotations

import dataclasses
import json
import marshal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpu_tracker.errors import RecordingError
from gpu_tracker.recording.reading.recording import load
from gpu_tracker.resources.building import build
from gpu_tracker.result.formats import as_text
from gpu_tracker.units import Units
from support.recordings import busy_rows, totals_of, write_recording

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parents[2] / 'data' / 'recorded_runs'
RUNS = sorted(path.name.partition('.')[0] for path in FOLDER.glob('*.totals.json'))


@pytest.mark.parametrize('name', RUNS)
def test_the_summary_is_what_the_run_printed(tmp_path: Path, name: str) -> None:
    recorded = json.loads((FOLDER / f'{name}.totals.json').read_text())
    meta = {'totals': json.dumps(recorded['totals']), 'units': json.dumps(recorded['units'])}
    printed = build(marshal.loads(marshal.dumps(recorded['totals'])), Units(*recorded['units']))  # noqa: S302
    with load(write_recording(tmp_path / 'run.db', rows=busy_rows(), meta=meta)) as found:
        assert found.summary() == printed
        assert f'{as_text(found.summary())}\n' == (FOLDER / f'{name}.report.txt').read_text()


def test_of_a_run_that_was_killed_the_last_totals_are_told(tmp_path: Path) -> None:
    with load(write_recording(tmp_path / 'run.db', meta={'ended': None, 'exit_code': None})) as found:
        assert not found.meta.is_complete
        summary = found.summary()
    told = build(totals_of(), Units('megabytes', 'megabytes', 'seconds', None))
    assert dataclasses.replace(summary, lower_bounds=()) == told
    assert {'max_ram.main.total_rss', 'cpu_utilization.main.max_sum_percent', 'compute_time.time'} < set(
        summary.lower_bounds
    )
    assert not [path for path in summary.lower_bounds if '.mean_' in path or path.endswith('capacity')]


def test_a_mean_that_may_be_too_low_is_marked_in_a_killed_run_as_well(tmp_path: Path) -> None:
    mean = 'cpu_utilization.combined.mean_sum_percent'
    totals = {**totals_of(), 'lower_bounds': {mean: 'a process was reaped outside the tracked tree'}}
    with load(write_recording(tmp_path / 'run.db', meta={'ended': None, 'totals': json.dumps(totals)})) as found:
        assert mean in found.summary().lower_bounds


def test_of_a_run_that_was_killed_before_there_were_any_nothing_is(tmp_path: Path) -> None:
    path = write_recording(tmp_path / 'run.db', meta={'ended': None, 'totals': None})
    with load(path) as found, pytest.raises(RecordingError) as caught:
        found.summary()
    assert str(caught.value) == f'{path} has no result: the run ended before the first result was recorded'


def test_the_meta_of_a_run_is_typed(tmp_path: Path) -> None:
    with load(write_recording(tmp_path / 'run.db', meta={'sections': json.dumps(['io']), 'exit_code': -9})) as found:
        meta = found.meta
    assert (meta.program, meta.command, meta.folder) == (
        'gpu-tracker 6.0.0',
        ('python', 'train.py'),
        '/home/user/project',
    )
    assert (meta.host, meta.system, meta.machine, meta.python) == ('node1', '6.1.0', 'x86_64', '3.11.7')
    assert (meta.cores, meta.ram_capacity, meta.root_pid, meta.exit_code) == (8, 16 * 2**30, 4242, -9)
    assert (meta.started, meta.start_unix_us) == ('2026-09-21T14:13:20+00:00', 1_790_000_000_000_000)
    assert (meta.start_monotonic_us, meta.interval) == (5_000_000, 1.0)
    assert (meta.units, meta.sections) == (('megabytes', 'megabytes', 'seconds', None), ('io',))
    assert (meta.ended, meta.is_complete) == ('stopped', True)
    assert (meta.region_lines_lost, meta.samples_lost) == (0, 0)


def test_meta_that_is_not_there_is_unknown(tmp_path: Path) -> None:
    nothing = dict.fromkeys(
        ('program', 'command', 'host', 'cores', 'interval', 'units', 'sections', 'totals', 'ended', 'region_lines_lost')
    )
    with load(write_recording(tmp_path / 'run.db', meta=nothing)) as found:
        meta = found.meta
    assert (meta.program, meta.command, meta.host, meta.cores) == (None, None, None, None)
    assert (meta.interval, meta.units, meta.sections, meta.totals) == (None, None, (), None)
    assert not meta.is_complete


def test_all_other_tables_are_records(tmp_path: Path) -> None:
    path = write_recording(
        tmp_path / 'run.db',
        gpus=[(0, 'GPU-1', 'H100', 1000), (1, 'GPU-2', None, None)],
        gpu_samples=[(1_000_000, 0, 10, 5, 5050), (1_000_000, 1, None, None, None)],
        processes=[(1, 77, 1, 'python', 1_500_000)],
        process_samples=[(2_000_000, 1, 10, 250_000, 3)],
        clock=[(0, 1_790_000_000_000_000)],
        messages=[(500_000, 'warning', 'careful'), (400_000, 'info', 'hello')],
    )
    with load(path) as found:
        assert [(gpu.id, gpu.uuid, gpu.name, gpu.total_ram) for gpu in found.gpus] == [
            (0, 'GPU-1', 'H100', 1_024_000),
            (1, 'GPU-2', None, None),
        ]
        first, second = found.gpu_samples()
        assert (first.t, first.gpu, first.ram, first.combined_ram, first.utilization) == (1.0, 0, 10240, 5120, 50.5)
        assert (second.ram, second.combined_ram, second.utilization) == (None, None, None)
        (process,) = found.processes
        assert (process.id, process.pid, process.parent, process.name, process.first_t) == (1, 77, 1, 'python', 1.5)
        (sample,) = found.process_samples()
        assert (sample.t, sample.process, sample.rss, sample.cpu, sample.n_threads) == (2.0, 1, 10240, 0.25, 3)
        assert [(point.t, point.unix) for point in found.clock] == [(0.0, 1_790_000_000.0)]
        assert [(one.t, one.level, one.text) for one in found.messages] == [
            (0.5, 'warning', 'careful'),
            (0.4, 'info', 'hello'),
        ]


def test_processes_of_older_recordings_have_neither_command_nor_gpu_memory(tmp_path: Path) -> None:
    rows = {'processes': [(1, 77, 1, 'sh', 0, 'sh -c a')], 'process_samples': [(0, 1, 10, 0, 1, 20)]}
    path = write_recording(tmp_path / 'run.db', **rows)
    with load(path) as found:
        assert [one.command for one in found.processes] == ['sh -c a']
        assert [one.gpu_ram for one in found.process_samples()] == [20 * 1024]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute('ALTER TABLE processes DROP COLUMN command')
        connection.execute('ALTER TABLE process_samples DROP COLUMN gpu_ram')
    with load(path) as found:
        assert [(one.name, one.command) for one in found.processes] == [('sh', None)]
        assert [(one.rss, one.gpu_ram) for one in found.process_samples()] == [(10 * 1024, None)]


def in_section(section: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each field of a stored section, and of the records in it, with the record that has it."""
    for part in section.values() if isinstance(section, dict) else section:
        if isinstance(part, dict | list):
            yield from in_section(part)
    if isinstance(section, dict):
        yield from ((section, name) for name in list(section))


def leaves(value: Any, path: str = '') -> dict[str, Any]:
    """Return all values of a result by their paths."""
    if isinstance(value, dict):
        return {name: leaf for key in value for name, leaf in leaves(value[key], f'{path}.{key}').items()}
    if isinstance(value, tuple):
        return {name: leaf for key in range(len(value)) for name, leaf in leaves(value[key], f'{path}.{key}').items()}
    return {path: value}


@pytest.mark.parametrize('name', RUNS)
def test_a_figure_that_the_totals_lack_is_unknown(name: str) -> None:
    recorded = json.loads((FOLDER / f'{name}.totals.json').read_text())
    totals, units = recorded['totals'], Units(*recorded['units'])
    whole = leaves(dataclasses.asdict(build(totals, units)))
    for section in totals.keys() & {'cpu', 'ram', 'gpu', 'io', 'energy', 'cuda', 'control_group', 'own_group', 'job'}:
        for record, field in list(in_section(totals[section])):
            if field == 'cores':
                continue  # the largest rates are cut at it
            removed = record.pop(field)
            usage = build(totals, units)
            record[field] = removed
            found = leaves(dataclasses.asdict(usage))
            assert {found.get(path) for path in whole if found.get(path) != whole[path]} <= {None}, field
            as_text(usage)


@pytest.mark.parametrize('name', RUNS)
def test_a_figure_of_a_later_version_is_ignored(name: str) -> None:
    recorded = json.loads((FOLDER / f'{name}.totals.json').read_text())
    totals, units = recorded['totals'], Units(*recorded['units'])
    whole = build(totals, units)
    for record in {id(record): record for record, _ in in_section(totals)}.values():
        if record is not totals.get('lower_bounds'):
            record['of_a_later_version'] = 1
    assert build(totals, units) == whole


def test_totals_of_an_older_version_are_read(tmp_path: Path) -> None:
    totals = totals_of('io')
    del totals['ram']['system'], totals['cpu']['threads'], totals['gpu']['max_sum'], totals['io']['main']['switches']
    totals['ram']['main'] = totals['ram']['main'][:1]
    with load(write_recording(tmp_path / 'run.db', meta={'totals': json.dumps(totals)})) as found:
        usage = found.summary()
    assert (usage.max_ram.system, usage.max_ram.main.total_rss, usage.max_ram.main.shared_rss) == (None, 1.769472, None)
    assert (usage.cpu_utilization.main_n_threads, usage.cpu_utilization.system_core_count) == (None, 2)
    assert usage.gpu_utilization.gpu_percentages.max_sum_percent is None
    assert usage.io is not None
    assert (usage.io.main.minor_page_faults, usage.io.main.voluntary_context_switches) == (148, None)
