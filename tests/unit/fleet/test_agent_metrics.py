"""What Prometheus reads of a machine."""

from __future__ import annotations

import json

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from gpu_tracker.fleet.agent.metrics import HostCollector
from gpu_tracker.fleet.hosts.host import HostState
from gpu_tracker.fleet.hosts.nvgpu import KINDS
from gpu_tracker.fleet.hosts.report import parse_report
from gpu_tracker.fleet.hosts.totals import totals_of
from gpu_tracker.gpus.machine import Seen, snapshot
from gpu_tracker.gpus.model import GpuActivity
from support.gpus.example_gpus import FREE, GPUS, IN_USE, LOST, NOW, SHARED, SPLIT, UNIFIED, UNSEEN, user_name
from support.gpus.gpu_readings import changed

OF_GPU_1 = (
    'host="node01",index="1",mig_instance="",model="NVIDIA A100-SXM4-40GB",'
    'uuid="GPU-00000001-0001-0001-0001-000000000001"'
)
STATUS_OF_GPU_1 = OF_GPU_1.replace('uuid=', 'status="{}",uuid=')
KIND_OF_GPU_1 = OF_GPU_1.replace('mig_instance=', 'kind="{}",mig_instance=')
INFO_OF_GPU_1 = OF_GPU_1.replace('uuid=', 'pci_bus_id="00000000:02:00.0",uuid=') + ',vendor="nvidia"'

GPU_1 = {
    f'gpu_tracker_gpu_info{{{INFO_OF_GPU_1}}}': 1,
    f'gpu_tracker_gpu_utilization_ratio{{{OF_GPU_1}}}': 0.97,
    f'gpu_tracker_gpu_memory_size_bytes{{{OF_GPU_1}}}': 42_949_672_960,
    f'gpu_tracker_gpu_memory_used_bytes{{{OF_GPU_1}}}': 38_211_551_232,
    f'gpu_tracker_gpu_memory_free_bytes{{{OF_GPU_1}}}': 4_738_121_728,
    f'gpu_tracker_gpu_temperature_celsius{{{OF_GPU_1}}}': 64,
    f'gpu_tracker_gpu_sm_clock_hertz{{{OF_GPU_1}}}': 1_410_000_000,
    f'gpu_tracker_gpu_power_watts{{{OF_GPU_1}}}': 287.4,
    f'gpu_tracker_gpu_power_limit_watts{{{OF_GPU_1}}}': 400,
    f'gpu_tracker_gpu_processes{{{OF_GPU_1}}}': 1,
    f'gpu_tracker_gpu_counts_as{{{KIND_OF_GPU_1.format("free")}}}': 0,
    f'gpu_tracker_gpu_counts_as{{{KIND_OF_GPU_1.format("in_use")}}}': 1,
    f'gpu_tracker_gpu_counts_as{{{KIND_OF_GPU_1.format("unseen")}}}': 0,
    f'gpu_tracker_gpu_counts_as{{{KIND_OF_GPU_1.format("unknown")}}}': 0,
    f'gpu_tracker_gpu_status{{{STATUS_OF_GPU_1.format("free")}}}': 0,
    f'gpu_tracker_gpu_status{{{STATUS_OF_GPU_1.format("in_use")}}}': 1,
    f'gpu_tracker_gpu_status{{{STATUS_OF_GPU_1.format("in_use_unseen")}}}': 0,
    f'gpu_tracker_gpu_status{{{STATUS_OF_GPU_1.format("claimed")}}}': 0,
    f'gpu_tracker_gpu_status{{{STATUS_OF_GPU_1.format("unknown")}}}': 0,
    f'gpu_tracker_gpu_status{{{STATUS_OF_GPU_1.format("split")}}}': 0,
    f'gpu_tracker_gpu_status{{{STATUS_OF_GPU_1.format("unreadable")}}}': 0,
}


class Host:
    """Stands in for the LocalHost of an agent.

    :param driver_problem: Of the newest reading; the one before has told the GPUs, if there are any.
    :param age: Of the newest reading.
    """

    def __init__(self, *gpus, driver_problem: str | None = None, age: float = 0.0, time: float | None = NOW) -> None:
        self.time = time
        self._state = HostState('0', 'node01')
        if gpus or driver_problem is None:
            self._report(gpus, None, age)
        if driver_problem is not None:
            self._report(None, driver_problem, age)

    def state(self) -> HostState:
        return self._state

    def _report(self, gpus, driver_problem, age) -> None:
        taken = snapshot(Seen(NOW, gpus, driver_problem), hostname='node01', user_name=user_name)
        report = parse_report(json.dumps(taken | {'age_seconds': age, 'interval_seconds': 2}).encode())
        self._state = self._state.reported(report, NOW)


