from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gpu_tracker.recording.reading import shown
from gpu_tracker.recording.reading.recording import load
from gpu_tracker.result.formats import as_text
from support.recordings import ROOT, busy_rows, region, totals_of, write_recording

if TYPE_CHECKING:
    from pathlib import Path

MIB = 2**20

REGIONS = [
    region(1, 'train', 0.0, 9.5, thread_cpu=8.25, peaks=(10 * MIB, 20 * MIB)),
    region(2, 'load', 0.5, 1.5, parent=1, thread_cpu=0.5, peaks=(20 * MIB, 20 * MIB)),
    region(3, 'step', 2.0, 3.0, parent=1, thread_cpu=1.0, error='ValueError', peaks=(20 * MIB, 20 * MIB)),
    region(4, 'step', 3.25, 3.5, parent=1, thread_cpu=0.25, peaks=(20 * MIB, 20 * MIB)),
    region(5, 'save', 9.0, None, pid=77, thread=77, peaks=(MIB, None)),
    region(6, 'tick', 4.0, 8.0, calls=100_000, total=2.0, thread_cpu=1.5),
]

TABLE = """\
Region    Calls   Time s  Share  CPU s  All CPU s  RAM MB  GPU %  GPU RAM MB  Raised  Not ended
train         1    9.500  95.0%  8.250      ~9.50    21.0  ~50.0     >=104.9
  load        1    1.000  10.0%  0.500      ~1.00  >=11.5  ~50.0     >=104.9
  step        2    1.250  12.5%  1.250      ~1.25  >=13.6  ~50.0     >=104.9       1
tick    100,000    2.000  20.0%  1.500      ~2.00          ~50.0     >=104.9
save          1  >=0.000   0.0%                                      >=104.9                  1

CPU s: of the threads of the calls. All CPU s: of all tracked processes meanwhile.
RAM: the most of the process of a call. GPU RAM: the most of all tracked processes.
~: an estimate from samples around it; >=, <=: a lower and an upper bound.
GPU %: some calls are shorter than two samples, 1 s apart. A smaller --sleep-time says more."""


def text_of(folder: Path, width: int | None = None, **others: Any) -> str:
    with load(write_recording(folder / 'run.db', **({'rows': busy_rows()} | others))) as recording:
        return shown.as_text(recording, width)


def test_the_text_of_a_run_has_its_heading_its_result_and_its_regions(tmp_path: Path) -> None:
    path = write_recording(tmp_path / 'run.db', rows=busy_rows(), regions=REGIONS)
    with load(path) as recording:
        text, result = shown.as_text(recording), as_text(recording.summary())
    assert text == (
        'python train.py\n'
        '  host        node1 (6.1.0 x86_64, Python 3.11.7)\n'
        '  folder      /home/user/project\n'
        '  started     2026-09-21T14:13:20+00:00\n'
        '  ended       with exit code 0\n'
        '  samples     11 in 10.000 s, every 1 s\n'
        '  written by  gpu-tracker 6.0.0\n'
        f'\n{result}\n\n{TABLE}'
    )


@pytest.mark.parametrize(
    ('meta', 'words'),
    [
        ({'exit_code': 3}, 'with exit code 3'),
        ({'exit_code': -9}, 'by SIGKILL'),
        ({'exit_code': -50}, 'by signal 50'),
        ({'exit_code': -15, 'termination_reason': 'time_limit'}, 'by SIGTERM, ended by its time limit'),
    ],
)
def test_a_signal_that_has_ended_the_run_has_its_name(tmp_path: Path, meta: dict[str, object], words: str) -> None:
    assert f'\n  ended       {words}\n' in text_of(tmp_path, meta=meta)


def table_of(folder: Path, width: int | None, **others: Any) -> list[str]:
    lines = text_of(folder, width, **others).splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith('Region'))
    return lines[begin : lines.index('', begin)]


