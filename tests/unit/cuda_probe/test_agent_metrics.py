"""What Prometheus reads of CUDA calls."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from gpu_tracker.cuda_probe.agent_metrics import CudaMetrics
from gpu_tracker.cuda_probe.probe_session import open_probe
from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.fleet.agent.probed import ProbedMetrics, on_gpus
from gpu_tracker.gpus.latest_reading import Reading
from gpu_tracker.gpus.machine import Seen, snapshot
from support.cuda.fake_probe import UUID, StandInProbe, device, process, report
from support.gpus.example_gpus import IN_USE, NOW, UNSEEN, user_name

GPU = {'host': 'node01', 'uuid': UUID, 'index': '0', 'model': 'NVIDIA H200', 'mig_instance': ''}
OF_PROCESS = (
    'container="",driver="570.86",host="node01",index="0",mig_instance="",'
    'model="NVIDIA H200",pid="7",program="train.py",'
    f'uuid="{UUID}",vendor="nvidia"'
)
FAILED = (
    'container="",driver="570.86",error="cudaErrorMemoryAllocation",function="cudaMalloc",host="node01",pid="7",program="train.py",'
    'vendor="nvidia"'
)
WITHOUT_GPU = 'container="",driver="570.86",host="node01",pid="7",program="train.py",vendor="nvidia"'


def samples(collector) -> dict[str, float]:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    generate_openmetrics(registry)  # stricter: it raises where two families or series are the same
    lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith('#')]
    assert len({line.rpartition(' ')[0] for line in lines}) == len(lines)
    return {name: float(value) for name, _, value in (line.rpartition(' ') for line in lines)}


def metrics(*reports, gpus=(GPU,), programs=None) -> dict[str, float]:
    found = CudaMetrics(StandInProbe(*reports))
    found.look(gpus, {7: 'train.py'} if programs is None else programs)
    return samples(found)


def test_a_process_on_a_gpu() -> None:
    assert metrics(report(process(7))) == {
        f'gpu_tracker_cuda_launches_total{{{OF_PROCESS}}}': 1000,
        f'gpu_tracker_cuda_launch_to_sync_seconds_total{{{OF_PROCESS}}}': 2.5,
        f'gpu_tracker_cuda_synchronisations_total{{{OF_PROCESS}}}': 10,
        f'gpu_tracker_cuda_copies_total{{{OF_PROCESS}}}': 6,
        f'gpu_tracker_cuda_allocations_total{{{OF_PROCESS}}}': 4,
        f'gpu_tracker_cuda_frees_total{{{OF_PROCESS}}}': 3,
        f'gpu_tracker_cuda_memory_in_use_bytes{{{OF_PROCESS}}}': 1_000_000,
        f'gpu_tracker_cuda_memory_max_bytes{{{OF_PROCESS}}}': 2_000_000,
        f'gpu_tracker_cuda_active_ratio{{{OF_PROCESS}}}': 0.25,
        f'gpu_tracker_cuda_used_cores{{{OF_PROCESS}}}': 512,
        f'gpu_tracker_cuda_streams{{{WITHOUT_GPU}}}': 2,
        f'gpu_tracker_cuda_failures_total{{{FAILED}}}': 2,
        'gpu_tracker_cuda_events_lost_total{host="node01"}': 0,
    }


def test_a_gpu_that_the_agent_does_not_see_has_the_labels_that_the_probe_knows() -> None:
    found = metrics(report(process(7)), gpus=())
    labels = OF_PROCESS.replace('node01', '').replace('index="0"', 'index=""')
    assert found[f'gpu_tracker_cuda_launches_total{{{labels}}}'] == 1000


def test_what_is_unknown_is_absent() -> None:
    unknown = device(uuid=None, launch_to_sync_seconds=None, used_cores=None)
    found = metrics(report(process(7, devices=(unknown,), failures=()), events_lost=3))
    assert {name.partition('{')[0] for name in found} == {
        'gpu_tracker_cuda_launches_total',
        'gpu_tracker_cuda_synchronisations_total',
        'gpu_tracker_cuda_copies_total',
        'gpu_tracker_cuda_streams',
        'gpu_tracker_cuda_allocations_total',
        'gpu_tracker_cuda_frees_total',
        'gpu_tracker_cuda_memory_in_use_bytes',
        'gpu_tracker_cuda_memory_max_bytes',
        'gpu_tracker_cuda_events_lost_total',
    }
    labels = 'host="node01",index="",mig_instance="",model="",pid="7",program="train.py",uuid="",vendor=""'
    assert f'gpu_tracker_cuda_launches_total{{container="",driver="",{labels}}}' in found


def test_names_of_programs_are_cut_and_printable() -> None:
    found = metrics(report(process(7)), programs={7: f'a\n{"b" * 200}'})
    assert any(f'program="a?{"b" * 98}"' in name for name in found)


def test_the_processes_on_the_gpus_are_followed_once_and_named_for_a_while() -> None:
    probe = StandInProbe(report(process(7)), gone=frozenset({8}))
    found = CudaMetrics(open_probe(lambda: probe))
    assert probe.calls == ['open', 'start']
    found.look([GPU], {7: 'train.py', 8: 'gone.py'})
    found.look([GPU], {7: 'train.py'})
    found.look([GPU], {})
    assert probe.followed == [7]
    assert f'gpu_tracker_cuda_launches_total{{{OF_PROCESS}}}' in samples(found)


def test_before_the_first_look_there_is_nothing() -> None:
    assert samples(CudaMetrics(StandInProbe())) == {}


def test_a_probe_that_is_not_available_leaves_nothing_open() -> None:
    probe = StandInProbe(problem=('open', GpuTrackerError('A right is missing.')))
    with pytest.raises(GpuTrackerError, match='A right is missing'):
        open_probe(lambda: probe)
    assert probe.calls == ['open', 'close']


def test_the_agent_tells_of_a_probe_that_cannot_be_opened_and_serves_without() -> None:
    said: list[str] = []

    def find(name: str):
        raise GpuTrackerError(f'The probe {name!r} needs a right.')

    probed = ProbedMetrics('cuda', lambda: None, 1.0, said.append, find)
    probed.start()
    probed.look()
    probed.stop()
    assert said == ["The probe 'cuda' needs a right."]
    assert samples(probed) == {'gpu_tracker_cuda_probe_up{host=""}': 0}


def test_looks_that_fail_are_told_once_and_the_next_is_due() -> None:
    said: list[str] = []
    probe = StandInProbe(report(process(7)))
    reading = Reading(0.0, {'hostname': 'node01', 'gpus': None})
    probed = ProbedMetrics('cuda', lambda: reading, 1.0, said.append, lambda name: lambda: CudaMetrics(probe))
    probe._problem = ('report', OSError(5, 'broken'))
    probed.look()
    probed.look()
    assert said == ['CUDA calls cannot be probed: OSError: [Errno 5] broken.']
    assert samples(probed) == {'gpu_tracker_cuda_probe_up{host="node01"}': 0}
    probe._problem = None
    probed.look()
    assert samples(probed)['gpu_tracker_cuda_probe_up{host="node01"}'] == 1


def test_only_processes_that_can_be_looked_up_are_handed_on() -> None:
    def gpu(index: int, uuid: str | None, processes, parts=None):
        return {'index': index, 'uuid': uuid, 'type': 'H200', 'processes': processes, 'mig_devices': parts}

    part = gpu(1, 'MIG-2', [{'pid': 9, 'program': 'part.py'}])
    listed = [{'pid': 7, 'program': 'train.py'}, {'pid': 8, 'program': None}]
    snapshot = {'hostname': 'node01', 'gpus': [gpu(0, None, None), gpu(1, 'GPU-1', listed, [part])]}
    found = on_gpus(snapshot)
    assert found.programs == {7: 'train.py', 9: 'part.py'}
    assert [(one['uuid'], one['index'], one['mig_instance'], one['model']) for one in found.gpus] == [
        ('', '0', '', 'H200'),
        ('GPU-1', '1', '', 'H200'),
        ('MIG-2', '1:1', '1', 'H200'),
    ]


@pytest.mark.parametrize('commands', ['none', 'program', 'full'])
def test_processes_are_followed_however_little_is_shown_of_their_command_lines(commands: str) -> None:
    shown = snapshot(Seen(NOW, [IN_USE, UNSEEN]), commands, hostname='node01', user_name=user_name)
    assert on_gpus(shown).programs == {4242: '' if commands == 'none' else 'train.py'}