def registry(host, *, export_processes=False, export_users=False) -> CollectorRegistry:
    made = CollectorRegistry(auto_describe=False)
    made.register(HostCollector(host, '6.0.0', export_processes=export_processes, export_users=export_users))
    return made


def series(host, of: str = '', **exports) -> dict[str, float]:
    """Return the samples whose name begins with ``of``."""
    lines = generate_latest(registry(host, **exports)).decode().splitlines()
    pairs = (line.rpartition(' ') for line in lines if line.startswith(f'gpu_tracker_{of}'))
    return {name: float(value) for name, _, value in pairs}


def of_gpus(found: dict[str, float]) -> dict[str, float]:
    """Return the samples of a figure by index."""
    return {name.partition('index="')[2].partition('"')[0]: value for name, value in found.items()}


def test_a_gpu_in_use() -> None:
    assert series(Host(IN_USE), 'gpu_') == GPU_1


def test_gpus_of_several_vendors_with_one_number_are_told_apart() -> None:
    amd = changed(IN_USE, vendor='amd', uuid='GPU-1a2b', name='AMD Instinct MI300X')
    assert of_gpus(series(Host(IN_USE, amd), 'gpu_utilization_ratio')) == {'1': 0.97, 'amd:1': 0.97}
    assert sorted(name.rpartition('vendor="')[2] for name in series(Host(IN_USE, amd), 'gpu_info')) == [
        'amd"}',
        'nvidia"}',
    ]


def test_the_agent_and_its_driver() -> None:
    assert series(Host()) == {
        'gpu_tracker_agent_info{version="6.0.0"}': 1,
        'gpu_tracker_driver_up': 1,
        'gpu_tracker_reading_timestamp_seconds': 1_800_000_000,
    }


def test_what_is_unknown_is_absent() -> None:
    host = Host(UNIFIED, LOST)
    assert of_gpus(series(host, 'gpu_utilization')) == {'0': 0.96}
    assert series(host, 'gpu_memory') == {}
    assert of_gpus(series(host, 'gpu_processes')) == {'0': 1}
    assert of_gpus(series(host, 'gpu_info')) == {'0': 1, '5': 1}
    unreadable = [name for name, value in series(host, 'gpu_status').items() if value and 'unreadable' in name]
    assert unreadable == [
        'gpu_tracker_gpu_status{host="node01",index="5",mig_instance="",model="",status="unreadable",uuid=""}'
    ]


def test_mig_devices_have_the_index_of_their_gpu_before_their_own() -> None:
    host = Host(SPLIT)
    assert of_gpus(series(host, 'gpu_memory_used_bytes')) == {
        '7': 9_300_000_000,
        '7:0': 9_200_000_000,
        '7:1': 13_107_200,
        '7:2': 13_107_200,
    }
    instances = [name.partition('mig_instance="')[2].partition('"')[0] for name in series(host, 'gpu_info')]
    assert instances == ['', '0', '1', '2']
    assert of_gpus(series(host, 'gpu_utilization')) == {}


def test_the_activity_of_gpus_and_what_is_unknown_of_it_is_absent() -> None:
    host = Host(
        IN_USE._replace(activity=GpuActivity(None, None, 2.0, 81.0, 40.0, None, 0.0)),
        FREE._replace(activity=GpuActivity(problem='has no counters')),
    )
    names = ('sm_activity', 'sm_occupancy', 'tensor_activity', 'dram_activity')
    assert [of_gpus(series(host, f'gpu_{name}_ratio')) for name in names] == [{'1': 0.81}, {'1': 0.4}, {}, {'1': 0}]


OF_STALE = {'gpu_tracker_gpu_info', 'gpu_tracker_gpu_counts_as'}


def counted(host) -> dict[str, float]:
    """Return how many GPUs are free, in use, unseen and unknown by what Prometheus is told."""
    totals = dict.fromkeys(('free', 'in_use', 'unseen', 'unknown'), 0.0)
    for kind, value in ends(series(host, 'gpu_counts_as'), 'kind'):
        totals[kind] += value
    return totals


def test_a_driver_that_fails_leaves_only_which_gpus_there_are() -> None:
    host = Host(IN_USE, FREE, driver_problem='it fails')
    found = series(host)
    assert found['gpu_tracker_driver_up'] == 0
    assert {name.partition('{')[0] for name in found if 'gpu_tracker_gpu_' in name} == OF_STALE
    assert len([name for name in found if 'gpu_tracker_gpu_info' in name]) == 2
    assert counted(host) == {'free': 0, 'in_use': 0, 'unseen': 0, 'unknown': 2}