def test_a_narrow_table_leaves_columns_out(tmp_path: Path) -> None:
    assert table_of(tmp_path, 80, regions=REGIONS) == [
        'Region    Calls   Time s  Share  All CPU s  RAM MB  GPU %  Raised  Not ended',
        'train         1    9.500  95.0%      ~9.50    21.0  ~50.0',
        '  load        1    1.000  10.0%      ~1.00  >=11.5  ~50.0',
        '  step        2    1.250  12.5%      ~1.25  >=13.6  ~50.0       1',
        'tick    100,000    2.000  20.0%      ~2.00          ~50.0',
        'save          1  >=0.000   0.0%                                            1',
    ]


def test_columns_without_a_value_are_not_there(tmp_path: Path) -> None:
    assert table_of(tmp_path, None, rows=(), regions=[region(1, 'a', 0.0, 1.5)]) == [
        'Region  Calls  Time s',
        'a           1   1.500',
    ]


def test_a_machine_without_gpus_has_no_columns_for_them(tmp_path: Path) -> None:
    none = dict.fromkeys(('main_gpu_ram', 'descendants_gpu_ram', 'combined_gpu_ram', 'system_gpu_ram'), 0)
    rows = [(t, {**values, **none, 'gpu_utilization': 0.0, 'gpu_busy': 0.0}) for t, values in busy_rows()]
    assert table_of(tmp_path, None, rows=rows, regions=[region(1, 'a', 0.0, 1.5)])[0] == (
        'Region  Calls  Time s  Share  All CPU s  RAM MB'
    )


def test_a_long_name_is_cut(tmp_path: Path) -> None:
    title, row = table_of(tmp_path, None, rows=(), regions=[region(1, 'x' * 200, 0.0, 1.5)])
    assert row == f'{"x" * 59}…      1   1.500'
    assert len(title) == len(row)


def test_wide_characters_keep_the_columns(tmp_path: Path) -> None:
    rows = table_of(tmp_path, None, rows=(), regions=[region(1, '計算', 0.0, 1.5), region(2, 'a', 1.0, 1.5)])
    assert rows == ['Region  Calls  Time s', '計算        1   1.500', 'a           1   0.500']


def test_more_lines_than_anybody_reads_are_left_out_of_the_text_only(tmp_path: Path) -> None:
    path = write_recording(tmp_path / 'run.db', regions=[region(n, f'r{n}', n / 10, n / 10) for n in range(1, 301)])
    with load(path) as recording:
        text, found = shown.as_text(recording), json.loads(shown.as_json(recording))
    assert '100 more lines are left out: -f json has them\n' in text
    assert len(found['regions']) == 300


def test_deep_recursion_is_said(tmp_path: Path) -> None:
    regions = [region(n, 'f', n / 100, 9 - n / 100, parent=n - 1 or None) for n in range(1, 41)]
    assert '\n8 calls that lie more than 32 levels deep are left out\n' in text_of(tmp_path, regions=regions)


def test_processes_that_were_recorded_are_a_table(tmp_path: Path) -> None:
    text = text_of(
        tmp_path,
        processes=[(1, ROOT, 1, 'python', 0), (2, 77, ROOT, 'worker', 2_500_000), (3, 78, ROOT, 'short', 3_000_000)],
        process_samples=[(0, 1, 10_000, 1_000_000, 1), (3_000_000, 1, 5_000, 4_500_000, 1), (3_000_000, 2, 100, 0, 1)],
    )
    assert text.endswith(
        '\n\n'
        ' PID  Parent  Process  Since s  RAM MB   CPU s\n'
        '4242       1  python     0.000  >=10.2  >=4.50\n'
        '  77    4242  worker     2.500   >=0.1  >=0.00\n'
        '  78    4242  short      3.000'
    )


def test_processes_have_their_gpu_memory_if_the_run_used_gpus(tmp_path: Path) -> None:
    text = text_of(
        tmp_path,
        processes=[(1, ROOT, 1, 'python', 0), (2, 77, ROOT, 'worker', 0), (3, 78, ROOT, 'short', 0)],
        process_samples=[(0, 1, 100, 0, 1, 3000), (0, 2, 100, 0, 1, 0), (9, 1, 100, 0, 1, 2000)],
    )
    assert text.endswith(
        '\n\n'
        ' PID  Parent  Process  Since s  RAM MB  GPU RAM MB   CPU s\n'
        '4242       1  python     0.000   >=0.1       >=3.1  >=0.00\n'
        '  77    4242  worker     0.000   >=0.1       >=0.0  >=0.00\n'
        '  78    4242  short      0.000'
    )


