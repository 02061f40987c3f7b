"""The GPUs of a result, in all its formats."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_tracker.figures import value
from gpu_tracker.resources.building import build
from gpu_tracker.result.formats import FORMATS
from gpu_tracker.result.usage import GPUMemory, GPUPercentages, GPUUse, ResourceUsage
from gpu_tracker.units import Units

GB = 10**9
TOTALS = Path(__file__).parents[2] / 'data/recorded_runs/gpu.totals.json'


def result_of_a_run() -> ResourceUsage:
    return build(json.loads(TOTALS.read_text())['totals'], Units('gigabytes', 'gigabytes', 'seconds', None))


def gpu(index: int, combined: float | None, busy: float | None, own: float | None, vendor: str = 'nvidia') -> GPUUse:
    return GPUUse(
        index,
        vendor,
        f'uuid-{index}',
        'A GPU',
        'gigabytes',
        80.0,
        GPUMemory(60.0, combined, 0.0, combined),
        GPUPercentages(busy, busy),
        GPUPercentages(own, own),
        others_used_it=False,
    )


def usage_of(*gpus: GPUUse, lower_bounds: tuple[str, ...] = ()) -> ResourceUsage:
    return replace(result_of_a_run(), gpus=gpus, lower_bounds=lower_bounds)


BOTH = gpu(0, 2.0, 10.0, 9.0), gpu(3, 40.5, 50.0, 48.0)


def gpu_lines(usage: ResourceUsage) -> list[str]:
    return [line for line in FORMATS['summary'](usage).splitlines() if 'GPU' in line]


def test_the_summary_has_a_line_for_each_gpu_fullest_first() -> None:
    assert gpu_lines(usage_of(*BOTH)) == [
        'GPU 3       40.5 GB of 80 GB at most, 50 % busy (own 48 %)',
        'GPU 0       2 GB of 80 GB at most, 10 % busy (own 9 %)',
    ]


def test_the_summary_marks_the_gpu_whose_figure_may_be_too_low() -> None:
    assert gpu_lines(usage_of(*BOTH, lower_bounds=('gpus.0.max_ram.combined', 'gpus.max_ram.combined'))) == [
        'GPU 3       40.5 GB of 80 GB at most, 50 % busy (own 48 %)',
        'GPU 0       ≥ 2 GB of 80 GB at most, 10 % busy (own 9 %)',
    ]


def test_a_gpu_that_was_not_used_and_unknown_figures() -> None:
    assert gpu_lines(usage_of(gpu(0, 0.0, 90.0, 0.0), gpu(1, None, None, None, 'amd'))) == [
        'GPU 0       not used; 0 B of 80 GB at most, 90 % busy (own 0 %)',
        'AMD GPU 1   N/A of 80 GB at most, N/A busy (own N/A)',
    ]


def test_more_gpus_than_lines() -> None:
    lines = gpu_lines(usage_of(*(gpu(index, 1.0 + index, 1.0, 1.0) for index in range(8))))
    assert [line[:6].strip() for line in lines] == ['GPU 7', 'GPU 6', 'GPU 5', 'GPU 4', '']
    assert lines[-1].strip() == 'and 4 more GPUs'


def test_no_gpu_was_used() -> None:
    assert gpu_lines(usage_of()) == ['GPU         none used']


@pytest.mark.parametrize(
    ('path', 'expected'),
    [
        ('gpus.max_ram.combined', 40_500_000_000),
        ('gpus.0.max_ram.combined', 2 * GB),
        ('gpus.utilization.mean_percent', 50.0),
        ('gpus.3.own_utilization.max_percent', 48.0),
        ('gpus.7.max_ram.combined', 0),
        ('gpus.7.max_ram.system', None),
    ],
)
def test_a_path_is_the_largest_of_all_gpus_or_names_one(path: str, expected: float | None) -> None:
    assert value(usage_of(*BOTH), path) == expected


def test_text_and_json_and_csv() -> None:
    usage = usage_of(*BOTH)
    assert ResourceUsage.from_dict(usage.to_dict()) == usage
    text = str(usage).splitlines()
    assert text[text.index('GPU 3:') + 4 : text.index('GPU 3:') + 8] == [
        '   Capacity: 80.0',
        '   Max RAM:',
        '      System: 60.0',
        '      Main: 40.5',
    ]
    names, figures = (line.split(',') for line in FORMATS['csv'](usage).splitlines())
    row = dict(zip(names, figures, strict=True))
    assert (row['gpus.max_ram.combined'], row['gpus.utilization.mean_percent']) == ('40.5', '50.0')


def test_the_text_says_once_that_no_gpu_was_used() -> None:
    assert str(usage_of()).splitlines().count('No GPU was used.') == 1
    assert 'No GPU was used.' not in str(usage_of(*BOTH)) + str(result_of_a_run())


def test_gpus_that_were_not_used_are_an_empty_list_and_no_gpus_are_no_key() -> None:
    assert usage_of().to_dict()['gpus'] == []
    assert 'gpus' not in result_of_a_run().to_dict()


def test_one_line() -> None:
    assert repr(usage_of(*BOTH)).endswith(', GPU RAM 40.5 GB, GPU 50 %>')
