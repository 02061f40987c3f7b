"""The probe as a section of a tracked run."""

from __future__ import annotations

import marshal

import pytest

from gpu_tracker.cuda_probe.probe_session import open_probe
from gpu_tracker.cuda_probe.section import CudaSection, SectionFigures
from gpu_tracker.errors import GpuTrackerError
from gpu_tracker.result.cuda_usage import cuda_usage
from support.cuda.cuda_reports import kernel
from support.cuda.fake_probe import MB, StandInProbe, device, process, report

MAIN = 100

GROUP_OF_ONE = {
    'processes': 1,
    'launches': 1000,
    'synchronisations': 10,
    'synchronising_seconds': 0.5,
    'launch_to_sync_seconds': 2.5,
    'allocations': 4,
    'frees': 3,
    'allocated_bytes': 4_000_000,
    'freed_bytes': 3_000_000,
    'memory_current_bytes': 1_000_000,
    'memory_max_bytes': 2_000_000,
    'memory_leaked_bytes': None,
    'failed_calls': 2,
    'graph_launches': 0,
}
GROUP_OF_NONE = {
    'processes': 0,
    'launches': 0,
    'synchronisations': 0,
    'synchronising_seconds': 0.0,
    'launch_to_sync_seconds': 0.0,
    'allocations': 0,
    'frees': 0,
    'allocated_bytes': 0,
    'freed_bytes': 0,
    'memory_current_bytes': 0,
    'memory_max_bytes': 0,
    'memory_leaked_bytes': 0,
    'failed_calls': 0,
    'graph_launches': 0,
}
FIGURES = {
    'launches': 1000,
    'launches_per_second': 100.0,
    'active_percent': 25.0,
    'used_cores': 512.0,
    'mean_threads': 1024.0,
    'synchronisations': 10,
    'synchronising_seconds': 0.5,
    'copies': 6,
    'launch_to_sync_seconds': 2.5,
    'allocations': 4,
    'frees': 3,
    'allocated_bytes': 4_000_000,
    'freed_bytes': 3_000_000,
    'memory_current_bytes': 1_000_000,
    'memory_max_bytes': 2_000_000,
    'memory_leaked_bytes': None,
}
SECTION = {
    'engine': 'uprobe.multi',
    'seconds': 10.0,
    'main': GROUP_OF_ONE,
    'descendants': GROUP_OF_NONE,
    'combined': GROUP_OF_ONE,
    'processes': [
        {
            'pid': 100,
            'name': 'train',
            'command': 'train --epochs=3',
            'control_group': None,
            'container': None,
            'ended': False,
            'seconds': 10.0,
            'streams': 2,
            'host_allocations': 0,
            'host_memory_current_bytes': 0,
            'host_memory_max_bytes': 0,
            'graph_launches': 0,
            'kernels_total': 1,
            **FIGURES,
            'devices': [{'ordinal': 0, 'uuid': 'GPU-00000001-0001-0001-0001-000000000001', **FIGURES}],
            'kernels': [
                {
                    'name': 'saxpy(float*, int)',
                    'file': '/srv/train',
                    'launches': 1000,
                    'mean_threads': 256.0,
                    'span_seconds': 2.5,
                }
            ],
            'failures': [{'function': 'cudaMalloc', 'error': 2, 'error_name': 'cudaErrorMemoryAllocation', 'count': 2}],
        }
    ],
    'gpus': [
        {
            'uuid': 'GPU-00000001-0001-0001-0001-000000000001',
            'vendor': 'nvidia',
            'model': 'NVIDIA H200',
            'driver': '570.86',
            'mig': None,
            'cores': 16_896,
            'memory_bytes': 150_000_000_000,
        }
    ],
    'notes': [],
}


def told(*processes, **changes):
    return SectionFigures(MAIN).section(report(*processes, **changes))


def test_a_report_becomes_plain_data_that_the_result_can_be_made_of() -> None:
    assert told(process(MAIN)) == SECTION
    assert cuda_usage(SECTION, 'megabytes').main.memory_max == 2.0


