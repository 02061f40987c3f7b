from __future__ import annotations

import csv
import io
import json

import pytest

from gpu_tracker.resources.building import build
from gpu_tracker.result.formats import FORMATS
from gpu_tracker.units import Units

TOTALS = {
    'seconds': 10.0,
    'samples': 11,
    'ram': {
        'main': [914_000_000, 753_400_000, 160_600_000],
        'descendants': [0, 0, 0],
        'combined': [914_000_000, None, None],
        'system': 1_899_000_000,
        'capacity': 63_088_000_000,
    },
    'cpu': {
        'main': [15.0, 1.6],
        'descendants': [0.0, 0.0],
        'combined': [15.0, 1.6],
        'system': [None, None],
        'threads': [24, 0, 24],
        'cores': 12,
    },
    'gpu': {
        'count': 2,
        'expected': 1,
        'capacity': 2_048_000_000,
        'system': 353_000_000,
        'main': None,
        'descendants': 0,
        'combined': 277_000_000,
        'max_sum': 4.0,
        'mean_sum': 1.5,
    },
    'record': {'tracked_seconds': None},
}

TEXT = """\
Max RAM:
   Unit: gigabytes
   System capacity: 63.088
   System: 1.899
   Main:
      Total RSS: 0.914
      Private RSS: 0.753
      Shared RSS: 0.161
   Descendants:
      Total RSS: 0.0
      Private RSS: 0.0
      Shared RSS: 0.0
   Combined:
      Total RSS: 0.914
      Private RSS: N/A
      Shared RSS: N/A
Max GPU RAM:
   Unit: megabytes
   System capacity: 2048.0
   System: 353.0
   Main: N/A
   Descendants: 0.0
   Combined: 277.0
CPU utilization:
   System core count: 12
   Number of expected cores: 2
   System:
      Max sum percent: N/A
      Max hardware percent: N/A
      Mean sum percent: N/A
      Mean hardware percent: N/A
   Main:
      Max sum percent: 160.0
      Max hardware percent: 80.0
      Mean sum percent: 150.0
      Mean hardware percent: 75.0
   Descendants:
      Max sum percent: 0.0
      Max hardware percent: 0.0
      Mean sum percent: 0.0
      Mean hardware percent: 0.0
   Combined:
      Max sum percent: 160.0
      Max hardware percent: 80.0
      Mean sum percent: 150.0
      Mean hardware percent: 75.0
   Main number of threads: 24
   Descendants number of threads: 0
   Combined number of threads: 24
GPU utilization:
   System GPU count: 2
   Number of expected GPUs: 1
   GPU percentages:
      Max sum percent: 4.0
      Max hardware percent: 4.0
      Mean sum percent: 1.5
      Mean hardware percent: 1.5
Compute time:
   Unit: hours
   Time: 0.003"""


def usage(expected_cores: int | None = 2, **changes: object):
    return build({**TOTALS, **changes}, Units('gigabytes', 'megabytes', 'hours', expected_cores))


def test_the_text_report():
    assert FORMATS['text'](usage()) == TEXT


def test_the_json_report_has_the_documented_keys_in_their_order_and_no_rounding():
    report = FORMATS['json'](usage())
    assert report.startswith('{\n "max_ram": {\n  "unit": "gigabytes",\n  "system_capacity": 63.088,\n')
    values = json.loads(report)
    assert list(values) == ['max_ram', 'max_gpu_ram', 'cpu_utilization', 'gpu_utilization', 'compute_time']
    assert values['max_ram']['main'] == {'total_rss': 0.914, 'private_rss': 0.7534, 'shared_rss': 0.1606}
    assert values['max_gpu_ram']['main'] is None
    assert values['compute_time'] == {'unit': 'hours', 'time': 10 / 3600}


def test_all_cores_are_expected_unless_told_otherwise():
    cpu = usage(expected_cores=None).cpu_utilization
    assert cpu.n_expected_cores == 12
    assert cpu.main.max_hardware_percent == pytest.approx(160 / 12)


