"""The section on CUDA in the result, as text and as JSON."""

from __future__ import annotations

import json

from gpu_tracker.cuda_probe.section import SectionFigures
from gpu_tracker.resources.building import build
from gpu_tracker.result.cuda_usage import CUDAFigures, cuda_usage
from gpu_tracker.result.formats import FORMATS
from gpu_tracker.units import Units
from support.cuda.cuda_reports import kernel
from support.cuda.fake_probe import process, report

MAIN = 100
TOTALS = {
    'seconds': 10.0,
    'ram': {'main': [0, 0, 0], 'descendants': [0, 0, 0], 'combined': [0, 0, 0], 'system': None, 'capacity': None},
    'cpu': {
        **{group: [0.0, 0.0] for group in ('main', 'descendants', 'combined', 'system')},
        'threads': [1, 0, 1],
        'cores': 2,
    },
    'gpu': dict.fromkeys(
        ('count', 'expected', 'capacity', 'system', 'main', 'descendants', 'combined', 'max_sum', 'mean_sum')
    ),
    'record': {'tracked_seconds': None},
}
PROBLEM = 'CUDA calls cannot be probed: this process lacks CAP_BPF.'

TEXT = """\
CUDA:
   Unit: megabytes
   Engine: uprobe.multi
   Seconds: 10.0
   Main:
      Processes: 1
      Launches: 1000
      Synchronisations: 10
      Synchronising seconds: 0.5
      Launch to sync seconds: 2.5
      Allocations: 4
      Frees: 3
      Allocated: 4.0
      Freed: 3.0
      Memory current: 1.0
      Memory max: 2.0
      Memory leaked: N/A
      Failed calls: 2
      Graph launches: 0
   Descendants:
      Processes: 0
      Launches: 0
      Synchronisations: 0
      Synchronising seconds: 0.0
      Launch to sync seconds: 0.0
      Allocations: 0
      Frees: 0
      Allocated: 0.0
      Freed: 0.0
      Memory current: 0.0
      Memory max: 0.0
      Memory leaked: 0.0
      Failed calls: 0
      Graph launches: 0
   Combined:
      Processes: 1
      Launches: 1000
      Synchronisations: 10
      Synchronising seconds: 0.5
      Launch to sync seconds: 2.5
      Allocations: 4
      Frees: 3
      Allocated: 4.0
      Freed: 3.0
      Memory current: 1.0
      Memory max: 2.0
      Memory leaked: N/A
      Failed calls: 2
      Graph launches: 0
   Processes:
      1:
         PID: 100
         Name: train
         Command: train --epochs=3
         Control group: N/A
         Container: N/A
         Ended: False
         Seconds: 10.0
         Launches: 1000
         Launches per second: 100.0
         Active percent: 25.0
         Used cores: 512.0
         Mean threads: 1024.0
         Streams: 2
         Synchronisations: 10
         Synchronising seconds: 0.5
         Copies: 6
         Launch to sync seconds: 2.5
         Allocations: 4
         Frees: 3
         Allocated: 4.0
         Freed: 3.0
         Memory current: 1.0
         Memory max: 2.0
         Memory leaked: N/A
         Host allocations: 0
         Host memory current: 0.0
         Host memory max: 0.0
         Graph launches: 0
         Kernels total: 2
         Devices:
            1:
               Ordinal: 0
               UUID: GPU-00000001-0001-0001-0001-000000000001
               Launches: 1000
               Launches per second: 100.0
               Active percent: 25.0
               Used cores: 512.0
               Mean threads: 1024.0
               Synchronisations: 10
               Synchronising seconds: 0.5
               Copies: 6
               Launch to sync seconds: 2.5
               Allocations: 4
               Frees: 3
               Allocated: 4.0
               Freed: 3.0
               Memory current: 1.0
               Memory max: 2.0
               Memory leaked: N/A
         Kernels:
            Name: saxpy(float*, int), File: /srv/train, Launches: 990, Mean threads: 256.0, Span seconds: 2.5
            Name: fill(int*), File: N/A, Launches: 10, Mean threads: 256.0, Span seconds: N/A
         Failures:
            Function: cudaMalloc, Error: 2, Error name: cudaErrorMemoryAllocation, Count: 2
   GPUs:
      UUID: GPU-00000001-0001-0001-0001-000000000001, Vendor: nvidia, Model: NVIDIA H200, Driver: 570.86, MIG: N/A, \
Cores: 16896, Memory: 150000.0
   Notes:
      10 of 1,020 events were lost.
   Footnote: Launch to sync is not GPU time: the GPU may have finished earlier."""


