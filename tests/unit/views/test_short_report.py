"""The short report of a command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from gpu_tracker.advice.facts import Facts, GPUFacts, RegionFacts
from gpu_tracker.advice.rules import advise
from gpu_tracker.advice.site import Site
from gpu_tracker.resources.building import build
from gpu_tracker.result.usage import ComputeTime, ControlGroupUsage, GPUMemory, GPUPercentages, GPUUse, ResourceUsage
from gpu_tracker.units import Units
from gpu_tracker.views.live.quantities import ASCII
from gpu_tracker.views.short_report import Part, Recorded, Surface, ending, short_report

RUNS = Path(__file__).parents[2] / 'data/recorded_runs'
PLAIN = Surface()
WORDS = ['python', 'train.py']
ADVICE = ('The GPU was idle 37 % of the time, during load.', 'Next time: --mem=700M --cpus-per-task=1', 'a third')
RECORDED = Recorded(
    (Part('train', 9.9, 93.0), Part('load', 8.6, 4.0), Part('validate', 2.8)),
    {'0': (5.0, None, 95.0, 100.0, 45.0, 5.0)},
)


def usage_of(name: str = 'plain', **fields: Any) -> ResourceUsage:
    totals = json.loads((RUNS / f'{name}.totals.json').read_text())['totals']
    return replace(build(totals, Units('gigabytes', 'gigabytes', 'seconds', None)), **fields)


def gpu(index: int, memory: float | None = 29.0, busy: float | None = 47.0) -> GPUUse:
    share = GPUPercentages(busy, busy)
    used = GPUMemory(60.0, memory, 0.0, memory)
    return GPUUse(
        index, 'nvidia', f'uuid-{index}', 'A GPU', 'gigabytes', 42.9, used, share, share, others_used_it=False
    )


def report_of(usage: ResourceUsage, exit_code: int | None = 0, **options: Any) -> list[str]:
    return short_report(usage, WORDS, exit_code, **options).splitlines()


def ended(exit_code: int | None = 0, surface: Surface = PLAIN, **fields: Any) -> list[str]:
    return ending(usage_of(**fields), WORDS, exit_code, surface=surface).splitlines()


def full_report(width: int | None, **surface: Any) -> list[str]:
    return report_of(
        usage_of(gpus=(gpu(0),)), recorded=RECORDED, advice=ADVICE, kept=17, surface=Surface(width, **surface)
    )


def test_a_long_command_is_shortened_in_a_log() -> None:
    (line,) = ending(usage_of(), ['python', 'train.py', 'x' * 4000], 0).splitlines()
    assert line.startswith('python train.py xxx')
    assert line.endswith('x…   ended after 736 ms')
    assert len(line) == 200 + len('   ended after 736 ms')


def test_the_report_of_a_run_without_gpus() -> None:
    assert report_of(usage_of()) == [
        'python train.py   ended after 736 ms',
        'RAM     62.2 MB at most   CPU 0.16 of 2 cores   1 thread',
    ]


@pytest.mark.parametrize(
    ('others', 'busy'),
    [(True, '47 % busy (own 5 %)'), (None, '47 % busy (own 5 %)'), (False, '47 % busy')],
)
def test_own_use_of_a_gpu_that_others_may_have_used(others: bool | None, busy: str) -> None:
    shared = replace(gpu(0), own_utilization=GPUPercentages(5.0, 5.0), others_used_it=others)
    assert report_of(usage_of(gpus=(shared,)))[1] == f'GPU 0   29 GB of 42.9 GB at most   {busy}'


def test_a_report_with_all_that_there_may_be() -> None:
    expected = [
        'python train.py   ended after 736 ms',
        'GPU 0   29 GB of 42.9 GB at most   47 % busy             ▁ ██▄▁',
        'RAM     62.2 MB at most            CPU 0.16 of 2 cores   1 thread',
        'Parts   train 9.9 s · load 8.6 s (GPU ~4 % busy) · validate 2.8 s',
        'Advice  The GPU was idle 37 % of the time, during load.',
        '        Next time: --mem=700M --cpus-per-task=1',
        'More    gpu-tracker report   (kept as run 17)',
    ]
    assert full_report(None) == expected
    assert full_report(80) == expected
    assert full_report(120) == expected


def test_the_report_that_the_documentation_explains() -> None:
    usage = usage_of(gpus=(replace(gpu(0), others_used_it=True),))
    combined = replace(usage.max_ram.combined, total_rss=5.2)
    cpu = replace(usage.cpu_utilization, n_expected_cores=8, combined_n_threads=12)
    cpu = replace(cpu, combined=replace(cpu.combined, mean_sum_percent=167.0))
    usage = replace(
        usage,
        max_ram=replace(usage.max_ram, combined=combined),
        cpu_utilization=cpu,
        compute_time=replace(usage.compute_time, time=1860.0),
    )
    facts = Facts(
        seconds=1860,
        exit_code=0,
        batch='slurm',
        ram_peak_bytes=5.2e9,
        ram_allowed_bytes=64e9,
        swap_peak_bytes=0,
        cores_allowed=8,
        gpus=(GPUFacts(0, 42.9e9, 29e9, 31e9, 47, 100, 42, others_used=True),),
        regions=(RegionFacts('load', 8, 1068, gpu_own_busy_percent=4, cores_mean=1.0),),
        machine_gpus=1,
    )
    usage = replace(usage, gpus=(replace(usage.gpus[0], own_utilization=GPUPercentages(99.0, 42.0)),))
    report = short_report(
        usage,
        WORDS,
        0,
        units={},
        recorded=Recorded((Part('load', 1068.0, 4.0), Part('train', 792.0, 93.0)), RECORDED.busy),
        advice=[one.text for one in advise(facts, Site())],
        recording='run.db',
        surface=Surface(76),
    )
    page = (Path(__file__).parents[3] / 'docs' / 'reading.rst').read_text()
    assert indent(report, '   ') in page


def test_a_narrow_terminal_gets_nine_lines() -> None:
    assert full_report(40) == [
        'python train.py   ended after 736 ms',
        'GPU 0   29 GB of 42.9 GB at most',
        '        47 % busy   ▁ ██▄▁',
        'RAM     62.2 MB at most',
        '        CPU 0.16 of 2 cores   1 thread',
        'Advice  The GPU was idle 37 % of the',
        '        time, during load.',
        '        Next time: --mem=700M',
        '        --cpus-per-task=1',
    ]


def test_a_terminal_without_unicode_gets_ascii() -> None:
    assert full_report(80, symbols=ASCII)[1:4] == [
        'GPU 0   29 GB of 42.9 GB at most   47 % busy             _ ##-_',
        'RAM     62.2 MB at most            CPU 0.16 of 2 cores   1 thread',
        'Parts   train 9.9 s; load 8.6 s (GPU ~4 % busy); validate 2.8 s',
    ]
    assert short_report(usage_of('io'), ['prüfe'], 0, surface=Surface(symbols=ASCII)).splitlines() == [
        "'pr?fe'   ended after 638 ms",
        'RAM     >=3.22 MB   CPU >=0.027 of 2 cores   2 threads',
        'Storage 90.1 kB read, 21 MB written; by calls 42 MB and 41.9 MB',
    ]


def test_failures_come_first_and_in_red() -> None:
    red = Surface(color=True)
    assert ended(0, red) == ['python train.py   ended after 736 ms']
    assert ended(3, red) == ['\x1b[31mpython train.py   failed with exit code 3 after 736 ms\x1b[0m']
    assert ended(3) == ['python train.py   failed with exit code 3 after 736 ms']
    assert ended(-11) == ['python train.py   ended by SIGSEGV after 736 ms']
    assert ended(-15, termination_reason='time_limit') == ['python train.py   ended by its time limit after 736 ms']
    assert ended(0, exceeded_limits=('memory_limit',)) == [
        'python train.py   ended after 736 ms, exceeded its memory limit'
    ]


def test_a_run_out_of_memory_is_a_failure() -> None:
    problem = '1 process of this control group was killed for lack of memory.'
    group = ControlGroupUsage('gigabytes', '/a', 1.0, None, None, 1, problem)
    assert ended(-9, Surface(color=True), control_group=group) == [
        '\x1b[31mpython train.py   ended by SIGKILL after 736 ms\x1b[0m',
        f'\x1b[31m{problem}\x1b[0m',
    ]


def test_a_long_command_is_cut() -> None:
    words = ['python', 'train.py', '--data', 'a folder/with a name']
    usage = usage_of()
    assert ending(usage, words, 0, surface=Surface(60)) == (
        "python train.py --data 'a folder/with …   ended after 736 ms"
    )
    assert ending(usage, words, 3, surface=Surface(40)).splitlines() == [
        "python train.py --data 'a folder/with a…",
        'failed with exit code 3 after 736 ms',
    ]


def test_lower_bounds_are_marked() -> None:
    assert report_of(usage_of('io'))[1:] == [
        'RAM     ≥ 3.22 MB   CPU ≥ 0.027 of 2 cores   2 threads',
        'Storage 90.1 kB read, 21 MB written; by calls 42 MB and 41.9 MB',
    ]


def test_a_lower_bound_of_a_short_run_is_no_figure() -> None:
    usage = usage_of(compute_time=ComputeTime('seconds', 0.02), lower_bounds=('max_ram.combined.total_rss',))
    assert report_of(usage) == [
        'python train.py   ended after 20 ms',
        'RAM     too short to measure   CPU 0.16 of 2 cores   1 thread',
    ]


def test_four_gpus_are_shown_and_the_others_counted() -> None:
    usage = usage_of(gpus=tuple(gpu(index, 30.0 - index, 10.0 * index) for index in range(8)))
    assert report_of(usage, advice=ADVICE, recorded=RECORDED, kept=1) == [
        'python train.py   ended after 736 ms',
        'GPU 0   30 GB of 42.9 GB at most   0 % busy              ▁ ██▄▁',
        'GPU 1   29 GB of 42.9 GB at most   10 % busy',
        'GPU 2   28 GB of 42.9 GB at most   20 % busy',
        'GPU 3   27 GB of 42.9 GB at most   30 % busy',
        '        and 4 more',
        'RAM     62.2 MB at most            CPU 0.16 of 2 cores   1 thread',
        'Advice  The GPU was idle 37 % of the time, during load.',
        '        Next time: --mem=700M --cpus-per-task=1',
    ]


def test_gpus_that_were_not_used_are_left_out_and_unknown_memory_is_not_zero() -> None:
    assert report_of(usage_of(gpus=(gpu(0, 0.0, 0.0), gpu(1, None, None))))[1:] == [
        'GPU 1   memory N/A',
        'RAM     62.2 MB at most   CPU 0.16 of 2 cores   1 thread',
    ]


def test_sections_that_were_asked_for() -> None:
    assert report_of(usage_of('units_and_limit'))[1:] == [
        'RAM     12.2 MB at most   CPU 0.96 of 2 cores   1 thread',
        'Storage 0 B read, 0 B written; by calls 954 kB and 0 B',
    ]


def test_units_of_their_own() -> None:
    units = {'ram': 'gigabytes', 'gpu_ram': 'mebibytes', 'time': 'minutes'}
    assert report_of(usage_of(gpus=(gpu(0),)), units=units, recorded=RECORDED)[:4] == [
        'python train.py   ended after 0.0123 minutes',
        'GPU 0   27657 mebibytes of 40913 mebibytes at most   47 % busy             ▁ ██▄▁',
        'RAM     0.0622 gigabytes at most                     CPU 0.16 of 2 cores   1 thread',
        'Parts   train 0.165 minutes · load 0.143 minutes (GPU ~4 % busy) · validate 0.0467 minutes',
    ]


def test_a_recording_of_the_user_is_named() -> None:
    assert report_of(usage_of(), recording='a run.db')[-1] == "More    gpu-tracker report 'a run.db'"