def test_more_than_all_cores_were_never_busy():
    cpu = {**TOTALS['cpu'], 'main': [121.0, 12.4]}
    main = usage(cpu=cpu).cpu_utilization.main
    assert main.max_sum_percent == 1200.0
    assert main.mean_sum_percent == 1200.0


def test_a_run_without_a_span_has_no_percentages():
    cpu = {**TOTALS['cpu'], 'main': [0.0, None]}
    assert usage(cpu=cpu, seconds=0.0).cpu_utilization.main.mean_sum_percent is None


def test_compute_time_is_what_the_tracker_tells():
    totals = {**TOTALS, 'record': {'tracked_seconds': 9.75}}
    assert build(totals, Units('bytes', 'bytes', 'seconds', None)).compute_time.time == 9.75


def test_without_gpus_all_gpu_figures_are_zero():
    nothing = {'count': 0, 'expected': 0, 'capacity': 0, 'system': 0, 'main': 0, 'descendants': 0, 'combined': 0}
    result = usage(gpu={**nothing, 'max_sum': 0.0, 'mean_sum': 0.0})
    assert result.max_gpu_ram.combined == 0.0
    assert result.gpu_utilization.system_gpu_count == 0
    assert result.gpu_utilization.gpu_percentages.mean_hardware_percent == 0.0


IO_TEXT = """
I/O:
   Unit: gigabytes
   Main:
      Read: 1.5
      Written: 2.0
      Cancelled: 0.0
      Read by calls: 4.0
      Written by calls: 5.0
      Max read per second: 0.25
      Max written per second: 0.5
      Max read by calls per second: 1.0
      Max written by calls per second: 2.0
      Minor page faults: 70
      Major page faults: 1
      Voluntary context switches: 12
      Involuntary context switches: 3
   Descendants:
      Read: N/A
"""


def io_totals() -> dict[str, object]:
    giga = 1_000_000_000
    main = {
        'bytes': [1.5 * giga, 2 * giga, 0, 4 * giga, 5 * giga],
        'rates': [0.25 * giga, 0.5 * giga, giga, 2 * giga],
        'faults': [70, 1],
        'switches': [12, 3],
    }
    unknown = {'bytes': [None] * 5, 'rates': [None] * 4, 'faults': [None] * 2, 'switches': [None] * 2}
    return {'main': main, 'descendants': unknown, 'combined': unknown}


def test_a_section_that_was_asked_for_stands_after_the_others():
    totals = {**TOTALS, 'io': io_totals()}
    report = build(totals, Units('gigabytes', 'megabytes', 'hours', 2))
    text = FORMATS['text'](report)
    assert text.startswith(f'{TEXT}{IO_TEXT}')
    io = json.loads(FORMATS['json'](report))['io']
    assert list(io) == ['unit', 'main', 'descendants', 'combined']
    assert io['main']['voluntary_context_switches'] == 12
    assert set(io['combined'].values()) == {None}


def test_lower_bounds_are_in_all_formats():
    reason = 'processes may have used more between two samples'
    bounds = {'max_ram.descendants.total_rss': reason, 'max_ram.combined.total_rss': reason}
    bounded = usage(lower_bounds=bounds)
    assert bounded.lower_bounds == ('max_ram.descendants.total_rss', 'max_ram.combined.total_rss')
    assert json.loads(FORMATS['json'](bounded))['lower_bounds'] == list(bounds)
    text = FORMATS['text'](usage())
    assert FORMATS['text'](bounded) == (
        f'{text}\nLower bounds (the true figures may be larger):\n'
        '   max_ram.descendants.total_rss\n   max_ram.combined.total_rss'
    )
    assert 'Peak RAM    ≥ ' in FORMATS['summary'](bounded)
    assert '≥' not in FORMATS['summary'](usage())
    (row,) = csv.DictReader(io.StringIO(FORMATS['csv'](bounded)))
    assert row['lower_bounds'] == 'max_ram.descendants.total_rss max_ram.combined.total_rss'


def test_without_lower_bounds_there_is_no_list_of_them():
    assert usage(lower_bounds={}).lower_bounds == usage().lower_bounds == ()
    assert 'lower_bounds' not in json.loads(FORMATS['json'](usage(lower_bounds={})))