def usage(told=None):
    totals = TOTALS if told is None else TOTALS | {'cuda': told}
    return build(totals, Units('gigabytes', 'megabytes', 'seconds', None))


def told():
    kernels = (kernel('saxpy(float*, int)', 990, 2.5, file='/srv/train'), kernel('fill(int*)', 10))
    seen = report(process(MAIN, kernels=kernels), notes=('10 of 1,020 events were lost.',))
    return SectionFigures(MAIN).section(seen)


def test_as_text_it_stands_behind_the_rest() -> None:
    assert FORMATS['text'](usage(told())).partition('\nCUDA:')[2] == TEXT.removeprefix('CUDA:')


def test_as_json_it_has_the_same_fields_unrounded() -> None:
    found = json.loads(FORMATS['json'](usage(told())))
    assert list(found)[-1] == 'cuda'
    cuda = found['cuda']
    assert list(cuda) == [
        *('problem', 'unit', 'engine', 'seconds', 'main', 'descendants', 'combined', 'processes', 'gpus', 'notes')
    ]
    assert cuda['combined'] == cuda['main']
    assert cuda['main'] == {
        'processes': 1,
        'launches': 1000,
        'synchronisations': 10,
        'synchronising_seconds': 0.5,
        'launch_to_sync_seconds': 2.5,
        'allocations': 4,
        'frees': 3,
        'allocated': 4.0,
        'freed': 3.0,
        'memory_current': 1.0,
        'memory_max': 2.0,
        'memory_leaked': None,
        'failed_calls': 2,
        'graph_launches': 0,
    }
    assert cuda['processes'][0]['failures'] == [
        {'function': 'cudaMalloc', 'error': 2, 'error_name': 'cudaErrorMemoryAllocation', 'count': 2}
    ]


def test_who_has_not_asked_for_it_sees_nothing_of_it() -> None:
    assert usage().cuda is None
    assert 'cuda' not in FORMATS['json'](usage())
    assert FORMATS['text'](usage()).endswith('Compute time:\n   Unit: seconds\n   Time: 10.0')


def test_without_a_probe_the_text_says_why_and_all_figures_are_unknown() -> None:
    found = usage({'problem': PROBLEM})
    assert FORMATS['text'](found).endswith(f'   Time: 10.0\nCUDA:\n   Problem: {PROBLEM}')
    assert found.cuda is not None
    assert (found.cuda.problem, found.cuda.unit, found.cuda.engine) == (PROBLEM, 'megabytes', None)
    assert found.cuda.combined == CUDAFigures()
    assert json.loads(FORMATS['json'](found))['cuda']['main']['launches'] is None


def test_a_probe_that_failed_later_has_its_figures_and_says_so() -> None:
    text = FORMATS['text'](usage(told() | {'problem': PROBLEM}))
    assert f'CUDA:\n   Problem: {PROBLEM}\n   Unit: megabytes\n' in text
    assert '      Launches: 1000\n' in text


def without_calls(**more):
    return FORMATS['text'](usage(SectionFigures(MAIN).section(report()) | more)).partition('CUDA:')[2]


def test_where_nothing_was_called_the_text_says_so_and_has_no_zeros() -> None:
    assert without_calls() == '\n   No CUDA call was seen.'
    said = without_calls(problem=PROBLEM, notes=('libcudart.so could not be probed.',))
    assert said == (
        f'\n   Problem: {PROBLEM}\n   No CUDA call was seen.\n   Notes:\n      libcudart.so could not be probed.'
    )
    in_json = json.loads(FORMATS['json'](usage(SectionFigures(MAIN).section(report()))))['cuda']
    assert (in_json['combined']['launches'], in_json['combined']['memory_max']) == (0, 0.0)


def test_memory_is_in_the_unit_of_gpu_ram() -> None:
    found = cuda_usage(told(), 'kilobytes')
    assert (found.main.allocated, found.main.memory_max) == (4000.0, 2000.0)
    assert (found.processes[0].memory_max, found.processes[0].devices[0].freed) == (2000.0, 3000.0)
    assert found.gpus[0].memory == 150_000_000.0
