"""The health of GPUs through the real nvidia-ml-py on the simulated driver, and what an agent exports of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.fleet.agent_program import agent
from support.gpus.gpu_machine import GB, Machine
from support.simulated_nvml import Failure, Gpu, Hang, Mig
from support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

UNHEALTHY = Gpu(
    uuid='GPU-a',
    name='NVIDIA H200',
    total=141 * GB,
    ecc_volatile_corrected=5,
    ecc_volatile_uncorrected=1,
    ecc_aggregate_corrected=5_000_000_000,
    ecc_aggregate_uncorrected=2,
    remapped_corrected=3,
    remapped_uncorrected=4,
    remap_pending=1,
    remap_failed=0,
    throttle_reasons=1 | 4 | 64,
    energy=12_345_678,
    pcie_sent=4_000_000_000,
    pcie_received=7,
    nvlink_sent=3,
    nvlink_received=5,
)
NOTHING_KNOWN = [None] * 15
SURVEY = """
import json
from gpu_tracker.gpus.nvidia import open_backend

def plain(reading):
    parts = None if reading.mig_devices is None else [plain(part) for part in reading.mig_devices]
    return {'problem': reading.problem, 'memory': reading.memory_total, 'health': reading.health, 'parts': parts}

print(json.dumps([plain(reading) for reading in open_backend().survey()]))
"""


def survey(machine: Machine) -> list[dict]:
    return machine.forked_answer(SURVEY)


def health(machine: Machine) -> list[object]:
    return [gpu['health'] for gpu in survey(machine)]


def test_all_that_a_gpu_reports_is_in_base_units(machine: Machine) -> None:
    machine.write(gpus=[UNHEALTHY])
    (found,) = health(machine)
    assert found == [
        *(None, 5, 1, 5_000_000_000, 2, 3, 4, True, False, ['power_cap', 'hardware_thermal']),
        *(12_345.678, 4_000_000_000, 7, 3072, 5120),
    ]


def test_what_a_gpu_does_not_report_is_unknown_and_no_zero(machine: Machine) -> None:
    machine.write(gpus=[Gpu(uuid='GPU-a', total=GB), Gpu(uuid='GPU-b', total=GB, ecc_volatile_uncorrected=0)])
    first, second = health(machine)
    assert first == NOTHING_KNOWN
    assert second == [None, None, 0, *[None] * 12]


@pytest.mark.parametrize('call', ['nvmlDeviceGetFieldValues', 'nvmlDeviceGetCurrentClocksThrottleReasons'])
@pytest.mark.parametrize('code', [3, 13, 15, 999])
def test_calls_that_fail_cost_their_own_figures_alone(machine: Machine, call: str, code: int) -> None:
    machine.write(gpus=[UNHEALTHY], fail=[Failure(call, code)])
    (gpu,) = survey(machine)
    assert (gpu['problem'], gpu['memory']) == (None, 141 * GB)
    known = [value for value in gpu['health'] if value is not None]
    assert len(known) == (1 if call == 'nvmlDeviceGetFieldValues' else 13)


def test_mig_devices_have_no_health_of_their_own(machine: Machine) -> None:
    machine.write(gpus=[Gpu(uuid='GPU-a', total=GB, energy=5, mig=[Mig(uuid='MIG-a', gi=1, total=GB)])])
    (gpu,) = survey(machine)
    assert gpu['health'][10] == 0.005
    assert gpu['parts'][0]['health'] is None


def metrics(served) -> dict[str, float]:
    lines = (line for line in served.get('/metrics').text.splitlines() if not line.startswith('#'))
    return {name: float(value) for name, _, value in (line.rpartition(' ') for line in lines)}


def of(found: dict[str, float], name: str, uuid: str = 'GPU-a') -> dict[str, float]:
    """Return the values of a metric of one GPU, by the labels that not all its metrics have."""
    common = ('host=', 'uuid=', 'index=', 'model=', 'mig_instance=')
    return {
        ','.join(label for label in labels.rstrip('}').split(',') if label and not label.startswith(common)): value
        for series, value in found.items()
        for begin, _, labels in [series.partition('{')]
        if begin == f'gpu_tracker_gpu_{name}' and f'uuid="{uuid}"' in labels
    }


@pytest.mark.machine(gpus=[UNHEALTHY, Gpu(uuid='GPU-b', total=GB)])
def test_an_agent_exports_what_is_known(machine: Machine) -> None:
    with agent(machine) as served:
        served.seen()
        found = metrics(served)
    assert of(found, 'ecc_errors_total') == {
        'counter="volatile",error="corrected"': 5,
        'counter="volatile",error="uncorrected"': 1,
        'counter="aggregate",error="corrected"': 5_000_000_000,
        'counter="aggregate",error="uncorrected"': 2,
    }
    assert of(found, 'remapped_rows') == {'error="corrected"': 3, 'error="uncorrected"': 4}
    assert (of(found, 'row_remap_pending'), of(found, 'row_remap_failed')) == ({'': 1}, {'': 0})
    throttled = of(found, 'throttled')
    assert len(throttled) == 8
    assert {reason for reason, value in throttled.items() if value} == {
        'reason="power_cap"',
        'reason="hardware_thermal"',
    }
    assert of(found, 'energy_joules_total') == {'': 12_345.678}
    assert of(found, 'pcie_sent_bytes_total') == {'': 4_000_000_000}
    assert of(found, 'nvlink_received_bytes_total') == {'': 5120}
    healthy = [name for name in found if 'uuid="GPU-b"' in name and ('ecc' in name or 'throttled' in name)]
    assert healthy == []
    assert found['process_resident_memory_bytes'] > 1_000_000
    assert found['process_cpu_seconds_total'] > 0


@pytest.mark.machine(gpus=[Gpu(uuid='GPU-a', total=GB), Gpu(uuid='GPU-b', total=GB)], events=True)
def test_xid_errors_are_counted_by_code_also_of_a_gpu_that_is_lost_by_them(machine: Machine) -> None:
    with agent(machine, '--interval=0.1') as served:
        served.seen()
        assert of(metrics(served), 'xid_errors_total') == {}
        assert [gpu['health']['xid_errors'] for gpu in served.get('/api/v1/host').json['gpus']] == [{}, {}]
        lost = Gpu(uuid='GPU-a', total=GB, missing=True, xid_errors=[(79, 0), (63, 0), (63, 0)])
        machine.write(gpus=[lost, Gpu(uuid='GPU-b', total=GB, xid_errors=[(13, 0)])], events=True)
        expected = {'xid="63"': 2, 'xid="79"': 1}
        assert eventually(lambda: of(metrics(served), 'xid_errors_total') == expected)
        assert eventually(lambda: of(metrics(served), 'xid_errors_total', 'GPU-b') == {'xid="13"': 1})
        assert eventually(lambda: served.get('/api/v1/host').json['gpus'][0]['status'] == 'unreadable')
        assert of(metrics(served), 'xid_errors_total') == expected


@pytest.mark.machine(gpus=[Gpu(uuid='GPU-a', total=GB)])
def test_a_driver_without_events_has_no_counts(machine: Machine) -> None:
    with agent(machine) as served:
        served.seen()
        assert served.get('/api/v1/host').json['gpus'][0]['health']['xid_errors'] is None


@pytest.mark.machine(gpus=[Gpu(uuid='GPU-a', total=GB)], events=True, hang=[Hang('nvmlEventSetWait*')])
def test_waiting_for_errors_that_hangs_keeps_nobody_waiting(machine: Machine) -> None:
    with agent(machine) as served:
        assert served.seen()
        assert of(metrics(served), 'memory_size_bytes') == {'': GB}


def test_the_table_has_a_column_where_something_is_wrong(machine: Machine, tmp_path: Path) -> None:
    machine.write(gpus=[UNHEALTHY, Gpu(uuid='GPU-b', total=GB)])
    titles, first, second, *_ = machine.told('gpus')[1].splitlines()
    assert ' health ' in titles
    assert 'ECC errors: 1, reset to replace memory row, slowed: hot' in first
    machine.write(gpus=[Gpu(uuid='GPU-b', total=GB)])
    assert 'health' not in machine.told('gpus')[1]
    assert second.startswith('1  ')
