"""A CUDA report as JSON: the keys are part of the documented interface."""

from __future__ import annotations

import json

from gpu_tracker.cuda_probe.cuda_report import problem_json, report_json
from support.cuda.cuda_reports import TRAINING, UUID, process, report

FIGURES = {
    'launches': 123_456,
    'launches_per_second': 12_345.6,
    'active_percent': 87.31,
    'used_cores': 4210.4,
    'mean_threads': 65_536.0,
    'synchronisations': 10,
    'synchronising_seconds': 1.5,
    'copies': 3,
    'launch_to_sync_seconds': 8.731,
    'allocations': 5,
    'frees': 2,
    'allocated_bytes': 5_000_000_000,
    'freed_bytes': 1_000_000_000,
    'memory_current_bytes': 1_234_567_890,
    'memory_max_bytes': 3_400_000_000,
    'memory_leaked_bytes': None,
}
PROCESS = {
    'pid': 4242,
    'run': 1,
    'name': 'python',
    'command': 'python -u train.py',
    'control_group': None,
    'container': None,
    'ended': False,
    'seconds': 10.0,
    'streams': 2,
    'host_allocations': 0,
    'host_memory_current_bytes': 0,
    'host_memory_max_bytes': 0,
    'graph_launches': 0,
    'kernels_total': 3,
    **FIGURES,
}
KERNEL = {
    'name': 'saxpy(int, float, float*)',
    'symbol': '_Z5saxpyifPf',
    'file': '/srv/saxpy',
    'address': 4096,
    'launches': 120_000,
    'mean_threads': 256.0,
    'span_seconds': 0.0125,
    'variants': [
        {
            'sm': 90,
            'feature': '',
            'registers': 12,
            'code_size_bytes': 384,
            'static_shared_bytes': 0,
            'constant_bytes': 544,
        },
    ],
}
FAILURE = {'function': 'cudaMalloc', 'error': 2, 'error_name': 'cudaErrorMemoryAllocation', 'count': 2}
TAGS = {
    'uuid': UUID,
    'vendor': 'nvidia',
    'model': 'NVIDIA H100 80GB HBM3',
    'driver': '570.86',
    'mig': None,
    'cores': 16_896,
    'memory_bytes': 80_000_000_000,
}


def test_the_keys_and_their_values():
    document = json.loads(report_json(TRAINING))
    (shown,) = document.pop('processes')
    (gpu,) = shown.pop('devices')
    kernels = shown.pop('kernels')
    assert document == {
        'seconds': 10.0,
        'engine': 'uprobe.multi',
        'devices': [TAGS],
        'events': 200_000,
        'events_lost': 0,
        'notes': [],
    }
    assert shown.pop('failures') == [FAILURE]
    assert shown == PROCESS
    assert set(gpu) == {'ordinal', 'uuid', *FIGURES}
    assert (gpu['ordinal'], gpu['uuid'], gpu['launches']) == (0, UUID, 123_456)
    assert kernels[0] == KERNEL
    assert [kernel['name'] for kernel in kernels[1:]] == ['scale(float*)', 'fill(float*)']


def test_a_live_report_is_one_line_whatever_it_names():
    text = report_json(report(process(7, command='a\nb\x85c\u2028d')), indent=None)
    assert len(text.splitlines()) == 1
    assert json.loads(text)['processes'][0]['command'] == 'a\nb\x85c\u2028d'


def test_without_a_probe_the_reason_is_all():
    assert json.loads(problem_json('CAP_BPF is missing')) == {'problem': 'CAP_BPF is missing'}
    assert problem_json('no', indent=None) == '{"problem": "no"}'
