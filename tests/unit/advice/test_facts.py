"""The facts of a run, from its result and its totals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_tracker import ResourceUsage
from gpu_tracker.advice import advice_of
from gpu_tracker.advice.facts import Facts, GPUFacts, facts_of
from gpu_tracker.job import batch_request
from gpu_tracker.result.formats import as_csv, as_summary, as_text
from gpu_tracker.result.usage import (
    ComputeTime,
    ControlGroupUsage,
    CPUUtilization,
    GPUMemory,
    GPUPercentages,
    GPUUse,
    JobIdentity,
)

REPORT = Path(__file__).parents[2] / 'data' / 'recorded_runs' / 'plain.report.json'
SLURM = {
    'SLURM_JOB_ID': '4711',
    'SLURM_MEM_PER_NODE': '8192',
    'SLURM_CPUS_PER_TASK': '1',
    'SLURM_JOB_START_TIME': '1000',
    'SLURM_JOB_END_TIME': '15400',
}
TOTALS = {
    'batch': batch_request(SLURM, 1060.0),
    'control_group': {'swapped_out': 0, 'throttled_seconds': 0.5},
    'major_faults': 7,
}


def a_run(**changes: Any) -> ResourceUsage:
    usage = ResourceUsage.from_json(REPORT.read_bytes())
    return replace(usage, compute_time=ComputeTime('minutes', 1.0), lower_bounds=(), **changes)


def facts(totals: dict[str, Any] = TOTALS, exit_code: int | None = 0, **changes: Any) -> Facts:
    return facts_of(a_run(**changes), totals, exit_code)


def test_figures_of_a_result_are_in_base_units() -> None:
    found = facts()
    assert found.seconds == 60.0
    assert found.swap_peak_bytes == 0
    assert found.quota_throttled_seconds == 0.5
    assert found.major_faults == 7
    assert found.ram_allowed_bytes == 8 * 2**30
    assert (found.cores_allowed, found.cores_allowed_by) == (1, 'request')
    assert (found.time_limit_seconds, found.job_seconds) == (14400, 60.0)
    assert found.batch == 'slurm'
    assert found.termination == 'exited'


@pytest.mark.parametrize(
    ('group', 'swap'),
    [
        ({'swapped_out': 0, 'group_swap': None}, 0),
        ({'swapped_out': 4096, 'group_swap': None}, None),
        ({'swapped_out': 4096, 'group_swap': 8192}, 8192),
        ({'swapped_out': None}, None),
    ],
)
def test_swap_is_known_if_the_machine_has_not_swapped(group: dict[str, Any], swap: int | None) -> None:
    assert facts({'control_group': group}).swap_peak_bytes == swap


@pytest.mark.parametrize(('limit', 'by'), [(1.0, 'quota'), (None, 'affinity')])
def test_what_restricts_the_cores(limit: float | None, by: str) -> None:
    group = ControlGroupUsage('bytes', None, 5.0, limit, 1.0, 0, None)
    cpu = replace(a_run().cpu_utilization, system_core_count=4)
    assert isinstance(cpu, CPUUtilization)
    found = facts({}, control_group=group, cpu_utilization=cpu)
    assert (found.cores_allowed, found.cores_allowed_by, found.ram_allowed_bytes) == (1.0, by, 5)
    alone = facts({}, control_group=None, cpu_utilization=cpu)
    assert (alone.cores_allowed, alone.cores_allowed_by, alone.batch) == (4, 'machine', None)


@pytest.mark.parametrize(
    ('requested', 'allowed', 'expected'),
    [(4, None, (4, 'request')), (2, None, (2, 'request')), (8, 2.0, (2.0, 'affinity')), (1, 2.0, (1, 'request'))],
)
def test_a_request_of_all_cores_of_the_machine_restricts_them_too(
    requested: int, allowed: float | None, expected: tuple[float, str]
) -> None:
    group = None if allowed is None else ControlGroupUsage('bytes', None, None, None, allowed, 0, None)
    cpu = replace(a_run().cpu_utilization, system_core_count=4)
    found = facts({'batch': {'cores': requested}}, control_group=group, cpu_utilization=cpu)
    assert (found.cores_allowed, found.cores_allowed_by) == expected


def test_one_of_several_ranks_gets_no_options_of_the_batch_system() -> None:
    assert facts(job=JobIdentity('slurm', rank=3, size=8)).batch is None
    assert facts(job=JobIdentity('slurm', rank=0, size=1)).batch == 'slurm'
    assert facts(job=JobIdentity('slurm')).batch == 'slurm'
    assert facts({'batch': batch_request({**SLURM, 'SLURM_NTASKS': '2'}, 0)}).batch is None


def test_a_signal_at_the_time_limit_of_the_job_is_from_the_batch_system() -> None:
    late = {'batch': batch_request(SLURM, 15399.0)}
    assert (facts(late, -15).termination, facts(late, -15).exit_code) == ('time limit', 143)
    assert facts(late, 0).termination == 'exited'
    assert facts(TOTALS, -15).termination == 'exited'
    assert facts(late, 1, termination_reason='time_limit').termination == 'limit'


def test_a_killed_run_has_failed() -> None:
    killed = facts({}, None, termination_reason='killed')
    assert (killed.exit_code, killed.has_failed, killed.has_succeeded) == (None, True, False)
    assert (facts({}, None).has_failed, facts({}, None).has_succeeded) == (False, False)


def test_a_year_is_no_time_limit() -> None:
    year = {**SLURM, 'SLURM_JOB_END_TIME': str(1000 + 365 * 86_400)}
    assert facts({'batch': batch_request(year, 0)}).time_limit_seconds is None


def test_gpus_and_lower_bounds() -> None:
    usage = ResourceUsage.from_json(REPORT.with_name('gpu.report.json').read_bytes())
    gpu = GPUUse(
        1, 'nvidia', 'u', None, 'gigabytes', 80.0, GPUMemory(70.0, 1.0, 0.0, 1.0), GPUPercentages(100.0, 60.0),
        GPUPercentages(None, 40.0), True,
    )  # fmt: skip
    bounds = ('gpus.1.max_ram.combined', 'cpu_utilization.combined.max_sum_percent')
    known = facts_of(replace(usage, gpus=(gpu,), lower_bounds=()), {}, 0)
    assert known.gpus == (GPUFacts(1, 80_000_000_000, 1_000_000_000, 70_000_000_000, 60.0, 100.0, 40.0, True),)
    assert known.cores_max is not None
    unknown = facts_of(replace(usage, gpus=(gpu,), lower_bounds=bounds), {}, 0)
    assert (unknown.gpus[0].tracked_peak_bytes, unknown.cores_max) == (None, None)


def test_totals_of_strangers_are_unknown() -> None:
    found = facts({'batch': 3, 'control_group': {'group_swap': 'x'}, 'major_faults': None})
    assert (found.batch, found.swap_peak_bytes, found.major_faults) == (None, None, None)


def test_the_batch_system_of_an_environment(tmp_path: Path) -> None:
    assert batch_request({}, 0, f'{tmp_path}/') is None
    assert batch_request({'KUBERNETES_SERVICE_HOST': '10.0.0.1'}, 0) == {'system': 'kubernetes', 'is_whole': True}
    (tmp_path / '.dockerenv').touch()
    assert batch_request({}, 0, f'{tmp_path}/') == {'system': 'docker', 'is_whole': True}


TEXT = 'The run took 60 s of its limit of 4 h 00 min. Next time: --time=00:30:00'


def test_reports_end_with_the_advice() -> None:
    usage = replace(a_run(), advice=advice_of(a_run(), TOTALS, 0))
    memory = usage.advice[0]
    assert memory.rule == 'request_memory'
    assert memory.text.endswith('of 8.59 GB memory. Next time: --mem=100M')
    assert usage.advice[1].text == TEXT
    assert as_summary(usage).splitlines()[-2:] == [f'Advice      {memory.text}', f'            {TEXT}']
    assert as_text(usage).splitlines()[-3:] == ['Advice:', f'   {memory.text}', f'   {TEXT}']
    assert 'advice' not in as_csv(usage)
    assert json.loads(json.dumps(usage.to_dict()))['advice'][1] == {
        'rule': 'time_limit_hardly_used',
        'text': TEXT,
        'figures': {'seconds': 60.0, 'time_limit_seconds': 14400},
    }
    assert ResourceUsage.from_dict(usage.to_dict()) == usage


def test_no_advice_is_in_no_report() -> None:
    usage = a_run()
    assert advice_of(usage, {}, 0) == ()
    assert 'advice' not in usage.to_dict()
    assert 'Advice' not in as_text(usage) + as_summary(usage)
