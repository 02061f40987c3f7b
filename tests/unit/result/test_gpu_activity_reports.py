"""The activity of GPUs in reports, read back, and as figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from gpu_tracker.figures import rows, text, value
from gpu_tracker.resources.building import build
from gpu_tracker.result.formats import as_csv, as_json, as_summary, as_text
from gpu_tracker.result.usage import GPUActivity, ResourceUsage
from gpu_tracker.units import Units

FOLDER = Path(__file__).parents[2] / 'data' / 'recorded_runs'
BUSY = GPUActivity(
    index=0,
    vendor='nvidia',
    uuid='GPU-a',
    gpu_instance=None,
    unit='megabytes',
    sm_mean_percent=40.0,
    sm_max_percent=80.0,
    occupancy_mean_percent=20.0,
    occupancy_max_percent=30.0,
    tensor_mean_percent=10.0,
    tensor_max_percent=15.0,
    dram_mean_percent=5.0,
    dram_max_percent=6.0,
    pcie_sent_mean_per_second=3.0,
    pcie_received_mean_per_second=1.5,
    nvlink_sent_mean_per_second=0.0,
    nvlink_received_mean_per_second=None,
    problem=None,
)
PART = replace(BUSY, index=1, gpu_instance=2, sm_mean_percent=55.0, dram_mean_percent=None)


def usage_of(*gpus: GPUActivity) -> ResourceUsage:
    totals = json.loads((FOLDER / 'plain.totals.json').read_text())['totals']
    usage = build(totals, Units('megabytes', 'megabytes', 'seconds', None))
    return replace(usage, gpu_activity=gpus)


def test_the_text_has_each_gpu() -> None:
    lines = as_text(usage_of(BUSY, PART)).splitlines()
    first, second = lines.index('GPU activity 0:'), lines.index('GPU activity 1:')
    assert lines[first:second] == [
        'GPU activity 0:',
        '   UUID: GPU-a',
        '   Unit: megabytes',
        '   SM mean percent: 40.0',
        '   SM max percent: 80.0',
        '   Occupancy mean percent: 20.0',
        '   Occupancy max percent: 30.0',
        '   Tensor mean percent: 10.0',
        '   Tensor max percent: 15.0',
        '   DRAM mean percent: 5.0',
        '   DRAM max percent: 6.0',
        '   PCIe sent mean per second: 3.0',
        '   PCIe received mean per second: 1.5',
        '   NVLink sent mean per second: 0.0',
        '   NVLink received mean per second: N/A',
    ]
    assert lines[second + 2] == '   GPU instance: 2'


def test_the_summary_has_the_busiest_gpu_and_what_is_wrong() -> None:
    found = as_summary(usage_of(BUSY, PART)).splitlines()
    assert 'GPU active  SMs 55 %, tensor cores 10 %, memory bandwidth 5 % on average' in found
    unknown = replace(BUSY, sm_mean_percent=None, tensor_mean_percent=None, dram_mean_percent=None, problem='lost')
    found = as_summary(usage_of(unknown)).splitlines()
    place = found.index('GPU active  SMs N/A, tensor cores N/A, memory bandwidth N/A on average')
    assert found[place + 1].strip() == 'lost'


def test_a_table_of_runs_has_the_largest_of_all_gpus() -> None:
    names, values = (line.split(',') for line in as_csv(usage_of(BUSY, PART)).splitlines())
    row = dict(zip(names, values, strict=True))
    assert row['gpu_activity.sm_mean_percent'] == '55.0'
    assert row['gpu_activity.pcie_sent_mean_per_second'] == '3.0'
    assert row['gpu_activity.nvlink_received_mean_per_second'] == ''


def test_a_report_is_read_back_whole() -> None:
    usage = usage_of(BUSY, replace(PART, problem='lost'))
    assert ResourceUsage.from_json(as_json(usage)) == usage
    assert ResourceUsage.from_json(as_json(usage_of())).gpu_activity == ()


def test_figures_are_in_base_units_and_unknown_if_no_gpu_was_used() -> None:
    usage = usage_of(BUSY, PART)
    assert value(usage, 'gpu_activity.pcie_sent_mean_per_second') == 3_000_000
    assert value(usage, 'gpu_activity.0.sm_mean_percent') == 40.0
    assert text(usage, 'gpu_activity.sm_max_percent') == '80 %'
    assert value(usage_of(), 'gpu_activity.sm_mean_percent') is None
    assert [row.label for row, _ in rows(usage) if row.section == 'gpu_activity'] == [
        'GPU SM activity, mean',
        'Tensor cores busy, mean',
        'GPU memory bandwidth, mean',
    ]
    assert [row.label for row, _ in rows(usage_of()) if row.section == 'gpu_activity'] == []
