"""Files of results, and runs beside each other."""

from __future__ import annotations

import json
import os
import pickle
from typing import TYPE_CHECKING

import pytest

from gpu_tracker.sub_tracker import CodeBlockResults, SubTrackingResults, TrackingComparison

if TYPE_CHECKING:
    from pathlib import Path


def statistics(mean: float | None) -> dict[str, float | None]:
    return {'min': mean, 'max': mean, 'mean': mean, 'std': 0.0}


def results(ram: float, **blocks: float | None) -> SubTrackingResults:
    """Return results with blocks, a double underscore for the colon, that took so many seconds."""
    return SubTrackingResults(
        {'main_ram': statistics(ram)},
        {'ram_unit': 'gigabytes', 'system_core_count': 2},
        [
            CodeBlockResults(
                name.replace('__', ':'),
                3,
                2,
                1,
                {**statistics(seconds), 'total': 2.0},
                {'main_ram': statistics(seconds)},
            )
            for name, seconds in blocks.items()
        ],
    )


def compared(folder: Path, **runs: SubTrackingResults) -> dict:
    paths = {}
    for name, result in runs.items():
        paths[name] = folder / f'{name}.json'
        paths[name].write_text(json.dumps(result.to_json()))
    return TrackingComparison(paths).compare().to_json()


def test_results_of_gpu_tracker_5_are_read_with_nan_as_unknown(tmp_path: Path):
    values = results(1.5, load=None).to_json()
    path = tmp_path / 'results.json'
    path.write_text(json.dumps(values).replace('null', 'NaN').replace('"num_unfinished_calls": 0, ', ''))

    assert TrackingComparison({'A': path}).results_map['A'].to_json() == values


class Attack:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_pickle_is_refused_and_does_nothing(tmp_path: Path):
    path = tmp_path / 'results.pkl'
    path.write_bytes(pickle.dumps(Attack(tmp_path / 'harm')))

    with pytest.raises(ValueError, match='Pickles are not loaded, because a pickle can run any code'):
        TrackingComparison({'A': path})

    assert not (tmp_path / 'harm').exists()


@pytest.mark.parametrize(
    'content',
    [
        b'',
        b'{}',
        b'[]',
        b'null',
        b'\x80',
        b'\xff\xfe',
        b'[' * 100_000,
        b'{"overall": 1}',
        b'{"overall": {"a": {"min": "x"}}, "code_block_results": []}',
        b'{"overall": {"a": {"min": "1", "max": 1, "mean": 1, "std": 1}}, "code_block_results": [], "static_data": {}}',
    ],
)
def test_what_is_no_results_is_refused(tmp_path: Path, content: bytes):
    path = tmp_path / 'results.json'
    path.write_bytes(content)

    with pytest.raises(ValueError, match=r'results\.json'):
        TrackingComparison({'A': path})


def test_values_stand_in_their_order(tmp_path: Path):
    found = compared(tmp_path, A=results(3.0, load=2.0), B=results(1.0, load=None), C=results(2.0, load=1.0))

    assert list(found['overall_resource_usage']['main_ram'].items()) == [('B', 1.0), ('C', 2.0), ('A', 3.0)]
    assert list(found['code_block_compute_time']['load'].items()) == [('C', 1.0), ('A', 2.0), ('B', None)]


def test_blocks_of_one_run_only_are_listed(tmp_path: Path):
    found = compared(tmp_path, A=results(1.0, load=1.0, train=2.0), B=results(1.0, load=3.0, test=4.0))

    assert found['code_block_compute_time'] == {'load': {'A': 1.0, 'B': 3.0}, 'train': {'A': 2.0}, 'test': {'B': 4.0}}
    assert found['code_blocks_missing'] == {'train': ['A'], 'test': ['B']}


def test_blocks_whose_lines_have_moved_are_compared_in_their_order(tmp_path: Path, caplog):
    found = compared(tmp_path, A=results(1.0, f__9=1.0, f__20=2.0), B=results(1.0, f__20=3.0, f__100=4.0))

    assert found['code_block_compute_time'] == {
        'f:20 -> f:9': {'A': 1.0, 'B': 3.0},
        'f:100 -> f:20': {'A': 2.0, 'B': 4.0},
    }
    assert found['code_blocks_missing'] == {}
    assert caplog.messages == [
        'These code blocks are compared as one, since only their lines differ: f:20, f:9.',
        'These code blocks are compared as one, since only their lines differ: f:100, f:20.',
    ]


def test_an_unknown_statistic_is_refused(tmp_path: Path):
    (tmp_path / 'a').write_text(json.dumps(results(1.0).to_json()))

    with pytest.raises(ValueError, match="statistic must be one of min, max, mean, std, not 'median'"):
        TrackingComparison({'A': tmp_path / 'a'}).compare('median')


def test_the_text_of_a_comparison(tmp_path: Path):
    for name, result in {'A': results(1.5, load=0.25), 'B': results(0.5, test=1.0)}.items():
        (tmp_path / name).write_text(json.dumps(result.to_json()))

    text = str(TrackingComparison({name: tmp_path / name for name in 'AB'}).compare('max'))

    assert text.split('\n') == [
        'Overall Resource Usage:',
        '\tMain Ram:',
        '\t\t   B   A',
        '\t\t 0.5 1.5',
        'Code Block Resource Usage:',
        '\tMain Ram:',
        '\t\tload:',
        '\t\t\t    A',
        '\t\t\t 0.25',
        '\t\ttest:',
        '\t\t\t   B',
        '\t\t\t 1.0',
        'Code Block Compute Time:',
        '\tload:',
        '\t\t    A',
        '\t\t 0.25',
        '\ttest:',
        '\t\t   B',
        '\t\t 1.0',
        'Code Blocks Not In All:',
        '\tload: in A',
        '\ttest: in B',
        '',
    ]


def test_the_text_of_results():
    found = SubTrackingResults(
        {'main_ram': statistics(1.0), 'system_ram': {'min': 0.123456789, 'max': 2000.0, 'mean': None, 'std': 1e-7}},
        {'ram_unit': 'gigabytes', 'ram_system_capacity': 67.25, 'system_core_count': 2},
        [CodeBlockResults('b', 3, 2, 1, {**statistics(2.5), 'total': 5.0}, {'main_ram': statistics(1.5)}, 1)],
    )

    assert str(found).split('\n') == [
        'Overall:',
        '\t                  min    max  mean   std',
        '\tmain_ram          1.0    1.0   1.0   0.0',
        '\tsystem_ram 0.12345679 2000.0   N/A 1e-07',
        'Static Data:',
        '\t   ram_unit ram_system_capacity system_core_count',
        '\t  gigabytes               67.25                 2',
        'Code Block Results:',
        '\tName:                 b',
        '\tNum Timepoints:       3',
        '\tNum Calls:            2',
        '\tNum Non Empty Calls:  1',
        '\tNum Unfinished Calls: 1',
        '\tCompute Time:',
        '\t\t  min  max  mean  std  total',
        '\t\t  2.5  2.5   2.5  0.0    5.0',
        '\tResource Usage:',
        '\t\t          min  max  mean  std',
        '\t\tmain_ram  1.5  1.5   1.5  0.0',
        '',
        '',
    ]