def test_every_program_of_the_main_process_is_main_and_all_others_are_descendants() -> None:
    section = told(process(MAIN, name='sh'), process(MAIN), process(101, launches=5), process(102, launches=7))
    assert [section[group]['processes'] for group in ('main', 'descendants', 'combined')] == [2, 2, 4]
    assert [section[group]['launches'] for group in ('main', 'descendants', 'combined')] == [2000, 12, 2012]


def test_part_of_a_sum_is_not_told_as_the_whole() -> None:
    ended = process(101, ended=True, memory_leaked=3 * MB, launch_to_sync_seconds=None)
    section = told(process(MAIN), ended)
    assert section['descendants']['memory_leaked_bytes'] == 3_000_000
    assert section['combined']['memory_leaked_bytes'] is None
    assert section['combined']['launch_to_sync_seconds'] is None


def test_the_most_memory_of_several_is_what_they_had_together_at_a_look() -> None:
    figures = SectionFigures(MAIN)

    def most(*sizes, ended=False):
        """Each size: what a descendant has now, and the most that it had."""
        processes = [
            process(101 + number, memory_current=now, memory_max=largest, ended=ended)
            for number, (now, largest) in enumerate(sizes)
        ]
        return figures.section(report(*processes))['descendants']['memory_max_bytes']

    assert most((5, 8), (4, 4)) == 9  # together
    assert most((0, 8), (0, 4), ended=True) == 9  # it stays the most
    assert most((0, 8), (0, 12), ended=True) == 12  # one alone had more, between two looks


def test_only_the_foremost_kernels_are_told() -> None:
    kernels = tuple(kernel(f'k{number}', 100 - number, 1.0 * number) for number in range(40))
    names = [found['name'] for found in told(process(MAIN, kernels=kernels))['processes'][0]['kernels']]
    assert names == [*(f'k{number}' for number in range(10)), 'k39', 'k38', 'k37', 'k36', 'k35']


def test_of_many_programs_those_with_the_most_launches_are_told_in_their_order() -> None:
    section = told(*(process(number, launches=number % 70) for number in range(1, 71)), notes=('One.',))
    assert [found['pid'] for found in section['processes']] == list(range(6, 70))
    assert section['combined']['processes'] == 70
    assert section['notes'] == [
        'One.',
        'Of 70 programs the 64 with the most launches are listed one by one; the sums have all.',
    ]


def test_all_that_is_told_finds_room_in_the_store_of_the_sampler() -> None:
    name = 'x' * 5000
    crowd = [
        process(
            number,
            name=name,
            command=name,
            devices=tuple(device(ordinal) for ordinal in range(64)),
            kernels=tuple(kernel(name, 1, file=name) for _ in range(100)),
        )
        for number in range(100)
    ]
    section = told(*crowd, notes=(name,) * 100)
    assert len(marshal.dumps(section, 2)) < 1_900_000  # version 2 writes each text anew


def test_what_programs_call_themselves_cannot_command_a_terminal() -> None:
    section = told(process(MAIN, name='a\x1b[2J', command='b\n', kernels=(kernel('k\x07', 1),)))
    found = section['processes'][0]
    assert (found['name'], found['command'], found['kernels'][0]['name']) == ('a?[2J', 'b?', 'k?')


def test_the_process_is_followed_before_the_probe_starts_and_all_others_through_it() -> None:
    probe = StandInProbe()
    section = CudaSection(open_probe(lambda: probe, MAIN), MAIN)
    assert probe.calls == ['open', 'start']
    assert section.read(frozenset({MAIN, 101, 102, 103}))['combined']['processes'] == 1
    assert probe.followed == [MAIN]
    section.close()
    assert probe.calls[-1] == 'close'


def test_a_process_that_has_ended_already_has_nothing_to_tell() -> None:
    probe = StandInProbe(gone=frozenset({MAIN}))
    section = CudaSection(open_probe(lambda: probe, MAIN), MAIN)
    assert section.read(frozenset())['combined']['processes'] == 0


@pytest.mark.parametrize('call', ['open', 'start'])
def test_a_probe_that_is_not_available_leaves_nothing_open(call: str) -> None:
    probe = StandInProbe(problem=(call, GpuTrackerError('CUDA calls cannot be probed: a right is missing.')))
    with pytest.raises(GpuTrackerError, match='a right is missing'):
        open_probe(lambda: probe, MAIN)
    assert probe.calls[-1] == 'close'
