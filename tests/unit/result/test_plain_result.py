"""A result as a line, as a dictionary, pickled, and read back from its report."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tracker import ResourceUsage
from gpu_tracker.errors import GpuTrackerError, ReportError
from gpu_tracker.resources.building import build
from gpu_tracker.result.formats import FORMATS, as_text
from gpu_tracker.units import Units

FOLDER = Path(__file__).parents[2] / 'data' / 'recorded_runs'
RUNS = sorted(path.name.partition('.')[0] for path in FOLDER.glob('*.totals.json'))
PLAIN = json.loads((FOLDER / 'plain.report.json').read_text())
OTHER_SECTIONS = {
    'control_group': {
        'unit': 'gigabytes',
        'folder': '/sys/fs/cgroup/a',
        'memory_limit': 2.0,
        'cpu_limit': None,
        'allowed_cores': 1.5,
        'oom_kills': 2,
        'problem': 'Two processes were killed.',
    },
    'job': {
        'launcher': 'slurm',
        'job': '4711',
        'array_task': None,
        'array_size': None,
        'step': '0',
        'rank': 3,
        'size': 64,
        'local_rank': 1,
        'local_size': 2,
        'node': 'n1',
        'attempt': None,
    },
    'own_group': {
        'unit': 'megabytes',
        'made_in': 'cgroup v2',
        'memory_peak': 12.5,
        'cpu_seconds': 1.25,
        'user_cpu_seconds': 1.0,
        'system_cpu_seconds': 0.25,
        'read': 0.0,
        'written': None,
        'max_tasks': 4,
        'oom_kills': 0,
        'left_processes': 0,
        'problem': None,
    },
    'termination_reason': 'memory_limit',
    'advice': [{'rule': 'swapped', 'text': 'The run swapped 3.20 GB.', 'figures': {'swap_peak_bytes': 3.2e9}}],
    'lower_bounds': ['max_ram.combined.total_rss'],
}


def recorded(name: str) -> ResourceUsage:
    run = json.loads((FOLDER / f'{name}.totals.json').read_text())
    return build(run['totals'], Units(*run['units']))


@pytest.mark.parametrize('name', RUNS)
def test_a_report_is_read_back_as_the_result_that_it_is_of(name: str) -> None:
    usage = recorded(name)
    report = (FOLDER / f'{name}.report.json').read_bytes()
    assert usage.to_dict() == json.loads(report)
    assert ResourceUsage.from_json(report) == ResourceUsage.from_json(report.decode()) == usage
    assert ResourceUsage.from_dict(usage.to_dict()) == usage
    assert str(ResourceUsage.from_json(report)) == as_text(usage) == (FOLDER / f'{name}.report.txt').read_text()[:-1]


@pytest.mark.parametrize('name', RUNS)
def test_a_result_is_the_same_after_pickling_and_copying(name: str) -> None:
    usage = recorded(name)
    for again in (pickle.loads(pickle.dumps(usage)), copy.deepcopy(usage)):
        assert again == usage
        assert hash(again) == hash(usage)


def test_two_runs_are_not_equal() -> None:
    assert len({recorded(name) for name in RUNS}) == len(RUNS)


def test_sections_that_no_recorded_run_has_are_read_back() -> None:
    report = PLAIN | OTHER_SECTIONS
    usage = ResourceUsage.from_dict(report)
    assert usage.to_dict() == report
    assert pickle.loads(pickle.dumps(usage)) == usage
    assert usage.control_group is not None
    assert usage.control_group.oom_kills == 2
    assert usage != ResourceUsage.from_dict(PLAIN)


def test_repr_is_one_line_of_the_figures_that_people_want() -> None:
    assert repr(recorded('plain')) == '<ResourceUsage 736 ms, RAM 62.2 MB, CPU 15.7 %>'
    assert repr(recorded('gpu')) == ('<ResourceUsage 2.51 s, RAM 13.8 MB, CPU 0.0172 %, GPU RAM 3.22 GB, GPU 83.3 %>')


def test_repr_says_what_is_unknown_and_what_has_ended_the_run() -> None:
    report = copy.deepcopy(PLAIN) | {'termination_reason': 'time_limit'}
    report['max_ram']['combined']['total_rss'] = report['gpu_utilization']['system_gpu_count'] = None
    report['max_gpu_ram']['combined'] = report['gpu_utilization']['gpu_percentages']['mean_sum_percent'] = None
    assert repr(ResourceUsage.from_dict(report)) == (
        '<ResourceUsage 736 ms, ended by its time limit, RAM N/A, CPU 15.7 %, GPU RAM N/A, GPU N/A>'
    )


def test_its_parts_show_all_that_they_have() -> None:
    assert repr(recorded('plain').max_gpu_ram) == (
        "MaxGPURAM(unit='gigabytes', system_capacity=0.0, system=0.0, main=0.0, descendants=0.0, combined=0.0)"
    )


def test_a_report_that_gpu_tracker_5_has_written_is_read() -> None:
    report = (FOLDER.parent / 'gpu_tracker_5' / 'usage.json').read_text()
    usage = ResourceUsage.from_json(report)
    assert repr(usage) == '<ResourceUsage 1.13 s, RAM 54.4 MB, CPU 9.7 %>'
    assert usage.to_dict() == json.loads(report)


def test_what_an_older_version_did_not_report_is_unknown() -> None:
    report = copy.deepcopy(PLAIN)
    del report['max_ram']['combined']['private_rss'], report['cpu_utilization']['main_n_threads']
    usage = ResourceUsage.from_dict(report)
    assert (usage.max_ram.combined.private_rss, usage.cpu_utilization.main_n_threads) == (None, None)
    assert usage.io is None


def test_keys_that_are_unknown_here_are_left_out() -> None:
    report = copy.deepcopy(PLAIN) | {'meta': {'exit_code': 0}}
    report['max_ram']['combined']['swapped'] = 1.0
    assert ResourceUsage.from_dict(report).to_dict() == PLAIN


def test_other_programs_may_write_a_whole_number_where_a_fraction_is_meant() -> None:
    report = copy.deepcopy(PLAIN)
    report['max_ram']['system'] = 1
    value = ResourceUsage.from_dict(report).max_ram.system
    assert (value, type(value)) == (1.0, float)


@pytest.mark.parametrize(
    'text', ['usage.json', '', b'\xff\xfe\xff', '{"max_ram": ', '[' * 100_000, 'Max RAM:\n   Unit: gigabytes']
)
def test_what_is_no_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r'^This is no JSON\. from_json takes the text of a report, ') as refused:
        ResourceUsage.from_json(text)
    assert isinstance(refused.value, GpuTrackerError)


@pytest.mark.parametrize('text', ['null', '[]', '"text"', '12', 'NaN'])
def test_json_that_is_no_object_is_no_report(text: str) -> None:
    with pytest.raises(ValueError, match=r'^This is not a report of gpu-tracker: the JSON text is not an object, but '):
        ResourceUsage.from_json(text)


@pytest.mark.parametrize(
    ('section', 'changes', 'fault'),
    [
        ('max_ram', None, 'max_ram must be an object, but is missing'),
        ('max_ram', {'unit': 2}, 'max_ram.unit must be a text, but is 2'),
        ('max_ram', {'system': 'much'}, "max_ram.system must be a number, but is 'much'"),
        ('max_ram', {'system': True}, 'max_ram.system must be a number, but is True'),
        ('max_ram', {'system': float('nan')}, 'max_ram.system must be a number, but is nan'),
        ('max_ram', {'system': 10**400}, 'max_ram.system must be a number, but is inf'),
        ('max_ram', {'main': [1]}, 'max_ram.main must be an object, but is [1]'),
        ('cpu_utilization', {'main_n_threads': 1.5},
         'cpu_utilization.main_n_threads must be a whole number, but is 1.5'),
        ('compute_time', {'time': None}, 'compute_time.time must be a number, but is missing'),
        ('compute_time', {'unit': 'years'},
         "compute_time.unit must be 'seconds' or 'minutes' or 'hours' or 'days', but is 'years'"),
        ('energy', {'unit': 'joules', 'gpus': 3}, 'energy.gpus must be a list, but is 3'),
        ('energy', {'unit': 'joules', 'gpus': [{'uuid': 'a', 'others_used_it': 1}]},
         'energy.gpus[0].others_used_it must be true or false, but is 1'),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_report_of_strangers_is_named(section: str, changes: dict | None, fault: str) -> None:
    report = copy.deepcopy(PLAIN)
    report[section] = None if changes is None else report.get(section, {}) | changes
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the whole text is compared
        ResourceUsage.from_dict(report)
    assert str(refused.value) == f'This is not a report of gpu-tracker: {fault}'


def test_a_reason_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"termination_reason must be 'time_limit' or .*, but is 'boredom'"):
        ResourceUsage.from_dict(PLAIN | {'termination_reason': 'boredom'})
    with pytest.raises(ValueError, match=r"exceeded_limits must be 'time_limit' or .*, but is 'boredom'"):
        ResourceUsage.from_dict(PLAIN | {'exceeded_limits': ['time_limit', 'boredom']})


def test_what_is_nested_too_deep_is_refused() -> None:
    nested: object = 0
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(ReportError, match=r'max_ram\.system must be a number, but is \[\[\[\[\[\['):
        ResourceUsage.from_dict(PLAIN | {'max_ram': PLAIN['max_ram'] | {'system': nested}})


ALL = [json.loads((FOLDER / f'{name}.report.json').read_text()) | OTHER_SECTIONS for name in RUNS]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(data=st.data())
def test_a_report_of_strangers_is_read_and_shown_or_refused(data: st.DataObject) -> None:
    report = copy.deepcopy(data.draw(st.sampled_from(ALL)))
    place = report
    while True:
        key = data.draw(st.sampled_from(range(len(place)) if isinstance(place, list) else sorted(place)))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.integers(0, 4)) == 0:
            break
        place = place[key]
    place[key] = data.draw(ANYTHING)
    try:
        usage = ResourceUsage.from_dict(report)
    except ReportError:
        return
    assert repr(usage).startswith('<ResourceUsage ')
    for render in FORMATS.values():
        assert render(usage)
    assert ResourceUsage.from_dict(usage.to_dict()) == usage