def heading(folder: Path, **meta: object) -> list[str]:
    return text_of(folder, meta=meta).split('\n\n')[0].splitlines()


def test_a_run_that_is_not_complete_says_so(tmp_path: Path) -> None:
    lines = heading(tmp_path, ended=None, exit_code=None)
    assert '  ended       not complete: the run still goes on, or its sampler was killed' in lines


def test_a_run_whose_tracker_was_gone_says_so(tmp_path: Path) -> None:
    lines = heading(tmp_path, ended='abandoned', exit_code=None)
    assert '  ended       not complete: the tracker was gone before the end of the run' in lines


def test_a_process_that_was_tracked_has_no_command(tmp_path: Path) -> None:
    lines = heading(tmp_path, command=None, exit_code=None)
    assert lines[0] == 'process 4242'
    assert '  ended       when it was stopped' in lines


def test_what_was_lost_is_said(tmp_path: Path) -> None:
    lines = heading(tmp_path, region_lines_lost=1234, samples_lost=5)
    assert lines[-2:] == ['  lost        1,234 lines of the log of regions', '  lost        5 samples']


def test_what_is_unknown_of_a_run_is_said(tmp_path: Path) -> None:
    nothing = dict.fromkeys(
        (
            'program',
            'command',
            'folder',
            'host',
            'system',
            'machine',
            'python',
            'started',
            'interval',
            'root_pid',
            'totals',
        )
    )
    text = text_of(tmp_path, rows=(), meta=nothing | {'ended': None})
    assert text == (
        'process N/A\n'
        '  host        N/A\n'
        '  started     N/A\n'
        '  ended       not complete: the run still goes on, or its sampler was killed\n'
        '  samples     0 in 0.000 s\n'
        '  written by  N/A\n'
        '\n'
        f'{tmp_path}/run.db has no result: the run ended before the first result was recorded'
    )


def test_messages_are_at_the_end(tmp_path: Path) -> None:
    assert text_of(tmp_path, messages=[(0, 'warning', 'The disk was full.')]).endswith(
        '\n\nwarning: The disk was full.'
    )


def test_what_the_result_says_is_no_message_as_well(tmp_path: Path) -> None:
    group = {'folder': None, 'memory_limit': None, 'cpu_limit': None, 'allowed_cores': None, 'oom_kills': 1}
    meta = {'totals': json.dumps({**totals_of(), 'control_group': group}), 'oom_kills': 1}
    killed = '1 process of this control group was killed for lack of memory.'
    shown_text = text_of(tmp_path, meta=meta, messages=[(0, 'warning', killed), (0, 'warning', 'The disk was full.')])
    assert shown_text.count(killed) == 1
    assert f'   Problem: {killed}\n' in shown_text
    assert shown_text.endswith('\n\nwarning: The disk was full.')


def test_json_has_base_units_and_bounds(tmp_path: Path) -> None:
    with load(write_recording(tmp_path / 'run.db', rows=busy_rows(), regions=REGIONS)) as recording:
        found = json.loads(shown.as_json(recording))
    assert (found['is_complete'], found['duration'], found['samples']) == (True, 10.0, 11)
    assert found['meta']['command'] == ['python', 'train.py']
    assert found['run'] == {'command': ['python', 'train.py'], 'exit_code': 0, 'host': 'node1', 'version': '6.0.0'}
    assert {name: found[name] for name in found['summary']} == found['summary']
    assert found['summary']['compute_time']['unit'] == 'seconds'
    assert found['regions'][1] == {
        'path': ['train', 'load'], 'calls': 1, 'errors': 0, 'not_ended': 0, 'wall_time': 1.0, 'share': 0.1,
        'thread_cpu': 0.5, 'cpu': {'value': 1.0, 'lower': 0.0, 'upper': 2.0},
        'ram': {'value': None, 'lower': 11 * MIB, 'upper': 20 * MIB}, 'gpu_utilization': 50.0, 'gpu_coverage': 1.0,
        'gpu_ram': 100 * MIB,
    }  # fmt: skip
    assert found['regions_left_out'] == 0
