"""What was used in code blocks, from files of gpu-tracker 5 whose values are known."""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
import sys
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.installation import package_command
from gpu_tracker.sub_tracker import SubTrackingAnalyzer
from support.sub_tracking import STATIC, write_blocks, write_tracking

if TYPE_CHECKING:
    from pathlib import Path

NAME = 'it\'s "quoted"'
POINTS = [(100.0 + second, float(second)) for second in range(10)]


@pytest.fixture(params=['csv', 'sqlite'])
def analyzer(request, tmp_path: Path) -> SubTrackingAnalyzer:
    blocks = [
        (1, 'b', 0, 101.0),
        (1, 'b', 1, 103.0),
        (2, 'b', 0, 102.5),
        (2, 'b', 1, 104.5),
        (1, 'short', 0, 105.25),
        (1, 'short', 1, 105.5),
        (1, 'never', 0, 106.0),
    ]
    return SubTrackingAnalyzer(
        write_tracking(tmp_path / f't.{request.param}', POINTS), write_blocks(tmp_path / f's.{request.param}', blocks)
    )


def block_of(analyzer: SubTrackingAnalyzer, name: str) -> dict:
    blocks = analyzer.sub_tracking_results().to_json()['code_block_results']
    return next(block for block in blocks if block['name'] == name)


def test_overall(analyzer):
    results = analyzer.sub_tracking_results().to_json()

    assert results['static_data'] == STATIC
    assert results['overall']['main_ram'] == {'min': 0.0, 'max': 9.0, 'mean': 4.5, 'std': math.sqrt(8.25)}
    assert [block['name'] for block in results['code_block_results']] == ['b', 'never', 'short']


def test_points_of_time_in_any_call_count_once(analyzer):
    block = block_of(analyzer, 'b')

    assert (block['num_timepoints'], block['num_calls'], block['num_non_empty_calls']) == (4, 2, 2)
    assert block['resource_usage']['main_ram'] == {'min': 1.0, 'max': 4.0, 'mean': 2.5, 'std': math.sqrt(1.25)}
    assert block['compute_time'] == {'min': 2.0, 'max': 2.0, 'mean': 2.0, 'std': 0.0, 'total': 4.0}


def test_what_no_point_of_time_was_in_is_unknown(analyzer):
    block = block_of(analyzer, 'short')

    assert (block['num_timepoints'], block['num_calls'], block['num_non_empty_calls']) == (0, 1, 0)
    assert block['resource_usage']['main_ram'] == dict.fromkeys(('min', 'max', 'mean', 'std'))
    assert block['compute_time']['total'] == 0.25


def test_a_block_that_has_not_ended_is_there(analyzer):
    block = block_of(analyzer, 'never')

    assert (block['num_calls'], block['num_unfinished_calls'], block['compute_time']['mean']) == (0, 1, None)


def test_pairs_and_names(analyzer):
    assert analyzer.load_code_block_names() == ['b', 'never', 'short']
    assert analyzer.load_timestamp_pairs('b') == [(101.0, 103.0), (102.5, 104.5)]
    assert analyzer.load_timestamp_pairs('unknown') == []


def test_without_pandas_its_types_say_what_is_missing(analyzer, monkeypatch):
    monkeypatch.setitem(sys.modules, 'pandas', None)
    results = analyzer.sub_tracking_results()

    assert 'Name:                short' in str(results)
    for broken in (
        lambda: results.overall,
        lambda: results.static_data,
        lambda: results.code_block_results[0].compute_time,
        lambda: results.code_block_results[0].resource_usage,
        analyzer.read_static_data,
        analyzer.overall_timepoint_results,
        lambda: analyzer.load_timepoints([]),
    ):
        with pytest.raises(ImportError) as caught:
            broken()
        assert str(caught.value).endswith(f'is a type of pandas, which is not installed: {package_command("pandas")}')


def test_a_damaged_last_row_is_left_out(tmp_path: Path):
    tracking = write_tracking(tmp_path / 't.csv', POINTS)
    blocks = write_blocks(tmp_path / 's.csv', [(1, 'b', 0, 100.0), (1, 'b', 1, 109.0)])
    with open(tracking, 'a', encoding='utf-8') as file:
        file.write('1e9,2,3')
    with open(blocks, 'a', encoding='utf-8') as file:
        file.write('1,b,')

    block = block_of(SubTrackingAnalyzer(tracking, blocks), 'b')

    assert (block['num_timepoints'], block['num_unfinished_calls']) == (10, 0)