def test_a_reading_that_is_stale_leaves_only_which_gpus_there_are() -> None:
    host = Host(IN_USE, age=11.0)
    found = series(host)
    assert found['gpu_tracker_driver_up'] == 0
    assert {name.partition('{')[0] for name in found if 'gpu_tracker_gpu_' in name} == OF_STALE
    assert counted(host) == {'free': 0, 'in_use': 0, 'unseen': 0, 'unknown': 1}


@pytest.mark.parametrize('circumstances', [{}, {'age': 11.0}, {'driver_problem': 'it fails'}])
def test_gpus_count_as_on_the_dashboard(circumstances) -> None:
    host = Host(*GPUS, **circumstances)
    totals = totals_of([host.state()])
    assert counted(host) == {kind: getattr(totals, kind) for kind in KINDS}
    assert sum(counted(host).values()) == len(GPUS)


def test_before_the_first_reading_there_is_no_time_of_it() -> None:
    host = Host(driver_problem='the GPU driver has not responded yet', time=None)
    assert series(host) == {'gpu_tracker_agent_info{version="6.0.0"}': 1, 'gpu_tracker_driver_up': 0}


def ends(found: dict[str, float], *labels: str) -> list[tuple[str, ...]]:
    """Return the values of these labels, and of the sample."""
    return [
        (*(name.partition(f'{label}="')[2].partition('"')[0] for label in labels), value)
        for name, value in found.items()
    ]


def test_processes_and_users_are_told_only_where_that_is_wanted() -> None:
    assert series(Host(*GPUS), 'gpu_process_') == series(Host(*GPUS), 'gpu_user_') == {}
    found = series(Host(SHARED, UNSEEN), 'gpu_process_', export_processes=True)
    assert not any('user="' in name for name in found)
    assert ends(found, 'index', 'pid', 'program') == [
        ('2', '5101', 'evaluate.py', 12_000_000_000),
        ('2', '5102', 'evaluate.py', 6_000_000_000),
        ('2', '5177', 'jupyter', 3_000_000_000),
        ('3', '999999', '', 11_600_000_000),
    ]


def test_utilization_of_processes_as_far_as_it_is_known() -> None:
    first, second, third = SHARED.processes
    gpu = SHARED._replace(processes=(first._replace(utilization=40), second._replace(utilization=0), third))
    found = series(Host(gpu), 'gpu_process_utilization_ratio', export_processes=True)
    assert ends(found, 'index', 'pid') == [('2', '5101', 0.4), ('2', '5102', 0)]


def test_users() -> None:
    host = Host(SHARED, UNSEEN)
    assert series(host, 'gpu_process_', export_users=True) == {}
    counts = series(host, 'gpu_user_processes', export_users=True)
    memory = series(host, 'gpu_user_memory_bytes', export_users=True)
    assert ends(counts, 'index', 'user') == [('2', 'bob', 2), ('2', 'alice', 1), ('3', '?', 1)]
    assert ends(memory, 'index', 'user') == [
        ('2', 'bob', 18_000_000_000),
        ('2', 'alice', 3_000_000_000),
        ('3', '?', 11_600_000_000),
    ]


def test_with_both_a_process_has_its_user() -> None:
    found = series(Host(IN_USE, UNSEEN), 'gpu_process_', export_processes=True, export_users=True)
    assert ends(found, 'pid', 'user') == [('4242', 'alice', 37_800_000_000), ('999999', '?', 11_600_000_000)]


def test_a_sum_of_which_a_part_is_unknown_is_unknown() -> None:
    first, second, third = SHARED.processes
    gpu = SHARED._replace(processes=(first._replace(memory=None), second, third))
    assert ends(series(Host(gpu), 'gpu_user_memory_bytes', export_users=True), 'user') == [('alice', 3_000_000_000)]
    assert ends(series(Host(gpu), 'gpu_process_', export_processes=True), 'pid') == [
        ('5102', 6_000_000_000),
        ('5177', 3_000_000_000),
    ]


def test_strange_names_can_be_written_and_are_not_long() -> None:
    (process,) = IN_USE.processes
    gpu = IN_USE._replace(processes=(process._replace(program='\x1b[2J"\\\n\udc80' + 200 * 'x', user='ä\udc80'),))
    text = generate_latest(registry(Host(gpu), export_processes=True, export_users=True)).decode()
    assert f'program="?[2J\\"\\\\??{92 * "x"}"' in text
    assert 'user="ä?"' in text


@pytest.mark.parametrize('generate', [generate_latest, generate_openmetrics])
def test_both_forms_have_the_same_samples(generate) -> None:
    text = generate(registry(Host(*GPUS), export_processes=True, export_users=True)).decode()
    samples = [line for line in text.splitlines() if not line.startswith('#')]
    expected = series(Host(*GPUS), export_processes=True, export_users=True)
    assert {line.rpartition(' ')[0]: float(line.rpartition(' ')[2]) for line in samples} == expected
    assert len(samples) == len(expected)