@pytest.mark.parametrize('line', ['1,b', '1,b,2,102.0', '1,b,0,then', '1,b,0,102.0,5', '1,b,0,nan', '1.5,b,0,102.0'])
def test_a_damaged_row_before_the_last_is_refused(tmp_path: Path, line: str):
    blocks = write_blocks(tmp_path / 's.csv', [(1, 'b', 0, 100.0), (1, 'b', 1, 109.0)])
    content = blocks.read_text().splitlines()
    blocks.write_text('\n'.join([*content[:2], line, *content[2:]]))

    with pytest.raises(ValueError, match=f's.csv is damaged: {line!r} is not a valid row'):
        SubTrackingAnalyzer(None, blocks).load_code_block_names()


@pytest.mark.parametrize('line', ['1.0', 22 * 'x,', 23 * '1,'])
def test_a_damaged_point_of_time_before_the_last_is_refused(tmp_path: Path, line: str):
    tracking = write_tracking(tmp_path / 't.csv', POINTS)
    content = tracking.read_text().splitlines()
    tracking.write_text('\n'.join([*content[:5], line, *content[5:]]))

    with pytest.raises(ValueError, match=r't.csv is damaged: .* is not a valid row'):
        SubTrackingAnalyzer(tracking, tracking).read_static_data()


@pytest.mark.parametrize('wrong', ['t', 's'])
@pytest.mark.parametrize('content', ['', 'a,b\n1,2\n', '\0\1\2', '"' + 200_000 * 'x'])
def test_a_file_of_something_else_is_named(tmp_path: Path, wrong: str, content: str):
    files = {
        't': write_tracking(tmp_path / 't.csv', POINTS),
        's': write_blocks(tmp_path / 's.csv', [(1, 'b', 0, 100.0)]),
    }
    files[wrong].write_text(content)

    with pytest.raises(ValueError, match=f'{wrong}\\.csv'):
        SubTrackingAnalyzer(files['t'], files['s']).sub_tracking_results()


def test_a_missing_file_is_an_oserror(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        SubTrackingAnalyzer(None, tmp_path / 'x.csv').load_code_block_names()


def test_without_a_tracking_file_there_are_blocks_only(tmp_path: Path):
    analyzer = SubTrackingAnalyzer(None, write_blocks(tmp_path / 's.csv', [(1, 'b', 0, 100.0)]))

    assert analyzer.load_code_block_names() == ['b']
    with pytest.raises(ValueError, match='this analysis needs a tracking file, but tracking_file is None'):
        analyzer.sub_tracking_results()


@pytest.mark.parametrize(
    'statement',
    [
        'CREATE VIEW data AS SELECT 1 AS process_id, 2 AS code_block_name, 0 AS position, 3 AS timestamp',
        'CREATE TABLE other (x)',
    ],
)
def test_an_sqlite_file_that_would_run_something_is_refused(tmp_path: Path, statement: str):
    path = tmp_path / 's.sqlite'
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(statement)

    with pytest.raises(ValueError, match=r'is not a file of gpu-tracker'):
        SubTrackingAnalyzer(None, path).load_code_block_names()


@pytest.mark.parametrize('made', ['csv', 'sqlite'])
@pytest.mark.parametrize('given', ['csv', 'sqlite'])
def test_combining(tmp_path: Path, given: str, made: str):
    files = [
        write_blocks(tmp_path / f'{process}.{given}', [(process, 'b', 0, 1.0), (process, 'b', 1, 2.0 + process)])
        for process in (1, 2)
    ]
    analyzer = SubTrackingAnalyzer(None, tmp_path / f'made.{made}')

    analyzer.combine_sub_tracking_files(files)

    assert analyzer.load_timestamp_pairs('b') == [(1.0, 3.0), (1.0, 4.0)]
    with pytest.raises(ValueError, match='exists already'):
        analyzer.combine_sub_tracking_files(files)
    assert sorted(os.listdir(tmp_path)) == sorted({f'1.{given}', f'2.{given}', f'made.{made}'})


def test_a_name_with_quotes(tmp_path: Path):
    blocks = write_blocks(tmp_path / 's.sqlite', [(1, NAME, 0, 101.0), (1, NAME, 1, 103.0)])
    analyzer = SubTrackingAnalyzer(write_tracking(tmp_path / 't.sqlite', POINTS), blocks)

    assert analyzer.load_timestamp_pairs(NAME) == [(101.0, 103.0)]
    assert block_of(analyzer, NAME)['num_timepoints'] == 3


def test_a_thousand_calls(tmp_path: Path):
    rows = [(1, 'b', position, 100 + call / 200 + position / 1000) for call in range(2000) for position in (0, 1)]
    analyzer = SubTrackingAnalyzer(
        write_tracking(tmp_path / 't.sqlite', POINTS), write_blocks(tmp_path / 's.sqlite', rows)
    )

    assert block_of(analyzer, 'b')['num_calls'] == 2000
